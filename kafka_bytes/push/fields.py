"""The parts of push protocol messages: numbers, texts with a 16-bit length, lists, structs. Pure.

Nothing is nullable, and nothing has versions. Each text and each list has a limit of its own. Reading raises
FormatError for a frame that is cut short, and UnfitError for a value beyond its limit. Writing raises ValueError for
such a value.
"""

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from struct import Struct
from typing import Any, Generic, TypeVar

from kafka_bytes.cursor import Cursor
from kafka_bytes.errors import FormatError

T = TypeVar("T")
Steps = Generator[None, None, T]
"""A generator that returns its result at the end. Its work may be paused at each `yield`."""
COUNT_MAX = 0x7FFF
"""Limit of the items of a list, whose number is written in 16 bits."""
TEXT_BYTES_MAX = 0x7FFF
"""Limit of the bytes of a text, whose length is written in 16 bits."""
_SHORT = Struct(">h")
_ITEMS_OF_A_STEP = 16
"""Items of a list that are read between two breaks: some tens of microseconds."""


class UnfitError(FormatError):
    """A value of a push message is beyond its limit. The value was skipped, so the fields after it can be read."""

    def __init__(self, text: str, field: str = "") -> None:
        """`field` is the message's field, which is known once the message was read to its end."""
        super().__init__(text)
        self.field = field


def at_once(steps: Steps[T]) -> T:
    """Run all steps without a break, and return their result."""
    while True:
        try:
            next(steps)
        except StopIteration as ended:
            result: T = ended.value
            return result


@dataclass(frozen=True, slots=True)
class Field(Generic[T]):
    """A kind of value: its name on the page about the push protocol, and how its bytes are read and written."""

    kind: str
    read: Callable[[Cursor], T]
    write: Callable[[T], bytes]
    parts: tuple["Field[Any]", ...] = ()
    """The fields of a struct, or the item of a list."""
    names: tuple[str, ...] = ()
    """The names of a struct's fields."""
    in_steps: Callable[[Cursor], Steps[T]] | None = None
    """Reads a list with breaks; None for kinds whose values are short."""


def _number(kind: str, layout: Struct) -> Field[int]:
    return Field(kind, lambda cursor: cursor.fixed(layout)[0], layout.pack)


INT16 = _number("int16", _SHORT)
INT32 = _number("int32", Struct(">i"))
INT64 = _number("int64", Struct(">q"))


def _read_boolean(cursor: Cursor) -> bool:
    value = cursor.view(1)[0]
    if value not in (0, 1):
        raise UnfitError(f"a boolean must be 0 or 1, not {value}")
    return value == 1


BOOLEAN = Field("boolean", _read_boolean, lambda value: b"\x01" if value else b"\x00")


def text(bytes_max: int = TEXT_BYTES_MAX) -> Field[str]:
    """Return a field for a UTF-8 text of at most `bytes_max` bytes."""

    def read(cursor: Cursor) -> str:
        (length,) = cursor.fixed(_SHORT)
        if length < 0:
            raise FormatError(f"a text announces {length} bytes")
        if length > bytes_max:
            cursor.view(length)
            raise UnfitError(f"a text has {length} bytes; at most {bytes_max} are allowed")
        return cursor.utf8(length)

    def write(value: str) -> bytes:
        raw = value.encode()
        if len(raw) > bytes_max:
            raise ValueError(f"a text has {len(raw)} bytes; at most {bytes_max} are allowed: {value[:50]!r}")
        return _SHORT.pack(len(raw)) + raw

    return Field("string", read, write)


def struct(message: Callable[..., T], *fields: Field[Any]) -> Field[T]:
    """Return a field for a NamedTuple, whose fields are written in this order."""
    name: str = getattr(message, "__name__", "struct")
    names: tuple[str, ...] = getattr(message, "_fields", ())

    def read(cursor: Cursor) -> T:
        return message(*[field.read(cursor) for field in fields])

    def write(value: Any) -> bytes:
        return b"".join([field.write(part) for field, part in zip(fields, value, strict=True)])

    return Field(name, read, write, fields, names)


def array(item: Field[T]) -> Field[tuple[T, ...]]:
    """Return a field for a list; the number of its items precedes them as an int16."""

    def read_in_steps(cursor: Cursor) -> Steps[tuple[T, ...]]:
        (count,) = cursor.fixed(_SHORT)
        if not 0 <= count <= cursor.left:
            raise FormatError(f"a list announces {count} items, but only {cursor.left} bytes are left")
        items: list[T] = []
        for number in range(1, count + 1):
            items.append(item.read(cursor))
            if number % _ITEMS_OF_A_STEP == 0:
                yield
        return tuple(items)

    def write(values: Sequence[T]) -> bytes:
        if len(values) > COUNT_MAX:
            raise ValueError(f"a list has {len(values)} items; at most {COUNT_MAX} are allowed")
        return _SHORT.pack(len(values)) + b"".join([item.write(value) for value in values])

    return Field(
        f"list of {item.kind}",
        lambda cursor: at_once(read_in_steps(cursor)),
        write,
        (item,),
        in_steps=read_in_steps,
    )


def last(field: Field[T]) -> Field[T | None]:
    """Return the last field of a message, which old senders leave out: its value is None then."""

    def read_in_steps(cursor: Cursor) -> Steps[T | None]:
        if not cursor.left:
            return None
        return field.read(cursor) if field.in_steps is None else (yield from field.in_steps(cursor))

    return Field(
        f"{field.kind}, or nothing",
        lambda cursor: field.read(cursor) if cursor.left else None,
        lambda value: b"" if value is None else field.write(value),
        (field,),
        in_steps=read_in_steps,
    )
