"""A cleaned segment replaces those it was made of, so that a crash at any moment leaves one or the other.

Files have Kafka's names: a file being written ends with `.cleaned` and counts for nothing. Once its name durably ends
with `.swap`, the next start completes the swap.

1. The new segment is written and synced as `.cleaned`, and its log's file renamed to `.swap`. The folder is synced.

2. The old segments except the first are removed, and the first one's indexes. `.swap` is renamed to the first one's
name, which it replaces. The folder is synced.

The new index of aborted transactions replaces the old one. A start fills it from the batches if its file still ends
with `.cleaned`, or is not complete: the file of a mended segment stays empty until the log has replayed its
transactions.

A new segment that has damaged ranges itself replaces an old one that has some, too (`mending`). A start could not
verify such a `.swap` file, so it is renamed from `.cleaned` in step 2, and has no index files.

Whatever a power loss keeps of step 2, even the rename without the removals, a start knows which segments are the old
ones: they begin inside the new one. Readers that have old files open may finish.
"""

from collections.abc import Sequence
from pathlib import Path

from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.storage.disk.filesystem import FileSystem
from broker_runtime.storage.disk.place import LogPlace
from broker_runtime.storage.recovery.recovery import BatchScan, DamagedLogError, load_quickly
from broker_runtime.storage.segment.segment import Segment
from broker_runtime.storage.segment.segment_indexes import aborted_path, begin_aborted, find_aborted

CLEANED = ".cleaned"
SWAP = ".swap"
SWAP_LOG = ".log" + SWAP
GAPS_FILE = "sluicegate.gaps"
"""Name of the file that marks the folder of a log that may leave offsets out.

Without it, a start treats a gap as damage: a batch's base offset is outside its checksum, and is verified by the
offsets around it.
"""


class Swap:
    """One replacement of segments by a new one, in a log in use.

    The event loop calls `begin` and `finish`, and leaves the syncs to threads.
    """

    def __init__(self, place: LogPlace, segments: list[Segment], old: Sequence[Segment]) -> None:
        """`segments` are the log's, `old` some adjacent ones of them. Raises OSError."""
        self._place = place
        self._segments = segments
        self._old = old
        self.is_final = False
        """The swap is finished, or a start has to finish it: it cannot be withdrawn any more."""
        self.new = Segment(place.fs, place.folder, old[0].base_offset, old[-1].created_ms)
        self.new.indexes.renew()
        self._is_mended = any(segment.damage for segment in old)
        if self._is_mended or any(segment.indexes.aborted is not None for segment in old):
            # Also without entries it has to replace an old file, which names transactions that are cleaned away.
            begin_aborted(self.new.indexes)
        # Here and not in a thread: meanwhile the log may be deleted, and another one have its name.
        self.new.file, *self._index_files = [
            place.fs.open(_named(path, CLEANED), create=True) for path in (self.new.path, *self._index_paths)
        ]

    @property
    def _index_paths(self) -> list[Path]:
        """The paths of the new indexes, in the order in which they get their names.

        Without the others a start checks each batch, and fills the index of aborted transactions.
        """
        aborted = self.new.indexes.aborted
        return [*([] if aborted is None else [aborted.path]), *self.new.indexes.paths]

    @property
    def is_possible(self) -> bool:
        """Return whether the old segments still belong to the log."""
        number = next((number for number, each in enumerate(self._segments) if each is self._old[0]), -1)
        if number < 0 or number + len(self._old) >= len(self._segments):
            return False
        return all(self._segments[number + n] is old for n, old in enumerate(self._old))

    def sync(self) -> None:
        """Make the new files durable, before `begin`. Call it in a thread."""
        self.new.file.fsync()
        if self.new.damage:
            return
        *of_aborted, offsets, times = self._index_files
        self.new.indexes.offsets.write_to(offsets)
        self.new.indexes.times.write_to(times)
        if self.new.indexes.aborted is not None and not self._is_mended:
            self.new.indexes.aborted.write_to(of_aborted[0])

    def begin(self) -> None:
        """Commit to the swap: after the next sync of the folder, a start completes the swap. Raises OSError."""
        if self.new.damage:
            return
        self._place.fs.rename(_named(self.new.path, CLEANED), _named(self.new.path, SWAP))

    def withdraw(self) -> None:
        """Remove the new files, and leave the log unchanged. Raises OSError.

        A sync of the folder makes the removal durable.
        """
        for path in (self.new.path, *self._index_paths):
            for suffix in (SWAP, CLEANED):
                _unlink_if_there(self._place.fs, _named(path, suffix))

    def finish(self) -> None:
        """Replace the old files by the new ones.

        Raises OSError. Then only a start can complete the log's files.
        """
        fs, new = self._place.fs, self.new
        first = self._old[0]
        self.is_final = True
        for segment in self._old[1:]:
            segment.unlink()
        for path in first.indexes.paths:
            _unlink_if_there(fs, path)
        fs.rename(_named(new.path, CLEANED if new.damage else SWAP), new.path)
        for path in self._index_paths:
            if new.damage:
                fs.unlink(_named(path, CLEANED))
            else:
                fs.rename(_named(path, CLEANED), path)
        if self._is_mended:
            # Its file is empty, so that it counts as damaged until it is filled.
            find_aborted(new.indexes)
        number = self._segments.index(first)
        self._segments[number : number + len(self._old)] = [new]

    def drop_empty_index(self) -> None:
        """Remove the new index of aborted transactions if it has no entries. Raises OSError.

        The caller has synced the folder since `finish`: until then the file replaces an old one.
        """
        aborted = self.new.indexes.aborted
        if aborted is not None and not self._is_mended and not len(aborted):
            self.new.indexes.aborted = None
            _unlink_if_there(self._place.fs, aborted.path)


