"""Requests with very many items run in bounded time slices: the tests count the iterations of the event loop."""

from collections import deque
from typing import Any

import pytest

from broker_runtime.apis.groups import (
    consumer_group_describe,
    delete_groups,
    describe_groups,
    leave_group,
    list_groups,
    offset_commit,
    offset_delete,
    offset_fetch,
)
from broker_runtime.apis.request.context import ApiSpec
from broker_runtime.apis.request.many_items import ITEMS_PER_SLICE, Pace, Packed, chunks, emptied, read_names
from broker_runtime.errors import ErrorCode
from broker_runtime.groups.offsets.delete import CHUNK
from broker_runtime.groups.records import GroupRecord, OffsetCommitKey, OffsetCommitValue
from broker_runtime.wire.encoding.reader import RequestReader
from broker_runtime.wire.messages import encode_request_body
from broker_runtime.wire.versions import DELETE_GROUPS
from tests.support.groups.coordinating_broker import CoordinatingBroker
from tests.support.oracles.counted_iterations import counted_iterations
from tests.support.requests.calls import a_call

SLICES = 4
MANY = SLICES * ITEMS_PER_SLICE
NAMES = [f"group-{number}" for number in range(MANY)]
NOBODY = {"member_id": "", "generation_id_or_member_epoch": -1}
OFFSET = {"committed_offset": 5, "committed_leader_epoch": -1, "committed_metadata": ""}


def fetched(**group: Any) -> dict[str, Any]:
    return {"groups": [{"member_id": None, "member_epoch": -1} | group], "require_stable": False}


@pytest.mark.parametrize(
    ("api", "version", "content"),
    [
        (describe_groups.API, 6, {"groups": NAMES, "include_authorized_operations": False}),
        (consumer_group_describe.API, 1, {"group_ids": NAMES, "include_authorized_operations": False}),
        (delete_groups.API, 2, {"groups_names": NAMES}),
        (list_groups.API, 5, {"states_filter": NAMES, "types_filter": []}),
        (
            leave_group.API,
            3,
            {"group_id": "g", "members": [{"member_id": name, "group_instance_id": None} for name in NAMES]},
        ),
        (
            offset_commit.API,
            9,
            {"group_id": "g", "topics": [{"name": "orders", "partitions": [{"partition_index": 1} | OFFSET] * MANY}]}
            | NOBODY,
        ),
        (
            offset_commit.API,
            9,
            {"group_id": "g", "topics": [{"name": name, "partitions": []} for name in NAMES]} | NOBODY,
        ),
        (
            offset_delete.API,
            0,
            {"group_id": "g", "topics": [{"name": "orders", "partitions": [{"partition_index": 1}] * MANY}]},
        ),
        (
            offset_fetch.API,
            9,
            fetched(group_id="g", topics=[{"name": "orders", "partition_indexes": list(range(MANY))}]),
        ),
        (
            offset_fetch.API,
            9,
            {
                "groups": [{"group_id": name, "member_id": None, "member_epoch": -1, "topics": None} for name in NAMES],
                "require_stable": False,
            },
        ),
    ],
)
async def test_others_have_their_iterations_while_very_many_are_read_and_answered(
    api: ApiSpec[Any], version: int, content: dict[str, Any]
) -> None:
    async with CoordinatingBroker() as node:
        await node.lead()
        with counted_iterations() as iterations:
            await node.ask(api, version, content)
        assert iterations.count >= SLICES


async def test_other_requests_run_while_all_offsets_of_a_group_are_described() -> None:
    async with CoordinatingBroker() as node:
        await node.lead()
        value = OffsetCommitValue(5, -1, "", 0)
        records = [GroupRecord(OffsetCommitKey("g", "orders", index), value) for index in range(MANY)]
        await node.groups.submit("g", lambda state, environment: (records, None))
        with counted_iterations() as iterations:
            (group,) = (await node.ask(offset_fetch.API, 9, fetched(group_id="g", topics=None))).groups
        assert [part.partition_index for part in group.topics[0].partitions] == list(range(MANY))
        assert iterations.count >= 2 * SLICES, "it is sorted by topics, and packed"


