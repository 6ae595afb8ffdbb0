"""Encoding of texts, byte strings and numbers in records. Pure.

A text that is too long for the format came from a client: encoding it raises KafkaError (INVALID_REQUEST).
"""

from collections.abc import Iterable
from functools import lru_cache
from struct import Struct

from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.groups.kinds import TEXT_BYTES_MAX as TEXT_BYTES_MAX
from kafka_bytes.varints import write_uvarint

INT8, INT16, INT32, INT64 = Struct(">b"), Struct(">h"), Struct(">i"), Struct(">q")
NO_TAGS = b"\x00"


def raw(text: str) -> bytes:
    """Encode a text in UTF-8. Raises KafkaError (INVALID_REQUEST) for a text that is too long."""
    found = text.encode()
    if len(found) > TEXT_BYTES_MAX:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"a text has {len(found)} bytes; at most {TEXT_BYTES_MAX} are allowed: {text[:50]!r}...",
        )
    return found


def plain(text: str) -> bytes:
    found = raw(text)
    return INT16.pack(len(found)) + found


def nullable(text: str | None) -> bytes:
    return b"\xff\xff" if text is None else plain(text)


def blob(data: bytes) -> bytes:
    return INT32.pack(len(data)) + data


def compact(text: str) -> bytes:
    found = raw(text)
    return write_uvarint(len(found) + 1) + found


def compact_nullable(text: str | None) -> bytes:
    return b"\x00" if text is None else compact(text)


def compact_blob(data: bytes) -> bytes:
    return write_uvarint(len(data) + 1) + data


def compact_count(count: int) -> bytes:
    """Encode the number of items, which precedes the items of an array."""
    return write_uvarint(count + 1)


def compact_array(count: int, items: Iterable[bytes]) -> bytes:
    return compact_count(count) + b"".join(items)


@lru_cache(1_000)
def numbers_of(count: int) -> Struct:
    """Return the layout of `count` 32-bit integers.

    Cached, because most assignments have the same number of partitions.
    """
    return Struct(f">{count}i")


def compact_numbers(numbers: tuple[int, ...]) -> bytes:
    return write_uvarint(len(numbers) + 1) + numbers_of(len(numbers)).pack(*numbers)


def tagged(fields: Iterable[tuple[int, bytes]]) -> bytes:
    """Encode the end of a struct: its optional fields by tag."""
    found = [write_uvarint(tag) + write_uvarint(len(content)) + content for tag, content in fields]
    return write_uvarint(len(found)) + b"".join(found)
