"""Cutting the end of a log off, so that a crash at any moment leaves a beginning of what was there.

Segments go from the newest to the oldest; the last one that stays is cut and synced. Followers cut what the leader does
not have (KIP-101).
"""

from pathlib import Path
from typing import Protocol

from broker_runtime.clock import Clock
from broker_runtime.storage.filesystem import FileSystem
from broker_runtime.storage.producers import ProducerStates
from broker_runtime.storage.segment import Segment
from broker_runtime.storage.snapshots import forget_snapshots, load_snapshot, replay_producers


class Place(Protocol):
    @property
    def fs(self) -> FileSystem: ...

    @property
    def folder(self) -> Path: ...

    @property
    def clock(self) -> Clock: ...


def cut_back(place: Place, segments: list[Segment], offset: int, index_interval: int) -> None:
    """Drop what ends at or above `offset`, for good; at least one segment begins below it.

    Raises OSError, or KafkaError when the segment that stays is damaged.
    """
    while segments[-1].base_offset >= offset:
        segments.pop().unlink()
    last = segments[-1]
    position = last.position_of(offset)
    if position is not None:
        # A new object, so that an fsync of the old one that is under way in another thread says nothing of it.
        last = Segment(last.fs, last.path.parent, last.base_offset, last.created_ms)
        last.open()
        last.cut(position, index_interval)
        segments[-1] = last
    last.flush()
    forget_snapshots(place.fs, place.folder, last.next_offset)
    place.fs.fsync_dir(place.folder)


def drop_all(place: Place, segments: list[Segment]) -> None:
    """Raises OSError; what is left then still is a beginning of the log."""
    while segments:
        segments[-1].unlink()
        segments.pop()
    forget_snapshots(place.fs, place.folder, -1)


def reload_producers(place: Place, segments: list[Segment], producers: ProducerStates) -> int:
    """What is remembered of producers, by the batches that are left; the offset of the snapshot it began with."""
    producers.clear()
    end = segments[-1].next_offset
    snapshot = load_snapshot(place.fs, place.folder, end, producers)
    replay_producers(segments, producers, snapshot, place.clock.wall_ms())
    return snapshot
