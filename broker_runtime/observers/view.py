"""What observers are shown of a message: its fields by Kafka's names, read from its bytes when asked for. Pure.

    for topic in struct.get_array("topic_data"):
        for partition in topic.partition_data:
            count(topic.name, partition.records.size)

Who looks at three fields pays for three fields, and for walking over those before them. A view is valid during the call
that it was given to, and cannot be written.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from struct import Struct as Packed
from typing import Any, NoReturn, Protocol, overload
from uuid import UUID

from broker_runtime.observers.source import Source
from broker_runtime.wire.primitives import Buffer, end_of, unpack
from broker_runtime.wire.uuids import encode_uuid

_MILLISECONDS = {4: Packed(">i"), 8: Packed(">q")}
_BATCH_LENGTH = Packed(">i")
_BATCH_OVERHEAD_BYTES, _LENGTH_AT, _MAGIC_AT, _ATTRIBUTES_AT, _COUNT_AT = 12, 8, 16, 21, 57
_BATCH_HEADER_BYTES = 61
_MAGIC = 2
_COMPRESSION_MASK = 0x07


class UnknownFieldError(AttributeError, LookupError):
    """A message of this version has no field of that name; the text says which it has."""


class ReadOnlyError(AttributeError, TypeError):
    """Somebody tried to write to a message."""


class FieldLayout(Protocol):
    """One kind of field: how to show it, and how to get behind it; `size` is None where it varies."""

    @property
    def size(self) -> int | None: ...

    def show(self, source: Source, at: int, /) -> Any: ...

    def after(self, source: Source, at: int, shown: Any, /) -> int:
        """`shown` is what `show` has returned, None where it was not asked."""
        ...


@dataclass(frozen=True, slots=True)
class Place:
    """Of one field in its struct: the number of fields before it, or its tag; `default` is for a tag that is absent."""

    name: str
    layout: FieldLayout
    number: int = -1
    tag: int = -1
    default: Any = None
    time_bytes: int = 0
    """Of a time, in milliseconds: how many bytes that number has."""


class StructShape(Protocol):
    """The fields of one struct of one version, see `layout.StructLayout`."""

    name: str
    version: int
    flexible: bool
    least: int
    plain: list[FieldLayout]
    fixed: list[int]
    places: dict[str, Place]
    size: int | None
    view_class: "type[Struct]"

    def after_tags(self, buffer: Buffer, at: int, found: dict[int, int] | None, /) -> int: ...


class _Walk:
    """How far one struct has been looked at: where its fields begin, as far as that is known."""

    __slots__ = ("at", "end", "shape", "shown", "source", "starts", "tags")

    def __init__(self, shape: StructShape, source: Source, at: int) -> None:
        self.shape = shape
        self.source = source
        self.at = at
        self.starts: list[int] | None = None
        """Of the fields behind those whose place is fixed, and of the first of them."""
        self.shown: dict[int, Any] = {}
        """Arrays and structs that were asked for, which know how far they have been walked themselves."""
        self.tags: dict[int, int] | None = None
        self.end = -1

    def start(self, number: int) -> int:
        """Where the field with so many before it begins, or the part behind the last one."""
        shape = self.shape
        fixed = shape.fixed
        if number < len(fixed):
            return self.at + fixed[number]
        starts = self.starts
        first = len(fixed) - 1
        if starts is None:
            starts = self.starts = [self.at + fixed[first]]
        while first + len(starts) <= number:
            behind = first + len(starts) - 1
            starts.append(shape.plain[behind].after(self.source, starts[-1], self.shown.get(behind)))
        return starts[number - first]

    def value(self, place: Place) -> Any:
        source = self.source
        if source.buffer is None:
            source.bytes()
        number = place.number
        if number < 0:
            return self._tagged(place)
        shown = self.shown.get(number)
        if shown is None:
            shown = place.layout.show(source, self.start(number))
            if isinstance(shown, Array | Struct):
                self.shown[number] = shown
        return shown

    def _tagged(self, place: Place) -> Any:
        at = self._tag_at(place)
        return place.default if at is None else place.layout.show(self.source, at)

    def _tag_at(self, place: Place) -> int | None:
        if self.tags is None:
            self.end_of_fields()
        assert self.tags is not None
        return self.tags.get(place.tag)

    def milliseconds(self, place: Place) -> Any:
        """Of a time: the number that stands there."""
        at = self.start(place.number) if place.number >= 0 else self._tag_at(place)
        if at is None:
            return place.default
        return unpack(_MILLISECONDS[place.time_bytes], self.source.bytes(), at)[0]

    def end_of_fields(self) -> int:
        """Where the struct ends."""
        if self.end < 0:
            shape = self.shape
            at = self.start(len(shape.plain))
            self.tags = {}
            self.end = shape.after_tags(self.source.bytes(), at, self.tags) if shape.flexible else at
        return self.end


class Struct:
    """A message, or a struct within one. Fields are attributes, too: `struct.acks` is `struct.get("acks")`.

    Times are timedelta or datetime under kio's name (`timeout`), and numbers under Kafka's (`timeout_ms`). Raises
    UnknownFieldError, OutlivedError, ReadOnlyError; and ProtocolError where the bytes are no such message.
    """

    __slots__ = ("_walk",)
    _walk: _Walk

    def __init__(self, shape: StructShape, source: Source, at: int) -> None:
        _set_walk(self, _Walk(shape, source, at))

    def get(self, name: str) -> Any:
        """The value of a field."""
        if name not in self.fields and name.removesuffix("_ms") not in self.fields:
            self.__getattr__(name)
        return getattr(self, name)

    def get_array(self, name: str) -> "Array":
        """An array of structs; an empty one where it is null."""
        found = getattr(self, name)
        if found is None:
            walk = self._walk
            return Array(walk.shape, walk.source, walk.at, 0)
        if not isinstance(found, Array):
            raise UnknownFieldError(f"{self._title()}: {name} is no array of structs; ask for it by get({name!r})")
        return found

    def get_records(self, name: str = "records") -> "Records | None":
        found = getattr(self, name)
        if found is not None and not isinstance(found, Records):
            raise UnknownFieldError(f"{self._title()}: {name} is not of records; ask for it by get({name!r})")
        return found

    @property
    def fields(self) -> tuple[str, ...]:
        """Names of the fields that a message of this version has."""
        return tuple(self._walk.shape.places)

    @property
    def context(self) -> Any:
        """Who has sent the message and how, see `context.RequestContext`."""
        source = self._walk.source
        source.bytes()
        return source.context

    def to_dict(self) -> dict[str, Any]:
        """All of it in plain values: times in ms under Kafka's names, ids as text, records as their size and count.

        This pays for every field.
        """
        found = {}
        for name, place in self._walk.shape.places.items():
            if place.time_bytes:
                found[name + "_ms"] = getattr(self, name + "_ms")
            else:
                found[name] = _plain(getattr(self, name))
        self._walk.end_of_fields()
        return found

    def _title(self) -> str:
        return f"{self._walk.shape.name} version {self._walk.shape.version}"

    def __getattr__(self, name: str) -> Any:
        raise UnknownFieldError(f"{self._title()} has no field {name!r}; it has {', '.join(self.fields)}")

    def __setattr__(self, name: str, value: object) -> NoReturn:
        del value
        raise ReadOnlyError(f"{name} cannot be set: observers see messages, and change none")

    def __delattr__(self, name: str) -> NoReturn:
        raise ReadOnlyError(f"{name} cannot be deleted: observers see messages, and change none")

    def __repr__(self) -> str:
        return f"<{self._title()}: {', '.join(self.fields)}>"


_set_walk: Any = Struct.__dict__["_walk"].__set__


def end_of_struct(struct: Struct) -> int:
    """Where its bytes end."""
    return struct._walk.end_of_fields()


def _value_property(place: Place) -> property:
    return property(lambda struct: struct._walk.value(place))


def _milliseconds_property(place: Place) -> property:
    return property(lambda struct: struct._walk.milliseconds(place))


def struct_class(name: str, places: Mapping[str, Place]) -> type[Struct]:
    """A class with an attribute for each field: the quickest way there is to have them."""
    attributes: dict[str, Any] = {"__slots__": (), "__doc__": Struct.__doc__}
    for place in places.values():
        attributes[place.name] = _value_property(place)
        if place.time_bytes:
            attributes[place.name + "_ms"] = _milliseconds_property(place)
    clash = attributes.keys() & vars(Struct).keys() - {"__slots__", "__doc__"}
    if clash:
        raise TypeError(f"{name} has fields that views have another use for: {', '.join(sorted(clash))}")
    return type(name, (Struct,), attributes)


class Array(Sequence[Struct]):
    """Structs one after the other. Whoever goes on to the next one has the one before walked to its end."""

    __slots__ = ("_at", "_count", "_items", "_shape", "_source")

    def __init__(self, shape: StructShape, source: Source, at: int, count: int) -> None:
        self._shape = shape
        self._source = source
        self._at = at
        self._count = count
        self._items: list[Struct] = []

    def __len__(self) -> int:
        self._source.bytes()
        return self._count

    def __iter__(self) -> Iterator[Struct]:
        for number in range(self._count):
            yield self._item(number)

    @overload
    def __getitem__(self, number: int, /) -> Struct: ...

    @overload
    def __getitem__(self, number: slice, /) -> list[Struct]: ...

    def __getitem__(self, number: int | slice, /) -> Struct | list[Struct]:
        if isinstance(number, slice):
            return [self._item(each) for each in range(*number.indices(self._count))]
        if not -self._count <= number < self._count:
            raise IndexError(f"there are {self._count} {self._shape.name}, and none is number {number}")
        return self._item(number % self._count)

    def _item(self, number: int) -> Struct:
        items, shape, source = self._items, self._shape, self._source
        source.bytes()
        while len(items) <= number:
            at = items[-1]._walk.end_of_fields() if items else self._at
            items.append(shape.view_class(shape, source, at))
        return items[number]

    def end_of_items(self) -> int:
        """Where the bytes of the last one end."""
        if not self._count:
            return self._at
        if self._shape.size is not None:
            return end_of(self._source.bytes(), self._at, self._count * self._shape.size)
        return self._item(self._count - 1)._walk.end_of_fields()

    def __repr__(self) -> str:
        return f"<{self._count} {self._shape.name}>"


class Records:
    """The records of one partition, of which only the headers of their batches are ever looked at.

    Those that are sent straight from a file (`from_file`) are not read for an observer: of them there is the size only.
    """

    __slots__ = ("_at", "_region", "_size", "_source")

    def __init__(self, source: Source, at: int, size: int) -> None:
        self._source = source
        self._at = at
        self._size = size
        self._region = source.regions is not None and at in source.regions
        if not self._region:
            end_of(source.bytes(), at, size)

    @property
    def size(self) -> int:
        """In bytes."""
        self._source.bytes()
        return self._size

    @property
    def from_file(self) -> bool:
        self._source.bytes()
        return self._region

    @property
    def count(self) -> int | None:
        """How many records there are, as the headers of the batches say; None where that is not known: from a file, or
        of a format older than 2.
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
        """Whether the first batch is; None where that is not known."""
        buffer = self._source.bytes()
        if self._region:
            return None
        return any(buffer[at + _ATTRIBUTES_AT + 1] & _COMPRESSION_MASK for at in self._batches(buffer))

    def _batches(self, buffer: Buffer) -> Iterator[int]:
        """Where each whole batch begins."""
        at, end = self._at, self._at + self._size
        while at + _BATCH_HEADER_BYTES <= end:
            length = _BATCH_LENGTH.unpack_from(buffer, at + _LENGTH_AT)[0] + _BATCH_OVERHEAD_BYTES
            if length < _BATCH_HEADER_BYTES or at + length > end:
                return
            yield at
            at += length

    def to_bytes(self) -> bytes:
        """A copy; empty where they are in a file."""
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
