"""Reading a log from an offset on, record by record, without holding the loop: how a coordinator's state is loaded."""

import asyncio
from collections.abc import Callable
from typing import NamedTuple

from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.storage.batch import Record, iter_batches, iter_records
from broker_runtime.storage.log import Log

_READ_BYTES = 1024 * 1024


class Replayed(NamedTuple):
    """How much was read; batches that begin before the first offset count too."""

    bytes: int
    batches: int


async def replay(log: Log, start: int, end: int, apply: Callable[[Record], None]) -> Replayed:
    """Give `apply` each record from `start` up to `end`, in order. Raises KafkaError, and what `apply` raises."""
    offset, size, batches = start, 0, 0
    while offset < end:
        region = log.read(offset, _READ_BYTES, min_one=True, up_to=end)
        if region is None:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{log.place} cannot be read at offset {offset}")
        size += region.length
        for header, batch in iter_batches(region.read()):
            batches += 1
            for item in iter_records(batch):
                if item.offset >= start:
                    apply(item)
            offset = header.last_offset + 1
        # Others have their turn meanwhile.
        await asyncio.sleep(0)
    return Replayed(size, batches)