def complete_swaps(place: LogPlace) -> None:
    """Complete interrupted swaps of a log when the broker starts.

    Raises OSError, and DamagedLogError if neither the new segment nor the old ones exist.
    """
    names = place.fs.listdir(place.folder)
    swaps = sorted(name for name in names if name.endswith(SWAP_LOG))
    for name in swaps:
        _complete(place.fs, place.folder, int(name.removesuffix(SWAP_LOG)), names)
    if swaps:
        place.sync_folder()


def _complete(fs: FileSystem, folder: Path, base: int, names: Sequence[str]) -> None:
    segment = Segment(fs, folder, base, 0)
    swap = _named(segment.path, SWAP)
    segment.file = fs.open(swap)
    scan = BatchScan(segment, segment.file.size(), gaps=True)
    end = max((header.last_offset + 1 for header in scan), default=base)
    bases = sorted(int(name.removesuffix(".log")) for name in names if name.endswith(".log"))
    if scan.damage is not None or end == base:
        # The swap's file is removed with other leftovers, once the log is known to be whole without it.
        missing = _end_of_chain(fs, folder, base, [each for each in bases if each >= base])
        if missing is not None:
            raise DamagedLogError(missing, f"{swap} is damaged, and segments that it replaces are missing")
        return
    for old in [old for old in bases if base < old < end]:
        Segment(fs, folder, old, 0).unlink()
    for path in (*segment.indexes.paths, aborted_path(segment.indexes)):
        _unlink_if_there(fs, path)
    fs.rename(swap, segment.path)


def _end_of_chain(fs: FileSystem, folder: Path, begin: int, bases: Sequence[int]) -> int | None:
    """Return the offset where adjacent segments from `begin` on leave a gap; None if they do not."""
    end = begin
    for base in bases:
        if base != end:
            return end
        segment = Segment(fs, folder, base, 0)
        segment.open()
        if not load_quickly(segment, gaps=True):
            scan = BatchScan(segment, segment.file.size(), gaps=True)
            segment.next_offset = max((header.last_offset + 1 for header in scan), default=base)
        end = segment.next_offset
    return None if bases else begin


def superseded(before: Segment, bases: Sequence[int]) -> int:
    """Return the number of the segments after `before` that are parts of it.

    A power loss has restored these old segments beside the merged one. Raises KafkaError if `before` does not end with
    the last of them: then the damage is of another kind.
    """
    count = sum(base < before.next_offset for base in bases)
    if count and before.next_offset not in bases:
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{before.path} ends inside the next segment")
    return count


def _named(path: Path, suffix: str) -> Path:
    return path.with_name(path.name + suffix)


def _unlink_if_there(fs: FileSystem, path: Path) -> None:
    if fs.exists(path):
        fs.unlink(path)
