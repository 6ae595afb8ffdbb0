"""Record batches (format 2), built by hand so that every field can be wrong. Pure."""

import struct
from dataclasses import dataclass
from typing import Self

from crc32c import crc32c

from tests.support.logs.zigzag import varint

NO_PRODUCER = -1
_AFTER_CRC = struct.Struct(">hiqqqhii")
_UP_TO_CRC = struct.Struct(">qiibI")


@dataclass(frozen=True, slots=True)
class Batch:
    """A batch; None selects the right value of a field.

    Records are `count` times the same `value` under the key `k`, or `body`.
    """

    timestamp_ms: int
    count: int = 1
    value: bytes = b"value"
    key: bytes | None = b"k"
    base_offset: int = 0
    magic: int = 2
    crc: int | None = None
    attributes: int = 0
    last_offset_delta: int | None = None
    max_timestamp_ms: int | None = None
    producer_id: int = NO_PRODUCER
    producer_epoch: int = NO_PRODUCER
    base_sequence: int = NO_PRODUCER
    claimed_count: int | None = None
    claimed_length: int | None = None
    body: bytes | None = None

    def encode(self) -> bytes:
        records = b"".join(_record(number, self.key, self.value) for number in range(self.count))
        if self.body is not None:
            records = self.body
        body = (
            _AFTER_CRC.pack(
                self.attributes,
                self.count - 1 if self.last_offset_delta is None else self.last_offset_delta,
                self.timestamp_ms,
                self.timestamp_ms if self.max_timestamp_ms is None else self.max_timestamp_ms,
                self.producer_id,
                self.producer_epoch,
                self.base_sequence,
                self.count if self.claimed_count is None else self.claimed_count,
            )
            + records
        )
        crc = crc32c(body) if self.crc is None else self.crc
        length = len(body) + 9 if self.claimed_length is None else self.claimed_length
        return _UP_TO_CRC.pack(self.base_offset, length, -1, self.magic, crc) + body

    @classmethod
    def by(cls, producer_id: int, epoch: int, sequence: int, timestamp_ms: int, count: int = 1) -> Self:
        return cls(timestamp_ms, count, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence)


def _record(number: int, key: bytes | None, value: bytes) -> bytes:
    body = b"\x00" + varint(0) + varint(number) + _nullable(key) + _nullable(value) + varint(0)
    return varint(len(body)) + body


def _nullable(data: bytes | None) -> bytes:
    return varint(-1) if data is None else varint(len(data)) + data
