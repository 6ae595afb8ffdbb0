"""Offsets of transactions in the log: their batches, their markers, and what the next coordinator loads of them."""

from collections.abc import Sequence
from typing import Any

import pytest

from broker_runtime.coordination.seam import TransactionalProducer
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.groups.environment import GroupEnvironment
from broker_runtime.groups.group import Committer
from broker_runtime.groups.offsets.commit import OffsetToCommit, commit_in_transaction
from broker_runtime.groups.records import GroupRecord, OffsetCommitKey, OffsetCommitValue
from broker_runtime.groups.state import GroupsState
from broker_runtime.storage.records.batch import iter_batches
from kafka_bytes.batches import TRANSACTIONAL, ProducerStamp, encode_batch
from kafka_bytes.control import MARKER_ATTRIBUTES, Marker
from tests.support.groups.coordinating_broker import CoordinatingBroker

GROUP = "billing"
ONE, TWO = 1_000, 1_001
"""Producer ids."""


async def commit(
    node: CoordinatingBroker, producer: int, offset: int, *partitions: int, epoch: int = 0, is_verified: bool = True
) -> Sequence[ErrorCode]:
    """Commit the offset of partitions of `orders` in the producer's transaction."""
    log = node.groups.term_of(GROUP).log
    guard = log.verification_guard(producer, epoch, -1, is_v2=False) if is_verified else None
    offsets = [OffsetToCommit("orders", partition, offset, topic_id=node.orders) for partition in partitions]

    def decide(state: GroupsState, environment: GroupEnvironment) -> Any:
        stamp = TransactionalProducer(producer, epoch, guard)
        return commit_in_transaction(state, environment, Committer(), GROUP, offsets, stamp)

    return await node.groups.submit(GROUP, decide)


async def end(
    node: CoordinatingBroker, producer: int, *, is_commit: bool, epoch: int = 0, coordinator: int = 3
) -> None:
    await node.groups.end_transaction(0, Marker(producer, epoch, is_commit, coordinator))


async def commit_plainly(node: CoordinatingBroker, offset: int, partition: int = 0) -> None:
    def decide(state: GroupsState, environment: GroupEnvironment) -> Any:
        value = OffsetCommitValue(offset, -1, "", environment.now_ms())
        return [GroupRecord(OffsetCommitKey(GROUP, "orders", partition), value)], None

    await node.groups.submit(GROUP, decide)


def committed(node: CoordinatingBroker) -> dict[int, int]:
    offsets = node.groups.term_of(GROUP).state.offsets.of(GROUP)
    return {partition: value.offset for (_, partition), value in offsets.items()}


def unstable(node: CoordinatingBroker) -> list[int]:
    return sorted(partition for _, partition in node.groups.term_of(GROUP).state.pending.of(GROUP))


async def test_offsets_of_a_transaction_count_with_its_marker_and_a_new_term_loads_them() -> None:
    async with CoordinatingBroker(partitions=1) as node:
        await node.lead()
        await commit_plainly(node, 1)
        assert await commit(node, ONE, 5, 0, 1) == [ErrorCode.NONE] * 2
        await commit(node, TWO, 7, 2)
        for _ in range(2):
            assert (committed(node), unstable(node)) == ({0: 1}, [0, 1, 2])
            await node.lead()
        await end(node, ONE, is_commit=True)
        await end(node, TWO, is_commit=False)
        for _ in range(2):
            assert (committed(node), unstable(node)) == ({0: 5, 1: 5}, [])
            await node.lead()
        assert node.groups.tally.offset_commits == 4


async def test_the_log_has_a_transactional_batch_of_the_producer_and_a_control_batch() -> None:
    async with CoordinatingBroker(partitions=1) as node:
        await node.lead()
        log = node.leader().log
        begin = log.log_end_offset
        await commit(node, ONE, 5, 0, 1, epoch=4)
        await end(node, ONE, is_commit=True, epoch=4)
        region = log.read(begin, 1 << 20, min_one=True, up_to=log.log_end_offset)
        assert region is not None
        data, marker = [header for header, _ in iter_batches(region.read())]
        assert data[5:] == (TRANSACTIONAL, 1, *data[7:9], ONE, 4, -1, 2)
        assert marker[5:] == (MARKER_ATTRIBUTES, 0, *marker[7:9], ONE, 4, -1, 1)
        assert log.last_stable_offset == log.log_end_offset


