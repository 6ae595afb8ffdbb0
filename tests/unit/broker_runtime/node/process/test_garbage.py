"""The garbage collector frees young cycles soon, freezes long-lived objects, and frees frozen ones that have ended."""

import gc
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from broker_runtime.exposition import render
from broker_runtime.node.metrics import garbage_family
from broker_runtime.node.process.garbage import GarbageCollector
from broker_runtime.node.process.process_metrics import resident_bytes, return_free_memory
from tests.support.fakes.manual_clock import ManualClock

KIB = 1_024
MIB = 1 << 20
USUAL = 60 * MIB
COST_S = 0.02
"""The duration of a collection in these tests."""


class Node:
    def __init__(self) -> None:
        self.circle = [self]


class Process:
    """A clock that each collection advances, and the resident memory."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.resident = USUAL
        self.returned = 0
        """Number of times that memory was returned to the system."""
        monotonic = self.clock.monotonic
        self.collector = GarbageCollector(monotonic, lambda: self.resident, monotonic, self._return)

    def _return(self) -> None:
        self.returned += 1

    def takes_time(self, phase: str, info: dict[str, int]) -> None:
        if phase == "start" and info["generation"] == 2:
            self.clock.advance(COST_S / 2)

    def pass_time(self, seconds: float) -> None:
        """Let time pass with a tick each second, as of the event loop."""
        while seconds > 0:
            self.clock.advance(min(seconds, 1.0))
            seconds -= 1.0
            self.collector.tick()


@pytest.fixture
def process() -> Iterator[Process]:
    process = Process()
    gc.callbacks.append(process.takes_time)
    process.collector.start()
    yield process
    process.collector.stop()
    gc.callbacks.remove(process.takes_time)


@pytest.fixture
def collector(process: Process) -> GarbageCollector:
    return process.collector


def alive() -> int:
    gc.unfreeze()
    return sum(isinstance(known, Node) for known in gc.get_objects())


def frozen_circle() -> Callable[[], Node | None]:
    """A reference cycle that was in use when it was frozen, and is no longer in use."""
    in_use = Node()
    gc.collect()
    assert not any(known is in_use for known in gc.get_objects()), "it is frozen"
    return weakref.ref(in_use)


@pytest.mark.full
def test_a_circle_that_has_ended_while_it_was_young_is_found_and_counted(collector: GarbageCollector) -> None:
    for _ in range(20_000):
        Node()
    gc.collect()
    assert alive() < 5, "those that were being made during a full collection stay"
    assert sum(collector.found) > 39_900
    shown = render([garbage_family([1, 2, 3])])
    assert b'python_gc_objects_collected_total{generation="1"} 2' in shown


@pytest.mark.usefixtures("collector")
def test_objects_that_survive_a_full_collection_are_not_examined_by_automatic_ones() -> None:
    kept = [Node() for _ in range(1_000)]
    gc.collect()
    assert gc.get_freeze_count() > 2_000
    assert not any(isinstance(known, Node) for known in gc.get_objects())
    del kept


@pytest.mark.full
def test_a_circle_that_was_frozen_in_use_and_ended_is_freed_soon_after_memory_has_grown(process: Process) -> None:
    circle = frozen_circle()
    process.pass_time(60)
    gc.collect()
    assert circle() is not None, "no automatic collection reads it"
    process.resident = 3 * USUAL
    process.pass_time(5)
    assert (circle(), process.returned) == (None, 1)


@pytest.mark.full
def test_growth_is_measured_from_what_is_left_after_garbage_is_freed(process: Process) -> None:
    """Otherwise each growth could be larger than the last."""
    for _ in range(10):
        circle = frozen_circle()
        process.resident = 3 * USUAL
        process.pass_time(10)
        assert circle() is None
        process.resident = USUAL
        process.pass_time(10)


@pytest.mark.full
def test_it_is_freed_in_time_though_memory_does_not_grow(process: Process) -> None:
    circle = frozen_circle()
    process.pass_time(100_000 * COST_S + 1)
    assert (circle(), process.returned) == (None, 0)


@pytest.mark.full
def test_a_circle_that_was_in_use_during_a_complete_collection_is_freed_by_the_next(process: Process) -> None:
    in_use = Node()
    process.resident = 3 * USUAL
    process.pass_time(5)
    circle = weakref.ref(in_use)
    del in_use
    process.pass_time(100)
    assert circle() is not None
    process.pass_time(100_000 * COST_S + 1)
    assert circle() is None


@pytest.mark.full
def test_the_objects_of_the_process_are_frozen_again_after_a_complete_collection(process: Process) -> None:
    before = gc.get_freeze_count()
    circle = frozen_circle()
    process.resident = 3 * USUAL
    process.pass_time(5)
    assert circle() is None
    assert gc.get_freeze_count() > before * 0.9
    assert len(gc.get_objects()) < 10_000


def complete_collections(process: Process, seconds: int) -> int:
    """Number of times that frozen cycles were freed, with one made each second."""
    freed = 0
    circle = frozen_circle()
    for _ in range(seconds):
        process.pass_time(1)
        if circle() is None:
            freed += 1
            circle = frozen_circle()
    return freed


def test_varying_memory_does_not_count_as_growth(process: Process) -> None:
    circle = frozen_circle()
    for second in range(100):
        process.resident = USUAL + 300 * MIB * (second % 4 != 0)
        process.pass_time(1)
    assert circle() is not None


def test_little_more_memory_is_no_growth(process: Process) -> None:
    circle = frozen_circle()
    process.resident = USUAL + 60 * MIB
    process.pass_time(100)
    assert circle() is not None


@pytest.mark.full
def test_permanent_growth_causes_one_complete_collection(process: Process) -> None:
    """A broker that gets thousands of partitions has more memory permanently."""
    process.resident = 10 * USUAL
    assert complete_collections(process, 100) == 1


@pytest.mark.full
def test_growth_without_an_end_costs_a_hundredth_of_the_time_at_most(process: Process) -> None:
    process.clock.advance(1_000)
    gc.callbacks.append(slow := lambda phase, _: process.clock.advance(0.1) if phase == "start" else None)
    try:
        freed = 0
        circle = frozen_circle()
        began_s = process.clock.monotonic()
        while process.clock.monotonic() < began_s + 300:
            process.resident *= 2
            process.pass_time(1)
            if circle() is None:
                freed += 1
                circle = frozen_circle()
    finally:
        gc.callbacks.remove(slow)
    assert 5 <= freed <= 15


def test_a_full_collection_runs_before_many_objects_accumulate(collector: GarbageCollector) -> None:
    del collector
    looked_at = []

    def note(phase: str, info: dict[str, int]) -> None:
        if phase == "start" and info["generation"] == 2:
            looked_at.append(len(gc.get_objects()))

    gc.callbacks.append(note)
    try:
        kept = [[] for _ in range(300_000)]  # type: ignore[var-annotated]
    finally:
        gc.callbacks.remove(note)
    assert len(looked_at) >= 3
    assert max(looked_at) < 40_000
    del kept


def test_all_is_as_before_after_the_end() -> None:
    thresholds = gc.get_threshold()
    collector = GarbageCollector(lambda: 0.0)
    collector.start()
    assert gc.get_threshold() != thresholds
    collector.stop()
    collector.stop()
    assert (gc.get_threshold(), gc.get_freeze_count()) == (thresholds, 0)


def test_the_resident_memory_is_that_of_this_process() -> None:
    lines = Path("/proc/self/status").read_text().splitlines()
    (shown,) = [line.split() for line in lines if line.startswith("VmRSS:")]
    assert abs(resident_bytes() - int(shown[1]) * KIB) < 8 * MIB


def test_memory_that_was_freed_is_returned() -> None:
    held = [b"x" * 100_000 for _ in range(1_000)]
    # The last allocation keeps the heap from shrinking on its own.
    last = b"x" * 100_000
    before = resident_bytes()
    held.clear()
    return_free_memory()
    assert before - resident_bytes() > 80 * MIB
    del last
