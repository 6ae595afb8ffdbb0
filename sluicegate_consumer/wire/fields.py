"""Numbers, strings and lists in Kafka's encoding before flexible versions, which the push protocol uses, too.

Pure. Reading raises ProtocolError if the data is truncated; writing raises ValueError if a value is too long.
"""

from collections.abc import Callable, Iterable
from struct import Struct
from typing import TypeVar

from kafka_bytes import cursor
from sluicegate_consumer.errors import ProtocolError

T = TypeVar("T")
INT8, INT16, INT32, INT64 = Struct(">b"), Struct(">h"), Struct(">i"), Struct(">q")
INT16_MAX, INT32_MAX = 0x7FFF, 0x7FFFFFFF


class Cursor(cursor.Cursor):
    """Reader of one frame from beginning to end."""

    __slots__ = ()
    truncated = malformed = ProtocolError

    def number(self, layout: Struct) -> int:
        return self.fixed(layout)[0]

    def text(self) -> str:
        found = self.nullable_text()
        if found is None:
            raise ProtocolError("a text is missing")
        return found

    def nullable_text(self) -> str | None:
        length = self.number(INT16)
        if length == -1:
            return None
        return self.utf8(length)

    def items(self, count_layout: Struct, read: Callable[["Cursor"], T]) -> tuple[T, ...]:
        """Read a list, which begins with the count of its items. A null list, which Kafka uses in places, is empty."""
        count = self.number(count_layout)
        if count > self.left:
            raise ProtocolError(f"a list announces {count} items, but only {self.left} bytes are left")
        return tuple([read(self) for _ in range(count)])


def text(value: str) -> bytes:
    raw = value.encode()
    if len(raw) > INT16_MAX:
        raise ValueError(f"a text has {len(raw)} bytes; at most {INT16_MAX} are allowed: {value[:50]!r}")
    return INT16.pack(len(raw)) + raw


def items(count_layout: Struct, parts: Iterable[bytes]) -> bytes:
    """Encode a list of already encoded items, preceded by their number."""
    listed = list(parts)
    if len(listed) > (INT16_MAX if count_layout is INT16 else INT32_MAX):
        raise ValueError(f"a list of {len(listed)} items is too long")
    return count_layout.pack(len(listed)) + b"".join(listed)
