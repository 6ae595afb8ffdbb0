"""Bytes -> kio's dataclasses, trusting nothing that the bytes say.

Pure. Driven by the fields of the dataclasses, and in place of kio's own reader for three reasons that were tried: it
reserves memory for an announced array length before it looks at the items (five bytes end the process, and no `except`
sees it), it ends on a tagged field that is newer than itself (KIP-482: skip it), and it lets null through where the
protocol allows none. Here every length is held against the bytes that are left before anything is made of it.

Values are kio's (a zero UUID is None, times are timedelta), so that a handler cannot tell who read them. As in Kafka
any byte but zero is true, and bytes behind the last field are ignored.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, fields
from functools import cache
from itertools import groupby
from struct import Struct, unpack_from
from typing import Any, get_args, get_origin, get_type_hints

from broker_runtime.errors import ProtocolError
from broker_runtime.wire.primitives import (
    Buffer,
    Part,
    Read,
    compact_length,
    end_of,
    int_length,
    is_struct,
    primitive,
    unpack,
    without_none,
)
from broker_runtime.wire.varint import read_uvarint

Step = Callable[[Buffer, int, dict[str, Any]], int]
"""Reads one or more fields into the values, returns the offset after them."""

_INT8 = Struct(">b")


def read_entity(kind: Any, body: bytes) -> Any:
    """One `kind`, from the beginning of `body`; raises ProtocolError when there is none."""
    return _entity(kind).read(body, 0)[0]


@cache
def _entity(kind: Any) -> Part:
    """The class is analysed once."""
    flexible = bool(kind.__flexible__)
    hints = get_type_hints(kind)
    plain: list[tuple[str, Part]] = []
    tagged: dict[int, tuple[str, Part]] = {}
    defaults: dict[str, Any] = {}
    for field in fields(kind):
        part = _field(field, hints[field.name], flexible)
        tag = field.metadata.get("tag")
        if tag is None:
            plain.append((field.name, part))
        else:
            tagged[int(tag)] = field.name, part
            if field.default is MISSING:
                # A struct (in FetchSnapshot's answer), of which kio leaves the default to us: its fields are zero.
                defaults[field.name] = part.read(bytes(part.least), 0)[0]
    steps = _steps(plain)

    def read(buffer: Buffer, at: int) -> tuple[Any, int]:
        values: dict[str, Any] = {}
        for step in steps:
            at = step(buffer, at, values)
        if flexible:
            at = _read_tags(tagged, values, buffer, at)
            for name in defaults:
                values.setdefault(name, defaults[name])
        return kind(**values), at

    return Part(read, sum(part.least for _, part in plain) + flexible)


def _steps(plain: Sequence[tuple[str, Part]]) -> list[Step]:
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

    def step(buffer: Buffer, at: int, values: dict[str, Any]) -> int:
        values.update(zip(names, unpack(layout, buffer, at), strict=True))
        return at + layout.size

    return step


def _single_step(name: str, read: Read) -> Step:
    def step(buffer: Buffer, at: int, values: dict[str, Any]) -> int:
        values[name], at = read(buffer, at)
        return at

    return step


def _read_tags(tagged: Mapping[int, tuple[str, Part]], values: dict[str, Any], buffer: Buffer, at: int) -> int:
    count, at = read_uvarint(buffer, at)
    for _ in range(count):
        tag, at = read_uvarint(buffer, at)
        size, at = read_uvarint(buffer, at)
        end = end_of(buffer, at, size)
        if tag in tagged:
            name, part = tagged[tag]
            values[name], after = part.read(buffer, at)
            if after != end:
                raise ProtocolError("malformed", f"{name} does not fill the {size} bytes of its tag")
        at = end
    return at


def _field(field: Any, hint: Any, flexible: bool) -> Part:
    inner, nullable = without_none(hint)
    if get_origin(inner) is tuple:
        item, item_nullable = without_none(get_args(inner)[0])
        part = _entity(item) if is_struct(item) else _value(field, flexible, item_nullable)
        return _array(field.name, part, flexible, nullable)
    if is_struct(inner):
        part = _entity(inner)
        return _nullable_struct(part.read) if nullable else part
    return _value(field, flexible, nullable)


def _value(field: Any, flexible: bool, nullable: bool) -> Part:
    part = primitive(field, flexible)
    return part if nullable or part.layout is not None else Part(_not_null(part.read, field.name), part.least)


def _nullable_struct(read: Read) -> Part:
    """KIP-893: a byte in front says whether there is one."""

    def read_nullable(buffer: Buffer, at: int) -> tuple[Any, int]:
        (marker,) = unpack(_INT8, buffer, at)
        return (None, at + 1) if marker < 0 else read(buffer, at + 1)

    return Part(read_nullable, 1)


def _not_null(read: Read, name: str) -> Read:
    def read_value(buffer: Buffer, at: int) -> tuple[Any, int]:
        value, at = read(buffer, at)
        if value is None:
            raise ProtocolError("malformed", f"{name} is null")
        return value, at

    return read_value


def _array(name: str, item: Part, flexible: bool, nullable: bool) -> Part:
    letter = None if item.layout is None else item.layout.format[1:]

    def read(buffer: Buffer, at: int) -> tuple[tuple[Any, ...] | None, int]:
        count, at = compact_length(buffer, at) if flexible else int_length(buffer, at)
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

    return Part(read, 1 if flexible else 4)
