"""The view of a message for observers: its fields by Kafka's names, read from its bytes on access. Pure.

    for topic in struct.get_array("topic_data"):
        for partition in topic.partition_data:
            count(topic.get_topic(), partition.records.size)

Reading three fields costs three fields, and walking over those before them. A view is valid during the call that it was
passed to, and cannot be written.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from struct import Struct as Packed
from typing import Any, ClassVar, NoReturn, Protocol, overload
from uuid import UUID

from broker_runtime.observers.context import RequestContext
from broker_runtime.observers.source import MessageSource
from broker_runtime.wire.encoding.primitives import Buffer, end_of, unpack
from kafka_bytes.uuids import encode_uuid

_MILLISECONDS = {4: Packed(">i"), 8: Packed(">q")}
_BATCH_LENGTH = Packed(">i")
_BATCH_OVERHEAD_BYTES, _LENGTH_AT, _MAGIC_AT, _ATTRIBUTES_AT, _COUNT_AT = 12, 8, 16, 21, 57
_BATCH_HEADER_BYTES = 61
_MAGIC = 2
_COMPRESSION_MASK = 0x07
_TOPIC_FIELDS, _TOPIC_ID = ("name", "topic"), "topic_id"


class UnknownFieldError(AttributeError, LookupError):
    """Error for a field that a message of this version does not have. The error's message lists the fields."""


class ReadOnlyError(AttributeError, TypeError):
    """Error for an observer's attempt to write to a message."""


class FieldLayout(Protocol):
    """One kind of field of a message, with the way to show it and to find its end.

    `size` is None for a kind of varying size.
    """

    @property
    def size(self) -> int | None: ...

    @property
    def is_view(self) -> bool:
        """Return whether the field shows a view, which must be the same object on each access."""
        ...

    def show(self, source: MessageSource, at: int, /) -> Any: ...

    def after(self, source: MessageSource, at: int, shown: Any, /) -> int:
        """Return the position of the end of the field. `shown` is the result of `show`, None if it was not called."""
        ...


@dataclass(frozen=True, slots=True)
class Place:
    """The place of a field in its struct: the number of fields before it, or its tag.

    `default` is the value for an absent tag.
    """

    name: str
    layout: FieldLayout
    number: int = -1
    tag: int = -1
    default: Any = None
    time_bytes: int = 0
    """Size of a time, which is a number of milliseconds, in bytes; 0 for any other field."""


class StructShape(Protocol):
    """The fields of one struct of one version. Implemented by `layout.StructLayout`."""

    name: str
    version: int
    flexible: bool
    least: int
    plain: list[FieldLayout]
    varying: list[tuple[int, FieldLayout, int]]
    places_of: list[tuple[int, int]]
    places: dict[str, Place]
    size: int | None
    view_class: "type[Struct]"

    def after_tags(self, buffer: Buffer, at: int, found: dict[int, int], /) -> int: ...


class _Walk:
    """The progress of walking one struct."""

    __slots__ = ("end", "ends", "shown", "tags")

    def __init__(self) -> None:
        self.ends: list[int] = []
        """Ends of the fields of variable size, as far as they are known."""
        self.shown: dict[int, Any] = {}
        """Arrays and structs that were accessed; each knows how far it has been walked itself."""
        self.tags: dict[int, int] | None = None
        self.end = -1


class Struct:
    """A message, or a struct within one. Fields are attributes, too: `struct.acks` is `struct.get("acks")`.

    Times are timedelta or datetime under kio's name (`timeout`), and numbers under Kafka's (`timeout_ms`). Raises
    UnknownFieldError, OutlivedError, ReadOnlyError; and ProtocolError if the bytes are not such a message.
    """

    __slots__ = ("_at", "_source", "_walk")
    _shape: ClassVar[StructShape]
    _at: int
    _source: MessageSource
    _walk: _Walk | None

    def __init__(self, source: MessageSource, at: int) -> None:
        _set_source(self, source)
        _set_at(self, at)
        _set_walk(self, None)

    def get(self, name: str) -> Any:
        """Return the value of a field of the message."""
        if name not in self.fields and name.removesuffix("_ms") not in self.fields:
            self.__getattr__(name)
        return getattr(self, name)

    def get_array(self, name: str) -> "Array":
        """Return an array of structs, empty if it is null."""
        found = getattr(self, name)
        if found is None:
            return Array(self._shape, self._source, self._at, 0)
        if not isinstance(found, Array):
            raise UnknownFieldError(f"{self._title()}: {name} is not an array of structs; read it by get({name!r})")
        return found

    def get_records(self, name: str = "records") -> "Records | None":
        found = getattr(self, name)
        if found is not None and not isinstance(found, Records):
            raise UnknownFieldError(f"{self._title()}: {name} does not contain records; read it by get({name!r})")
        return found

    def get_topic(self) -> str | None:
        """Return the name of the topic that this struct is about, even if a newer version has its ID instead.

        None if this broker does not know the ID.
        """
        for name in _TOPIC_FIELDS:
            if name in self._shape.places and (found := getattr(self, name)) is not None:
                return str(found)
        return self.context.topic_name(self.get(_TOPIC_ID))

    @property
    def fields(self) -> tuple[str, ...]:
        """Return the names of the fields that a message of this version has."""
        return tuple(self._shape.places)

    @property
    def context(self) -> RequestContext:
        """Return the sender of the message, and further facts about the message."""
        self._source.bytes()
        return RequestContext(self._source)

    def to_dict(self) -> dict[str, Any]:
        """Return all fields of the message as plain values.

        These are times in ms under Kafka's names, IDs as text, and records as size and count. This reads every field.
        """
        found = {}
        for name, place in self._shape.places.items():
            if place.time_bytes:
                found[name + "_ms"] = getattr(self, name + "_ms")
            else:
                found[name] = _plain(getattr(self, name))
        end_of_struct(self)
        return found

    def _title(self) -> str:
        return f"{self._shape.name} version {self._shape.version}"

    def __getattr__(self, name: str) -> Any:
        raise UnknownFieldError(f"{self._title()} has no field {name!r}; its fields are {', '.join(self.fields)}")

    def __setattr__(self, name: str, value: object) -> NoReturn:
        del value
        raise ReadOnlyError(f"{name} cannot be set: observers may not change messages")

    def __delattr__(self, name: str) -> NoReturn:
        raise ReadOnlyError(f"{name} cannot be deleted: observers may not change messages")

    def __repr__(self) -> str:
        return f"<{self._title()}: {', '.join(self.fields)}>"


