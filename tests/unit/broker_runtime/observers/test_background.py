"""A bounded queue, and a thread that no caller needs to wait for."""

import threading
from collections.abc import Sequence

import pytest

from broker_runtime.observers.background import Background

PATIENCE_S = 60.0


def test_items_are_processed_in_order_and_close_waits_for_them() -> None:
    done: list[int] = []
    queue = Background(done.extend, 10_000, "test")
    assert all(queue.put(number) for number in range(5_000))
    assert queue.close(PATIENCE_S)
    assert done == list(range(5_000))
    assert not queue.put(1), "nothing after the end"


def test_what_finds_the_queue_full_is_dropped() -> None:
    busy, go_on = threading.Event(), threading.Event()

    def work(items: Sequence[int]) -> None:
        del items
        busy.set()
        go_on.wait(PATIENCE_S)

    queue = Background(work, 3, "test")
    queue.put(0)
    assert busy.wait(PATIENCE_S)
    assert [queue.put(number) for number in range(5)] == [True, True, True, False, False]
    assert queue.dropped == 2
    assert not queue.close(0.01), "it is still at work"
    go_on.set()
    assert queue.close(PATIENCE_S)


def test_work_that_fails_is_counted_and_the_next_is_done() -> None:
    done: list[int] = []

    def work(items: Sequence[int]) -> None:
        if 13 in items:
            raise RuntimeError("not this one")
        done.extend(items)

    queue = Background(work, 10, "test")
    queue.put(13)
    while not queue.dropped:
        threading.Event().wait(0.001)
    queue.put(14)
    assert queue.close(PATIENCE_S)
    assert (queue.dropped, done) == (1, [14])


def test_a_queue_needs_room() -> None:
    with pytest.raises(ValueError, match="room for at least one item"):
        Background(print, 0, "test")
