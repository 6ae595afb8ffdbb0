"""Bytes -> kio's dataclasses, without trusting the bytes.

Pure. Driven by the fields of the dataclasses. It replaces kio's own reader for three reasons, which were tested. That
reader reserves memory for an announced array length before it reads the items: five bytes end the process, and no
`except` catches it. It fails at a tagged field that is newer than itself (KIP-482: skip it). It accepts null where the
protocol does not allow it. Here every length is compared with the remaining bytes before anything is built from it.

Values are kio's (a zero UUID is None, times are timedelta), so that a handler sees no difference. As in Kafka, any
non-zero byte is true, and bytes after the last field are ignored.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, fields
from functools import cache
from itertools import groupby
from struct import Struct, unpack_from
from typing import Any, get_args, get_origin, get_type_hints

from broker_runtime.errors import ProtocolError
from broker_runtime.slicing.steps import Steps, let_go
from broker_runtime.wire.encoding.primitives import (
    Buffer,
    Part,
    Read,
    ReadInSteps,
    compact_length,
    end_of,
    int_length,
    is_struct,
    primitive,
    unpack,
    without_none,
)
from broker_runtime.wire.encoding.varint import read_uvarint
from broker_runtime.wire.limits import ItemBudget

Step = Callable[[Buffer, int, dict[str, Any]], int]
"""A function that reads one or more fields into the values, and returns the offset after them."""

_INT8 = Struct(">b")
_LEAVES_OF_A_STEP = 8
"""Structs without arrays that are read between two breaks: some tens of microseconds."""
_FREED_IN_A_STEP = 8
"""Structs with arrays that `released` frees between two breaks."""


def read_entity(kind: Any, body: bytes) -> Any:
    """Read a message of type `kind` from the beginning of `body`.

    Raises ProtocolError if the bytes do not have this form.
    """
    return _entity(kind).read(body, 0)[0]


def read_in_steps(kind: Any, body: Buffer, budget: ItemBudget) -> Steps[Any]:
    """Read a long message of type `kind` from the beginning of `body`, and count its items and tagged fields.

    Raises ProtocolError and RequestTooLargeError.
    """
    part = _entity(kind)
    assert part.in_steps is not None
    value, _ = yield from part.in_steps(body, 0, budget)
    return value


def zeros(kind: Any) -> Any:
    """Return a struct of type `kind` whose fields are all zero: kio has no default for a struct in a tagged field."""
    part = _entity(kind)
    return part.read(bytes(part.least), 0)[0]


def released(entity: Any) -> Steps[None]:
    """Empty the arrays of a message that is not needed any more.

    Freeing all of its items at once would be a long step. A step frees at most `_FREED_IN_A_STEP` items, whether their
    own arrays are empty or not.
    """
    kind: Any = type(entity)
    for name in _arrays_of(kind):
        left = getattr(entity, name)
        if not left:
            continue
        left = list(left)
        object.__setattr__(entity, name, ())
        item_kind: Any = type(left[0])
        if not _arrays_of(item_kind):
            yield from let_go(left)
            continue
        while left:
            for each in left[-_FREED_IN_A_STEP:]:
                yield from released(each)
            del each, left[-_FREED_IN_A_STEP:]
            yield


@cache
def _arrays_of(kind: Any) -> Sequence[str]:
    """Return the names of the fields that are arrays; none for a kind that is not a struct."""
    if not is_struct(kind):
        return ()
    hints = get_type_hints(kind)
    return tuple(field.name for field in fields(kind) if get_origin(without_none(hints[field.name])[0]) is tuple)


class _Fields:
    """The reading of one struct's fields: the plain ones in their order, then the tagged ones by their tag."""

    def __init__(self, kind: Any) -> None:
        self.flexible = bool(kind.__flexible__)
        self.tagged: dict[int, tuple[str, Part]] = {}
        self.defaults: dict[str, Any] = {}
        self.plain: list[tuple[str, Part]] = []
        hints = get_type_hints(kind)
        for field in fields(kind):
            part = _field(field, hints[field.name], self.flexible)
            tag = field.metadata.get("tag")
            if tag is None:
                self.plain.append((field.name, part))
            else:
                self.tagged[int(tag)] = field.name, part
                if field.default is MISSING:
                    # FetchSnapshot's response has a tagged field without a default.
                    self.defaults[field.name] = zeros(hints[field.name])
        self.least = sum(part.least for _, part in self.plain) + self.flexible
        parts = [part for _, part in (*self.plain, *self.tagged.values())]
        self.is_leaf = all(part.in_steps is None for part in parts)


