"""The result of one scan of segments: the part that all sources of segments share."""

from collections.abc import Collection, Sequence
from functools import cached_property

from audit_pipeline.sources.catalogue import (
    Catalogue,
    SegmentEntry,
    SetAside,
    built_with,
    catalogue,
    hours_that_lost,
    touched_hours,
)


class SegmentListing:
    """The segments that exist now, and those that hours were built with before (`former`)."""

    def __init__(self, former: Sequence[SegmentEntry]) -> None:
        self._counting = [entry for entry in former if entry.fault is None and entry.counts]
        self._present: Sequence[SegmentEntry] = ()
        self._unread: Sequence[SetAside] = ()

    def _see(self, present: Sequence[SegmentEntry], unread: Sequence[SetAside] = ()) -> None:
        """Set the existing files; `unread` are those without a readable footer."""
        self._present, self._unread = present, unread
        self._forget()

    def _forget(self) -> None:
        """Discard results derived from earlier files or builds."""
        for name in ("found", "touched"):
            self.__dict__.pop(name, None)

    @cached_property
    def found(self) -> Catalogue:
        return catalogue(self._present, self._counting, self._unread)

    @cached_property
    def touched(self) -> set[int]:
        return touched_hours(self.found, self._counting)

    @property
    def is_empty(self) -> bool:
        return not self._present and not self._unread

    @property
    def lost(self) -> set[int]:
        return hours_that_lost(self.found.entries)

    @property
    def set_aside(self) -> Sequence[SetAside]:
        return self.found.apart

    def settle(self, hours: Collection[int]) -> None:
        self._counting = built_with(self.found.entries, hours)
        self._forget()
