"""The `file` journal: the metadata log itself, made durable by fsync, and snapshots as files beside its segments.

The log's own recovery handles torn tails and checksums. Snapshot files are named as in Kafka. A crash leaves either a
whole snapshot or none, and the previous one is kept until the next is complete.
"""

import asyncio
import logging
import re
from collections.abc import Sequence
from concurrent.futures import Executor
from functools import partial

from broker_runtime.controller.journal.seam import JournalDamagedError, JournalFailedError, Snapshot
from broker_runtime.errors import KafkaError
from broker_runtime.metadata.snapshots import SnapshotFormatError, read_snapshot
from broker_runtime.storage.disk.filesystem import read_file, replace_file
from broker_runtime.storage.log.log import Log

log = logging.getLogger(__name__)

_NAME = re.compile(r"(?P<end>\d{20})-(?P<epoch>\d{10})\.checkpoint")
_KEPT = 2
_PAUSES_S = (0.1, 0.2, 0.4, 0.8, 1.6)
"""Pauses between attempts to sync the log while files cannot be opened.

They add up to 3 s, a third of broker.session.timeout.ms.
"""


class FileJournal:
    """A journal in a file: an fsync commits a batch, and snapshots are files that are renamed into place."""

    batches_between_snapshots: int | None = None

    def __init__(self, metadata: Log, disk: Executor) -> None:
        self._log = metadata
        self._disk = disk

    async def load(self) -> Snapshot | None:
        metadata = self._log
        for name in reversed(self._names()):
            snapshot = self._read(name)
            if snapshot is None:
                continue
            if not metadata.log_start_offset <= snapshot.end_offset <= metadata.log_end_offset:
                raise JournalDamagedError(
                    f"the metadata log has offsets {metadata.log_start_offset} to {metadata.log_end_offset}, which "
                    f"do not continue from {name}; restore the folder {metadata.place.folder} as a whole"
                )
            return snapshot
        if metadata.log_start_offset > 0:
            raise JournalDamagedError(
                f"the metadata log begins at {metadata.log_start_offset}, and no usable snapshot has the records "
                f"before it; restore the folder {metadata.place.folder} as a whole"
            )
        return None

    def _names(self) -> Sequence[str]:
        place = self._log.place
        return [name for name in sorted(place.fs.listdir(place.folder)) if _NAME.fullmatch(name)]

    def _read(self, name: str) -> Snapshot | None:
        match = _NAME.fullmatch(name)
        assert match is not None
        place = self._log.place
        try:
            payload = read_file(place.fs, place.folder / name)
            for _ in read_snapshot(payload):
                pass
        except (OSError, SnapshotFormatError) as error:
            log.error("the metadata snapshot %s is not used: %s", name, error)
            return None
        return Snapshot(int(match["end"]), int(match["epoch"]), payload)

    async def commit(self) -> None:
        pauses_s = iter(_PAUSES_S)
        while True:
            try:
                await asyncio.get_running_loop().run_in_executor(self._disk, self._log.flush)
                return
            except KafkaError as error:
                pause_s = next(pauses_s, None)
                if pause_s is None or self._log.failure is not None:
                    raise JournalFailedError(f"metadata cannot be made durable: {error}") from error
                # A file could not be opened: no data is lost yet.
                log.warning("syncing the metadata log failed; retrying in %g s: %s", pause_s, error)
            await asyncio.sleep(pause_s)

    async def write_snapshot(self, snapshot: Snapshot) -> None:
        await asyncio.get_running_loop().run_in_executor(self._disk, partial(self._write, snapshot))

    def _write(self, snapshot: Snapshot) -> None:
        place = self._log.place
        name = f"{snapshot.end_offset:020d}-{snapshot.epoch:010d}.checkpoint"
        try:
            replace_file(place.fs, place.folder / name, snapshot.payload)
            for old in self._names()[:-_KEPT]:
                place.fs.unlink(place.folder / old)
        except OSError as error:
            raise JournalFailedError(f"the metadata snapshot {name} cannot be written: {error}") from error

    async def close(self) -> None:
        """Do nothing: the manager of all logs closes the log."""
