"""Reads a log record by record without blocking the event loop. Coordinators load their state with it."""

import asyncio
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.slicing.steps import Steps
from broker_runtime.storage.log.log import Log
from broker_runtime.storage.records.batch import Record, iter_batches, iter_records
from kafka_bytes.batches import CONTROL, TRANSACTIONAL, Header, checksum

Applied = Steps[Any] | None
"""The steps that apply the rest of a long record; None for a record that is applied."""
OfTransaction = Callable[[Record, Header, memoryview], Applied]
"""A function that applies a record of a transaction, or the marker that ends one.

Its arguments are the record, the header of its batch, and the batch.
"""

_READ_BYTES = 1024 * 1024
_OF_TRANSACTION = TRANSACTIONAL | CONTROL
_RECORDS_IN_A_ROW_MAX = 128
"""Records read before other tasks run: about a millisecond, including the time to apply them."""
_RECORDS_OF_A_STEP = 16
"""Number of records that take about as long as a step of a long record."""


class Replayed(NamedTuple):
    """The amount of data read from a log, including batches that begin before the first offset."""

    bytes: int
    batches: int


async def replay(
    log: Log,
    start: int,
    end: int,
    apply: Callable[[Record], Applied],
    *,
    cleaned: bool = False,
    of_transaction: OfTransaction | None = None,
) -> Replayed:
    """Pass each record from `start` up to `end` to `apply`, in order. Raises KafkaError, and errors of `apply`.

    `apply` returns steps if the record is long. They run before the next record, over several iterations of the event
    loop.

    Records of transactional and control batches go to `of_transaction` instead; None is for a log without transactions.
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
            apply_one = apply
            if of_transaction is not None and header.attributes & _OF_TRANSACTION:
                apply_one = partial(_applied, of_transaction, header, batch)
            for item in iter_records(batch):
                rest = apply_one(item) if item.offset >= start else None
                for cost in _costs(rest):
                    in_a_row += cost
                    if in_a_row >= _RECORDS_IN_A_ROW_MAX:
                        in_a_row = 0
                        await asyncio.sleep(0)
            offset = header.last_offset + 1
        await asyncio.sleep(0)
    return Replayed(size, batches)


def _costs(rest: Applied) -> Iterator[int]:
    """Yield the cost of a record, then run its steps and yield the cost of each, in short records."""
    yield 1
    for _ in rest or ():
        yield _RECORDS_OF_A_STEP


def _applied(of_transaction: OfTransaction, header: Header, batch: memoryview, item: Record) -> Applied:
    return of_transaction(item, header, batch)
