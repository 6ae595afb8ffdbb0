"""Does a byte string have the shape of a kio type: every length within the bytes, every error code known?

Pure. Walks the schema without building anything; `check_shape` answers where the value ends. It exists because kio
reserves memory for an announced array length before it reads the items, which a hostile or broken peer can use to end
the process, and because a broker newer than kio may answer with an error code that kio has no name for.
"""

import struct
from collections.abc import Callable
from dataclasses import Field, fields, is_dataclass
from functools import cache
from types import NoneType
from typing import Any, get_args, get_origin

from kio.schema.errors import ErrorCode

from sluicegate_operator.kafka_admin.errors import KafkaApiError

Walk = Callable[[bytes, int], int]
"""(buffer, offset) -> offset after the value."""

FIXED_SIZES = {
    "bool": 1,
    "int8": 1,
    "int16": 2,
    "uint16": 2,
    "int32": 4,
    "uint32": 4,
    "int64": 8,
    "float64": 8,
    "uuid": 16,
    "timedelta_i32": 4,
    "timedelta_i64": 8,
    "datetime_i64": 8,
}
MAX_VARINT_BYTES = 5


class MalformedError(ValueError):
    """These bytes are no such message."""


def check_shape(kind: Any, buffer: bytes, offset: int) -> int:
    return _entity(kind)(buffer, offset)


@cache
def _entity(kind: Any) -> Walk:
    flexible = bool(kind.__flexible__)
    walks = [_field(f, flexible) for f in fields(kind) if "tag" not in f.metadata]
    tagged = {f.metadata["tag"]: _field(f, flexible) for f in fields(kind) if "tag" in f.metadata}

    def walk(buffer: bytes, offset: int) -> int:
        for step in walks:
            offset = step(buffer, offset)
        return _tags(tagged, buffer, offset) if flexible else offset

    return walk


def _tags(tagged: dict[int, Walk], buffer: bytes, offset: int) -> int:
    count, offset = _varint(buffer, offset)
    for _ in range(_bounded(count, buffer, offset)):
        tag, offset = _varint(buffer, offset)
        size, offset = _varint(buffer, offset)
        end = _advance(buffer, offset, size)
        if tag in tagged and tagged[tag](buffer, offset) != end:
            raise MalformedError(f"tagged field {tag} does not fill its {size} bytes")
        offset = end
    return offset


def _field(field: Field[Any], flexible: bool) -> Walk:
    kind: Any = field.type
    members = [member for member in get_args(kind) if member is not NoneType]
    nullable = get_origin(kind) is not tuple and NoneType in get_args(kind)
    if nullable:
        (kind,) = members
    if get_origin(kind) is tuple:
        item = get_args(kind)[0]
        nested = is_dataclass(item)
        return _array(_entity(item) if nested else _primitive(field, flexible), flexible)
    nested = is_dataclass(kind)
    if not nested:
        return _primitive(field, flexible)
    return _nullable_entity(_entity(kind)) if nullable else _entity(kind)


def _nullable_entity(inner: Walk) -> Walk:
    def walk(buffer: bytes, offset: int) -> int:
        after = _advance(buffer, offset, 1)
        return inner(buffer, after) if buffer[offset] == 1 else after

    return walk


def _array(item: Walk, flexible: bool) -> Walk:
    def walk(buffer: bytes, offset: int) -> int:
        if flexible:
            count, offset = _varint(buffer, offset)
            count -= 1
        else:
            count, offset = _integer(">i", buffer, offset)
        for _ in range(_bounded(count, buffer, offset)):
            offset = item(buffer, offset)
        return offset

    return walk


def _primitive(field: Field[Any], flexible: bool) -> Walk:
    kind = field.metadata["kafka_type"]
    if kind == "error_code":
        return _error_code
    if kind == "string":
        return _compact_bytes if flexible else _legacy_string
    if kind in ("bytes", "records"):
        return _compact_bytes if flexible else _legacy_bytes
    size = FIXED_SIZES[kind]
    return lambda buffer, offset: _advance(buffer, offset, size)


def _error_code(buffer: bytes, offset: int) -> int:
    code, offset = _integer(">h", buffer, offset)
    try:
        ErrorCode(code)
    except ValueError:
        raise KafkaApiError(code, None, "the broker refused with an error that is newer than this client") from None
    return offset


def _compact_bytes(buffer: bytes, offset: int) -> int:
    size, offset = _varint(buffer, offset)
    return _advance(buffer, offset, max(0, size - 1))


def _legacy_string(buffer: bytes, offset: int) -> int:
    size, offset = _integer(">h", buffer, offset)
    return _advance(buffer, offset, max(0, size))


def _legacy_bytes(buffer: bytes, offset: int) -> int:
    size, offset = _integer(">i", buffer, offset)
    return _advance(buffer, offset, max(0, size))


def _bounded(count: int, buffer: bytes, offset: int) -> int:
    """An item takes at least one byte."""
    if count > len(buffer) - offset:
        raise MalformedError(f"{count} items are announced and {len(buffer) - offset} bytes are left")
    return max(0, count)


def _advance(buffer: bytes, offset: int, size: int) -> int:
    if offset + size > len(buffer):
        raise MalformedError(f"ends {offset + size - len(buffer)} bytes early")
    return offset + size


def _integer(layout: str, buffer: bytes, offset: int) -> tuple[int, int]:
    end = _advance(buffer, offset, struct.calcsize(layout))
    value: int = struct.unpack_from(layout, buffer, offset)[0]
    return value, end


def _varint(buffer: bytes, offset: int) -> tuple[int, int]:
    value = 0
    for index in range(MAX_VARINT_BYTES):
        _advance(buffer, offset, index + 1)
        byte = buffer[offset + index]
        value |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return value, offset + index + 1
    raise MalformedError("a variable-length number of more than five bytes")
