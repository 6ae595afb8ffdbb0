"""The position of each field in the bytes of a message, computed once for each of kio's classes. Pure.

A field is found by walking over the fields before it, so a message is walked only as far as it is read. Values are
those of `wire.encoding.decode`; arrays of structs, structs and records become views of the same bytes.
"""

from dataclasses import MISSING, fields
from functools import cache
from io import BytesIO
from struct import Struct as Packed
from struct import unpack_from
from typing import Any, get_args, get_origin, get_type_hints

from kio.serial import entity_writer

from broker_runtime.observers.source import MessageSource, compact, counted
from broker_runtime.observers.view import Array, FieldLayout, Place, Records, Struct, end_of_struct, struct_class
from broker_runtime.wire.encoding.primitives import (
    Buffer,
    Part,
    compact_length,
    end_of,
    is_struct,
    primitive,
    unpack,
    without_none,
)
from broker_runtime.wire.encoding.varint import read_uvarint, skip_tagged_fields

_INT8 = Packed(">b")


class PlainField:
    """A field with a primitive value. `size` is None for a value of varying size."""

    __slots__ = ("_length", "_read", "size")

    is_view = False

    def __init__(self, part: Part) -> None:
        self._read = part.read
        self._length = compact if part.length is compact_length else part.length
        self.size = None if part.length is not None else part.least

    def show(self, source: MessageSource, at: int) -> Any:
        return self._read(source.buffer or source.bytes(), at)[0]

    def after(self, source: MessageSource, at: int, shown: Any) -> int:
        del shown
        buffer = source.buffer or source.bytes()
        if self._length is None:
            assert self.size is not None
            return end_of(buffer, at, self.size)
        size, at = self._length(buffer, at)
        if size > 0:
            at += size
        return at if at <= len(buffer) else end_of(buffer, at, 0)


class PlainArray:
    """A field with an array of primitive values, shown as a tuple."""

    __slots__ = ("_flexible", "_item", "_letter", "_part")

    is_view = False
    size = None

    def __init__(self, part: Part, flexible: bool) -> None:
        self._part = part
        self._item = PlainField(part)
        self._flexible = flexible
        self._letter = None if part.layout is None else part.layout.format[1:]

    def show(self, source: MessageSource, at: int) -> tuple[Any, ...] | None:
        buffer = source.bytes()
        count, at = counted(buffer, at, self._flexible, self._part.least)
        if count < 0:
            return None
        if self._letter is not None:
            return unpack_from(f">{count}{self._letter}", buffer, at)
        values = []
        for _ in range(count):
            value, at = self._part.read(buffer, at)
            values.append(value)
        return tuple(values)

    def after(self, source: MessageSource, at: int, shown: Any) -> int:
        del shown
        buffer = source.bytes()
        count, at = counted(buffer, at, self._flexible, self._part.least)
        if self._item.size is not None:
            return end_of(buffer, at, max(count, 0) * self._item.size)
        for _ in range(count):
            at = self._item.after(source, at, None)
        return at


class StructLayout:
    """The fields of one struct of one version.

    The position of a field is known once the ends of all fields of variable size before it are known. `places_of` holds
    their number and the bytes after the last of them, for each field and for the end of the struct. `size` is the size
    of the whole struct, None if the size of any part varies.
    """

    __slots__ = (
        "flexible",
        "least",
        "name",
        "places",
        "places_of",
        "plain",
        "size",
        "varying",
        "version",
        "view_class",
    )

    def __init__(self, kind: Any) -> None:
        self.name: str = kind.__name__
        self.version = int(kind.__version__)
        self.flexible = bool(kind.__flexible__)
        hints = get_type_hints(kind)
        self.plain: list[Any] = []
        self.places: dict[str, Place] = {}
        self.least = int(self.flexible)
        for field in fields(kind):
            layout, least = _field(field, hints[field.name], self.flexible)
            time_bytes = _TIMES.get(field.metadata.get("kafka_type", ""), 0)
            tag = field.metadata.get("tag")
            if tag is None:
                place = Place(field.name, layout, len(self.plain), time_bytes=time_bytes)
                self.plain.append(layout)
                self.least += least
            else:
                default = _default(field, layout, least)
                place = Place(field.name, layout, tag=int(tag), default=default, time_bytes=time_bytes)
            self.places[field.name] = place
        self._arrange()
        self.size = None if self.varying or self.flexible else self.places_of[-1][1]
        self.view_class = struct_class(self)

    def _arrange(self) -> None:
        self.varying: list[tuple[int, FieldLayout, int]] = []
        """Number, layout, and distance from the end of the varying field before it, or from the start of the struct."""
        self.places_of: list[tuple[int, int]] = [(0, 0)]
        for number, layout in enumerate(self.plain):
            count, behind = self.places_of[-1]
            if layout.size is None:
                self.varying.append((number, layout, behind))
                self.places_of.append((count + 1, 0))
            else:
                self.places_of.append((count, behind + layout.size))

    def after(self, source: MessageSource, at: int) -> int:
        """Return the position of the end of a struct, without creating a view."""
        if self.size is not None:
            return end_of(source.bytes(), at, self.size)
        for _, layout, behind in self.varying:
            at = layout.after(source, at + behind, None)
        at += self.places_of[-1][1]
        return skip_tagged_fields(source.bytes(), at) if self.flexible else end_of(source.bytes(), at, 0)

    def after_tags(self, buffer: Buffer, at: int, found: dict[int, int]) -> int:
        """Return the position of the end of the tagged fields, and add the start of each tagged field to `found`."""
        if at < len(buffer) and not buffer[at]:
            return at + 1
        count, at = read_uvarint(buffer, at)
        for _ in range(count):
            tag, at = read_uvarint(buffer, at)
            size, at = read_uvarint(buffer, at)
            found[tag] = at
            at = end_of(buffer, at, size)
        return at


