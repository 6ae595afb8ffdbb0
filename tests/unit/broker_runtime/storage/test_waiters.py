from collections.abc import Callable

import pytest

from broker_runtime.storage.waiters import OffsetWaiters


def test_waiters_are_called_once_when_their_offset_is_passed() -> None:
    waiters = OffsetWaiters()
    calls: list[str] = []
    waiters.add(0, lambda: calls.append("first"))
    waiters.add(1, lambda: calls.append("second"))
    undo = waiters.add(0, lambda: calls.append("never"))
    undo()
    undo()
    waiters.wake(1)
    assert calls == ["first"]
    waiters.wake(3)
    waiters.wake(4)
    assert calls == ["first", "second"]
    assert not waiters.waiting


def test_everybody_hears_of_the_end() -> None:
    waiters = OffsetWaiters()
    calls: list[int] = []
    waiters.add(7, lambda: calls.append(7))
    waiters.add(2**40, lambda: calls.append(2**40))
    waiters.wake_all()
    assert calls == [7, 2**40]
    waiters.wake_all()
    assert len(calls) == 2


def test_a_callback_may_take_others_back_and_wait_again() -> None:
    waiters = OffsetWaiters()
    calls: list[str] = []

    def first() -> None:
        calls.append("first")
        undo_second()
        waiters.add(0, lambda: calls.append("again"))

    waiters.add(0, first)
    undo_second = waiters.add(0, lambda: calls.append("second"))
    waiters.wake(1)
    assert calls == ["first"]
    waiters.wake(1)
    assert calls == ["first", "again"]


def test_one_that_fails_is_told_in_the_log_and_nobody_else_hears_of_it(caplog: pytest.LogCaptureFixture) -> None:
    waiters = OffsetWaiters()
    calls: list[str] = []

    def fail() -> None:
        raise RuntimeError("a mistake")

    wakes: list[Callable[[], None]] = [lambda: waiters.wake(1), waiters.wake_all]
    for wake in wakes:
        waiters.add(0, fail)
        waiters.add(0, lambda: calls.append("second"))
        wake()
        assert not waiters.waiting
    assert calls == ["second"] * 2
    assert caplog.text.count("RuntimeError: a mistake") == 2
