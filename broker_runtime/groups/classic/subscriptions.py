"""The topics that a member of type `consumer` reads: the beginning of its metadata, alike in all versions. Pure."""

import struct
from collections.abc import Iterator

_INT32 = struct.Struct(">i")
_INT16 = struct.Struct(">h")


def subscribed_topics(metadata: bytes) -> Iterator[str]:
    """int16 version, int32 count, then the names. Raises ValueError where it is something else."""
    try:
        (count,) = _INT32.unpack_from(metadata, 2)
        at = 6
        for _ in range(count):
            (length,) = _INT16.unpack_from(metadata, at)
            end = at + 2 + length
            if length < 0 or end > len(metadata):
                raise ValueError(f"a topic's name of {length} bytes at {at}, in {len(metadata)} bytes")
            yield metadata[at + 2 : end].decode()
            at = end
    except struct.error as error:
        raise ValueError(f"{len(metadata)} bytes are no subscription: {error}") from None
