"""Bytes -> kio's dataclasses, trusting nothing that the bytes say.

Pure. Driven by the fields of the dataclasses, and in place of kio's own reader for three reasons that were tried: it
reserves memory for an announced array length before it looks at the items (five bytes end the process, and no `except`
sees it), it ends on a tagged field that is newer than itself (KIP-482: skip it), and it lets null through where the
protocol allows none. Here every length is held against the bytes that are left before anything is made of it.

Values are kio's (a zero UUID is None, times are timedelta), so that a handler cannot tell who read them. As in Kafka
any byte but zero is true, and bytes behind the last field are ignored.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import groupby
from struct import Struct, error, unpack_from
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints
from uuid import UUID

from kio.schema.errors import ErrorCode

from broker_runtime.errors import ProtocolError
from broker_runtime.wire.varint import read_uvarint

Read = Callable[[bytes, int], tuple[Any, int]]
"""(buffer, offset) -> the value and the offset after it."""
Step = Callable[[bytes, int, dict[str, Any]], int]
"""Reads one or more fields into the values, returns the offset after them."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_INT16, _INT32, _INT64 = Struct(">h"), Struct(">i"), Struct(">q")
_NUMBERS: Mapping[str, Struct] = {
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


@dataclass(frozen=True, slots=True)
class _Part:
    """How to read a value, how many bytes it takes at least, and the layout when it is a plain number."""

    read: Read
    least: int
    layout: Struct | None = None


def read_entity(kind: Any, body: bytes) -> Any:
    """One `kind`, from the beginning of `body`; raises ProtocolError when there is none."""
    return _entity(kind).read(body, 0)[0]


@cache
def _entity(kind: Any) -> _Part:
    """The class is analysed once."""
    flexible = bool(kind.__flexible__)
    hints = get_type_hints(kind)
    plain: list[tuple[str, _Part]] = []
    tagged: dict[int, tuple[str, _Part]] = {}
    needed: list[str] = []
    for field in fields(kind):
        part = _field(field, hints[field.name], flexible)
        tag = field.metadata.get("tag")
        if tag is None:
            plain.append((field.name, part))
        else:
            tagged[int(tag)] = field.name, part
            if field.default is MISSING:
                needed.append(field.name)
    steps = _steps(plain)

    def read(buffer: bytes, at: int) -> tuple[Any, int]:
        values: dict[str, Any] = {}
        for step in steps:
            at = step(buffer, at, values)
        if flexible:
            at = _read_tags(tagged, values, buffer, at)
            for name in needed:
                # kio has no default for it (a struct in FetchSnapshot's answer), and always writes it.
                if name not in values:
                    raise ProtocolError("malformed", f"{kind.__name__} comes without its tag {name}")
        return kind(**values), at

    return _Part(read, sum(part.least for _, part in plain) + flexible)


def _steps(plain: Sequence[tuple[str, _Part]]) -> list[Step]:
    """Numbers that follow each other are read in one go."""
    steps: list[Step] = []
    for numbers, group in groupby(plain, key=lambda item: item[1].layout is not None):
        members = list(group)
        if numbers:
            steps.append(_numbers_step([(name, part.layout) for name, part in members if part.layout is not None]))
        else:
            steps += [_single_step(name, part.read) for name, part in members]
    return steps


def _numbers_step(members: Sequence[tuple[str, Struct]]) -> Step:
    names = [name for name, _ in members]
    layout = Struct(">" + "".join(each.format[1:] for _, each in members))

    def step(buffer: bytes, at: int, values: dict[str, Any]) -> int:
        values.update(zip(names, _unpack(layout, buffer, at), strict=True))
        return at + layout.size

    return step


def _single_step(name: str, read: Read) -> Step:
    def step(buffer: bytes, at: int, values: dict[str, Any]) -> int:
        values[name], at = read(buffer, at)
        return at

    return step


def _read_tags(tagged: Mapping[int, tuple[str, _Part]], values: dict[str, Any], buffer: bytes, at: int) -> int:
    count, at = read_uvarint(buffer, at)
    for _ in range(count):
        tag, at = read_uvarint(buffer, at)
        size, at = read_uvarint(buffer, at)
        end = _end(buffer, at, size)
        if tag in tagged:
            name, part = tagged[tag]
            values[name], after = part.read(buffer, at)
            if after != end:
                raise ProtocolError("malformed", f"{name} does not fill the {size} bytes of its tag")
        at = end
    return at


def _field(field: Any, hint: Any, flexible: bool) -> _Part:
    inner, nullable = _without_none(hint)
    if get_origin(inner) is tuple:
        item, item_nullable = _without_none(get_args(inner)[0])
        part = _entity(item) if _is_struct(item) else _value(field, flexible, item_nullable)
        return _array(field.name, part, flexible, nullable)
    if _is_struct(inner):
        part = _entity(inner)
        return _nullable_struct(part.read) if nullable else part
    return _value(field, flexible, nullable)


def _value(field: Any, flexible: bool, nullable: bool) -> _Part:
    part = _primitive(field, flexible)
    return part if nullable or part.layout is not None else _Part(_not_null(part.read, field.name), part.least)


def _without_none(hint: Any) -> tuple[Any, bool]:
    if get_origin(hint) not in (Union, UnionType):
        return hint, False
    (inner,) = (member for member in get_args(hint) if member is not NoneType)
    return inner, True


def _is_struct(hint: Any) -> bool:
    return is_dataclass(hint)


def _nullable_struct(read: Read) -> _Part:
    """KIP-893: a byte in front says whether there is one."""

    def read_nullable(buffer: bytes, at: int) -> tuple[Any, int]:
        (marker,) = _unpack(_NUMBERS["int8"], buffer, at)
        return (None, at + 1) if marker < 0 else read(buffer, at + 1)

    return _Part(read_nullable, 1)


def _not_null(read: Read, name: str) -> Read:
    def read_value(buffer: bytes, at: int) -> tuple[Any, int]:
        value, at = read(buffer, at)
        if value is None:
            raise ProtocolError("malformed", f"{name} is null")
        return value, at

    return read_value


def _array(name: str, item: _Part, flexible: bool, nullable: bool) -> _Part:
    letter = None if item.layout is None else item.layout.format[1:]

    def read(buffer: bytes, at: int) -> tuple[tuple[Any, ...] | None, int]:
        count, at = _compact_length(buffer, at) if flexible else _legacy_length(_INT32, buffer, at)
        if count < 0:
            if not nullable:
                raise ProtocolError("malformed", f"{name} is null")
            return None, at
        if count * item.least > len(buffer) - at:
            raise ProtocolError("truncated", f"{count} {name} are announced and {len(buffer) - at} bytes are left")
        if letter is not None:
            return unpack_from(f">{count}{letter}", buffer, at), at + count * item.least
        items = []
        for _ in range(count):
            value, at = item.read(buffer, at)
            items.append(value)
        return tuple(items), at

    return _Part(read, 1 if flexible else 4)


def _primitive(field: Any, flexible: bool) -> _Part:
    kind = field.metadata["kafka_type"]
    layout = _NUMBERS.get(kind)
    if layout is not None:
        return _Part(_number(layout), layout.size, layout)
    if kind == "string":
        return _Part(_text(_compact_length), 1) if flexible else _Part(_text(_short_length), 2)
    if kind in ("bytes", "records"):
        return _Part(_blob(_compact_length), 1) if flexible else _Part(_blob(_int_length), 4)
    return _SPECIAL[kind]


def _number(layout: Struct) -> Read:
    return lambda buffer, at: (_unpack(layout, buffer, at)[0], at + layout.size)


def _text(length: Read) -> Read:
    def read(buffer: bytes, at: int) -> tuple[str | None, int]:
        size, at = length(buffer, at)
        if size < 0:
            return None, at
        end = _end(buffer, at, size)
        try:
            return buffer[at:end].decode(), end
        except UnicodeDecodeError as problem:
            raise ProtocolError("malformed", f"text that is not UTF-8: {problem.reason}") from None

    return read


def _blob(length: Read) -> Read:
    def read(buffer: bytes, at: int) -> tuple[bytes | None, int]:
        size, at = length(buffer, at)
        if size < 0:
            return None, at
        end = _end(buffer, at, size)
        return buffer[at:end], end

    return read


def _uuid(buffer: bytes, at: int) -> tuple[UUID | None, int]:
    """Zero stands for none."""
    end = _end(buffer, at, 16)
    found = buffer[at:end]
    return (UUID(bytes=found) if any(found) else None), end


def _milliseconds(layout: Struct) -> Read:
    def read(buffer: bytes, at: int) -> tuple[timedelta, int]:
        (value,) = _unpack(layout, buffer, at)
        try:
            return timedelta(milliseconds=value), at + layout.size
        except OverflowError:
            raise ProtocolError("malformed", f"{value} ms is no time span") from None

    return read


def _time(buffer: bytes, at: int) -> tuple[datetime | None, int]:
    (value,) = _unpack(_INT64, buffer, at)
    if value == -1:
        return None, at + 8
    try:
        if value >= 0:
            return _EPOCH + timedelta(milliseconds=value), at + 8
    except OverflowError:
        pass
    raise ProtocolError("malformed", f"{value} is no time in milliseconds since 1970")


def _error_code(buffer: bytes, at: int) -> tuple[ErrorCode, int]:
    (value,) = _unpack(_INT16, buffer, at)
    try:
        return ErrorCode(value), at + 2
    except ValueError:
        raise ProtocolError("malformed", f"{value} is no error code that we know") from None


_SPECIAL: Mapping[str, _Part] = {
    "uuid": _Part(_uuid, 16),
    "timedelta_i32": _Part(_milliseconds(_INT32), 4),
    "timedelta_i64": _Part(_milliseconds(_INT64), 8),
    "datetime_i64": _Part(_time, 8),
    "error_code": _Part(_error_code, 2),
}


def _compact_length(buffer: bytes, at: int) -> tuple[int, int]:
    """-1 is null."""
    value, at = read_uvarint(buffer, at)
    return value - 1, at


def _legacy_length(layout: Struct, buffer: bytes, at: int) -> tuple[int, int]:
    (value,) = _unpack(layout, buffer, at)
    if value < -1:
        raise ProtocolError("malformed", f"{value} is no length")
    return value, at + layout.size


def _short_length(buffer: bytes, at: int) -> tuple[int, int]:
    return _legacy_length(_INT16, buffer, at)


def _int_length(buffer: bytes, at: int) -> tuple[int, int]:
    return _legacy_length(_INT32, buffer, at)


def _end(buffer: bytes, at: int, size: int) -> int:
    end = at + size
    if end > len(buffer):
        raise ProtocolError("truncated", f"{size} bytes are announced and {len(buffer) - at} are left")
    return end


def _unpack(layout: Struct, buffer: bytes, at: int) -> tuple[Any, ...]:
    try:
        return layout.unpack_from(buffer, at)
    except error:
        raise ProtocolError("truncated", f"{layout.size} bytes are needed and {len(buffer) - at} are left") from None
