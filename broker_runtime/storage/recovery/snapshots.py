"""The .snapshot files of a partition: producer state at an offset, so that a start replays only later batches."""

from collections.abc import Sequence
from pathlib import Path

from broker_runtime.storage.disk.filesystem import FileSystem, read_file, replace_file
from broker_runtime.storage.records.producers import ProducerStates
from broker_runtime.storage.segment.segment import Segment
from broker_runtime.storage.segment.segment_indexes import segment_path

SUFFIX = ".snapshot"
_KEPT = 2


def snapshot_offsets(fs: FileSystem, folder: Path) -> list[int]:
    return sorted(int(name[: -len(SUFFIX)]) for name in fs.listdir(folder) if name.endswith(SUFFIX))


def take_snapshot(fs: FileSystem, folder: Path, producers: ProducerStates, offset: int) -> Path:
    """Write a snapshot and return its file, which is not synced yet. Raises OSError.

    Removes all older snapshots except one: a start needs the newest, and the one before if that is damaged.
    """
    path = segment_path(folder, offset, SUFFIX)
    replace_file(fs, path, producers.encode(), sync=False)
    for old in snapshot_offsets(fs, folder)[:-_KEPT]:
        fs.unlink(segment_path(folder, old, SUFFIX))
    return path


def load_snapshot(fs: FileSystem, folder: Path, end_offset: int, producers: ProducerStates) -> int:
    """Load the newest usable snapshot at or below `end_offset`, and return its offset or -1.

    Removes snapshots above `end_offset` and damaged ones.
    """
    for offset in reversed(snapshot_offsets(fs, folder)):
        path = segment_path(folder, offset, SUFFIX)
        if offset <= end_offset:
            try:
                producers.decode(read_file(fs, path))
            except ValueError:
                fs.unlink(path)
                continue
            return offset
        fs.unlink(path)
    return -1


def forget_snapshots(fs: FileSystem, folder: Path, above: int) -> None:
    """Remove snapshots of offsets above `above`: they include records that were cut."""
    for offset in snapshot_offsets(fs, folder):
        if offset > above:
            fs.unlink(segment_path(folder, offset, SUFFIX))


def replay_producers(segments: Sequence[Segment], producers: ProducerStates, from_offset: int, now_ms: int) -> None:
    """Record the readable batches from a snapshot's offset on."""
    for segment in segments:
        position = segment.position_from(max(from_offset, segment.base_offset))
        if position is None:
            continue
        for _, header in segment.headers(position):
            if header.base_offset >= from_offset:
                producers.replay(header, now_ms)
