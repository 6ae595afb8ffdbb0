"""Reads a message from beginning to end, in Kafka's encoding before flexible versions. Pure."""

from collections.abc import Callable
from struct import Struct, error

from kafka_bytes.errors import FormatError, TruncatedError


class Cursor:
    """A frame that is read field by field, and the position `at` of the next field.

    A subclass may raise other errors.
    """

    __slots__ = ("at", "frame")
    truncated: Callable[[str], Exception] = TruncatedError
    malformed: Callable[[str], Exception] = FormatError

    def __init__(self, frame: memoryview) -> None:
        self.frame = frame
        self.at = 0

    @property
    def left(self) -> int:
        """Return the number of bytes of the frame that have not been read."""
        return len(self.frame) - self.at

    def fixed(self, layout: Struct) -> tuple[int, ...]:
        """Read adjacent fields of fixed size at once, and return their values."""
        try:
            found = layout.unpack_from(self.frame, self.at)
        except error:
            raise self.truncated(f"a message of {len(self.frame)} bytes is cut off") from None
        self.at += layout.size
        return found

    def view(self, length: int) -> memoryview:
        """Return the next `length` bytes of the frame without a copy."""
        if not 0 <= length <= self.left:
            raise self.truncated(f"the message announces {length} bytes, but only {self.left} are left")
        self.at += length
        return self.frame[self.at - length : self.at]

    def utf8(self, length: int) -> str:
        raw = self.view(length)
        try:
            return str(raw, "utf-8")
        except UnicodeDecodeError:
            raise self.malformed("a text is not UTF-8") from None

    def end(self) -> None:
        if self.left:
            raise self.malformed(f"{self.left} bytes follow the last field")
