"""The .snapshot files of a partition: producer state at an offset, so that a start replays only what came after."""

from pathlib import Path

from broker_runtime.storage.filesystem import FileSystem, read_file, replace_file
from broker_runtime.storage.producers import ProducerStates
from broker_runtime.storage.segment import segment_path

SUFFIX = ".snapshot"
_KEPT = 2


def snapshot_offsets(fs: FileSystem, folder: Path) -> list[int]:
    return sorted(int(name[: -len(SUFFIX)]) for name in fs.listdir(folder) if name.endswith(SUFFIX))


def take_snapshot(fs: FileSystem, folder: Path, producers: ProducerStates, offset: int) -> None:
    """Raises OSError. Older snapshots but one go: a start needs the newest, and one more should it be damaged."""
    replace_file(fs, segment_path(folder, offset, SUFFIX), producers.encode())
    for old in snapshot_offsets(fs, folder)[:-_KEPT]:
        fs.unlink(segment_path(folder, old, SUFFIX))


def load_snapshot(fs: FileSystem, folder: Path, end_offset: int, producers: ProducerStates) -> int:
    """Load the newest usable snapshot at or below `end_offset`, remove the others above; returns its offset or -1."""
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