@cache
def _entity(kind: Any) -> Part:
    """Return the reader of a struct; the class is analysed once."""
    known = _Fields(kind)
    steps, flexible, tagged, defaults = _steps(known.plain), known.flexible, known.tagged, known.defaults

    def read(buffer: Buffer, at: int, budget: ItemBudget | None = None) -> tuple[Any, int]:
        values: dict[str, Any] = {}
        for step in steps:
            at = step(buffer, at, values)
        if flexible:
            at = _read_tags(tagged, values, buffer, at, budget)
            for name in defaults:
                values.setdefault(name, defaults[name])
        return kind(**values), at

    return Part(read, known.least, in_steps=_in_steps(kind, known), counted=read if known.is_leaf else None)


def _in_steps(kind: Any, known: _Fields) -> ReadInSteps:
    short: list[tuple[str, Part]] = []
    plan: list[tuple[Sequence[Step], str, ReadInSteps | None]] = []
    for name, part in known.plain:
        if part.in_steps is None:
            short.append((name, part))
        else:
            plan.append((_steps(short), name, part.in_steps))
            short = []
    plan.append((_steps(short), "", None))

    def read(buffer: Buffer, at: int, budget: ItemBudget) -> Steps[tuple[Any, int]]:
        values: dict[str, Any] = {}
        for steps, name, long in plan:
            for step in steps:
                at = step(buffer, at, values)
            if long is not None:
                values[name], at = yield from long(buffer, at, budget)
        if known.flexible:
            at = yield from _tags_in_steps(known.tagged, values, buffer, at, budget)
            for name in known.defaults:
                values.setdefault(name, known.defaults[name])
        return kind(**values), at

    return read


def _steps(plain: Sequence[tuple[str, Part]]) -> list[Step]:
    """Return the steps of a struct's plain fields; adjacent numbers are read in one step."""
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


def _read_tags(
    tagged: Mapping[int, tuple[str, Part]],
    values: dict[str, Any],
    buffer: Buffer,
    at: int,
    budget: ItemBudget | None = None,
) -> int:
    if at < len(buffer) and not buffer[at]:
        return at + 1
    count, at = read_uvarint(buffer, at)
    if budget is not None:
        budget.limits.check_tagged_fields(count)
    unknown_bytes = 0
    for _ in range(count):
        tag, at, end = _tag(buffer, at)
        if tag in tagged:
            name, part = tagged[tag]
            values[name], after = part.read(buffer, at)
            _check_fills(name, after, at, end)
        else:
            unknown_bytes += end - at
        at = end
    if budget is not None:
        budget.limits.check_tagged_bytes(unknown_bytes)
    return at


def _tags_in_steps(
    tagged: Mapping[int, tuple[str, Part]], values: dict[str, Any], buffer: Buffer, at: int, budget: ItemBudget
) -> Steps[int]:
    """Read tagged fields that may be arrays into `values`; an unknown tag is skipped."""
    count, at = read_uvarint(buffer, at)
    budget.limits.check_tagged_fields(count)
    unknown_bytes = 0
    for _ in range(count):
        tag, at, end = _tag(buffer, at)
        if tag in tagged:
            name, part = tagged[tag]
            if part.in_steps is None:
                values[name], after = part.read(buffer, at)
            else:
                values[name], after = yield from part.in_steps(buffer, at, budget)
            _check_fills(name, after, at, end)
        else:
            unknown_bytes += end - at
        at = end
    budget.limits.check_tagged_bytes(unknown_bytes)
    return at


def _tag(buffer: Buffer, at: int) -> tuple[int, int, int]:
    """Return a tag, and where its content begins and ends."""
    tag, at = read_uvarint(buffer, at)
    size, at = read_uvarint(buffer, at)
    return tag, at, end_of(buffer, at, size)


def _check_fills(name: str, after: int, begin: int, end: int) -> None:
    if after != end:
        raise ProtocolError("malformed", f"{name} does not fill the {end - begin} bytes of its tagged field")


