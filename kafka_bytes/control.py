"""The control batch that ends a producer's transaction in a partition (KIP-98): its layout. Pure.

A marker is a batch of one record, without compression and without a sequence number. The record's key has a version and
the kind of the end, its value has a version and the epoch of the transaction coordinator. Readers read a higher version
like version 0, and skip other kinds of control records.
"""

import struct
from struct import Struct
from typing import NamedTuple

from kafka_bytes.batches import (
    COMPRESSION_MASK,
    CONTROL,
    HEADER_BYTES,
    NO_SEQUENCE,
    TRANSACTIONAL,
    Header,
    ProducerStamp,
    encode_batch,
    parse_header,
    read_records,
)
from kafka_bytes.errors import FormatError

ABORT, COMMIT = 0, 1
MARKER_BYTES = 78
"""Size of a whole control batch that ends a transaction."""
MARKER_ATTRIBUTES = TRANSACTIONAL | CONTROL
_KEY = Struct(">hh")
_VALUE = Struct(">hi")
_VERSION = 0


class Marker(NamedTuple):
    """The end of a producer's transaction in one partition.

    `transaction_version` is the transaction protocol of the request that asks for the marker: from 2 on, the marker has
    the epoch of the next transaction (KIP-890). The stored batch does not have this field, so it is 0 in a marker that
    was read.
    """

    producer_id: int
    producer_epoch: int
    is_commit: bool
    coordinator_epoch: int
    transaction_version: int = 0


def encode_marker(marker: Marker, timestamp_ms: int, attributes: int = 0) -> bytes:
    """Return the control batch of the marker, at base offset 0, with these further `attributes`."""
    key = _KEY.pack(_VERSION, COMMIT if marker.is_commit else ABORT)
    value = _VALUE.pack(_VERSION, marker.coordinator_epoch)
    producer = ProducerStamp(marker.producer_id, marker.producer_epoch, NO_SEQUENCE)
    return encode_batch([(key, value)], timestamp_ms, producer, attributes=MARKER_ATTRIBUTES | attributes)


def parse_marker(batch: bytes | bytearray | memoryview, header: Header | None = None) -> Marker | None:
    """Return the marker of a batch; None for any other batch, also for a control batch that a cleaning has emptied.

    `header` is the batch's parsed header, if the caller has it. Raises FormatError for a control record that is cut
    short.
    """
    if header is None:
        header = parse_header(batch)
    attributes = header.attributes
    if attributes & MARKER_ATTRIBUTES != MARKER_ATTRIBUTES or not header.record_count or header.producer_id < 0:
        return None
    if attributes & COMPRESSION_MASK:
        raise FormatError(f"the control batch at offset {header.base_offset} is compressed")
    body = bytes(memoryview(batch)[HEADER_BYTES : header.size])
    _, _, key, value, _ = next(read_records(header, body))
    try:
        _, kind = _KEY.unpack_from(key or b"")
        if kind not in (ABORT, COMMIT):
            return None
        _, coordinator_epoch = _VALUE.unpack_from(value or b"")
    except struct.error:
        raise FormatError(f"the control record at offset {header.base_offset} is cut short") from None
    return Marker(header.producer_id, header.producer_epoch, kind == COMMIT, coordinator_epoch)
