"""Writes the variable parts of hot responses: lengths and names, flexible or not. Pure."""

from struct import Struct

from kafka_bytes.varints import write_uvarint

_INT16 = Struct(">h")
_INT32 = Struct(">i")


def array_length(count: int, flexible: bool) -> bytes:
    return write_uvarint(count + 1) if flexible else _INT32.pack(count)


def string(text: str, flexible: bool) -> bytes:
    raw = text.encode()
    return (write_uvarint(len(raw) + 1) if flexible else _INT16.pack(len(raw))) + raw


def nullable_string(text: str | None, flexible: bool) -> bytes:
    if text is None:
        return b"\x00" if flexible else b"\xff\xff"
    return string(text, flexible)


def byte_string(content: bytes, flexible: bool) -> bytes:
    return (write_uvarint(len(content) + 1) if flexible else _INT32.pack(len(content))) + content
