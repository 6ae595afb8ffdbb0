"""The values of messages, and how their bytes are read: numbers, texts, lengths, times. Pure.

Values are kio's. `buffer` is any bytes, and is never kept: texts and byte strings are copies. Functions raise
ProtocolError if the bytes end too early or are not a valid value.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, is_dataclass
from datetime import UTC, datetime, timedelta
from struct import Struct, error
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin
from uuid import UUID

from kio.schema.errors import ErrorCode

from broker_runtime.errors import ProtocolError
from broker_runtime.slicing.steps import Steps
from broker_runtime.wire.encoding.varint import read_uvarint
from broker_runtime.wire.limits import ItemBudget, check_text

Buffer = bytes | memoryview
Read = Callable[[Buffer, int], tuple[Any, int]]
"""A function that reads a value of the buffer at an offset, and returns the value and the offset after it."""
ReadInSteps = Callable[[Buffer, int, ItemBudget], Steps[tuple[Any, int]]]
"""A function that returns steps for reading a value, which may be long.

The arguments are buffer, offset and budget; the steps return the value and the offset after it.
"""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_INT16, _INT32, _INT64 = Struct(">h"), Struct(">i"), Struct(">q")
NUMBERS: Mapping[str, Struct] = {
    "bool": Struct(">?"),
    "int8": Struct(">b"),
    "int16": _INT16,
    "int32": _INT32,
    "int64": _INT64,
    "uint8": Struct(">B"),
    "uint16": Struct(">H"),
    "uint32": Struct(">I"),
    "uint64": Struct(">Q"),
    "float64": Struct(">d"),
}
"""Layouts of Kafka's kinds of numbers."""


@dataclass(frozen=True, slots=True)
class Part:
    """A kind of value: how to read it, and its least number of bytes.

    A plain number has a `layout`. A value that begins with its length, -1 for null, has `length` to read the length.
    Arrays and structs have `in_steps`; a struct without arrays also has `counted`, which reads the struct at once.
    """

    read: Read
    least: int
    layout: Struct | None = None
    length: Read | None = None
    in_steps: ReadInSteps | None = None
    counted: Callable[[Buffer, int, ItemBudget], tuple[Any, int]] | None = None


def without_none(hint: Any) -> tuple[Any, bool]:
    if get_origin(hint) not in (Union, UnionType):
        return hint, False
    (inner,) = (member for member in get_args(hint) if member is not NoneType)
    return inner, True


def is_struct(hint: Any) -> bool:
    return is_dataclass(hint)


def primitive(field: Any, flexible: bool) -> Part:
    kind = field.metadata["kafka_type"]
    layout = NUMBERS.get(kind)
    if layout is not None:
        return Part(_number(layout), layout.size, layout)
    if kind == "string":
        length, least = (compact_length, 1) if flexible else (_short_length, 2)
        return Part(_text(length), least, length=length)
    if kind in ("bytes", "records"):
        length, least = (compact_length, 1) if flexible else (int_length, 4)
        return Part(_blob(length), least, length=length)
    return _SPECIAL[kind]


def _number(layout: Struct) -> Read:
    return lambda buffer, at: (unpack(layout, buffer, at)[0], at + layout.size)


def _text(length: Read) -> Read:
    def read(buffer: Buffer, at: int) -> tuple[str | None, int]:
        size, at = length(buffer, at)
        if size < 0:
            return None, at
        check_text(size)
        end = end_of(buffer, at, size)
        try:
            return str(buffer[at:end], "utf-8"), end
        except UnicodeDecodeError as problem:
            raise ProtocolError("malformed", f"a text is not UTF-8: {problem.reason}") from None

    return read


def _blob(length: Read) -> Read:
    def read(buffer: Buffer, at: int) -> tuple[bytes | None, int]:
        size, at = length(buffer, at)
        if size < 0:
            return None, at
        end = end_of(buffer, at, size)
        return bytes(buffer[at:end]), end

    return read


def _uuid(buffer: Buffer, at: int) -> tuple[UUID | None, int]:
    """Read a UUID; None for zeros."""
    end = end_of(buffer, at, 16)
    found = bytes(buffer[at:end])
    return (UUID(bytes=found) if any(found) else None), end


def _milliseconds(layout: Struct) -> Read:
    def read(buffer: Buffer, at: int) -> tuple[timedelta, int]:
        (value,) = unpack(layout, buffer, at)
        try:
            return timedelta(milliseconds=value), at + layout.size
        except OverflowError:
            raise ProtocolError("malformed", f"{value} ms is not a valid time span") from None

    return read


def _time(buffer: Buffer, at: int) -> tuple[datetime | None, int]:
    (value,) = unpack(_INT64, buffer, at)
    if value == -1:
        return None, at + 8
    try:
        if value >= 0:
            return _EPOCH + timedelta(milliseconds=value), at + 8
    except OverflowError:
        pass
    raise ProtocolError("malformed", f"{value} is not a valid time in milliseconds since 1970")


def _error_code(buffer: Buffer, at: int) -> tuple[ErrorCode, int]:
    (value,) = unpack(_INT16, buffer, at)
    try:
        return ErrorCode(value), at + 2
    except ValueError:
        raise ProtocolError("malformed", f"{value} is not a known error code") from None


_SPECIAL: Mapping[str, Part] = {
    "uuid": Part(_uuid, 16),
    "timedelta_i32": Part(_milliseconds(_INT32), 4),
    "timedelta_i64": Part(_milliseconds(_INT64), 8),
    "datetime_i64": Part(_time, 8),
    "error_code": Part(_error_code, 2),
}


def compact_length(buffer: Buffer, at: int) -> tuple[int, int]:
    """Read a compact length of the buffer at offset `at`; -1 for null. Return the length, and the offset after it."""
    value, at = read_uvarint(buffer, at)
    return value - 1, at


def _legacy_length(layout: Struct, buffer: Buffer, at: int) -> tuple[int, int]:
    (value,) = unpack(layout, buffer, at)
    if value < -1:
        raise ProtocolError("malformed", f"{value} is not a valid length")
    return value, at + layout.size


def _short_length(buffer: Buffer, at: int) -> tuple[int, int]:
    return _legacy_length(_INT16, buffer, at)


def int_length(buffer: Buffer, at: int) -> tuple[int, int]:
    return _legacy_length(_INT32, buffer, at)


def end_of(buffer: Buffer, at: int, size: int) -> int:
    end = at + size
    if end > len(buffer):
        raise ProtocolError("truncated", f"the data announces {size} bytes, but only {len(buffer) - at} are left")
    return end


def unpack(layout: Struct, buffer: Buffer, at: int) -> tuple[Any, ...]:
    try:
        return layout.unpack_from(buffer, at)
    except error:
        raise ProtocolError(
            "truncated", f"{layout.size} bytes are needed, but only {len(buffer) - at} are left"
        ) from None
