"""Timers as data: the earliest first, one for each key, nothing kept of cancelled ones."""

import random

import pytest

from broker_runtime.coordination.timers import Timers


def test_due_timers_are_returned_once_in_order() -> None:
    timers: Timers[str] = Timers()
    assert timers.next_due_s() is None
    for key, due_s in (("c", 3.0), ("a", 1.0), ("b", 2.0), ("d", 4.0)):
        timers.schedule(key, due_s, key.upper())
    assert timers.next_due_s() == 1.0
    assert timers.take_due(0.9) == []
    assert timers.take_due(3.0) == [("a", "A"), ("b", "B"), ("c", "C")]
    assert ("a" in timers, "d" in timers, timers.next_due_s()) == (False, True, 4.0)
    assert timers.take_due(3.0) == []


def test_a_key_has_one_timer_that_may_be_moved_and_cancelled() -> None:
    timers: Timers[int] = Timers()
    timers.schedule("a", 1.0, 1)
    timers.schedule("a", 5.0, 2)
    timers.schedule("b", 2.0, 3)
    timers.cancel("b")
    timers.cancel("of nobody")
    assert timers.next_due_s() == 5.0
    timers.schedule("a", 0.5, 4)
    assert timers.take_due(9.0) == [("a", 4)]
    timers.schedule("a", 1.0, 5)
    timers.clear()
    assert (timers.next_due_s(), timers.take_due(9.0)) == (None, [])


def test_timers_due_at_the_same_time_run_in_the_order_of_scheduling() -> None:
    timers: Timers[int] = Timers()
    for number in range(50):
        timers.schedule(object(), 1.0, number)
    assert [number for _, number in timers.take_due(1.0)] == list(range(50))


@pytest.mark.parametrize("seed", range(20))
def test_as_a_plain_table_would(seed: int) -> None:
    rng = random.Random(seed)
    timers: Timers[int] = Timers()
    table: dict[int, tuple[float, int]] = {}
    for number in range(2_000):
        key = rng.randrange(30)
        if rng.random() < 0.8:
            due_s = float(rng.randrange(1_000))
            timers.schedule(key, due_s, number)
            table[key] = due_s, number
        elif rng.random() < 0.5:
            timers.cancel(key)
            table.pop(key, None)
        else:
            now_s = float(rng.randrange(300))
            due = sorted((key for key, (due_s, _) in table.items() if due_s <= now_s), key=lambda key: table[key])
            assert timers.take_due(now_s) == [(key, table.pop(key)[1]) for key in due]
        assert timers.next_due_s() == min((due_s for due_s, _ in table.values()), default=None)


def test_repeatedly_rescheduled_timers_leave_no_garbage() -> None:
    timers: Timers[None] = Timers()
    for number in range(10_000):
        for member in range(3):
            timers.schedule(member, float(number), None)
    assert len(timers._heap) < 100


def test_a_postponed_timer_keeps_its_place_in_the_heap() -> None:
    timers: Timers[str] = Timers()
    timers.schedule("session", 10.0, "ends")
    timers.schedule("other", 12.0, "comes")
    for now_s in range(1, 6):
        timers.schedule("session", now_s + 10.0, "ends")
    assert len(timers._heap) == 2
    assert timers.take_due(14.9) == [("other", "comes")]
    assert timers.next_due_s() == 15.0
    assert timers.take_due(15.0) == [("session", "ends")]
