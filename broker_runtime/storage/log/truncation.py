"""Cuts the end of a log off, so that a crash at any moment leaves a prefix of the log.

The log lowers its recovery point on disk first. Then recovery trusts nothing after a gap, in whatever order a power
loss keeps the changes. Followers cut what the leader does not have (KIP-101).
"""

from collections.abc import Sequence

from broker_runtime.storage.disk.place import LogPlace
from broker_runtime.storage.records.producers import ProducerStates
from broker_runtime.storage.recovery.snapshots import (
    forget_snapshots,
    load_snapshot,
    replay_producers,
    store_indexes,
)
from broker_runtime.storage.segment.aborted_index import AbortedIndex, DamagedAbortedIndexError
from broker_runtime.storage.segment.segment import Segment, new_segment
from broker_runtime.storage.segment.segment_indexes import begin_aborted


def end_before(segments: list[Segment], offset: int) -> int:
    """Return the end of the last batch that ends at or below `offset`. Raises KafkaError.

    A segment begins below `offset`.
    """
    return next(segment for segment in reversed(segments) if segment.base_offset < offset).end_below(offset)


def cut_back(place: LogPlace, segments: list[Segment], end: int, index_interval: int) -> list[Segment]:
    """Drop, durably, all batches that begin at or above `end`, the end of a batch; the first segment stays.

    Returns the segments whose index of aborted transactions is to be filled by `reload_producers`. Raises OSError, or
    KafkaError when the segment to be cut is damaged.
    """
    unindexed: list[Segment] = []
    while len(segments) > 1 and segments[-1].base_offset >= end:
        segments.pop().unlink()
    last = segments[-1]
    position = last.end_position(end)
    if position is not None:
        # A new object, so that an fsync of the old one that is under way in another thread does not count for it.
        indexed, damage = last.indexes, last.damage
        last = Segment(place.fs, place.folder, last.base_offset, last.created_ms)
        last.open()
        last.take_damage(tuple(damaged for damaged in damage if damaged.next_offset <= end))
        last.cut(position, index_interval, indexed)
        if indexed.aborted is not None and not _cut_aborted(last, indexed.aborted, end):
            unindexed.append(last)
        segments[-1] = last
    last.flush()
    if last.damage:
        # Nothing is appended to a damaged segment.
        segments.append(new_segment(place, last.next_offset))
    forget_snapshots(place.fs, place.folder, end)
    place.sync_folder()
    return unindexed


def _cut_aborted(segment: Segment, index: AbortedIndex, end: int) -> bool:
    """Drop the aborted transactions whose marker is cut. Returns whether the index is whole. Raises OSError."""
    try:
        index.cut(end)
    except DamagedAbortedIndexError:
        begin_aborted(segment.indexes)
        return False
    segment.indexes.aborted = index if len(index) else None
    return True


def begin_anew(place: LogPlace, segments: list[Segment], offset: int) -> None:
    """Drop all segments, durably, and continue with a new one at `offset`. Raises OSError."""
    for segment in reversed(segments):
        segment.unlink()
    forget_snapshots(place.fs, place.folder, -1)
    segments[:] = [new_segment(place, offset)]
    place.sync_folder()


def reload_producers(
    place: LogPlace,
    segments: list[Segment],
    producers: ProducerStates,
    high_watermark: int,
    unindexed: Sequence[Segment] = (),
) -> int:
    """Rebuild the producers' states from a snapshot and the remaining batches; return the snapshot's offset.

    Fills the indexes of aborted transactions of the segments `unindexed`. Raises OSError and KafkaError.
    """
    if not len(producers) and not unindexed:
        # Fewer batches cannot add producers.
        return -1
    producers.take_over(ProducerStates())
    end = segments[-1].next_offset
    at_most = min((segment.base_offset for segment in unindexed), default=end)
    snapshot = load_snapshot(place.fs, place.folder, end, producers, at_most=at_most)
    now_ms = place.clock.wall_ms()
    replay_producers(segments, producers, snapshot, now_ms, high_watermark=high_watermark, unindexed=unindexed)
    if unindexed:
        store_indexes(place, unindexed, end)
    return snapshot
