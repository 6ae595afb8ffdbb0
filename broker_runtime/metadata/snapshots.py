"""The bytes of a snapshot of all metadata.

Pure. A snapshot consists of record batches like the log, so that one reader and one checksum serve both. Their offsets
mean nothing: the snapshot as a whole stands for everything before its end offset (KIP-630). Records are sorted, so that
the same metadata gives the same bytes whatever its history was.
"""

from collections.abc import Iterator

from broker_runtime.errors import KafkaError
from broker_runtime.metadata.codec import RecordFormatError, decode_record, encode_record
from broker_runtime.metadata.image import MetadataImage
from broker_runtime.metadata.record import MetadataRecord
from broker_runtime.slicing.steps import Steps
from broker_runtime.storage.records.batch import iter_batches, iter_records
from broker_runtime.storage.records.batching import in_batches
from kafka_bytes.batches import checksum, encode_batch

SNAPSHOT_BATCH_BYTES = 16 * 1024
"""Size of a snapshot's batches in bytes.

Encoding a batch delays other work of the controller by at most a few milliseconds.
"""


class SnapshotFormatError(Exception):
    """Error for bytes that are not a whole snapshot."""


def snapshot_pieces(image: MetadataImage, now_ms: int) -> Iterator[bytes]:
    """Yield the pieces of a snapshot, to be concatenated. The image must not change meanwhile."""
    for batch in in_batches(image.records(), lambda record: (None, encode_record(record)), SNAPSHOT_BATCH_BYTES):
        yield encode_batch([encoded for _, encoded in batch], now_ms)


def read_snapshot(payload: bytes) -> Iterator[MetadataRecord]:
    """Yield the records of a snapshot. Raises SnapshotFormatError, at the latest at the end of the readable part."""
    read = 0
    try:
        for header, batch in iter_batches(payload):
            if checksum(batch) != header.crc:
                raise SnapshotFormatError(f"the batch at byte {read} does not match its checksum")
            for item in iter_records(batch):
                yield decode_record(item.value)
            read += header.size
    except (RecordFormatError, KafkaError) as error:
        raise SnapshotFormatError(f"the batch at byte {read} cannot be read: {error}") from error
    if read != len(payload) or not payload:
        raise SnapshotFormatError(f"the snapshot ends in the middle of a batch, at byte {read} of {len(payload)}")


def load_in_steps(payload: bytes, end_offset: int) -> Steps[MetadataImage]:
    """Return the metadata image that a snapshot contains, in steps. Raises SnapshotFormatError."""
    try:
        return (yield from MetadataImage.of_snapshot(read_snapshot(payload), end_offset))
    except ValueError as error:
        raise SnapshotFormatError(str(error)) from error
