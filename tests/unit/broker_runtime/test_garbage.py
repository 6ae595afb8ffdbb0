"""The garbage collector finds circles among what is young, and looks at what has come to stay once only."""

import gc
from collections.abc import Iterator

import pytest

from broker_runtime.exposition import render
from broker_runtime.garbage import GarbageCollector
from broker_runtime.metrics import garbage_family


class Node:
    def __init__(self) -> None:
        self.circle = [self]


@pytest.fixture
def collector() -> Iterator[GarbageCollector]:
    seconds = iter(range(1_000_000))
    collector = GarbageCollector(lambda: float(next(seconds)))
    collector.start()
    yield collector
    collector.stop()


def alive() -> int:
    gc.unfreeze()
    return sum(isinstance(known, Node) for known in gc.get_objects())


def test_a_circle_that_has_ended_while_it_was_young_is_found_and_counted(collector: GarbageCollector) -> None:
    for _ in range(20_000):
        Node()
    gc.collect()
    assert alive() < 5, "those that were being made during a full collection stay"
    assert sum(collector.found) > 39_900
    shown = render([garbage_family([1, 2, 3])])
    assert b'python_gc_objects_collected_total{generation="1"} 2' in shown


def test_what_a_full_collection_has_found_in_use_no_later_one_looks_at(collector: GarbageCollector) -> None:
    kept = [Node() for _ in range(1_000)]
    gc.collect()
    assert gc.get_freeze_count() > 2_000
    assert not any(isinstance(known, Node) for known in gc.get_objects())
    del kept


def test_a_full_collection_comes_before_there_is_much_to_look_at(collector: GarbageCollector) -> None:
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
