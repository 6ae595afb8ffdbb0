"""Which logs are worth cleaning, how far, and which segments are merged. Pure, with Kafka's decisions."""

from collections.abc import Iterator, Sequence
from typing import Protocol

from broker_runtime.config import TopicConfig
from broker_runtime.storage.records.retention import ABORTED_PER_SEGMENT_MAX


class Sized(Protocol):
    """The part of a segment that decides whether it is cleaned."""

    base_offset: int
    next_offset: int
    size: int
    first_timestamp: int
    max_timestamp: int
    index_bytes: int

    @property
    def aborted_count(self) -> int:
        """Return the number of aborted transactions whose marker lies in the segment."""
        ...

    @property
    def damage(self) -> Sequence[object]:
        """Return the parts of the segment that cannot be read."""
        ...


class Dirt:
    """The sealed segments of one log that may be cleaned now. `first_dirty` is the end of the last cleaning.

    A cleaning ends before the first damaged segment. Otherwise it could remove a tombstone after the damage; if the
    damage is then mended with an older record of that key, the key would come back.
    """

    __slots__ = ("clean_bytes", "delay_ms", "dirty_bytes", "end", "first_dirty")

    def __init__(
        self, segments: Sequence[Sized], config: TopicConfig, first_dirty: int, settled_end: int, now_ms: int
    ) -> None:
        """Segments that end above `settled_end` are ignored: other replicas, or a disk, may not have them yet."""
        self.first_dirty = self.end = first_dirty
        self.clean_bytes = self.dirty_bytes = 0
        self.delay_ms = 0
        """How long a record has waited beyond max.compaction.lag.ms."""
        lag_ms = config.min_compaction_lag_ms
        for segment in segments[:-1]:
            if segment.damage:
                break
            if segment.next_offset <= first_dirty:
                self.clean_bytes += segment.size
                continue
            if segment.next_offset > settled_end or (lag_ms and segment.max_timestamp > now_ms - lag_ms):
                break
            self.dirty_bytes += segment.size
            self.end = segment.next_offset
            if segment.first_timestamp > 0:
                waited_ms = now_ms - segment.first_timestamp
                self.delay_ms = max(self.delay_ms, waited_ms - config.max_compaction_lag_ms)

    @property
    def ratio(self) -> float:
        """Return the dirty share of the bytes that may be cleaned, 0 to 1."""
        return self.dirty_bytes / (self.clean_bytes + self.dirty_bytes) if self.dirty_bytes else 0.0

    def is_cleanable(self, config: TopicConfig) -> bool:
        return self.dirty_bytes > 0 and (self.delay_ms > 0 or self.ratio > config.min_cleanable_dirty_ratio)


_GROUP_SEGMENTS_MAX = 32
"""Limit for a group: the event loop removes its files at once."""
_RELATIVE_OFFSET_MAX = 2**31 - 1


def grouped(segments: Sequence[Sized], config: TopicConfig) -> Iterator[tuple[int, int]]:
    """Yield groups of segments to merge into one segment of at most the usual size.

    A group is the number of its first segment and the number after its last.
    """
    begin = size = index_bytes = aborted = 0
    for number, segment in enumerate(segments):
        too_much = (
            size + segment.size > config.segment_bytes
            or index_bytes + segment.index_bytes > config.segment_index_bytes
            or aborted + segment.aborted_count > ABORTED_PER_SEGMENT_MAX
            or segment.next_offset - 1 - segments[begin].base_offset > _RELATIVE_OFFSET_MAX
            or number - begin >= _GROUP_SEGMENTS_MAX
        )
        if too_much and number > begin:
            yield begin, number
            begin, size, index_bytes, aborted = number, 0, 0, 0
        size += segment.size
        index_bytes += segment.index_bytes
        aborted += segment.aborted_count
    if begin < len(segments):
        yield begin, len(segments)
