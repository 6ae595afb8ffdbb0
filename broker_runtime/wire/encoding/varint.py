"""Unsigned varints and tagged fields of requests (KIP-482), with the limits and errors of requests. Pure."""

from broker_runtime.errors import ProtocolError
from broker_runtime.wire.limits import DEFAULT_LIMITS, RequestLimits
from kafka_bytes import varints
from kafka_bytes.errors import FormatError


def read_uvarint(buffer: bytes | memoryview, at: int) -> tuple[int, int]:
    """Return an unsigned varint of the buffer at offset `at`, and the offset after it.

    Raises ProtocolError past the end or over five bytes.
    """
    try:
        byte = buffer[at]
        return (byte, at + 1) if byte < 0x80 else varints.read_uvarint(buffer, at)
    except IndexError:
        raise ProtocolError("truncated", "the request ends inside a varint") from None
    except FormatError as error:
        raise ProtocolError("malformed", str(error)) from None


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
