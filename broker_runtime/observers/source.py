"""The bytes of a message, for as long as they may be read. Pure."""

from collections.abc import Mapping
from typing import Any

from broker_runtime.errors import ProtocolError
from broker_runtime.wire.encoding.primitives import Buffer, compact_length, int_length
from broker_runtime.wire.reply import FileRegion

Regions = Mapping[int, FileRegion]
"""File regions of a message by their position in its bytes, which do not contain the regions."""


class MessageSource:
    """The bytes behind views of a message, while they are valid. `about` holds further facts about the message."""

    __slots__ = ("about", "buffer", "regions")

    def __init__(self, buffer: Buffer, regions: Regions | None = None, about: Any = None) -> None:
        self.buffer: Buffer | None = buffer
        self.regions = regions
        self.about = about

    def bytes(self) -> Buffer:
        """Return the bytes of the observed message.

        Raises OutlivedError after the end of the call in which they were valid.
        """
        if self.buffer is None:
            raise OutlivedError(
                "this view was valid only during the call that received it, and that call has ended; copy the "
                "values to keep during the call"
            )
        return self.buffer

    def end(self) -> None:
        """Invalidate the bytes, and all views of them."""
        self.buffer = self.regions = self.about = None


class OutlivedError(RuntimeError):
    """Error for using a view after the call in which the view was valid."""


def compact(buffer: Buffer, at: int) -> tuple[int, int]:
    """Read a compact length, -1 for null. Return the length and the position behind it.

    Most lengths take a single byte.
    """
    try:
        byte = buffer[at]
    except IndexError:
        raise ProtocolError("truncated", "the message ends where a length should be") from None
    return (byte - 1, at + 1) if byte < 0x80 else compact_length(buffer, at)


def counted(buffer: Buffer, at: int, flexible: bool, least: int) -> tuple[int, int]:
    """Return the number of items of an array, -1 for null, and the position of the first item.

    The number never exceeds what the remaining bytes can hold.
    """
    count, at = compact(buffer, at) if flexible else int_length(buffer, at)
    if count * least > len(buffer) - at:
        raise ProtocolError(
            "truncated", f"an array announces {count} items, but only {len(buffer) - at} bytes are left"
        )
    return count, at
