"""What a coordinator writes in the transactions of producers, for each kind of durable log."""

import asyncio
from collections.abc import Callable, Sequence

import pytest

from broker_runtime.coordination.seam import (
    TransactionalBatch,
    TransactionalProducer,
    TransactionEnd,
)
from broker_runtime.errors import ErrorCode
from broker_runtime.storage.log.log import Log
from kafka_bytes.batches import TRANSACTIONAL, iter_batches
from kafka_bytes.control import MARKER_ATTRIBUTES, Marker
from tests.support.coordination.places import PartitionPlace, Place, codes, file_place, running, store_place, tally_of
from tests.support.groups.tally import Added, Tally


def in_transaction(
    log: Log, *records: Added, epoch: int = 0, is_verified: bool = True
) -> Callable[[Tally], tuple[Sequence[Added], int]]:
    """A decision that writes the records in the transaction of producer 7, and expects the offset that it returns."""
    guard = log.verification_guard(7, epoch, -1, is_v2=False) if is_verified else None
    producer = TransactionalProducer(7, epoch, guard)
    return lambda tally: (TransactionalBatch(records, producer), tally.next_offset)


def end_of_transaction(*, epoch: int = 0) -> Callable[[Tally], tuple[Sequence[Added], int]]:
    marker = Marker(7, epoch, True, 3)
    return lambda tally: (TransactionEnd(Added("end", 1), marker), tally.next_offset)


@pytest.mark.parametrize("place", [file_place, store_place])
async def test_a_journal_refuses_transactions_and_writes_nothing_of_them(place: Callable[[], Place]) -> None:
    async with running(kept := place()) as process:
        submit = process.runtime.submit
        decisions = [in_transaction(kept.log, Added("x", 1)), end_of_transaction()]
        done = await asyncio.gather(*map(submit, decisions), process.add("y"), return_exceptions=True)
        assert codes(done) == [ErrorCode.INVALID_TXN_STATE, ErrorCode.INVALID_TXN_STATE, 0]
        assert process.runtime.state.sums == {"y": 1}


async def test_a_partition_has_the_batches_of_transactions_and_their_ends_in_the_order_of_the_decisions() -> None:
    async with running(place := PartitionPlace(1, 2)) as process:
        decisions = [
            in_transaction(place.log, Added("x", 1), Added("x", 2)),
            in_transaction(place.log, Added("x", 3), is_verified=False),
            end_of_transaction(),
        ]
        first, *offsets, last = await asyncio.gather(
            process.add("y"), *map(process.runtime.submit, decisions), process.add("z")
        )
        assert (first, offsets, last) == (0, [1, 3, 4], 5)
        assert process.runtime.state.sums == {"y": 1, "x": 6, "end": 1, "z": 1}
        region = place.log.read(0, 1 << 20, min_one=True, up_to=6)
        assert region is not None
        headers = [header for header, _ in iter_batches(region.read())]
        kinds = [(each.base_offset, each.attributes, each.producer_id, each.base_sequence) for each in headers]
        in_it = (TRANSACTIONAL, 7, -1)
        assert kinds == [(0, 0, -1, -1), (1, *in_it), (3, *in_it), (4, MARKER_ATTRIBUTES, 7, -1), (5, 0, -1, -1)]
        assert place.log.high_watermark == 6


async def test_very_many_records_of_a_transaction_are_written_in_steps() -> None:
    async with running(place := PartitionPlace(1, 2)) as process:
        records = [Added(f"{n:01000}", 1) for n in range(1_000)]
        await process.runtime.submit(in_transaction(place.log, *records))
        assert process.runtime.state.next_offset == 1_000
        assert await tally_of(place.log, place.log.high_watermark) == process.runtime.state


async def test_a_record_or_a_marker_that_the_partition_refuses_leaves_the_state_unchanged() -> None:
    async with running(place := PartitionPlace(1, 2)) as process:
        submit = process.runtime.submit
        await submit(in_transaction(place.log, Added("x", 1), epoch=4))
        decisions = [
            end_of_transaction(epoch=3),
            end_of_transaction(epoch=4),
            in_transaction(place.log, Added("x", 1), epoch=4, is_verified=False),
        ]
        done = await asyncio.gather(process.add("y"), *map(submit, decisions), return_exceptions=True)
        assert codes(done) == [1, ErrorCode.INVALID_PRODUCER_EPOCH, 2, ErrorCode.INVALID_TXN_STATE]
        assert process.runtime.state.sums == {"x": 1, "y": 1, "end": 1}
        place.leader.isr = (1,)
        assert codes(await asyncio.gather(submit(end_of_transaction(epoch=4)), return_exceptions=True)) == [
            ErrorCode.NOT_ENOUGH_REPLICAS
        ]
