"""Decode bytes to kio replies, without trusting anything in the bytes. Pure.

The module uses the fields of kio's classes, but not kio's own reader. That reader was tried, and does three things that
are unacceptable with brokers of other owners. It reserves memory for an announced array length before it reads the
items (two thousand million of them end the process). It refuses a reply with an unknown tagged field, which KIP-482
says to skip. And it cannot report an error code that it does not know.
"""

import struct
from collections.abc import Callable
from dataclasses import MISSING, Field, fields, is_dataclass
from datetime import timedelta
from functools import cache
from types import NoneType
from typing import Any, get_args, get_origin
from uuid import UUID

from kio.schema.errors import ErrorCode

from kafka_bytes.errors import FormatError
from kafka_bytes.varints import read_uvarint
from sluicegate_operator.kafka_admin.errors import KafkaApiError

Read = Callable[[bytes, int], tuple[Any, int]]
"""Function that reads a value of a buffer at an offset, and returns the value and the offset after it."""


class MalformedError(ValueError):
    """Error for bytes that are not a valid message of the expected type."""


def reader(kind: Any) -> Read:
    """Return the function that reads a kio class. Each class is analysed once."""
    return _entity(kind)


@cache
def _entity(kind: Any) -> Read:
    flexible = bool(kind.__flexible__)
    plain = [(f.name, _field(f, flexible)) for f in fields(kind) if "tag" not in f.metadata]
    tagged = {f.metadata["tag"]: (f.name, _field(f, flexible)) for f in fields(kind) if "tag" in f.metadata}
    if lacking := [f.name for f in fields(kind) if "tag" in f.metadata and f.default is MISSING]:
        raise TypeError(f"{kind.__name__}: no default for {', '.join(lacking)}, which a response may omit")

    def read(buffer: bytes, offset: int) -> tuple[Any, int]:
        values = {}
        for name, read_field in plain:
            values[name], offset = read_field(buffer, offset)
        if flexible:
            offset = _read_tags(tagged, values, buffer, offset)
        return kind(**values), offset

    return read


def _read_tags(tagged: dict[int, tuple[str, Read]], values: dict[str, Any], buffer: bytes, offset: int) -> int:
    """Read tagged fields into `values`; an unknown tag is skipped."""
    count, offset = _varint(buffer, offset)
    for _ in range(_bounded(count, buffer, offset)):
        tag, offset = _varint(buffer, offset)
        size, offset = _varint(buffer, offset)
        end = _advance(buffer, offset, size)
        if tag in tagged:
            name, read_field = tagged[tag]
            values[name], after = read_field(buffer, offset)
            if after != end:
                raise MalformedError(f"{name} does not fill its {size} bytes")
        offset = end
    return offset


def _field(field: Field[Any], flexible: bool) -> Read:
    kind: Any = field.type
    nullable = get_origin(kind) is not tuple and NoneType in get_args(kind)
    if nullable:
        (kind,) = (member for member in get_args(kind) if member is not NoneType)
    if get_origin(kind) is tuple:
        item = get_args(kind)[0]
        nested = is_dataclass(item)
        return _array(_entity(item) if nested else _primitive(field, flexible), flexible, nullable)
    nested = is_dataclass(kind)
    if nested and nullable:
        raise TypeError(f"{field.name}: nullable structures are not supported in responses")
    if nested:
        return _entity(kind)
    read = _primitive(field, flexible)
    return read if nullable else _not_null(read, field.name)


def _not_null(read: Read, name: str) -> Read:
    def read_value(buffer: bytes, offset: int) -> tuple[Any, int]:
        value, offset = read(buffer, offset)
        if value is None:
            raise MalformedError(f"{name} is null")
        return value, offset

    return read_value


def _array(item: Read, flexible: bool, nullable: bool) -> Read:
    def read(buffer: bytes, offset: int) -> tuple[tuple[Any, ...] | None, int]:
        count, offset = _compact_length(buffer, offset) if flexible else _integer(">i", buffer, offset)
        if count < 0 and nullable:
            return None, offset
        items = []
        for _ in range(_bounded(count, buffer, offset)):
            value, offset = item(buffer, offset)
            items.append(value)
        return tuple(items), offset

    return read


