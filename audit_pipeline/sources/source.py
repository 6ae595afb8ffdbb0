"""The interface of a build to the place that events come from."""

from collections.abc import Collection, Sequence
from typing import Protocol

from pyspark.sql import SparkSession

from audit_pipeline.results.frames import EventFrames
from audit_pipeline.sources.catalogue import Hole, SetAside


class EventSource(Protocol):
    """One scan of a source of events: what is new since the scan whose `remembered` state it was created with."""

    @property
    def is_empty(self) -> bool:
        """Return whether the source has no events, and no record that retention has deleted them.

        This is so at the path of a volume that is not mounted.
        """
        ...

    @property
    def touched(self) -> set[int]:
        """Return the hours with new events, see audit_pipeline.hours."""
        ...

    @property
    def lost(self) -> set[int]:
        """Return the hours with events that were deleted. They stay as they were built."""
        ...

    @property
    def set_aside(self) -> Sequence[SetAside]: ...

    def holes(self, settled_us: int) -> Sequence[Hole]:
        """Return the numbers of events that are missing in the audit log.

        Events that brokers recorded before `settled_us` should have landed.
        """
        ...

    def rows_of(self, hours: Collection[int], *, only_new: bool = False, tables: Collection[str] | None = None) -> int:
        """Return the approximate number of rows of these hours, of some `tables` or of all.

        A file of several hours counts as a whole.
        """
        ...

    def events(self, spark: SparkSession, hours: Collection[int]) -> EventFrames:
        """Return all events that may be of these hours, and perhaps some of other hours."""
        ...

    def scan_again(self, hours: Collection[int]) -> bool:
        """Scan the audit log again after a failed read. Return whether a new attempt may succeed.

        Unreadable files are then set aside, and files that were compacted are replaced by their successors.
        """
        ...

    def settle(self, hours: Collection[int]) -> None:
        """Record that these hours have been built with all of their events."""
        ...

    def remembered(self) -> bytes:
        """Return the state that the next scan needs."""
        ...
