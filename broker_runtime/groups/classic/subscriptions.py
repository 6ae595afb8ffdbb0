"""The topics that a member of type `consumer` reads: the first part of its metadata, the same in all versions. Pure."""

import struct
from collections.abc import Iterator

_VERSION_AND_COUNT = struct.Struct(">hi")
_INT16 = struct.Struct(">h")
_NAMES_OF_A_PART = 16
"""Number of names that are read in some ten microseconds."""
_NAME_BYTES_MIN = 2
"""The bytes of an empty name."""


def names_too_many(metadata: bytes, topics_max: int) -> bool:
    """Return whether the metadata names more than `topics_max` topics. False for bytes that are not a subscription."""
    if len(metadata) < _VERSION_AND_COUNT.size:
        return False
    count: int = _VERSION_AND_COUNT.unpack_from(metadata)[1]
    return count > topics_max and count * _NAME_BYTES_MIN <= len(metadata) - _VERSION_AND_COUNT.size


def subscribed_topics(metadata: bytes) -> Iterator[list[str]]:
    """Yield the names of the topics in a subscription, up to 16 at a time. Raises ValueError for other bytes.

    The layout is an int16 version, an int32 count and the names. A negative version, or a negative count, is refused as
    in Kafka: the offsets of a group whose subscription is unknown do not expire.
    """
    try:
        version, count = _VERSION_AND_COUNT.unpack_from(metadata)
        if version < 0 or count < 0:
            raise ValueError(f"the subscription has version {version} and {count} topics")
        at = _VERSION_AND_COUNT.size
        names: list[str] = []
        for _ in range(count):
            (length,) = _INT16.unpack_from(metadata, at)
            end = at + 2 + length
            if length < 0 or end > len(metadata):
                raise ValueError(
                    f"the topic name at byte {at} has {length} bytes, beyond the end of {len(metadata)} bytes"
                )
            names.append(metadata[at + 2 : end].decode())
            at = end
            if len(names) == _NAMES_OF_A_PART:
                yield names
                names = []
        yield names
    except struct.error as error:
        raise ValueError(f"{len(metadata)} bytes are not a subscription: {error}") from None
