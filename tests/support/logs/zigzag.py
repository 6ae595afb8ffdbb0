"""Signed varints as records have them, written without the broker's help."""


def varint(value: int) -> bytes:
    """A varint of at most 64 bits: the value zigzag encoded, seven bits a byte, the lowest first."""
    rest = (value << 1) ^ (value >> 63)
    out = bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)
