"""Counters that note long changes first and count them in steps later. Pure."""

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import ClassVar, Generic, TypeVar

from broker_runtime.slicing.steps import Steps, at_once

T = TypeVar("T")
H = TypeVar("H")


class Behind(ABC, Generic[T, H]):
    """Base class of counters that lag behind changes until `catch_up`.

    A subclass calls `_catch_up_at_once` before it answers a question, so that an answer never misses a change.
    """

    OF_A_STEP: ClassVar[int]
    """Number of items that one step of `catch_up` counts."""

    def __init__(self) -> None:
        self._noted: deque[tuple[Iterator[T], H]] = deque()
        """The items that are not counted yet, and how to count them."""

    @property
    def are_behind(self) -> bool:
        """Return whether some changes are not counted yet."""
        return bool(self._noted)

    def catch_up(self) -> Steps[None]:
        """Count the changes that were noted and not yet counted, in order."""
        while self._noted:
            items, how = self._noted[0]
            some = list(islice(items, self.OF_A_STEP))
            self._count(some, how)
            if len(some) < self.OF_A_STEP:
                self._noted.popleft()
            yield

    def _catch_up_at_once(self) -> None:
        if self._noted:
            at_once(self.catch_up())

    @abstractmethod
    def _count(self, some: Sequence[T], how: H) -> None:
        """Count some items of a noted change."""
