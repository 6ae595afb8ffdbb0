"""Records in batches of bounded size. Pure."""

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")
KeyValue = tuple[bytes | None, bytes | None]
"""A record as a log holds it."""

FRAME_BYTES_MAX = 128
"""What a batch of one record is larger than its key and value, at most."""


def in_batches(
    records: Iterable[T], encode: Callable[[T], KeyValue], bytes_max: int
) -> Iterator[list[tuple[T, KeyValue]]]:
    """Each record with its encoding, cut where a batch would become larger than `bytes_max`; none is empty."""
    batch: list[tuple[T, KeyValue]] = []
    size = 0
    for record in records:
        encoded = key, value = encode(record)
        added = len(key or b"") + len(value or b"")
        if batch and size + added > bytes_max:
            yield batch
            batch, size = [], 0
        batch.append((record, encoded))
        size += added
    if batch:
        yield batch
