"""TxnOffsetCommit in every version, and what OffsetFetch answers meanwhile, over a coordinator in memory."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from broker_runtime.apis.groups import offset_fetch, txn_offset_commit
from broker_runtime.coordination.partition_of import partition_of
from broker_runtime.errors import ErrorCode
from broker_runtime.groups.push.state.group import PushGroup
from broker_runtime.groups.records import (
    ClassicMember,
    GroupMetadataKey,
    GroupMetadataValue,
    GroupRecord,
)
from broker_runtime.metadata.topic_names import GROUPS_TOPIC
from kafka_bytes.control import Marker
from tests.support.fakes.scripted_verifier import Question
from tests.support.groups.coordinating_broker import CoordinatingBroker, versions

COMMIT, FETCH = txn_offset_commit.API, offset_fetch.API
GROUP, PRODUCER, EPOCH = "billing", 1_000, 4
PLACE = GROUPS_TOPIC, partition_of(GROUP, 2)
UNSTABLE = ErrorCode.UNSTABLE_OFFSET_COMMIT
MEMBER_SINCE, ADDS_SINCE, STABLE_SINCE, SEVERAL_SINCE = 3, 5, 7, 8


async def commit(
    node: CoordinatingBroker, version: int, offsets: Mapping[int, int], *, topic: str = "orders", **more: Any
) -> list[tuple[int, int]]:
    """(partition, error) of each."""
    partitions = []
    for index, offset in offsets.items():
        part = {"partition_index": index, "committed_offset": offset, "committed_metadata": f"at {offset}"}
        partitions.append(part | ({"committed_leader_epoch": 3} if version >= 2 else {}))
    content: dict[str, Any] = {
        "transactional_id": "payments",
        "group_id": GROUP,
        "producer_id": PRODUCER,
        "producer_epoch": EPOCH,
        "topics": [{"name": topic, "partitions": partitions}],
    }
    content |= {"generation_id": -1, "member_id": "", "group_instance_id": None} if version >= MEMBER_SINCE else {}
    (answered,) = (await node.ask(COMMIT, version, content | more)).topics
    return [(part.partition_index, int(part.error_code)) for part in answered.partitions]


async def end(node: CoordinatingBroker, *, is_commit: bool, epoch: int = EPOCH) -> None:
    await node.groups.end_transaction(PLACE[1], Marker(PRODUCER, epoch, is_commit, 0))


async def fetch(
    node: CoordinatingBroker, version: int, indexes: list[int] | None, *, stable: bool
) -> list[tuple[int, int, int]]:
    """(partition, offset, error) of each."""
    topic = {"topic_id": node.orders} if version >= 10 else {"name": "orders"}
    group: dict[str, Any] = {
        "group_id": GROUP,
        "topics": None if indexes is None else [topic | {"partition_indexes": indexes}],
    }
    asked = {"groups": [group]} if version >= SEVERAL_SINCE else group
    answer = await node.ask(FETCH, version, asked | {"require_stable": stable})
    found = answer.groups[0] if version >= SEVERAL_SINCE else answer
    assert not found.error_code
    return [
        (part.partition_index, part.committed_offset, int(part.error_code))
        for each in found.topics
        for part in each.partitions
    ]


@pytest.mark.parametrize("version", versions(COMMIT))
async def test_offsets_count_once_their_transaction_is_committed(version: int) -> None:
    async with CoordinatingBroker() as node:
        await node.lead()
        assert await commit(node, version, {0: 5, 2: 7}) == [(0, 0), (2, 0)]
        adds = version >= ADDS_SINCE
        assert node.transaction_verifier.questions == [Question("payments", PRODUCER, EPOCH, (PLACE,), adds)]
        assert await fetch(node, 9, [0, 1, 2], stable=True) == [(0, -1, UNSTABLE), (1, -1, 0), (2, -1, UNSTABLE)]
        assert await fetch(node, 9, [0, 1, 2], stable=False) == [(0, -1, 0), (1, -1, 0), (2, -1, 0)]
        await end(node, is_commit=True)
        assert await fetch(node, 9, [0, 1, 2], stable=True) == [(0, 5, 0), (1, -1, 0), (2, 7, 0)]
        value = node.groups.term_of(GROUP).state.offsets.of(GROUP)["orders", 0]
        assert (value.metadata, value.leader_epoch, value.topic_id) == ("at 5", 3 if version >= 2 else -1, node.orders)


@pytest.mark.parametrize("version", [each for each in versions(FETCH) if each >= STABLE_SINCE])
async def test_pending_offsets_are_invisible_or_errors(version: int) -> None:
    async with CoordinatingBroker() as node:
        await node.lead()
        await commit(node, 3, {0: 5})
        await end(node, is_commit=True)
        await commit(node, 3, {0: 9, 1: 9})
        assert await fetch(node, version, [0, 1, 2], stable=False) == [(0, 5, 0), (1, -1, 0), (2, -1, 0)]
        assert await fetch(node, version, [0, 1, 2], stable=True) == [(0, -1, UNSTABLE), (1, -1, UNSTABLE), (2, -1, 0)]
        assert await fetch(node, version, None, stable=False) == [(0, 5, 0)]
        assert await fetch(node, version, None, stable=True) == [(0, -1, UNSTABLE)]
        await end(node, is_commit=False)
        assert await fetch(node, version, [0, 1], stable=True) == [(0, 5, 0), (1, -1, 0)]


async def test_further_commits_of_an_open_transaction_are_not_verified_again() -> None:
    async with CoordinatingBroker() as node:
        await node.lead()
        for offset in (5, 6):
            assert await commit(node, 5, {0: offset}) == [(0, 0)]
        assert len(node.transaction_verifier.questions) == 1
        await end(node, is_commit=True, epoch=EPOCH + 1)
        assert await fetch(node, 9, [0], stable=True) == [(0, 6, 0)]
        assert await commit(node, 5, {0: 7}) == [(0, ErrorCode.INVALID_PRODUCER_EPOCH)]
        assert await commit(node, 5, {0: 7}, producer_epoch=EPOCH + 1) == [(0, 0)]
        assert len(node.transaction_verifier.questions) == 2


@pytest.mark.parametrize(
    ("version", "code", "sent"),
    [
        (0, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (1, ErrorCode.NETWORK_EXCEPTION, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (2, ErrorCode.NETWORK_EXCEPTION, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        (3, ErrorCode.TRANSACTION_ABORTABLE, ErrorCode.INVALID_TXN_STATE),
        (4, ErrorCode.TRANSACTION_ABORTABLE, ErrorCode.TRANSACTION_ABORTABLE),
        (5, ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.CONCURRENT_TRANSACTIONS),
        (5, ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH),
    ],
)
async def test_a_transaction_that_is_not_verified_commits_nothing(
    version: int, code: ErrorCode, sent: ErrorCode
) -> None:
    async with CoordinatingBroker() as node:
        await node.lead()
        node.transaction_verifier.answers = [code]
        assert await commit(node, version, {0: 5, 1: 6}) == [(0, sent), (1, sent)]
        assert not node.groups.term_of(GROUP).state.pending
        assert await commit(node, version, {0: 5}) == [(0, 0)]


async def test_a_marker_during_the_verification_refuses_the_commit() -> None:
    async with CoordinatingBroker() as node:
        await node.lead()
        verifier, verify = node.transaction_verifier, node.transaction_verifier.verify
        waits = asyncio.Event()
        verifier.holds = True

        def noted(*args: Any, **more: Any) -> Any:
            waits.set()
            return verify(*args, **more)

        verifier.verify = noted  # type: ignore[method-assign]
        late = asyncio.ensure_future(commit(node, 3, {0: 5}))
        await waits.wait()
        await end(node, is_commit=False)
        verifier.answer_next()
        assert await late == [(0, ErrorCode.INVALID_TXN_STATE)]


async def test_without_verification_older_clients_commit_and_newer_ones_are_added_all_the_same() -> None:
    async with CoordinatingBroker() as node:
        await node.lead()
        node.transaction_verifier.is_enabled = False
        assert await commit(node, 3, {0: 5}) == [(0, 0)]
        assert node.transaction_verifier.questions == []
        await end(node, is_commit=True)
        assert await commit(node, 5, {0: 5}) == [(0, 0)]
        assert [question.add for question in node.transaction_verifier.questions] == [True]


@pytest.mark.parametrize(
    ("more", "code"),
    [
        ({}, ErrorCode.NONE),
        ({"generation_id": 3, "member_id": "m"}, ErrorCode.NONE),
        ({"generation_id": 2, "member_id": "m"}, ErrorCode.ILLEGAL_GENERATION),
        ({"generation_id": 3, "member_id": "x"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"group_id": "other", "generation_id": 3, "member_id": "m"}, ErrorCode.ILLEGAL_GENERATION),
        ({"group_id": "other"}, ErrorCode.NONE),
        ({"group_id": ""}, ErrorCode.INVALID_GROUP_ID),
        ({"producer_id": -1}, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
        ({"producer_epoch": -1}, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
    ],
)
async def test_members_are_checked_by_their_generation(more: dict[str, Any], code: ErrorCode) -> None:
    member = ClassicMember("m", None, "c", "/h", 60_000, 10_000, b"", b"")
    stable = GroupRecord(GroupMetadataKey(GROUP), GroupMetadataValue("consumer", 3, "range", "m", 1, (member,)))
    async with CoordinatingBroker() as node:
        await node.lead()
        await node.groups.submit(GROUP, lambda state, environment: ([stable], None))
        assert await commit(node, 3, {0: 5, 1: 6}, **more) == [(0, code), (1, code)]


async def test_partitions_that_do_not_exist_and_long_metadata_have_errors_of_their_own() -> None:
    async with CoordinatingBroker({"offset.metadata.max.bytes": "4"}) as node:
        await node.lead()
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert await commit(node, 3, {0: 5, 7: 5, 1: 55}) == [
            (0, 0),
            (7, unknown),
            (1, ErrorCode.OFFSET_METADATA_TOO_LARGE),
        ]
        assert await commit(node, 3, {0: 5}, topic="nope") == [(0, unknown)]
        assert await fetch(node, 9, [0, 1], stable=True) == [(0, -1, UNSTABLE), (1, -1, 0)]


async def test_a_push_group_refuses_with_a_sentence_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    async with CoordinatingBroker() as node:
        await node.lead()
        node.groups.term_of(GROUP).state.groups[GROUP] = PushGroup(GROUP)
        code = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        assert await commit(node, 3, {0: 5}) == [(0, code)]
        assert "group billing uses the push protocol, which takes no part in transactions" in caplog.text


async def test_another_broker_coordinates_the_group() -> None:
    async with CoordinatingBroker() as node:
        await node.lead()
        node.lose()
        assert await commit(node, 3, {0: 5}) == [(0, ErrorCode.NOT_COORDINATOR)]
        assert node.transaction_verifier.questions == []


async def test_very_many_offsets_are_committed_in_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(txn_offset_commit, "CHUNK", 1)
    async with CoordinatingBroker() as node:
        await node.lead()
        assert await commit(node, 3, {0: 5, 1: 6, 2: 7}) == [(0, 0), (1, 0), (2, 0)]
        await end(node, is_commit=True)
        assert await fetch(node, 9, [0, 1, 2], stable=True) == [(0, 5, 0), (1, 6, 0), (2, 7, 0)]


async def test_a_partition_of_offsets_has_room_for_a_limited_number_of_open_transactions() -> None:
    async with CoordinatingBroker({"sluicegate.partition.transactions.max": "1"}) as node:
        await node.lead()
        assert await commit(node, 5, {0: 5}) == [(0, 0)]
        assert await commit(node, 5, {0: 6}, producer_id=PRODUCER + 1) == [(0, ErrorCode.COORDINATOR_NOT_AVAILABLE)]
        await end(node, is_commit=True)
        assert await commit(node, 5, {0: 6}, producer_id=PRODUCER + 1) == [(0, 0)]
