"""Record batches with compressed records, as clients of all kinds write them."""

import gzip
import struct
from collections.abc import Callable, Mapping, Sequence

import cramjam

from kafka_bytes.batches import CRC_FROM, HEADER, HEADER_BYTES, MAGIC, OVERHEAD_BYTES, checksum
from tests.support.logs.zigzag import varint

_XERIAL_HEADER = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)
_XERIAL_BLOCK_BYTES = 32 * 1024


def xerial(data: bytes) -> bytes:
    """Snappy as Java's clients write it: in blocks."""
    out = bytearray(_XERIAL_HEADER)
    for at in range(0, len(data), _XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(data[at : at + _XERIAL_BLOCK_BYTES]))
        out += struct.pack(">i", len(block)) + block
    return bytes(out)


def _lz4(data: bytes) -> bytes:
    """LZ4 in independent blocks: Apache Kafka refuses blocks that depend on the previous one."""
    frame = cramjam.lz4.Compressor(block_linked=False)
    frame.compress(data)
    return bytes(frame.finish())


PACKERS: Mapping[int, Callable[[bytes], bytes]] = {
    1: gzip.compress,
    2: lambda data: bytes(cramjam.snappy.compress_raw(data)),
    3: _lz4,
    4: lambda data: bytes(cramjam.zstd.compress(data)),
}


def packed(codec: int, batch: bytes, packer: Callable[[bytes], bytes] | None = None) -> bytes:
    """The uncompressed `batch` with its records compressed."""
    return with_body(codec, batch, (packer or PACKERS[codec])(batch[HEADER_BYTES:]))


def with_body(codec: int, batch: bytes, body: bytes) -> bytes:
    """`batch` with another body and a right checksum; its attributes name `codec` (0: uncompressed)."""
    changed = bytearray(batch[:HEADER_BYTES]) + body
    struct.pack_into(">i", changed, 8, len(changed) - OVERHEAD_BYTES)
    struct.pack_into(">h", changed, CRC_FROM, codec)
    struct.pack_into(">I", changed, CRC_FROM - 4, checksum(changed))
    return bytes(changed)


def timed(timestamps_ms: Sequence[int], value: bytes = b"v", codec: int = 0) -> bytes:
    """A batch with a record for each of these times."""
    body = bytearray()
    for number, at_ms in enumerate(timestamps_ms):
        record = b"\x00" + varint(at_ms - timestamps_ms[0]) + varint(number)
        record += varint(-1) + varint(len(value)) + value + b"\x00"
        body += varint(len(record)) + record
    times = (timestamps_ms[0], max(timestamps_ms))
    count = len(timestamps_ms)
    head = HEADER.pack(0, 0, -1, MAGIC, 0, 0, count - 1, *times, -1, -1, -1, count)
    return with_body(codec, head, PACKERS[codec](bytes(body)) if codec else bytes(body))
