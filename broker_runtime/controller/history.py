"""The metadata as a snapshot and the log after it: loaded when a controller becomes active, and compacted later.

This module decides when a snapshot is due, encodes it, and truncates the log. `service` defines who
decides, and when a batch is durable.
"""

import asyncio
import logging

from broker_runtime.clock import Clock
from broker_runtime.controller.journal.seam import Journal, JournalError, Snapshot
from broker_runtime.coordination.replay import replay
from broker_runtime.errors import KafkaError
from broker_runtime.metadata.codec import RecordFormatError, decode_record
from broker_runtime.metadata.image import MetadataImage
from broker_runtime.metadata.snapshots import SnapshotFormatError, load_in_steps, snapshot_pieces
from broker_runtime.slicing.slices import over_slices
from broker_runtime.storage.log.log import Log
from broker_runtime.storage.records.batch import Record as LogRecord

log = logging.getLogger(__name__)


class ReplayError(Exception):
    """Error for a journal that cannot be this cluster's metadata. The process must not continue with the journal."""


class History:
    """The metadata log and its snapshots: the durable part of a controller's state."""

    def __init__(self, metadata: Log, journal: Journal, bytes_between_snapshots: int, clock: Clock) -> None:
        self.snapshot: Snapshot | None = None
        """The newest durable snapshot, for brokers that are too far behind for the log."""
        self._log = metadata
        self._journal = journal
        self._bytes_max = bytes_between_snapshots
        self._clock = clock
        self._bytes = 0
        self._batches = 0
        """Bytes and batches since the newest snapshot was taken."""
        self._wanted: asyncio.Queue[MetadataImage] = asyncio.Queue(maxsize=1)

    async def load(self) -> MetadataImage:
        """Load the snapshot and replay the log. Raises ReplayError, and the journal's errors."""
        snapshot = await self._journal.load()
        try:
            image = MetadataImage()
            if snapshot is not None:
                image = await over_slices(load_in_steps(snapshot.payload, snapshot.end_offset))
        except SnapshotFormatError as error:
            raise ReplayError(f"the metadata snapshot is damaged: {error}") from error
        self.snapshot = snapshot
        # A snapshot requested in a previous term is obsolete.
        self._wanted = asyncio.Queue(maxsize=1)
        start = self._log.log_start_offset if snapshot is None else snapshot.end_offset
        try:
            found = await replay(self._log, start, self._log.log_end_offset, lambda item: _apply(image, item))
        except KafkaError as error:
            raise ReplayError(f"the metadata journal cannot be read: {error.message}") from error
        self._bytes, self._batches = found
        return image

    def appended(self, size: int) -> None:
        self._bytes += size

    def committed(self) -> None:
        self._batches += 1

    def take_snapshot_when_due(self, image: MetadataImage) -> None:
        """Queue a snapshot of `image`, the committed state, if one is due.

        The snapshot is written concurrently, one at a time.
        """
        batches_max = self._journal.batches_between_snapshots
        due = self._bytes >= self._bytes_max or (batches_max is not None and self._batches >= batches_max)
        if due and not self._wanted.full():
            self._bytes = self._batches = 0
            self._wanted.put_nowait(image.copy())

    async def write_snapshots(self) -> None:
        while True:
            snapshot = await self._encoded(await self._wanted.get())
            try:
                await self._journal.write_snapshot(snapshot)
                self._forget_before(snapshot)
            except (JournalError, KafkaError) as error:
                log.error("the metadata log could not be truncated; retrying after more records: %s", error)

    async def _encoded(self, image: MetadataImage) -> Snapshot:
        """Encode piece by piece: heartbeats and requests are served between the pieces."""
        await over_slices(image.quotas.sort())
        pieces = []
        for piece in snapshot_pieces(image, self._clock.wall_ms()):
            pieces.append(piece)
            await asyncio.sleep(0)
        return Snapshot(image.offset + 1, image.cluster.controller_epoch, b"".join(pieces))

    def _forget_before(self, snapshot: Snapshot) -> None:
        """Truncate the log up to the previous snapshot, so that brokers that are slightly behind need no snapshot."""
        before, self.snapshot = self.snapshot, snapshot
        self._log.files.roll()
        if before is not None:
            self._log.delete_records(before.end_offset)
        log.info("a snapshot of the metadata up to offset %d is durable", snapshot.end_offset)


def _apply(image: MetadataImage, item: LogRecord) -> None:
    try:
        image.apply(decode_record(item.value), item.offset)
    except (RecordFormatError, ValueError) as error:
        raise ReplayError(f"the metadata journal is damaged at offset {item.offset}: {error}") from error