_set_source: Any = Struct.__dict__["_source"].__set__
_set_at: Any = Struct.__dict__["_at"].__set__
_set_walk: Any = Struct.__dict__["_walk"].__set__


def _walked(struct: Struct) -> _Walk:
    walk = struct._walk
    if walk is None:
        walk = _Walk()
        _set_walk(struct, walk)
    return walk


def _start(struct: Struct, number: int) -> int:
    """Return the position at which this field begins, or at which the part after the last plain field begins."""
    shape = struct._shape
    count, behind = shape.places_of[number]
    if not count:
        return struct._at + behind
    walk = struct._walk or _walked(struct)
    ends = walk.ends
    while len(ends) < count:
        known = len(ends)
        which, layout, gap = shape.varying[known]
        begins = ends[-1] if known else struct._at
        ends.append(layout.after(struct._source, begins + gap, walk.shown.get(which)))
    return ends[count - 1] + behind


def end_of_struct(struct: Struct) -> int:
    """Return the position of the end of the struct."""
    walk = _walked(struct)
    if walk.end < 0:
        shape = struct._shape
        at = _start(struct, len(shape.plain))
        walk.tags = {}
        buffer = struct._source.bytes()
        walk.end = shape.after_tags(buffer, at, walk.tags) if shape.flexible else end_of(buffer, at, 0)
    return walk.end


def _tag_start(struct: Struct, place: Place) -> int | None:
    end_of_struct(struct)
    tags = _walked(struct).tags
    return None if tags is None else tags.get(place.tag)


def _plain_property(place: Place, offset: int) -> property:
    """Property of a field at a fixed offset that is not a view."""
    show = place.layout.show
    return property(lambda struct: show(struct._source, struct._at + offset))


def _value_property(place: Place) -> property:
    number, show, is_view = place.number, place.layout.show, place.layout.is_view

    def value(struct: Struct) -> Any:
        source = struct._source
        walk = struct._walk or _walked(struct)
        shown = walk.shown.get(number)
        if shown is None or source.buffer is None:
            shown = show(source, _start(struct, number))
            if is_view:
                walk.shown[number] = shown
        return shown

    return property(value)


def _tagged_property(place: Place) -> property:
    def value(struct: Struct) -> Any:
        at = _tag_start(struct, place)
        return place.default if at is None else place.layout.show(struct._source, at)

    return property(value)


def _milliseconds_property(place: Place) -> property:
    """Property of a time field: its number of milliseconds."""
    packed = _MILLISECONDS[place.time_bytes]

    def milliseconds(struct: Struct) -> Any:
        at = _start(struct, place.number) if place.number >= 0 else _tag_start(struct, place)
        return place.default if at is None else unpack(packed, struct._source.bytes(), at)[0]

    return property(milliseconds)


def struct_class(shape: StructShape) -> type[Struct]:
    """Create a class of structs with an attribute for each field: the fastest way to access them."""
    attributes: dict[str, Any] = {"__slots__": (), "__doc__": Struct.__doc__, "_shape": shape}
    for place in shape.places.values():
        if place.number < 0:
            attributes[place.name] = _tagged_property(place)
        elif not shape.places_of[place.number][0] and not place.layout.is_view:
            attributes[place.name] = _plain_property(place, shape.places_of[place.number][1])
        else:
            attributes[place.name] = _value_property(place)
        if place.time_bytes:
            attributes[place.name + "_ms"] = _milliseconds_property(place)
    clash = attributes.keys() & vars(Struct).keys() - {"__slots__", "__doc__"}
    if clash:
        raise TypeError(f"{shape.name} has fields with names that views use otherwise: {', '.join(sorted(clash))}")
    return type(shape.name, (Struct,), attributes)


