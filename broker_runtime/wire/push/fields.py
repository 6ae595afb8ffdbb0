"""The parts of push protocol messages: numbers, texts with a 16-bit length, lists, structs. Pure.

Nothing is nullable, and nothing has versions. Each text and each list has a limit of its own. Reading raises
ProtocolError for a frame that is cut short, and UnfitError for a value beyond its limit. Writing raises ValueError for
such a value.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from struct import Struct
from typing import Any, Generic, TypeVar

from broker_runtime.errors import ProtocolError
from broker_runtime.slicing.steps import Steps, at_once
from broker_runtime.wire.reader import RequestReader

T = TypeVar("T")
COUNT_MAX = 0x7FFF
"""Limit of the items of a list: their number has 16 bits."""
TEXT_BYTES_MAX = 0x7FFF
"""Limit of the bytes of a text: its length has 16 bits."""
_SHORT = Struct(">h")
_ITEMS_OF_A_STEP = 16
"""Items of a list that are read between two breaks: some tens of microseconds."""


class UnfitError(ProtocolError):
    """A value is beyond its limit. It was skipped, so the fields after it can be read."""

    def __init__(self, text: str, field: str = "") -> None:
        """`field` is the message's field, which is known once the message was read to its end."""
        super().__init__("malformed", text)
        self.field = field


@dataclass(frozen=True, slots=True)
class Field(Generic[T]):
    """One kind of value. `kind` is its name on the page about the protocol."""

    kind: str
    read: Callable[[RequestReader], T]
    write: Callable[[T], bytes]
    parts: tuple["Field[Any]", ...] = ()
    """The fields of a struct, or the item of a list."""
    names: tuple[str, ...] = ()
    """The names of a struct's fields."""
    in_steps: Callable[[RequestReader], Steps[T]] | None = None
    """Reads a list with breaks; None for short values."""


def _number(kind: str, layout: Struct) -> Field[int]:
    return Field(kind, lambda reader: reader.fixed(layout)[0], layout.pack)


INT16 = _number("int16", _SHORT)
INT32 = _number("int32", Struct(">i"))
INT64 = _number("int64", Struct(">q"))


def _read_boolean(reader: RequestReader) -> bool:
    value = reader.view(1)[0]
    if value not in (0, 1):
        raise UnfitError(f"a boolean must be 0 or 1, not {value}")
    return value == 1


BOOLEAN = Field("boolean", _read_boolean, lambda value: b"\x01" if value else b"\x00")


def text(bytes_max: int = TEXT_BYTES_MAX) -> Field[str]:
    """Return a field for a UTF-8 text of at most `bytes_max` bytes."""

    def read(reader: RequestReader) -> str:
        (length,) = reader.fixed(_SHORT)
        if length < 0:
            raise ProtocolError("malformed", f"a text announces {length} bytes")
        raw = reader.view(length)
        if length > bytes_max:
            raise UnfitError(f"a text has {length} bytes; at most {bytes_max} are allowed")
        try:
            return str(raw, "utf-8")
        except UnicodeDecodeError:
            raise ProtocolError("malformed", "a text is not UTF-8") from None

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

    def read(reader: RequestReader) -> T:
        return message(*[field.read(reader) for field in fields])

    def write(value: Any) -> bytes:
        return b"".join([field.write(part) for field, part in zip(fields, value, strict=True)])

    return Field(name, read, write, fields, names)


def array(item: Field[T]) -> Field[tuple[T, ...]]:
    """Return a field for a list, preceded by its number of items as an int16."""

    def read_in_steps(reader: RequestReader) -> Steps[tuple[T, ...]]:
        (count,) = reader.fixed(_SHORT)
        if not 0 <= count <= reader.left:
            raise ProtocolError("malformed", f"a list announces {count} items, but only {reader.left} bytes are left")
        items: list[T] = []
        for number in range(1, count + 1):
            items.append(item.read(reader))
            if number % _ITEMS_OF_A_STEP == 0:
                yield
        return tuple(items)

    def write(values: Sequence[T]) -> bytes:
        if len(values) > COUNT_MAX:
            raise ValueError(f"a list has {len(values)} items; at most {COUNT_MAX} are allowed")
        return _SHORT.pack(len(values)) + b"".join([item.write(value) for value in values])

    return Field(
        f"list of {item.kind}",
        lambda reader: at_once(read_in_steps(reader)),
        write,
        (item,),
        in_steps=read_in_steps,
    )


def last(field: Field[T]) -> Field[T | None]:
    """Return the last field of a message, which may be missing: None then."""

    def read_in_steps(reader: RequestReader) -> Steps[T | None]:
        if not reader.left:
            return None
        return field.read(reader) if field.in_steps is None else (yield from field.in_steps(reader))

    return Field(
        f"{field.kind}, or nothing",
        lambda reader: field.read(reader) if reader.left else None,
        lambda value: b"" if value is None else field.write(value),
        (field,),
        in_steps=read_in_steps,
    )
