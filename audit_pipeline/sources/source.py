"""The interface of a build to the place that events come from."""

from collections.abc import Collection, Sequence
from datetime import date
from typing import Protocol

from pyspark.sql import SparkSession

from audit_pipeline.results.frames import EventFrames
from audit_pipeline.sources.catalogue import Hole, SetAside


class EventSource(Protocol):
    """One scan of a source: what is new since the scan whose `remembered` state it was created with."""

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing, and no record of the reason, as at the path of a volume that is not mounted."""
        ...

    @property
    def touched(self) -> set[date]:
        """Event-days with new events."""
        ...

    @property
    def lost(self) -> set[date]:
        """Event-days with events that were deleted: they stay as they were built."""
        ...

    @property
    def set_aside(self) -> Sequence[SetAside]: ...

    def holes(self, settled_us: int) -> Sequence[Hole]:
        """Return missing numbers. What brokers recorded before `settled_us` should have landed."""
        ...

    def rows_of(self, days: Collection[date], *, only_new: bool = False) -> int:
        """Return the approximate number of rows of these days; a file of several days counts as a whole."""
        ...

    def events(self, spark: SparkSession, days: Collection[date]) -> EventFrames:
        """Return all events that may be of these days, and perhaps some of other days."""
        ...

    def scan_again(self, days: Collection[date]) -> bool:
        """Scan again after a failed read; return whether a new attempt may succeed.

        Unreadable files are then set aside, and files that were compacted are replaced by their successors.
        """
        ...

    def settle(self, days: Collection[date]) -> None:
        """Record that these days have been built with all of their events."""
        ...

    def remembered(self) -> bytes:
        """Return the state that the next scan needs."""
        ...
