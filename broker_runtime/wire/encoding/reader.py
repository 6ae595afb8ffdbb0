"""Reads the fields of a hot request straight from its frame, flexible or not, without copying record bytes.

Pure. Raises ProtocolError when a field extends past the end: nothing of the request is used then.
"""

from collections.abc import Callable
from functools import lru_cache
from struct import Struct, error
from uuid import UUID

from broker_runtime.errors import ProtocolError
from broker_runtime.wire.encoding.varint import read_uvarint, skip_tagged_fields
from broker_runtime.wire.limits import DEFAULT_LIMITS, READ_TEXT_BYTES_MAX, ItemBudget, RequestLimits, check_text

_INT16 = Struct(">h")
_INT32 = Struct(">i")
_UUIDS_KEPT = 1024


@lru_cache(_UUIDS_KEPT)
def _uuid(raw: bytes) -> UUID:
    """Return a UUID, cached: creating one takes longer than all other work for a topic, and they are few."""
    return UUID(bytes=raw)


class FrameCursor:
    """A frame and the `position` up to which its bytes were read. Callers may go back to an earlier position."""

    __slots__ = ("_frame", "position")

    def __init__(self, frame: memoryview, at: int) -> None:
        self._frame = frame
        self.position = at

    def rest(self) -> bytes:
        """Return a copy of the bytes that have not been read."""
        return bytes(self._frame[self.position :])

    @property
    def left(self) -> int:
        """Return the number of bytes that have not been read."""
        return len(self._frame) - self.position

    def view(self, length: int) -> memoryview:
        """Return the next `length` bytes, which are valid as long as the frame."""
        end = self.position + length
        if end > len(self._frame):
            raise self._cut_short()
        view = self._frame[self.position : end]
        self.position = end
        return view

    def fixed(self, layout: Struct) -> tuple[int, ...]:
        """Read adjacent fixed-size fields at once, and return their values."""
        at = self.position
        try:
            values = layout.unpack_from(self._frame, at)
        except error:
            raise self._cut_short() from None
        self.position = at + layout.size
        return values

    def since(self, position: int) -> bytes:
        """Return a copy of the bytes read since `position`, for a response that begins with the same fields."""
        return bytes(self._frame[position : self.position])

    def uuid(self) -> UUID:
        return _uuid(bytes(self.view(16)))

    def _cut_short(self) -> ProtocolError:
        return ProtocolError("truncated", "the request ends in the middle of its fields")


class RequestReader(FrameCursor):
    """Reader of the fields of one request's body. `flexible` selects compact lengths and tagged fields (KIP-482)."""

    __slots__ = ("flexible", "limits")

    def __init__(self, frame: memoryview, at: int, flexible: bool, limits: RequestLimits = DEFAULT_LIMITS) -> None:
        self._frame = frame
        self.position = at
        self.flexible = flexible
        self.limits = limits

    def kept(self, keep: Callable[[memoryview], memoryview]) -> "RequestReader":
        """Return a reader at the same position of the frame that `keep` returns for this frame."""
        return RequestReader(keep(self._frame), self.position, self.flexible, self.limits)

    @property
    def counts(self) -> int:
        """Return the number of items counted so far, for `go_back`."""
        return 0

    def go_back(self, position: int, counts: int) -> None:
        """Return to an earlier position, and to the number of items counted until then."""
        del counts
        self.position = position

    def counting(self, api_key: int) -> "RequestReader":
        """Return a reader at the same position that checks numbers of items against the limits of this API."""
        return CountingReader(self._frame, self.position, self.flexible, ItemBudget(self.limits, api_key))

    def array_length(self) -> int:
        """Return the number of items of an array that may not be null.

        The number is never more than the bytes that are left.
        """
        count = self._length(_INT32)
        if count < 0:
            raise ProtocolError("malformed", "an array is null")
        if count > len(self._frame) - self.position:
            raise self._cut_short()
        return count

    def nullable_array_length(self) -> int:
        """Return the number of items of an array; -1 for null."""
        count = self._length(_INT32)
        if count > len(self._frame) - self.position:
            raise self._cut_short()
        return count

    def string(self) -> str:
        length = self._length(_INT16)
        if length < 0:
            raise ProtocolError("malformed", "a name is null")
        return self._text(length)

    def nullable_string(self) -> str | None:
        length = self._length(_INT16)
        return None if length < 0 else self._text(length)

    def nullable_bytes(self) -> memoryview | None:
        """Return the bytes of a field as a view into the frame, valid as long as the frame; None for null."""
        length = self._length(_INT32)
        if length < 0:
            return None
        frame, at = self._frame, self.position
        self.position = end = at + length
        if end > len(frame):
            raise self._cut_short()
        return frame[at:end]

    def end_struct(self) -> None:
        if self.flexible:
            frame, at = self._frame, self.position
            if at < len(frame) and frame[at] == 0:
                self.position = at + 1
            else:
                self.position = skip_tagged_fields(frame, at, self.limits)

    def tagged_field(self, wanted: int) -> memoryview | None:
        """End the struct like `end_struct`, and return the content of one tagged field; None for a missing field."""
        found, begin = None, self.position
        count, self.position = read_uvarint(self._frame, begin)
        self.limits.check_tagged_fields(count)
        for _ in range(count):
            tag, self.position = read_uvarint(self._frame, self.position)
            size, self.position = read_uvarint(self._frame, self.position)
            content = self.view(size)
            if tag == wanted:
                found = content
        self.limits.check_tagged_bytes(self.position - begin)
        return found

    def _length(self, layout: Struct) -> int:
        at = self.position
        length: int
        if self.flexible:
            frame = self._frame
            if at < len(frame) and (length := frame[at]) < 0x80:
                # Nearly all lengths are as short as this, and a call would take longer than the rest.
                self.position = at + 1
                return length - 1
            length, self.position = read_uvarint(frame, at)
            return length - 1
        try:
            (length,) = layout.unpack_from(self._frame, at)
        except error:
            raise self._cut_short() from None
        self.position = at + layout.size
        return length

    def _text(self, length: int) -> str:
        if not length:
            return ""
        if length > READ_TEXT_BYTES_MAX:
            check_text(length)
        frame, at = self._frame, self.position
        self.position = end = at + length
        if end > len(frame):
            raise self._cut_short()
        try:
            return str(frame[at:end], "utf-8")
        except UnicodeDecodeError:
            raise ProtocolError("malformed", "a name is not UTF-8") from None


class CountingReader(RequestReader):
    """Reader of a request that is long enough to exceed a limit. Items are counted as soon as their number is read."""

    __slots__ = ("_budget",)

    def __init__(self, frame: memoryview, at: int, flexible: bool, budget: ItemBudget) -> None:
        super().__init__(frame, at, flexible, budget.limits)
        self._budget = budget

    def kept(self, keep: Callable[[memoryview], memoryview]) -> "CountingReader":
        return CountingReader(keep(self._frame), self.position, self.flexible, self._budget)

    @property
    def counts(self) -> int:
        return self._budget.left

    def go_back(self, position: int, counts: int) -> None:
        self.position = position
        self._budget.left = counts

    def array_length(self) -> int:
        count = super().array_length()
        self._budget.take(count)
        return count

    def nullable_array_length(self) -> int:
        count = super().nullable_array_length()
        if count > 0:
            self._budget.take(count)
        return count
