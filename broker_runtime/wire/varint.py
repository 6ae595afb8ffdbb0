"""Unsigned varints, and the compact lengths and tagged fields that use them (KIP-482). Pure."""

from broker_runtime.errors import ProtocolError
from broker_runtime.wire.limits import DEFAULT_LIMITS, RequestLimits


def read_uvarint(buffer: bytes | memoryview, at: int) -> tuple[int, int]:
    """(value, offset after it). Raises ProtocolError past the end or over five bytes."""
    value = shift = 0
    try:
        while True:
            byte = buffer[at]
            at += 1
            if byte < 0x80:
                return value | byte << shift, at
            value |= (byte & 0x7F) << shift
            shift += 7
            if shift > 28:
                raise ProtocolError("malformed", "a varint is longer than five bytes")
    except IndexError:
        raise ProtocolError("truncated", "the request ends inside a varint") from None


def write_uvarint(value: int) -> bytes:
    if value < 0x80:
        return bytes((value,))
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def skip_tagged_fields(buffer: bytes | memoryview, at: int, limits: RequestLimits = DEFAULT_LIMITS) -> int:
    """Return the offset after a block of tagged fields; unknown tags are ignored, as the protocol requires."""
    if at < len(buffer) and not buffer[at]:
        return at + 1
    begin = at
    count, at = read_uvarint(buffer, at)
    limits.check_tagged_fields(count)
    for _ in range(count):
        _tag, at = read_uvarint(buffer, at)
        size, at = read_uvarint(buffer, at)
        at += size
        if at > len(buffer):
            raise ProtocolError("truncated", "a tagged field exceeds the end of the request")
    limits.check_tagged_bytes(at - begin)
    return at
