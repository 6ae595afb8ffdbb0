"""Waiting work continues in order, and none blocks the event loop for longer than a time slice."""

from asyncio import AbstractEventLoop
from collections import deque
from collections.abc import Callable
from typing import cast

import pytest

from broker_runtime.network.connection.time_slices import TimeSlices
from tests.support.fakes.manual_clock import ManualClock


class Loop:
    """An event loop. `pass_once` runs the callbacks that exist at its start, as one iteration does."""

    def __init__(self) -> None:
        self._callbacks: deque[Callable[[], None]] = deque()

    def call_soon(self, callback: Callable[[], None]) -> None:
        self._callbacks.append(callback)

    def pass_once(self) -> None:
        for _ in range(len(self._callbacks)):
            self._callbacks.popleft()()


class Worker:
    """A connection each of whose time slices takes a quarter of a second."""

    heavy_s = 0.0

    def __init__(self, name: str, work: int, slices: TimeSlices, clock: ManualClock, log: list[str]) -> None:
        self.name, self.work, self.slices, self.clock, self.log = name, work, slices, clock, log

    def run_slice(self) -> None:
        self.clock.advance(0.25)
        self.log.append(self.name)
        self.work -= 1
        if self.work:
            self.slices.add(self)

    def was_heavy(self, length_s: float) -> None:
        """Keep no length: all workers are equal."""


def test_a_time_slice_is_bounded_and_all_workers_continue_in_order() -> None:
    loop, clock, log = Loop(), ManualClock(), list[str]()
    slices = TimeSlices(cast(AbstractEventLoop, loop), clock.monotonic, 0.75)
    for name in "abcde":
        slices.add(Worker(name, 2, slices, clock, log))
    assert log == []

    loop.pass_once()
    assert log == ["a", "b", "c"]
    loop.pass_once()
    assert "".join(log) == "abcdea"
    loop.pass_once()
    loop.pass_once()
    assert "".join(log) == "abcdeabcde"
    assert len(slices) == 0
    loop.pass_once()
    assert len(log) == 10


def test_a_single_worker_continues_within_the_same_time_slice() -> None:
    loop, clock, log = Loop(), ManualClock(), list[str]()
    slices = TimeSlices(cast(AbstractEventLoop, loop), clock.monotonic, 0.75)
    slices.add(Worker("a", 3, slices, clock, log))
    loop.pass_once()
    assert log == ["a", "a", "a"]


def test_a_time_slice_that_fails_forgets_nobody() -> None:
    class Failing:
        heavy_s = 0.0

        def run_slice(self) -> None:
            raise OSError("a mistake of ours")

        def was_heavy(self, length_s: float) -> None:
            raise AssertionError("it has failed")

    loop, clock, log = Loop(), ManualClock(), list[str]()
    slices = TimeSlices(cast(AbstractEventLoop, loop), clock.monotonic, 0.75)
    slices.add(Failing())
    slices.add(Worker("a", 1, slices, clock, log))
    with pytest.raises(OSError, match="mistake"):
        loop.pass_once()
    loop.pass_once()
    assert log == ["a"]


def test_an_overrun_yields_the_same_time_to_others_while_they_wait() -> None:
    loop, clock, log, others = Loop(), ManualClock(), list[str](), [True]
    slices = TimeSlices(cast(AbstractEventLoop, loop), clock.monotonic, 0.125, lambda: others[0])
    slices.add(Worker("a", 4, slices, clock, log))
    loop.pass_once()
    assert log == ["a"], "a quarter of a second in place of an eighth"
    clock.advance(0.1)
    loop.pass_once()
    assert log == ["a"]
    clock.advance(0.1)
    loop.pass_once()
    assert log == ["a", "a"]
    others[0] = False
    loop.pass_once()
    assert log == ["a", "a", "a"], "nobody else wants the time"


def test_a_long_time_slice_is_reported_and_a_short_one_is_not() -> None:
    loop, clock, log = Loop(), ManualClock(), list[str]()
    slices = TimeSlices(cast(AbstractEventLoop, loop), clock.monotonic, 10.0)

    class Short(Worker):
        def run_slice(self) -> None:
            """Take a turn that takes no time."""

        def was_heavy(self, length_s: float) -> None:
            log.append("short")

    class Long(Worker):
        def was_heavy(self, length_s: float) -> None:
            log.append("long")

    slices.add(Short("s", 1, slices, clock, log))
    slices.add(Long("l", 1, slices, clock, log))
    loop.pass_once()
    assert log == ["l", "long"]


class Sender(Worker):
    """A connection with one request at a time, each of which takes `length_s`."""

    def __init__(self, name: str, length_s: float, slices: TimeSlices, clock: ManualClock, log: list[str]) -> None:
        super().__init__(name, 1, slices, clock, log)
        self.length_s = self.heavy_s = length_s

    def run_slice(self) -> None:
        self.clock.advance(self.length_s)
        self.log.append(self.name)

    def was_heavy(self, length_s: float) -> None:
        assert length_s == pytest.approx(self.length_s)


def test_a_short_request_is_served_before_a_hundred_longer_ones_that_came_before_it() -> None:
    loop, clock, log = Loop(), ManualClock(), list[str]()
    slices = TimeSlices(cast(AbstractEventLoop, loop), clock.monotonic, 0.001)
    for number in range(100):
        slices.add(Sender(f"{number}", 0.001, slices, clock, log))
    slices.add(Sender("short", 0.0003, slices, clock, log))
    loop.pass_once()
    assert log == ["short", "0"]


def test_a_long_request_is_served_although_short_ones_keep_coming() -> None:
    loop, clock, log = Loop(), ManualClock(), list[str]()
    slices = TimeSlices(cast(AbstractEventLoop, loop), clock.monotonic, 0.0001)
    slices.add(Sender("long", 0.01, slices, clock, log))
    end_s = clock.monotonic() + 3
    while "long" not in log:
        assert clock.monotonic() < end_s
        slices.add(Sender("short", 0.0003, slices, clock, log))
        loop.pass_once()
