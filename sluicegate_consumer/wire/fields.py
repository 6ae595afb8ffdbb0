"""Numbers, strings and lists in Kafka's encoding before flexible versions, which the push protocol uses, too.

Pure. Reading raises ProtocolError if the data is truncated; writing raises ValueError if a value is too long.
"""

from collections.abc import Callable, Iterable
from struct import Struct, error
from typing import TypeVar

from sluicegate_consumer.errors import ProtocolError

T = TypeVar("T")
INT8, INT16, INT32, INT64 = Struct(">b"), Struct(">h"), Struct(">i"), Struct(">q")
INT16_MAX, INT32_MAX = 0x7FFF, 0x7FFFFFFF


class Cursor:
    """Reads one frame from beginning to end."""

    __slots__ = ("at", "frame")

    def __init__(self, frame: memoryview) -> None:
        self.frame = frame
        self.at = 0

    @property
    def left(self) -> int:
        return len(self.frame) - self.at

    def fixed(self, layout: Struct) -> tuple[int, ...]:
        try:
            found = layout.unpack_from(self.frame, self.at)
        except error:
            raise ProtocolError(f"a message of {len(self.frame)} bytes is cut off") from None
        self.at += layout.size
        return found

    def number(self, layout: Struct) -> int:
        return self.fixed(layout)[0]

    def view(self, length: int) -> memoryview:
        """Return the next bytes without a copy."""
        if not 0 <= length <= self.left:
            raise ProtocolError(f"the message announces {length} bytes, but only {self.left} are left")
        self.at += length
        return self.frame[self.at - length : self.at]

    def text(self) -> str:
        found = self.nullable_text()
        if found is None:
            raise ProtocolError("a text is missing")
        return found

    def nullable_text(self) -> str | None:
        length = self.number(INT16)
        if length == -1:
            return None
        try:
            return str(self.view(length), "utf-8")
        except UnicodeDecodeError:
            raise ProtocolError("a text is not UTF-8") from None

    def items(self, count_layout: Struct, read: Callable[["Cursor"], T]) -> tuple[T, ...]:
        """Read a list, which begins with its count. A null list, which Kafka uses in places, is empty."""
        count = self.number(count_layout)
        if count > self.left:
            raise ProtocolError(f"a list announces {count} items, but only {self.left} bytes are left")
        return tuple([read(self) for _ in range(count)])

    def end(self) -> None:
        if self.left:
            raise ProtocolError(f"{self.left} bytes follow the last field")


def text(value: str) -> bytes:
    raw = value.encode()
    if len(raw) > INT16_MAX:
        raise ValueError(f"a text has {len(raw)} bytes; at most {INT16_MAX} are allowed: {value[:50]!r}")
    return INT16.pack(len(raw)) + raw


def items(count_layout: Struct, parts: Iterable[bytes]) -> bytes:
    """Encode a list of items that are already encoded."""
    listed = list(parts)
    if len(listed) > (INT16_MAX if count_layout is INT16 else INT32_MAX):
        raise ValueError(f"a list of {len(listed)} items is too long")
    return count_layout.pack(len(listed)) + b"".join(listed)


def frame(*parts: bytes) -> bytes:
    """Join parts to a frame with its size, which does not include the size field."""
    body = b"".join(parts)
    return INT32.pack(len(body)) + body