def _primitive(field: Field[Any], flexible: bool) -> Read:
    kind = field.metadata["kafka_type"]
    if kind == "string":
        return _compact_string if flexible else _legacy_string
    if kind == "bytes":
        return _compact_bytes if flexible else _legacy_bytes
    return PRIMITIVES[kind]


def _number(layout: str) -> Read:
    return lambda buffer, offset: _integer(layout, buffer, offset)


def _bool(buffer: bytes, offset: int) -> tuple[bool, int]:
    after = _advance(buffer, offset, 1)
    return buffer[offset] != 0, after


def _uuid(buffer: bytes, offset: int) -> tuple[UUID | None, int]:
    """Read a UUID; zero stands for None."""
    after = _advance(buffer, offset, 16)
    found = UUID(bytes=buffer[offset:after])
    return (found if found.int else None), after


def _milliseconds(buffer: bytes, offset: int) -> tuple[timedelta, int]:
    value, after = _integer(">i", buffer, offset)
    return timedelta(milliseconds=value), after


def _long_milliseconds(buffer: bytes, offset: int) -> tuple[timedelta, int]:
    value, after = _integer(">q", buffer, offset)
    try:
        return timedelta(milliseconds=value), after
    except OverflowError:
        raise MalformedError(f"{value} milliseconds are out of range") from None


def _error_code(buffer: bytes, offset: int) -> tuple[ErrorCode, int]:
    code, after = _integer(">h", buffer, offset)
    try:
        return ErrorCode(code), after
    except ValueError:
        raise KafkaApiError(code, None, "the broker returned an error that this client does not know") from None


PRIMITIVES: dict[str, Read] = {
    "bool": _bool,
    "int8": _number(">b"),
    "int16": _number(">h"),
    "int32": _number(">i"),
    "int64": _number(">q"),
    "float64": _number(">d"),
    "uuid": _uuid,
    "timedelta_i32": _milliseconds,
    "timedelta_i64": _long_milliseconds,
    "error_code": _error_code,
}


def _compact_string(buffer: bytes, offset: int) -> tuple[str | None, int]:
    size, offset = _compact_length(buffer, offset)
    return _text(size, buffer, offset)


def _legacy_string(buffer: bytes, offset: int) -> tuple[str | None, int]:
    size, offset = _integer(">h", buffer, offset)
    return _text(size, buffer, offset)


def _compact_bytes(buffer: bytes, offset: int) -> tuple[bytes | None, int]:
    size, offset = _compact_length(buffer, offset)
    return _blob(size, buffer, offset)


def _legacy_bytes(buffer: bytes, offset: int) -> tuple[bytes | None, int]:
    size, offset = _integer(">i", buffer, offset)
    return _blob(size, buffer, offset)


def _blob(size: int, buffer: bytes, offset: int) -> tuple[bytes | None, int]:
    if size < 0:
        return None, offset
    after = _advance(buffer, offset, size)
    return buffer[offset:after], after


def _text(size: int, buffer: bytes, offset: int) -> tuple[str | None, int]:
    if size < 0:
        return None, offset
    after = _advance(buffer, offset, size)
    try:
        return buffer[offset:after].decode(), after
    except UnicodeDecodeError as error:
        raise MalformedError(f"text that is not UTF-8: {error.reason}") from None


def _bounded(count: int, buffer: bytes, offset: int) -> int:
    """Return the count if it is possible: an item takes at least one byte."""
    if not 0 <= count <= len(buffer) - offset:
        raise MalformedError(f"{count} items are announced, but only {len(buffer) - offset} bytes are left")
    return count


def _advance(buffer: bytes, offset: int, size: int) -> int:
    if offset + size > len(buffer):
        raise MalformedError(f"ends {offset + size - len(buffer)} bytes early")
    return offset + size


def _integer(layout: str, buffer: bytes, offset: int) -> tuple[Any, int]:
    after = _advance(buffer, offset, struct.calcsize(layout))
    return struct.unpack_from(layout, buffer, offset)[0], after


def _compact_length(buffer: bytes, offset: int) -> tuple[int, int]:
    """Read a compact length; -1 is null."""
    value, offset = _varint(buffer, offset)
    return value - 1, offset


def _varint(buffer: bytes, offset: int) -> tuple[int, int]:
    try:
        return read_uvarint(buffer, offset)
    except IndexError:
        raise MalformedError("ends 1 bytes early") from None
    except FormatError:
        raise MalformedError("a variable-length number of more than five bytes") from None