_TIMES = {"timedelta_i32": 4, "timedelta_i64": 8, "datetime_i64": 8}


@cache
def layout_of(kind: Any) -> StructLayout:
    return StructLayout(kind)


class StructArray:
    """A field with an array of structs."""

    __slots__ = ("flexible", "item")

    is_view = True
    size = None

    def __init__(self, item: StructLayout, flexible: bool) -> None:
        self.item = item
        self.flexible = flexible

    def show(self, source: MessageSource, at: int) -> Any:
        count, at = counted(source.bytes(), at, self.flexible, self.item.least)
        return None if count < 0 else Array(self.item, source, at, count)

    def after(self, source: MessageSource, at: int, shown: Any) -> int:
        if isinstance(shown, Array):
            return shown.end_of_items()
        item = self.item
        count, at = counted(source.bytes(), at, self.flexible, item.least)
        if item.size is not None:
            return end_of(source.bytes(), at, max(count, 0) * item.size)
        for _ in range(count):
            at = item.after(source, at)
        return at


class StructField:
    """A field with a struct within a struct.

    A nullable struct begins with a byte that shows whether it is present (KIP-893).
    """

    __slots__ = ("_nullable", "_struct")

    is_view = True
    size = None

    def __init__(self, struct: StructLayout, nullable: bool) -> None:
        self._struct = struct
        self._nullable = nullable

    def show(self, source: MessageSource, at: int) -> Struct | None:
        if self._nullable:
            (marker,) = unpack(_INT8, source.bytes(), at)
            if marker < 0:
                return None
            at += 1
        return self._struct.view_class(source, at)

    def after(self, source: MessageSource, at: int, shown: Any) -> int:
        if isinstance(shown, Struct):
            return end_of_struct(shown)
        if self._nullable:
            (marker,) = unpack(_INT8, source.bytes(), at)
            at += 1
            if marker < 0:
                return at
        return self._struct.after(source, at)


class RecordsField:
    """A field with records.

    They may be a region of a file; then the bytes of the message do not contain them.
    """

    __slots__ = ("_length",)

    is_view = False
    size = None

    def __init__(self, part: Part) -> None:
        assert part.length is not None
        self._length = compact if part.length is compact_length else part.length

    def show(self, source: MessageSource, at: int) -> Records | None:
        size, at = self._length(source.bytes(), at)
        return None if size < 0 else Records(source, at, size)

    def after(self, source: MessageSource, at: int, shown: Any) -> int:
        del shown
        size, at = self._length(source.bytes(), at)
        if source.regions is not None and at in source.regions:
            return at
        return end_of(source.bytes(), at, size) if size > 0 else at


def _field(field: Any, hint: Any, flexible: bool) -> tuple[Any, int]:
    """Return the layout of a field, and its minimum size in bytes."""
    inner, nullable = without_none(hint)
    if get_origin(inner) is tuple:
        item, _ = without_none(get_args(inner)[0])
        least = 1 if flexible else 4
        if is_struct(item):
            return StructArray(layout_of(item), flexible), least
        return PlainArray(primitive(field, flexible), flexible), least
    if is_struct(inner):
        struct = layout_of(inner)
        return StructField(struct, nullable), 1 if nullable else struct.least
    part = primitive(field, flexible)
    if field.metadata["kafka_type"] == "records":
        return RecordsField(part), part.least
    return PlainField(part), part.least


def _default(field: Any, layout: Any, least: int) -> Any:
    """Return the value of an absent tagged field. A struct becomes a view of bytes that stay valid."""
    if field.default is MISSING:
        # kio defines no default for this struct: all its fields are zero.
        return layout.show(MessageSource(bytes(least)), 0)
    if not is_struct(field.default):
        return field.default
    kind: Any = type(field.default)
    buffer = BytesIO()
    entity_writer(kind)(buffer, field.default)
    layout = layout_of(kind)
    return layout.view_class(MessageSource(buffer.getvalue()), 0)


def view_of(kind: Any, source: MessageSource, at: int) -> Struct:
    """Return a view of the message that begins at `at`, of kio's class `kind`."""
    layout = layout_of(kind)
    return layout.view_class(source, at)
