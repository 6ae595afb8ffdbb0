"""Kafka's offset checkpoints and the ledger with the current values of the logs, and the order of their writes."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from broker_runtime.storage.disk.checkpoint import Partition, read_offsets, write_offsets
from broker_runtime.storage.disk.checkpoint_file import CheckpointFile, PendingWrite
from broker_runtime.storage.disk.disk import Disk, Done
from broker_runtime.storage.disk.filesystem import FileSystem
from broker_runtime.storage.disk.ledger import FILE_NAME, Entry, read_ledger, write_ledger
from broker_runtime.storage.log.log import Log

Logs = Mapping[Partition, Log]


class OffsetsFile(CheckpointFile[int]):
    """A checkpoint file of one of Kafka's offsets.

    `offsets_of` returns that offset of each log that stores it.
    """

    def __init__(
        self, fs: FileSystem, path: Path, logs: Logs, offsets_of: Callable[[Logs], dict[Partition, int]]
    ) -> None:
        super().__init__(
            path.name, lambda: read_offsets(fs, path), lambda offsets, sync: write_offsets(fs, path, offsets, sync=sync)
        )
        self._logs = logs
        self._offsets_of = offsets_of

    def now(self) -> dict[Partition, int]:
        """Return the content to write now: the logs' offsets, and those kept for partitions without a log."""
        return self.kept | self._offsets_of(self._logs)


class LedgerFile(CheckpointFile[Entry]):
    """The ledger: the file that names every partition of the folder, whole or damaged."""

    def __init__(self, fs: FileSystem, log_dir: Path, logs: Logs) -> None:
        super().__init__(
            FILE_NAME, lambda: read_ledger(fs, log_dir), lambda entries, _sync: write_ledger(fs, log_dir, entries)
        )
        self._logs = logs

    def now(self) -> dict[Partition, Entry]:
        """Return the content to write now: an entry for every partition."""
        begins = {key: Entry(log.topic_id, log.files.old.durable_base) for key, log in self._logs.items()}
        return self.kept | begins

    def misses(self, key: Partition) -> bool:
        """Return whether the next start would report the partition as missing if its folder were removed."""
        return key in self.on_disk and key not in self._logs

    def write_now(self) -> None:
        """Write the current content of the ledger. Raises OSError."""
        self.write(self.now())


class CheckpointWriter:
    """Writes checkpoints with their current offsets.

    A ledger that lacks partitions of the checkpoint is written before the checkpoint.
    """

    def __init__(self, ledger: LedgerFile, disk: Disk) -> None:
        self._ledger = ledger
        self._disk = disk

    def write(self, file: OffsetsFile, *, sync: bool = True) -> None:
        """Write the current offsets to the checkpoint. Raises OSError."""
        offsets = file.now()
        if not offsets.keys() <= self._ledger.on_disk.keys():
            self._ledger.write_now()
        file.write(offsets, sync=sync)

    def write_soon(self, file: OffsetsFile, done: Done, *, sync: bool = True) -> None:
        """Write a checkpoint file in a thread. `done` gets None once the content is durable, or the error."""
        offsets = file.now()
        names = None if offsets.keys() <= self._ledger.on_disk.keys() else self._ledger.begin(self._ledger.now())
        self._submit((names, file.begin(offsets, sync=sync)), done)

    def write_with_ledger_soon(self, file: OffsetsFile, done: Done) -> None:
        """Write the checkpoint, and always the ledger, in a thread.

        `done` gets None once both are durable, or the error.
        """
        self._submit((self._ledger.begin(self._ledger.now()), file.begin(file.now())), done)

    def _submit(self, pending: Sequence[PendingWrite | None], done: Done) -> None:
        """Run the writes one after another, in one thread."""
        writes = [write for write in pending if write is not None]
        if writes:
            self._disk.submit(partial(_run, writes), partial(_ended, writes, done))
        else:
            done(None)


def _run(writes: Sequence[PendingWrite]) -> None:
    for write in writes:
        write.run()


def _ended(writes: Sequence[PendingWrite], done: Done, error: Exception | None) -> None:
    for write in writes:
        if error is None:
            write.is_there()
        else:
            write.has_failed()
    done(error)
