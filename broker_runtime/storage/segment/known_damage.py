"""The known damaged ranges of one log."""

from collections.abc import Sequence

from broker_runtime.storage.segment.damaged_ranges import DamagedRange
from broker_runtime.storage.segment.segment import Segment


class KnownDamage:
    """The damaged ranges of one log. `segments` are the log's current ones, and each has its own ranges."""

    __slots__ = ("_may_be_there", "_segments")

    def __init__(self, segments: Sequence[Segment]) -> None:
        self._segments = segments
        self._may_be_there = any(segment.damage for segment in segments)

    def found(self, segment: Segment, ranges: tuple[DamagedRange, ...]) -> None:
        """Stop serving these ranges of a sealed segment."""
        segment.take_damage(ranges)
        self._may_be_there = True

    def ranges_from(self, offset: int) -> list[DamagedRange]:
        """Return the damaged ranges from `offset` on, in order; a range that begins before `offset` is cut there."""
        if not self._may_be_there:
            # True nearly always, and checked for each fetch of a follower.
            return []
        found = [damaged for segment in self._segments for damaged in segment.damage]
        self._may_be_there = bool(found)
        behind = [damaged for damaged in found if damaged.next_offset > offset]
        if behind and behind[0].first_offset < offset:
            behind[0] = behind[0]._replace(first_offset=offset)
        return behind

    def first_from(self, offset: int) -> DamagedRange | None:
        """Return the first damaged range that ends above `offset`. The range is not cut."""
        if not self._may_be_there:
            return None
        for segment in self._segments:
            if segment.damage and segment.next_offset > offset:
                for damaged in segment.damage:
                    if damaged.next_offset > offset:
                        return damaged
        return None
