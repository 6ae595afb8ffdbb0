"""Cutting the end of a log off, so that a crash at any moment leaves a beginning of what was there.

The log lowers its recovery point on disk first: then recovery takes nothing behind a gap for good, in whatever order a
power loss keeps the changes. Followers cut what the leader does not have (KIP-101).
"""

from broker_runtime.storage.place import LogPlace
from broker_runtime.storage.producers import ProducerStates
from broker_runtime.storage.segment import Segment
from broker_runtime.storage.snapshots import forget_snapshots, load_snapshot, replay_producers


def end_before(segments: list[Segment], offset: int) -> int:
    """Where the last batch ends that ends at or below `offset`; some segment begins below it. Raises KafkaError."""
    return next(segment for segment in reversed(segments) if segment.base_offset < offset).end_below(offset)


def cut_back(place: LogPlace, segments: list[Segment], end: int, index_interval: int) -> None:
    """Drop what begins at or above `end`, where a batch ends, for good; the first segment stays.

    Raises OSError, or KafkaError when the segment that is cut is damaged.
    """
    while len(segments) > 1 and segments[-1].base_offset >= end:
        segments.pop().unlink()
    last = segments[-1]
    position = last.end_position(end)
    if position is not None:
        # A new object, so that an fsync of the old one that is under way in another thread says nothing of it.
        indexed, damage = last.indexes, last.damage
        last = Segment(place.fs, place.folder, last.base_offset, last.created_ms)
        last.open()
        last.take_damage(tuple(damaged for damaged in damage if damaged.next_offset <= end))
        last.cut(position, index_interval, indexed)
        segments[-1] = last
    last.flush()
    if last.damage:
        # Nothing is appended to a damaged segment.
        segments.append(_begun(place, last.next_offset))
    forget_snapshots(place.fs, place.folder, end)
    place.sync_folder()


def begin_anew(place: LogPlace, segments: list[Segment], offset: int) -> None:
    """Drop everything, for good, and go on at `offset`. Raises OSError."""
    for segment in reversed(segments):
        segment.unlink()
    forget_snapshots(place.fs, place.folder, -1)
    segments[:] = [_begun(place, offset)]
    place.sync_folder()


def _begun(place: LogPlace, offset: int) -> Segment:
    segment = Segment(place.fs, place.folder, offset, place.clock.wall_ms())
    segment.create()
    return segment


def reload_producers(place: LogPlace, segments: list[Segment], producers: ProducerStates) -> int:
    """What is remembered of producers, by the batches that are left; the offset of the snapshot it began with."""
    if not len(producers):
        # Of fewer batches there is not more to remember.
        return -1
    producers.clear()
    end = segments[-1].next_offset
    snapshot = load_snapshot(place.fs, place.folder, end, producers)
    replay_producers(segments, producers, snapshot, place.clock.wall_ms())
    return snapshot