async def test_each_of_very_many_partitions_has_its_own_result() -> None:
    """Some of the partitions do not exist, and each decision handles a slice of them."""
    count = 3 * CHUNK
    async with CoordinatingBroker() as node:
        node.metadata.topic("wide", *[(1,)] * count)
        await node.lead()
        parts = [{"partition_index": index} | OFFSET | {"committed_offset": index} for index in range(0, 2 * count, 2)]
        answer = await node.ask(
            offset_commit.API, 9, {"group_id": "g", "topics": [{"name": "wide", "partitions": parts}]} | NOBODY
        )
        there = [
            ErrorCode.NONE if index < count else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            for index in range(0, 2 * count, 2)
        ]
        assert [part.error_code for part in answer.topics[0].partitions] == there
        asked = fetched(group_id="g", topics=[{"name": "wide", "partition_indexes": list(range(count))}])
        (group,) = (await node.ask(offset_fetch.API, 9, asked)).groups
        found = {part.partition_index: part.committed_offset for part in group.topics[0].partitions}
        assert found == {index: index if index % 2 == 0 else -1 for index in range(count)}
        gone = [{"partition_index": index} for index in range(count + 1)]
        deleted = await node.ask(
            offset_delete.API, 0, {"group_id": "g", "topics": [{"name": "wide", "partitions": gone}]}
        )
        codes = [part.error_code for part in deleted.topics[0].partitions]
        assert codes == [ErrorCode.NONE] * count + [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        assert node.groups.term_of("g").state.offsets.count == 0


async def test_a_group_is_described_once_however_often_it_is_named() -> None:
    async with CoordinatingBroker() as node:
        await node.lead()
        named = ["b", "a", "b"]
        described = await node.ask(describe_groups.API, 6, {"groups": named, "include_authorized_operations": False})
        assert [group.group_id for group in described.groups] == ["b", "a"]
        asked = {"group_ids": named, "include_authorized_operations": False}
        described = await node.ask(consumer_group_describe.API, 1, asked)
        assert [group.group_id for group in described.groups] == ["b", "a"]


@pytest.mark.parametrize("version", [8, 9, 10])
async def test_all_offsets_of_a_group_named_repeatedly_are_sent_once(version: int) -> None:
    async with CoordinatingBroker() as node:
        await node.lead()
        value = OffsetCommitValue(5, -1, "", 0)
        record = GroupRecord(OffsetCommitKey("g", "orders", 0), value)
        await node.groups.submit("g", lambda state, environment: ([record], None))
        group = {"group_id": "g", "topics": None} | ({"member_id": None, "member_epoch": -1} if version >= 9 else {})
        answer = await node.ask(offset_fetch.API, version, {"groups": [group] * 3, "require_stable": False})
        assert [(each.group_id, int(each.error_code), len(each.topics)) for each in answer.groups] == [
            ("g", ErrorCode.NONE, 1),
            ("g", ErrorCode.INVALID_REQUEST, 0),
            ("g", ErrorCode.INVALID_REQUEST, 0),
        ]


async def test_a_long_answer_stays_in_pieces_that_are_the_answer() -> None:
    call = a_call(describe_groups.API, 4)
    packed = Packed(Pace(call), b"head")
    for number in range(MANY):
        await packed.add(b"%d," % number)
    other = Packed(Pace(call), b"tail")
    await packed.add_all(other)
    first, *rest = packed.reply(call)
    assert len(rest) >= SLICES
    body = b"".join(map(bytes, rest))  # type: ignore[arg-type]
    assert body == b"head" + b"".join(b"%d," % number for number in range(MANY)) + b"tail"
    assert int.from_bytes(bytes(first)[:4], "big") == len(bytes(first)) - 4 + len(body)  # type: ignore[arg-type]


async def test_names_are_read_over_many_iterations_and_each_of_them_is_told_once() -> None:
    frame = encode_request_body(DELETE_GROUPS, 2, {"groups_names": [*NAMES, *NAMES]})
    with counted_iterations() as iterations:
        names = await read_names(
            RequestReader(memoryview(frame), 0, flexible=True), Pace(a_call(describe_groups.API, 4))
        )
    assert list(names) == NAMES
    assert iterations.count >= 2 * SLICES


def test_slices_and_emptied_release_consumed_items() -> None:
    items = deque(range(5))
    cut = chunks(items, 2)
    assert (next(cut), list(items)) == ([0, 1], [2, 3, 4])
    assert list(cut) == [[2, 3], [4]]
    assert list(chunks(deque[int](), 2)) == [[]]
    rest = deque("ab")
    assert (next(emptied(rest)), list(rest)) == ("a", ["b"])
