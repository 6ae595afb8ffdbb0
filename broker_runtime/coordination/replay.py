"""Reads a log record by record without blocking the event loop. Coordinators load their state with it."""

import asyncio
from collections.abc import Callable
from typing import NamedTuple

from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.storage.log.log import Log
from broker_runtime.storage.records.batch import Record, iter_batches, iter_records
from kafka_bytes.batches import checksum

_READ_BYTES = 1024 * 1024
_RECORDS_IN_A_ROW_MAX = 128
"""Records read before other tasks run: about a millisecond, including the time to apply them."""


class Replayed(NamedTuple):
    """The amount of data read, including batches that begin before the first offset."""

    bytes: int
    batches: int


async def replay(log: Log, start: int, end: int, apply: Callable[[Record], None], *, cleaned: bool = False) -> Replayed:
    """Pass each record from `start` up to `end` to `apply`, in order. Raises KafkaError, and what `apply` raises.

    A log that is `cleaned` may have no records left before `end`. For any other log this is a read error.
    """
    offset, size, batches, in_a_row = start, 0, 0, 0
    while offset < end:
        region = log.read(offset, _READ_BYTES, min_one=True, up_to=end)
        if region is None and cleaned:
            break
        if region is None:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{log.place} cannot be read at offset {offset}")
        size += region.length
        for header, batch in iter_batches(region.read()):
            # The checksum does not cover the base offset. A wrong one could make this loop read the same batch forever.
            if checksum(batch) != header.crc or not offset <= header.last_offset < end:
                log.suspect(offset)
                text = f"the batch of {log.place} at offset {offset} is damaged"
                raise KafkaError(ErrorCode.CORRUPT_MESSAGE, text)
            batches += 1
            for item in iter_records(batch):
                if item.offset >= start:
                    apply(item)
                in_a_row += 1
                if in_a_row >= _RECORDS_IN_A_ROW_MAX:
                    in_a_row = 0
                    await asyncio.sleep(0)
            offset = header.last_offset + 1
        await asyncio.sleep(0)
    return Replayed(size, batches)
