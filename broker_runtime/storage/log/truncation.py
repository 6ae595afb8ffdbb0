"""Cuts the end of a log off, so that a crash at any moment leaves a prefix of the log.

The log lowers its recovery point on disk first. Then recovery trusts nothing after a gap, in whatever order a power
loss keeps the changes. Followers cut what the leader does not have (KIP-101).
"""

from broker_runtime.storage.disk.place import LogPlace
from broker_runtime.storage.records.producers import ProducerStates
from broker_runtime.storage.recovery.snapshots import forget_snapshots, load_snapshot, replay_producers
from broker_runtime.storage.segment.segment import Segment, new_segment


def end_before(segments: list[Segment], offset: int) -> int:
    """End of the last batch that ends at or below `offset`; some segment begins below it. Raises KafkaError."""
    return next(segment for segment in reversed(segments) if segment.base_offset < offset).end_below(offset)


def cut_back(place: LogPlace, segments: list[Segment], end: int, index_interval: int) -> None:
    """Drop, durably, what begins at or above `end`, which is the end of a batch; the first segment stays.

    Raises OSError, or KafkaError when the segment to be cut is damaged.
    """
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
        segments[-1] = last
    last.flush()
    if last.damage:
        # Nothing is appended to a damaged segment.
        segments.append(new_segment(place, last.next_offset))
    forget_snapshots(place.fs, place.folder, end)
    place.sync_folder()


def begin_anew(place: LogPlace, segments: list[Segment], offset: int) -> None:
    """Drop everything, durably, and continue at `offset`. Raises OSError."""
    for segment in reversed(segments):
        segment.unlink()
    forget_snapshots(place.fs, place.folder, -1)
    segments[:] = [new_segment(place, offset)]
    place.sync_folder()


def reload_producers(place: LogPlace, segments: list[Segment], producers: ProducerStates) -> int:
    """Rebuild the producers' states from a snapshot and the remaining batches; returns the snapshot's offset."""
    if not len(producers):
        # Fewer batches cannot add producers.
        return -1
    producers.clear()
    end = segments[-1].next_offset
    snapshot = load_snapshot(place.fs, place.folder, end, producers)
    replay_producers(segments, producers, snapshot, place.clock.wall_ms())
    return snapshot