class Array(Sequence[Struct]):
    """A sequence of structs in a message. To access an item, the previous item is walked to its end."""

    __slots__ = ("_at", "_count", "_end", "_items", "_shape", "_source")

    def __init__(self, shape: StructShape, source: MessageSource, at: int, count: int) -> None:
        self._shape = shape
        self._source = source
        self._at = at
        self._count = count
        self._end = -1
        self._items: list[Struct] = []

    def __len__(self) -> int:
        self._source.bytes()
        return self._count

    def __iter__(self) -> Iterator[Struct]:
        items, source, make = self._items, self._source, self._shape.view_class
        for number in range(self._count):
            if number >= len(items):
                source.bytes()
                items.append(make(source, end_of_struct(items[-1]) if items else self._at))
            yield items[number]

    def passing(self) -> Iterator[Struct]:
        """Yield each item once and keep none, which suits arrays of thousands."""
        source, make, at = self._source, self._shape.view_class, self._at
        for _ in range(self._count):
            source.bytes()
            item = make(source, at)
            yield item
            at = end_of_struct(item)
        self._end = at

    @overload
    def __getitem__(self, number: int, /) -> Struct: ...

    @overload
    def __getitem__(self, number: slice, /) -> list[Struct]: ...

    def __getitem__(self, number: int | slice, /) -> Struct | list[Struct]:
        if isinstance(number, slice):
            return [self._item(each) for each in range(*number.indices(self._count))]
        if not -self._count <= number < self._count:
            raise IndexError(f"index {number} is out of range: there are {self._count} {self._shape.name}")
        return self._item(number % self._count)

    def _item(self, number: int) -> Struct:
        items, source = self._items, self._source
        source.bytes()
        while len(items) <= number:
            items.append(self._shape.view_class(source, end_of_struct(items[-1]) if items else self._at))
        return items[number]

    def end_of_items(self) -> int:
        """Return the position of the end of the last item."""
        if not self._count:
            return self._at
        if self._end >= 0:
            return self._end
        if self._shape.size is not None:
            return end_of(self._source.bytes(), self._at, self._count * self._shape.size)
        return end_of_struct(self._item(self._count - 1))

    def __repr__(self) -> str:
        return f"<{self._count} {self._shape.name}>"


class Records:
    """The records of one partition. Only the headers of their batches are ever read.

    Records that are sent straight from a file (`from_file`) are not read for an observer: only their size is known.
    """

    __slots__ = ("_at", "_region", "_size", "_source")

    def __init__(self, source: MessageSource, at: int, size: int) -> None:
        self._source = source
        self._at = at
        self._size = size
        self._region = source.regions is not None and at in source.regions
        if not self._region:
            end_of(source.bytes(), at, size)

    @property
    def size(self) -> int:
        """Return the size of the records in bytes."""
        self._source.bytes()
        return self._size

    @property
    def from_file(self) -> bool:
        self._source.bytes()
        return self._region

    @property
    def count(self) -> int | None:
        """Return the number of records according to the headers of the batches.

        None if it is unknown: the records are sent from a file, or have a format older than 2.
        """
        buffer, total = self._source.bytes(), 0
        if self._region:
            return None
        for at in self._batches(buffer):
            if buffer[at + _MAGIC_AT] != _MAGIC:
                return None
            total += _BATCH_LENGTH.unpack_from(buffer, at + _COUNT_AT)[0]
        return total

    @property
    def compressed(self) -> bool | None:
        """Return whether any batch of the records is compressed.

        None if it is unknown, because a batch has an old format or is only in a file.
        """
        buffer, codecs = self._source.bytes(), 0
        if self._region:
            return None
        for at in self._batches(buffer):
            if buffer[at + _MAGIC_AT] != _MAGIC:
                return None
            codecs |= buffer[at + _ATTRIBUTES_AT + 1] & _COMPRESSION_MASK
        return codecs != 0

    def _batches(self, buffer: Buffer) -> Iterator[int]:
        """Yield the position of each complete batch."""
        at, end = self._at, self._at + self._size
        while at + _BATCH_HEADER_BYTES <= end:
            length = _BATCH_LENGTH.unpack_from(buffer, at + _LENGTH_AT)[0] + _BATCH_OVERHEAD_BYTES
            if length < _BATCH_HEADER_BYTES or at + length > end:
                return
            yield at
            at += length

    def to_bytes(self) -> bytes:
        """Return a copy of the bytes of the records; empty if they are in a file."""
        buffer = self._source.bytes()
        return b"" if self._region else bytes(buffer[self._at : self._at + self._size])

    def __repr__(self) -> str:
        return f"<records of {self._size} bytes>"


def _plain(value: Any) -> Any:
    if isinstance(value, Struct):
        return value.to_dict()
    if isinstance(value, Array):
        return [item.to_dict() for item in value]
    if isinstance(value, Records):
        return {"size": value.size, "count": value.count}
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if isinstance(value, UUID):
        return encode_uuid(value)
    return value
