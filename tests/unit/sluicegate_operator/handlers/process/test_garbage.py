"""The objects that full collections skip: those in use when collections take long, and none while they are short."""

import gc
import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from sluicegate_operator.handlers.process.garbage import ALL_EVERY_S, SHORT_S, GarbageCollector


class Circle:
    def __init__(self) -> None:
        self.itself = self


@contextmanager
def collecting(clock: Callable[[], float]) -> Iterator[None]:
    collector = GarbageCollector(clock)
    collector.start()
    try:
        yield
    finally:
        collector.stop()


def circles() -> int:
    gc.unfreeze()
    return sum(isinstance(known, Circle) for known in gc.get_objects())


def test_a_circle_that_ends_after_a_short_collection_is_found_by_the_next() -> None:
    with collecting(lambda: 0.0):
        circle = Circle()
        gc.collect()
        del circle
        gc.collect()
        assert circles() == 0


@pytest.mark.full
def test_objects_that_survive_a_long_collection_are_skipped_until_a_complete_one() -> None:
    seconds = itertools.count(0.0, 2 * SHORT_S)
    late = 0.0
    with collecting(lambda: next(seconds) + late):
        circle = Circle()
        gc.collect()
        before = gc.get_freeze_count()
        del circle
        gc.collect()
        assert gc.get_freeze_count() >= before
        late = 2 * ALL_EVERY_S
        gc.collect()
        assert gc.get_freeze_count() == 0
        assert circles() == 1, "it was passed by"
        gc.collect()
        assert circles() == 0


def test_all_is_as_before_after_the_end() -> None:
    thresholds = gc.get_threshold()
    with collecting(lambda: 0.0):
        assert gc.get_threshold() != thresholds
    assert (gc.get_threshold(), gc.get_freeze_count()) == (thresholds, 0)
