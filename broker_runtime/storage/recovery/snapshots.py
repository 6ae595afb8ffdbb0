"""The .snapshot files of a partition: producer state at an offset, so that a start replays only later batches."""

from collections.abc import Sequence
from pathlib import Path

from broker_runtime.storage.disk.filesystem import File, FileSystem, read_file, replace_file
from broker_runtime.storage.disk.place import LogPlace
from broker_runtime.storage.records.producers import ProducerStates
from broker_runtime.storage.records.transactions import Ended, replayed_marker
from broker_runtime.storage.recovery.recovery import is_damage
from broker_runtime.storage.segment.segment import Segment
from broker_runtime.storage.segment.segment_indexes import segment_path
from kafka_bytes.batches import CONTROL, Header

SUFFIX = ".snapshot"
_KEPT = 2


def snapshot_offsets(fs: FileSystem, folder: Path) -> list[int]:
    return sorted(int(name[: -len(SUFFIX)]) for name in fs.listdir(folder) if name.endswith(SUFFIX))


def take_snapshot(fs: FileSystem, folder: Path, producers: ProducerStates, offset: int) -> Path:
    """Write a snapshot of the producers and return its file, which is not synced yet. Raises OSError.

    Removes all older snapshots except one: a start needs the newest snapshot, and the one before if the newest is
    damaged.
    """
    path = segment_path(folder, offset, SUFFIX)
    replace_file(fs, path, producers.encode(), sync=False)
    for old in snapshot_offsets(fs, folder)[:-_KEPT]:
        fs.unlink(segment_path(folder, old, SUFFIX))
    return path


def load_snapshot(
    fs: FileSystem, folder: Path, end_offset: int, producers: ProducerStates, *, at_most: int | None = None
) -> int:
    """Load the newest usable snapshot at or below `end_offset`, and return its offset or -1.

    Removes snapshots above `end_offset` and damaged ones. A snapshot above `at_most` is kept and not loaded.
    """
    for offset in reversed(snapshot_offsets(fs, folder)):
        path = segment_path(folder, offset, SUFFIX)
        if offset > end_offset:
            fs.unlink(path)
        elif at_most is None or offset <= at_most:
            try:
                producers.decode(read_file(fs, path))
            except ValueError:
                fs.unlink(path)
                continue
            return offset
    return -1


def forget_snapshots(fs: FileSystem, folder: Path, above: int) -> None:
    """Remove snapshots of offsets above `above`, because they include records that were cut."""
    for offset in snapshot_offsets(fs, folder):
        if offset > above:
            fs.unlink(segment_path(folder, offset, SUFFIX))


def replay_producers(
    segments: Sequence[Segment],
    producers: ProducerStates,
    from_offset: int,
    now_ms: int,
    *,
    high_watermark: int,
    unindexed: Sequence[Segment] = (),
) -> None:
    """Record the producers and transactions of the readable batches from a snapshot's offset on.

    Fills the indexes of aborted transactions of the segments `unindexed`, and leaves them unwritten. Raises OSError and
    KafkaError.
    """
    for segment in segments:
        position = segment.position_from(max(from_offset, segment.base_offset))
        if position is None:
            continue
        index = segment.indexes.aborted if segment in unindexed else None
        for at, header in segment.headers(position):
            if header.base_offset < from_offset:
                continue
            ended = replay_batch(segment.file, at, header, producers, now_ms)
            if ended is not None and index is not None:
                index.append(ended)
            if header.attributes & CONTROL:
                producers.transactions.settle(high_watermark)


def replay_batch(file: File, position: int, header: Header, producers: ProducerStates, now_ms: int) -> Ended | None:
    """Record a batch in the states of producers. Return the transaction that it aborts, if it had records.

    Raises OSError.
    """
    if not header.attributes & CONTROL:
        producers.replay(header, now_ms)
        return None
    marker = replayed_marker(file.pread(header.size, position), header)
    if marker is None:
        return None
    ended = producers.end(marker, header.base_offset, header.max_timestamp, now_ms)
    return None if marker.is_commit else ended


def store_indexes(place: LogPlace, segments: Sequence[Segment], synced_below: int) -> None:
    """Write the refilled indexes of aborted transactions, and drop those without entries. Raises OSError.

    Those of segments that end at or below `synced_below` are synced; the next sync of the log covers the others.
    """
    are_synced = False
    for segment in segments:
        index = segment.indexes.aborted
        if index is None:
            continue
        index.rewrite()
        if not len(index):
            segment.indexes.aborted = None
        if segment.next_offset <= synced_below:
            are_synced = True
            file = index.take_unsynced()
            if file is not None:
                file.fsync()
    if are_synced:
        place.sync_folder()


def is_whole(segment: Segment) -> bool:
    """Return whether the segment's index of aborted transactions can be read, and fits the segment.

    Raises OSErrors of the process or the whole disk, such as a shortage of memory.
    """
    index = segment.indexes.aborted
    try:
        return index is None or index.is_whole(segment.base_offset, segment.next_offset)
    except OSError as error:
        if not is_damage(error):
            raise
        return False
