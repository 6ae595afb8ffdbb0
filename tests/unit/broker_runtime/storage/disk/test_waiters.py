from collections.abc import Callable

import pytest

from broker_runtime.storage.disk.waiters import AtOnce, OffsetWaiters, SlicedCallbacks, Watchers


def test_waiters_are_called_once_when_their_offset_is_passed() -> None:
    waiters = OffsetWaiters(AtOnce())
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


def test_wake_all_calls_every_waiter() -> None:
    waiters = OffsetWaiters(AtOnce())
    calls: list[int] = []
    waiters.add(7, lambda: calls.append(7))
    waiters.add(2**40, lambda: calls.append(2**40))
    waiters.wake_all()
    assert calls == [7, 2**40]
    waiters.wake_all()
    assert len(calls) == 2


def test_a_callback_may_take_others_back_and_wait_again() -> None:
    waiters = OffsetWaiters(AtOnce())
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


def test_a_failing_callback_is_logged_and_does_not_affect_others(caplog: pytest.LogCaptureFixture) -> None:
    waiters = OffsetWaiters(AtOnce())
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


class Loop:
    """A loop in which each call takes a second; an iteration has three."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.soon: list[Callable[[], None]] = []
        self.wakes = SlicedCallbacks(self.soon.append, lambda: self.now_s, 3.0)
        self.called: list[str] = []

    def iteration(self) -> list[str]:
        """Run one iteration; return the calls in it."""
        self.called.clear()
        soon = list(self.soon)
        self.soon.clear()
        for run in soon:
            run()
        return list(self.called)

    def of(self, name: str) -> Callable[[], None]:
        def call() -> None:
            self.now_s += 1
            self.called.append(name)

        return call


def test_callbacks_run_after_the_append_in_bounded_iterations() -> None:
    loop = Loop()
    waiters = OffsetWaiters(loop.wakes)
    for number in range(7):
        waiters.add(0, loop.of(str(number)))
    taken_back = waiters.add(0, loop.of("never"))
    waiters.wake(1)
    taken_back()
    assert loop.called == []
    iterations = [loop.iteration() for _ in range(3)]
    assert iterations == [["0", "1", "2"], ["3", "4", "5"], ["6"]]
    assert not loop.soon


def test_few_who_wait_are_not_behind_many() -> None:
    loop = Loop()
    many, few = OffsetWaiters(loop.wakes), OffsetWaiters(loop.wakes)
    for _ in range(100):
        many.add(0, loop.of("many"))
    few.add(0, loop.of("few"))
    many.wake(1)
    few.wake(1)
    assert "few" in loop.iteration() + loop.iteration()
    rest = [name for _ in range(40) for name in loop.iteration()]
    assert not loop.soon
    assert len(rest) > 90


class Told:
    def __init__(self, loop: Loop, name: str) -> None:
        self.changed = loop.of(name)
        self.high_watermark_moved = loop.of(f"{name}, moved")


def test_watchers_are_told_once_unless_they_are_added_again() -> None:
    loop = Loop()
    watchers = Watchers(loop.wakes)
    first, second = Told(loop, "first"), Told(loop, "second")
    watchers.add(first)
    place = watchers.add(second)
    watchers.notify()
    watchers.notify()
    del place[second]
    watchers.add(first)
    assert loop.iteration() == ["first"]
    watchers.notify_at_once()
    assert loop.called == ["first", "first"]
    watchers.notify()
    assert not loop.soon