async def test_a_plain_commit_after_a_pending_one_wins_also_after_a_load() -> None:
    async with CoordinatingBroker(partitions=1) as node:
        await node.lead()
        await commit(node, ONE, 5, 0, 1)
        await commit_plainly(node, 3)
        await node.lead()
        await end(node, ONE, is_commit=True)
        for _ in range(2):
            assert committed(node) == {0: 3, 1: 5}
            await node.lead()


async def test_a_transaction_that_was_not_verified_commits_nothing() -> None:
    async with CoordinatingBroker(partitions=1) as node:
        await node.lead()
        with pytest.raises(KafkaError) as refused:
            await commit(node, ONE, 5, 0, is_verified=False)
        assert refused.value.code is ErrorCode.INVALID_TXN_STATE
        await commit(node, ONE, 5, 0)
        # The transaction is open, so its further commits need no verification.
        await commit(node, ONE, 6, 0, is_verified=False)
        await end(node, ONE, is_commit=True)
        assert committed(node) == {0: 6}


async def test_a_late_commit_does_not_survive_the_marker_that_came_before_it() -> None:
    async with CoordinatingBroker(partitions=1) as node:
        await node.lead()
        guard = node.leader().log.verification_guard(ONE, 0, -1, is_v2=False)
        await end(node, ONE, is_commit=False)
        offset = OffsetToCommit("orders", 0, 5)

        def decide(state: GroupsState, environment: GroupEnvironment) -> Any:
            producer = TransactionalProducer(ONE, 0, guard)
            return commit_in_transaction(state, environment, Committer(), GROUP, [offset], producer)

        with pytest.raises(KafkaError) as refused:
            await node.groups.submit(GROUP, decide)
        assert refused.value.code is ErrorCode.INVALID_TXN_STATE
        assert unstable(node) == []


async def test_markers_of_the_past_are_refused_and_change_nothing() -> None:
    async with CoordinatingBroker(partitions=1) as node:
        await node.lead()
        await commit(node, ONE, 5, 0, epoch=4)
        for epoch, coordinator, code in (
            (3, 3, ErrorCode.INVALID_PRODUCER_EPOCH),
            (4, 2, ErrorCode.TRANSACTION_COORDINATOR_FENCED),
        ):
            await end(node, TWO, is_commit=True, epoch=4)
            if coordinator == 2:
                await end(node, ONE, is_commit=False, epoch=4)
                await commit(node, ONE, 5, 0, epoch=4)
            with pytest.raises(KafkaError) as refused:
                await end(node, ONE, is_commit=True, epoch=epoch, coordinator=coordinator)
            assert refused.value.code is code
            assert (committed(node), unstable(node)) == ({}, [0])


async def test_a_marker_goes_to_a_partition_that_this_broker_leads() -> None:
    async with CoordinatingBroker(partitions=1) as node:
        await node.lead()
        node.lose()
        with pytest.raises(KafkaError) as refused:
            await end(node, ONE, is_commit=True)
        assert refused.value.code is ErrorCode.NOT_COORDINATOR


async def test_a_transaction_with_records_of_an_unknown_type_is_loaded() -> None:
    async with CoordinatingBroker(partitions=1) as node:
        await node.lead()
        log, epoch = node.leader().log, node.leader().leader_epoch
        guard = log.verification_guard(ONE, 0, 0, is_v2=False)
        share = [(b"\x00\x0a\x00\x01s", b"\x00\x00whatever")]
        batch = encode_batch(share, 0, ProducerStamp(ONE, 0, 0), attributes=TRANSACTIONAL)
        log.append(memoryview(batch), leader_epoch=epoch, guard=guard)
        await node.lead()
        await commit(node, ONE, 5, 0, is_verified=False)
        await end(node, ONE, is_commit=True)
        await node.lead()
        assert committed(node) == {0: 5}
