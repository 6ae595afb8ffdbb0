"""Variable-length numbers: seven bits in each byte, the lowest first. Pure.

Requests have unsigned varints of up to 32 bits (KIP-482). Records have varlongs: zigzag, of up to 64 bits.
"""

from kafka_bytes.errors import FormatError


def read_uvarint(buffer: bytes | memoryview, at: int) -> tuple[int, int]:
    """Return an unsigned varint of the buffer at offset `at`, and the offset after it.

    Raises IndexError at the end of the buffer, and FormatError beyond five bytes.
    """
    value = shift = 0
    while True:
        byte = buffer[at]
        at += 1
        if byte < 0x80:
            return value | byte << shift, at
        value |= (byte & 0x7F) << shift
        shift += 7
        if shift > 28:
            raise FormatError("a varint is longer than five bytes")


def write_uvarint(value: int) -> bytes:
    if value < 0x80:
        return bytes((value,))
    out = bytearray()
    append_uvarint(out, value)
    return bytes(out)


def append_uvarint(out: bytearray, value: int) -> None:
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def read_varlong(buffer: bytes | memoryview, at: int) -> tuple[int, int]:
    """Return a signed varint of the buffer at offset `at`, and the offset after it.

    Raises IndexError at the end of the buffer or beyond ten bytes. Most numbers of a record have one byte.
    """
    byte = buffer[at]
    at += 1
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), at
    value = byte & 0x7F
    shift = 7
    while True:
        byte = buffer[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at
        shift += 7
        if shift > 63:
            raise IndexError("a number has more than ten bytes")


def append_varlong(out: bytearray, value: int) -> None:
    """Append a number of up to 64 bits to `out` as a signed varint."""
    append_uvarint(out, (value << 1) ^ (value >> 63))
