"""OffsetCommit and OffsetFetch in every version, over a coordinator in memory."""

import asyncio
from collections.abc import Mapping
from typing import Any, cast
from uuid import UUID

import pytest

from broker_runtime.apis.groups import offset_commit, offset_fetch
from broker_runtime.apis.request.call import Call
from broker_runtime.errors import ErrorCode, ProtocolError
from broker_runtime.metadata.areas.topics import PartitionRecord, RemoveTopic
from broker_runtime.wire.encoding.reader import RequestReader
from broker_runtime.wire.limits import DEFAULT_LIMITS
from broker_runtime.wire.messages import encode_request_body
from tests.support.groups.coordinating_broker import CoordinatingBroker, versions
from tests.support.requests.calls import a_call

COMMIT, FETCH = offset_commit.API, offset_fetch.API
NOBODY = UUID(int=4711)
ALL_SINCE = 2
"""The version from which a request may ask for all topics of a group."""


def topic_of(version: int, name: str, topic_id: UUID) -> dict[str, Any]:
    return {"topic_id": topic_id} if version >= 10 else {"name": name}


async def commit(
    node: CoordinatingBroker, version: int, offsets: Mapping[int, int], *, topic: str = "orders", **more: Any
) -> list[tuple[int, int]]:
    """(partition, error) of each."""
    partitions = []
    for index, offset in offsets.items():
        part = {"partition_index": index, "committed_offset": offset, "committed_metadata": f"at {offset}"}
        partitions.append(part | ({"committed_leader_epoch": 3} if version >= 6 else {}))
    topic_id = node.orders if topic == "orders" else NOBODY
    content: dict[str, Any] = {"group_id": "billing", "member_id": ""}
    content["generation_id_or_member_epoch"] = more.pop("generation", -1)
    content |= {"retention_time": -1} if version < 5 else {}
    content["topics"] = [topic_of(version, topic, topic_id) | {"partitions": partitions}]
    (answered,) = (await node.ask(COMMIT, version, content | more)).topics
    return [(part.partition_index, int(part.error_code)) for part in answered.partitions]


async def fetch(
    node: CoordinatingBroker, version: int, indexes: list[int] | None, *, topic: str = "orders", **more: Any
) -> tuple[int, list[tuple[int, int, str, int]]]:
    """The group's error, and (partition, offset, metadata, error) of each."""
    topic_id = node.orders if topic == "orders" else NOBODY
    topics = None if indexes is None else [topic_of(version, topic, topic_id) | {"partition_indexes": indexes}]
    group: dict[str, Any] = {"group_id": "billing", "topics": topics} | more
    answer = await node.ask(FETCH, version, group if version < 8 else {"groups": [group]})
    found = answer if version < 8 else answer.groups[0]
    parts = [
        (part.partition_index, part.committed_offset, part.metadata, int(part.error_code))
        for each in found.topics
        for part in each.partitions
    ]
    return (int(found.error_code) if version >= 2 else 0), parts


@pytest.mark.parametrize("version", versions(COMMIT))
async def test_what_is_committed_is_read_back(version: int) -> None:
    async with CoordinatingBroker() as node:
        await node.lead()
        assert await commit(node, version, {0: 5, 2: 7}) == [(0, 0), (2, 0)]
        assert await fetch(node, 9, [0, 1, 2]) == (0, [(0, 5, "at 5", 0), (1, -1, "", 0), (2, 7, "at 7", 0)])


async def test_very_many_are_taken_in_slices_in_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offset_commit, "CHUNK", 2)
    async with CoordinatingBroker() as node:
        await node.lead()
        parts = [
            {
                "partition_index": index,
                "committed_offset": offset,
                "committed_leader_epoch": -1,
                "committed_metadata": "",
            }
            for offset, index in enumerate([0, 1, 7, 2, 0, 1, 7, 2, 0])
        ]
        content = {"group_id": "billing", "member_id": "", "generation_id_or_member_epoch": -1}
        (answered,) = (
            await node.ask(COMMIT, 9, content | {"topics": [{"name": "orders", "partitions": parts}]})
        ).topics
        codes = [(part.partition_index, int(part.error_code)) for part in answered.partitions]
        assert codes == [(index, 3 if index == 7 else 0) for index in (0, 1, 7, 2, 0, 1, 7, 2, 0)]
        assert await fetch(node, 9, [0, 1, 2]) == (0, [(0, 8, "", 0), (1, 5, "", 0), (2, 7, "", 0)])