def _field(field: Any, hint: Any, flexible: bool) -> Part:
    inner, nullable = without_none(hint)
    if get_origin(inner) is tuple:
        item, item_nullable = without_none(get_args(inner)[0])
        part = _entity(item) if is_struct(item) else _value(field, flexible, item_nullable)
        return _array(field.name, part, flexible, nullable)
    if is_struct(inner):
        part = _entity(inner)
        return _nullable_struct(part) if nullable else part
    return _value(field, flexible, nullable)


def _value(field: Any, flexible: bool, nullable: bool) -> Part:
    part = primitive(field, flexible)
    return part if nullable or part.layout is not None else Part(_not_null(part.read, field.name), part.least)


def _nullable_struct(struct: Part) -> Part:
    """Return the reader of a struct that may be null: a byte before it tells whether it is present (KIP-893)."""
    in_steps = struct.in_steps
    assert in_steps is not None

    def read_nullable(buffer: Buffer, at: int) -> tuple[Any, int]:
        (marker,) = unpack(_INT8, buffer, at)
        return (None, at + 1) if marker < 0 else struct.read(buffer, at + 1)

    def read_nullable_in_steps(buffer: Buffer, at: int, budget: ItemBudget) -> Steps[tuple[Any, int]]:
        (marker,) = unpack(_INT8, buffer, at)
        return (None, at + 1) if marker < 0 else (yield from in_steps(buffer, at + 1, budget))

    return Part(read_nullable, 1, in_steps=read_nullable_in_steps)


def _not_null(read: Read, name: str) -> Read:
    def read_value(buffer: Buffer, at: int) -> tuple[Any, int]:
        value, at = read(buffer, at)
        if value is None:
            raise ProtocolError("malformed", f"{name} is null")
        return value, at

    return read_value


def _array(name: str, item: Part, flexible: bool, nullable: bool) -> Part:
    letter = None if item.layout is None else item.layout.format[1:]
    items_in_steps = _items_in_steps(item)

    def length(buffer: Buffer, at: int) -> tuple[int, int]:
        count, at = compact_length(buffer, at) if flexible else int_length(buffer, at)
        if count < 0 and not nullable:
            raise ProtocolError("malformed", f"{name} is null")
        if count * item.least > len(buffer) - at:
            raise ProtocolError(
                "truncated", f"the message announces {count} {name}, but only {len(buffer) - at} bytes are left"
            )
        return count, at

    def read(buffer: Buffer, at: int) -> tuple[tuple[Any, ...] | None, int]:
        count, at = length(buffer, at)
        if count < 0:
            return None, at
        if letter is not None:
            return unpack_from(f">{count}{letter}", buffer, at), at + count * item.least
        items = []
        for _ in range(count):
            value, at = item.read(buffer, at)
            items.append(value)
        return tuple(items), at

    def read_in_steps(buffer: Buffer, at: int, budget: ItemBudget) -> Steps[tuple[tuple[Any, ...] | None, int]]:
        count, at = length(buffer, at)
        if count < 0:
            return None, at
        budget.take(count)
        if letter is not None:
            yield
            return unpack_from(f">{count}{letter}", buffer, at), at + count * item.least
        return (yield from items_in_steps(buffer, at, count, budget))

    return Part(read, 1 if flexible else 4, in_steps=read_in_steps)


def _items_in_steps(item: Part) -> Callable[[Buffer, int, int, ItemBudget], Steps[tuple[tuple[Any, ...], int]]]:
    leaf = item.counted or _uncounted(item)

    def read(buffer: Buffer, at: int, count: int, budget: ItemBudget) -> Steps[tuple[tuple[Any, ...], int]]:
        items = []
        for number in range(count):
            if leaf is None:
                assert item.in_steps is not None
                value, at = yield from item.in_steps(buffer, at, budget)
                yield
            else:
                value, at = leaf(buffer, at, budget)
                if not number % _LEAVES_OF_A_STEP:
                    yield
            items.append(value)
        return tuple(items), at

    return read


def _uncounted(item: Part) -> Callable[[Buffer, int, ItemBudget], tuple[Any, int]] | None:
    """Return a reader for short values without anything to count, such as texts; None for a struct with arrays."""
    if item.in_steps is not None:
        return None
    read = item.read
    return lambda buffer, at, _: read(buffer, at)
