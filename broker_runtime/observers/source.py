"""The bytes of a message for as long as they may be looked at. Pure."""

from collections.abc import Mapping
from typing import Any

from broker_runtime.errors import ProtocolError
from broker_runtime.wire.primitives import Buffer, compact_length, int_length
from broker_runtime.wire.reply import FileRegion

Regions = Mapping[int, FileRegion]
"""By the place in the bytes where a region of a file, which is not among them, belongs."""


class Source:
    """The bytes that views look at, for as long as they may; `about` is what there is to know beside them."""

    __slots__ = ("about", "buffer", "regions")

    def __init__(self, buffer: Buffer, regions: Regions | None = None, about: Any = None) -> None:
        self.buffer: Buffer | None = buffer
        self.regions = regions
        self.about = about

    def bytes(self) -> Buffer:
        """Raises OutlivedError when the call is over that they were valid in."""
        if self.buffer is None:
            raise OutlivedError(
                "this view was valid during the call that it was given to, and that is over; take what is to be kept "
                "out of it during the call"
            )
        return self.buffer

    def end(self) -> None:
        """Nobody looks at them any more."""
        self.buffer = self.regions = self.about = None


class OutlivedError(RuntimeError):
    """A view was used when the call was over that it was valid in."""


def compact(buffer: Buffer, at: int) -> tuple[int, int]:
    """A compact length and what follows it; -1 is null. Most take a single byte."""
    try:
        byte = buffer[at]
    except IndexError:
        raise ProtocolError("truncated", "the message ends where a length should be") from None
    return (byte - 1, at + 1) if byte < 0x80 else compact_length(buffer, at)


def counted(buffer: Buffer, at: int, flexible: bool, least: int) -> tuple[int, int]:
    """How many items an array has, -1 for null, and where they begin; never more than the bytes that are left."""
    count, at = compact(buffer, at) if flexible else int_length(buffer, at)
    if count * least > len(buffer) - at:
        raise ProtocolError("truncated", f"{count} items are announced and {len(buffer) - at} bytes are left")
    return count, at