@pytest.mark.parametrize("version", versions(FETCH))
async def test_every_version_reads_what_is_committed(version: int) -> None:
    async with CoordinatingBroker() as node:
        await node.lead()
        await commit(node, 9, {0: 5, 2: 7})
        assert await fetch(node, version, [2, 1]) == (0, [(2, 7, "at 7", 0), (1, -1, "", 0)])
        if version >= 2:
            assert await fetch(node, version, None) == (0, [(0, 5, "at 5", 0), (2, 7, "at 7", 0)])


@pytest.mark.parametrize("version", versions(COMMIT))
async def test_each_missing_partition_has_its_own_error(version: int) -> None:
    unknown = ErrorCode.UNKNOWN_TOPIC_ID if version >= 10 else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    async with CoordinatingBroker() as node:
        await node.lead()
        assert await commit(node, version, {0: 5, 3: 7}) == [(0, 0), (3, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]
        assert await commit(node, version, {0: 9}, topic="nothing") == [(0, unknown)]
        assert await fetch(node, 8, None) == (0, [(0, 5, "at 5", 0)])


async def test_an_unknown_topic_id_has_its_own_error_among_known_ids() -> None:
    async with CoordinatingBroker() as node:
        await node.lead()
        await commit(node, 10, {1: 4})
        topics = [{"topic_id": each, "partition_indexes": [1]} for each in (NOBODY, node.orders)]
        answer = await node.ask(FETCH, 10, {"groups": [{"group_id": "billing", "topics": topics}]})
        shown = [(topic.topic_id, topic.partitions[0].error_code) for topic in answer.groups[0].topics]
        assert shown == [(NOBODY, ErrorCode.UNKNOWN_TOPIC_ID), (node.orders, ErrorCode.NONE)]


async def test_groups_of_one_request_stand_for_themselves() -> None:
    """The second group's partition has no leader."""
    async with CoordinatingBroker(partitions=8) as node:
        await node.lead()
        await commit(node, 9, {1: 4})
        other = next(name for name in "abcdefgh" if node.groups.term_of(name) is not node.groups.term_of("billing"))
        index = next(index for index, term in node.groups.terms.items() if term is node.groups.term_of(other))
        node.elect(-1, index)
        asked = [{"group_id": name, "topics": None} for name in ("billing", other)]
        answer = await node.ask(FETCH, 8, {"groups": asked})
        assert [each.error_code for each in answer.groups] == [ErrorCode.NONE, ErrorCode.NOT_COORDINATOR]


@pytest.mark.parametrize("version", versions(COMMIT))
async def test_a_generation_of_a_group_that_is_not_there_is_refused(version: int) -> None:
    code = ErrorCode.GROUP_ID_NOT_FOUND if version >= 9 else ErrorCode.ILLEGAL_GENERATION
    async with CoordinatingBroker() as node:
        await node.lead()
        assert await commit(node, version, {0: 5, 1: 6}, generation=3) == [(0, code), (1, code)]


async def test_metadata_that_is_too_long_is_refused_by_itself() -> None:
    async with CoordinatingBroker({"offset.metadata.max.bytes": "4"}) as node:
        await node.lead()
        assert await commit(node, 9, {0: 5, 1: 12}) == [(0, 0), (1, ErrorCode.OFFSET_METADATA_TOO_LARGE)]


@pytest.mark.parametrize("version", [1, 2, 7, 8, 10])
async def test_a_broker_that_does_not_lead_the_partition_says_so(version: int) -> None:
    code = int(ErrorCode.NOT_COORDINATOR)
    async with CoordinatingBroker() as node:
        for _ in range(2):
            assert await commit(node, max(version, 2), {0: 5}) == [(0, code)]
            if version == 1:
                assert await fetch(node, version, [0]) == (0, [(0, -1, "", code)])
            else:
                assert await fetch(node, version, [0]) == (code, [])
            await node.lead()
            node.lose()


async def test_offsets_of_topics_that_are_gone_have_no_id_to_be_called_by() -> None:
    async with CoordinatingBroker() as node:
        await node.lead()
        other = node.metadata.topic("short-lived", (1,))
        content = {"group_id": "billing", "member_id": "", "generation_id_or_member_epoch": -1}
        part = {"partition_index": 0, "committed_offset": 5, "committed_metadata": None}
        await node.ask(COMMIT, 10, content | {"topics": [{"topic_id": other, "partitions": [part]}]})
        assert await fetch(node, 9, None) == (0, [(0, 5, "", 0)])
        node.metadata.write(RemoveTopic(other))
        assert await fetch(node, 10, None) == (0, [])
        assert await fetch(node, 9, None) == (0, [(0, 5, "", 0)])


async def test_a_partition_that_is_added_while_a_commit_waits_moves_no_answer() -> None:
    """The answer is about the partitions that existed when the request arrived."""
    async with CoordinatingBroker() as node:
        await node.lead()
        answer = asyncio.ensure_future(commit(node, 9, {0: 5, 3: 7, 1: 6}))
        await asyncio.sleep(0)
        node.metadata.write(PartitionRecord(node.orders, 3, (1,), (1,), 1, 0, 0))
        assert await answer == [(0, 0), (3, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), (1, 0)]
        assert await fetch(node, 9, None) == (0, [(0, 5, "at 5", 0), (1, 6, "at 6", 0)])


@pytest.mark.parametrize("version", versions(FETCH))
async def test_a_topic_that_is_made_again_under_its_name_has_no_offsets_of_the_one_before(version: int) -> None:
    async with CoordinatingBroker() as node:
        await node.lead()
        assert await commit(node, 10, {0: 5}) == [(0, 0)]
        node.metadata.write(RemoveTopic(node.orders))
        node.orders = node.metadata.topic("orders", (1,))
        assert await fetch(node, version, [0]) == (0, [(0, -1, "", 0)])
        if version >= ALL_SINCE:
            assert await fetch(node, version, None) == (0, [])


@pytest.mark.parametrize("version", versions(COMMIT))
async def test_a_commit_that_breaks_off_is_no_request_and_commits_nothing(version: int) -> None:
    async with CoordinatingBroker() as node:
        await node.lead()
        parts = [{"partition_index": index, "committed_offset": 5, "committed_metadata": "m"} for index in range(2)]
        topic = topic_of(version, "orders", node.orders) | {"partitions": parts}
        content = {"group_id": "billing", "member_id": "", "generation_id_or_member_epoch": -1, "topics": [topic]}
        body = encode_request_body(COMMIT.key, version, content | ({"retention_time": -1} if version < 5 else {}))
        call, context = a_call(COMMIT, version), cast("Any", node)
        for end in range(len(body)):
            with pytest.raises(ProtocolError):
                offset_commit.handle(RequestReader(memoryview(body[:end]), 0, call.flexible), call, context)
        large = memoryview(body + bytes(DEFAULT_LIMITS.bytes_max))
        with pytest.raises(ProtocolError, match="at most 4194304"):
            offset_commit.handle(RequestReader(large, 0, call.flexible), call, context)
        assert not [state for state in node.groups.states() if state.groups]


def begun(node: CoordinatingBroker) -> Call:
    """A commit that is being decided."""
    part = {"partition_index": 0, "committed_offset": 5, "committed_metadata": ""}
    content = {"group_id": "billing", "member_id": "", "generation_id_or_member_epoch": -1}
    body = encode_request_body(COMMIT.key, 8, content | {"topics": [{"name": "orders", "partitions": [part]}]})
    call = a_call(COMMIT, 8)
    assert offset_commit.handle(RequestReader(memoryview(body), 0, call.flexible), call, cast("Any", node)) is call
    return call


async def test_a_commit_of_a_disconnected_client_is_decided_without_an_answer() -> None:
    async with CoordinatingBroker() as node:
        await node.lead()
        call = begun(node)
        call.cancel()
        assert (await fetch(node, 5, [0]))[1][0][1] == 5
        assert call.reply == ()


async def test_a_mistake_in_a_commit_ends_its_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    async with CoordinatingBroker() as node:
        await node.lead()
        monkeypatch.setattr(offset_commit, "commit", lambda *_: 1 / 0)
        call = begun(node)
        ended = asyncio.Event()
        call.on_complete(lambda _: ended.set())
        await ended.wait()
        assert call.refusal == "handler-failed"
