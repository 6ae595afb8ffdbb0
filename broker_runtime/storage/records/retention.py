"""Which old segments are deleted, and when the active one is rolled. Pure decisions by size and time, as in Kafka."""

from collections.abc import Sequence
from typing import Protocol

from broker_runtime.config import TopicConfig

OFFSETS_PER_SEGMENT_MAX = 2**31 - 1
ABORTED_PER_SEGMENT_MAX = 16_384
"""Number of aborted transactions with which a segment is full: their index is read in less than a millisecond."""


class Aged(Protocol):
    """The part of a segment that decides about its retention and about a roll."""

    base_offset: int
    next_offset: int
    size: int
    created_ms: int
    first_timestamp: int
    max_timestamp: int
    index_bytes: int

    @property
    def aborted_count(self) -> int:
        """Return the number of aborted transactions whose marker lies in the segment."""
        ...

    @property
    def damage(self) -> Sequence[object]:
        """Return the parts of the segment that cannot be read.

        A damaged segment may have been larger, and its records newer.
        """
        ...


def is_roll_due(
    segment: Aged, config: TopicConfig, incoming: int, last_offset: int, timestamp: int, now_ms: int
) -> bool:
    """Return whether a batch of `incoming` bytes needs a new segment. An empty segment accepts any batch."""
    if not segment.size:
        return False
    if segment.size > config.segment_bytes - incoming or last_offset - segment.base_offset > OFFSETS_PER_SEGMENT_MAX:
        return True
    if segment.index_bytes > config.segment_index_bytes or segment.aborted_count >= ABORTED_PER_SEGMENT_MAX:
        return True
    if segment.first_timestamp >= 0 and timestamp >= 0:
        return timestamp - segment.first_timestamp > config.segment_age_max_ms
    return now_ms - segment.created_ms > config.segment_age_max_ms


def is_idle_roll_due(segment: Aged, config: TopicConfig, now_ms: int) -> bool:
    """Return whether to roll the segment by the broker's clock, without traffic; Kafka waits for the next append."""
    return segment.size > 0 and now_ms - segment.created_ms > config.segment_age_max_ms


def count_below_start(segments: Sequence[Aged], log_start_offset: int) -> int:
    """Return the number of the oldest segments that have no record from `log_start_offset` on; never the active one."""
    count = 0
    while count + 1 < len(segments) and segments[count + 1].base_offset <= log_start_offset:
        count += 1
    return count


def count_expired(segments: Sequence[Aged], config: TopicConfig, log_start_offset: int, now_ms: int) -> int:
    """Return the number of the oldest segments to delete. If all are to be deleted, the caller rolls first."""
    expired = 0
    deletes = "delete" in config.cleanup_policy
    excess = sum(segment.size for segment in segments) - config.retention_bytes if config.retention_bytes >= 0 else -1
    for number, segment in enumerate(segments):
        is_last = number == len(segments) - 1
        below_start = not is_last and segments[number + 1].base_offset <= log_start_offset
        size, newest = segment.size, segment.max_timestamp
        if segment.damage and not is_last:
            size, newest = max(size, config.segment_bytes), max(newest, segments[number + 1].max_timestamp)
        too_old = deletes and 0 <= config.retention_ms < now_ms - (newest if newest >= 0 else segment.created_ms)
        too_much = deletes and excess >= size
        if (is_last and not segment.size) or not (below_start or too_old or too_much):
            break
        excess -= segment.size
        expired += 1
    return expired
