"""What a build asks of the place that events come from."""

from collections.abc import Collection, Sequence
from datetime import date
from typing import Protocol

from pyspark.sql import SparkSession

from audit_pipeline.results.frames import EventFrames
from audit_pipeline.sources.catalogue import Hole, SetAside


class EventSource(Protocol):
    """One look at a source: what is new there since the look whose `remembered` it was made with."""

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing, and nothing that says why, as in the place of a volume that is not mounted."""
        ...

    @property
    def touched(self) -> set[date]:
        """Event-days of which there is something new."""
        ...

    @property
    def lost(self) -> set[date]:
        """Event-days that have events which are not there any more: they stay as they were built."""
        ...

    @property
    def set_aside(self) -> Sequence[SetAside]: ...

    @property
    def holes(self) -> Sequence[Hole]: ...

    def rows_of(self, days: Collection[date], *, only_new: bool = False) -> int:
        """About how many rows of these days there are; a file of several days counts as a whole."""
        ...

    def events(self, spark: SparkSession, days: Collection[date]) -> EventFrames:
        """All that may be of these days, and perhaps some of others."""
        ...

    def look_again(self, days: Collection[date]) -> bool:
        """After reading has failed: whether there is a reason that reading again would not meet.

        What cannot be read is set aside by then, and what somebody has compacted is looked for anew.
        """
        ...

    def settle(self, days: Collection[date]) -> None:
        """These days have been built with all that is there of them."""
        ...

    def remembered(self) -> bytes:
        """What the next look has to know of this one."""
        ...
