"""ListGroups, DescribeGroups, DeleteGroups and OffsetDelete in every version, over a coordinator in memory."""

import asyncio
from typing import Any

import pytest

from broker_runtime.apis.groups import delete_groups, describe_groups, list_groups, offset_delete, offset_fetch
from broker_runtime.apis.request.authorization.authorized_operations import NOT_ASKED
from broker_runtime.apis.request.context import ApiSpec
from broker_runtime.coordination.partition_of import partition_of
from broker_runtime.errors import ErrorCode
from broker_runtime.groups.environment import GroupEnvironment
from broker_runtime.groups.records import (
    ClassicMember,
    GroupMetadataKey,
    GroupMetadataValue,
    GroupRecord,
    OffsetCommitKey,
    OffsetCommitValue,
)
from broker_runtime.groups.state import GroupsState
from broker_runtime.metadata.topic_names import GROUPS_TOPIC
from tests.support.groups.coordinating_broker import CoordinatingBroker, versions

SUBSCRIPTION = b"\x00\x00" + b"\x00\x00\x00\x01" + b"\x00\x06orders" + b"\xff\xff\xff\xff"
"""Version 0 of a consumer's metadata: it reads `orders`."""
MEMBER = ClassicMember("m-1", None, "client", "/127.0.0.1", 60_000, 45_000, SUBSCRIPTION, b"what it has")


async def write(node: CoordinatingBroker, group_id: str, *records: GroupRecord) -> None:
    def decide(state: GroupsState, environment: GroupEnvironment) -> tuple[tuple[GroupRecord, ...], None]:
        return records, None

    await node.groups.submit(group_id, decide)


async def with_offsets(node: CoordinatingBroker, group_id: str, count: int = 1) -> None:
    value = OffsetCommitValue(5, -1, "", 0)
    await write(node, group_id, *[GroupRecord(OffsetCommitKey(group_id, "orders", n), value) for n in range(count)])


async def with_member(node: CoordinatingBroker, group_id: str) -> None:
    value = GroupMetadataValue("consumer", 3, "range", "m-1", 0, (MEMBER,))
    await write(node, group_id, GroupRecord(GroupMetadataKey(group_id), value))


async def groups(node: CoordinatingBroker, version: int, **filters: Any) -> dict[str, tuple[str, ...]]:
    answer = await node.ask(list_groups.API, version, filters)
    assert answer.error_code == ErrorCode.NONE
    more = [name for name, since in (("group_state", 4), ("group_type", 5)) if version >= since]
    return {each.group_id: (each.protocol_type, *(getattr(each, name) for name in more)) for each in answer.groups}


@pytest.mark.parametrize("version", versions(list_groups.API))
async def test_groups_of_all_partitions_are_listed(version: int) -> None:
    async with CoordinatingBroker(partitions=4) as node:
        await node.lead()
        for name in "abcde":
            await with_offsets(node, name)
        await with_member(node, "f")
        asked: dict[str, Any] = {"states_filter": ()} if version >= 4 else {}
        asked |= {"types_filter": ()} if version >= 5 else {}
        found = await groups(node, version, **asked)
        shown = len(found["f"])
        assert found == dict.fromkeys("abcde", ("", "Empty", "classic")[:shown]) | {
            "f": ("consumer", "Stable", "classic")[:shown]
        }


async def test_groups_are_filtered_by_state_and_type_whatever_the_case() -> None:
    async with CoordinatingBroker() as node:
        await node.lead()
        await with_offsets(node, "empty")
        await with_member(node, "stable")
        assert list(await groups(node, 4, states_filter=("STABLE",))) == ["stable"]
        assert list(await groups(node, 5, states_filter=("Empty",), types_filter=("Classic",))) == ["empty"]
        assert list(await groups(node, 5, states_filter=(), types_filter=("consumer",))) == []


async def test_a_broker_that_is_loading_groups_does_not_list_some_of_them_as_all() -> None:
    async with CoordinatingBroker(replicas=(1, 2)) as node:
        await node.loading()
        answer = await node.ask(list_groups.API, 4, {"states_filter": ()})
        assert (answer.error_code, answer.groups) == (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ())
        node.follow()
        await node.loaded()
        assert await groups(node, 4, states_filter=()) == {}


async def test_a_broker_that_has_yet_to_load_its_groups_lists_none() -> None:
    async with CoordinatingBroker() as node:
        node.make_offsets_topic()
        answer = await node.ask(list_groups.API, 4, {"states_filter": ()})
        assert (answer.error_code, answer.groups) == (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ())


async def test_groups_of_an_unopenable_replica_do_not_prevent_listing_others() -> None:
    """The answer is that for a partition without a leader: otherwise clients would retry for ever."""
    async with CoordinatingBroker() as node:
        await node.lead()
        await with_offsets(node, "a")
        other = 1 - partition_of("a", 2)
        node.replicas._cannot_serve((GROUPS_TOPIC, other), OSError("its file is damaged"))
        assert list(await groups(node, 4, states_filter=())) == ["a"]


async def test_a_broker_that_cannot_load_some_groups_lists_none() -> None:
    async with CoordinatingBroker() as node:
        await node.lead()
        await with_offsets(node, "billing")
        node.append(b"\x00\x01\x00", b"no such record")
        node.elect(1)
        for _ in range(50):
            await asyncio.sleep(0)
        answer = await node.ask(list_groups.API, 4, {"states_filter": ()})
        assert (answer.error_code, answer.groups) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, ())


@pytest.mark.parametrize("version", versions(describe_groups.API))
async def test_a_group_is_described_with_its_members(version: int) -> None:
    asked: dict[str, Any] = {"groups": ["f", "e", "nothing"]}
    asked |= {"include_authorized_operations": False} if version >= 3 else {}
    async with CoordinatingBroker() as node:
        await node.lead()
        await with_member(node, "f")
        await with_offsets(node, "e")
        full, empty, absent = (await node.ask(describe_groups.API, version, asked)).groups
        assert (full.group_state, full.protocol_type, full.protocol_data) == ("Stable", "consumer", "range")
        (member,) = full.members
        assert (member.member_id, member.client_host) == ("m-1", "/127.0.0.1")
        assert (member.member_metadata, member.member_assignment) == (SUBSCRIPTION, b"what it has")
        assert (empty.error_code, empty.group_state, empty.members) == (ErrorCode.NONE, "Empty", ())
        code = ErrorCode.GROUP_ID_NOT_FOUND if version >= 6 else ErrorCode.NONE
        assert (absent.error_code, absent.group_state, absent.members) == (code, "Dead", ())
        node.lose()
        for each in (await node.ask(describe_groups.API, version, asked)).groups:
            assert (each.error_code, each.group_state) == (ErrorCode.NOT_COORDINATOR, "")


@pytest.mark.parametrize("asked_for", [True, False])
async def test_authorized_operations_are_described_on_request(asked_for: bool) -> None:
    asked = {"groups": ["e", "nothing"], "include_authorized_operations": asked_for}
    may = 3400 if asked_for else NOT_ASKED
    async with CoordinatingBroker() as node:
        await node.lead()
        await with_offsets(node, "e")
        for version, of_nothing in ((5, may), (6, NOT_ASKED)):
            found = (await node.ask(describe_groups.API, version, asked)).groups
            assert [each.authorized_operations for each in found] == [may, of_nothing], version
        node.lose()
        assert (await node.ask(describe_groups.API, 5, asked)).groups[0].authorized_operations == NOT_ASKED


@pytest.mark.parametrize("version", versions(delete_groups.API))
async def test_empty_groups_are_deleted_with_their_offsets(version: int) -> None:
    async with CoordinatingBroker() as node:
        await node.lead()
        await with_offsets(node, "many", 2_500)
        await with_member(node, "busy")
        answer = await node.ask(delete_groups.API, version, {"groups_names": ["many", "busy", "nothing", "many"]})
        assert {each.group_id: each.error_code for each in answer.results} == {
            "many": ErrorCode.NONE,
            "busy": ErrorCode.NON_EMPTY_GROUP,
            "nothing": ErrorCode.GROUP_ID_NOT_FOUND,
        }
        state = node.groups.term_of("many").state
        assert "many" not in state.groups
        assert not state.offsets.of("many")


async def test_offsets_are_deleted_of_what_nobody_reads() -> None:
    other = {"name": "other", "partitions": [{"partition_index": 0}, {"partition_index": 7}]}
    read = {"name": "orders", "partitions": [{"partition_index": 0}]}
    gone = {"name": "gone", "partitions": [{"partition_index": 0}]}
    async with CoordinatingBroker() as node:
        await node.lead()
        node.metadata.topic("other", (1,))
        value = OffsetCommitValue(5, -1, "", 0)
        await write(
            node, "busy", *[GroupRecord(OffsetCommitKey("busy", name, 0), value) for name in ("other", "orders")]
        )
        await with_member(node, "busy")
        # A coordinator reads its members' subscriptions when it has loaded the group.
        node.lose()
        await node.lead()
        answer = await node.ask(offset_delete.API, 0, {"group_id": "busy", "topics": [other, read, gone]})
        told = [(topic.name, [part.error_code for part in topic.partitions]) for topic in answer.topics]
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert told == [
            ("other", [ErrorCode.NONE, unknown]),
            ("orders", [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC]),
            ("gone", [unknown]),
        ]
        assert list(node.groups.term_of("busy").state.offsets.of("busy")) == [("orders", 0)]
        for group_id, code in (("", ErrorCode.INVALID_GROUP_ID), ("nothing", ErrorCode.GROUP_ID_NOT_FOUND)):
            answer = await node.ask(offset_delete.API, 0, {"group_id": group_id, "topics": [other]})
            assert (answer.error_code, answer.topics) == (code, ())


async def test_a_group_of_thousands_is_described_over_many_time_slices() -> None:
    members = tuple(ClassicMember(f"m-{n}", None, "client", "/h", 1, 1, SUBSCRIPTION, b"") for n in range(2_000))
    async with CoordinatingBroker() as node:
        await node.lead()
        value = GroupMetadataValue("consumer", 3, "range", "m-0", 0, members)
        await write(node, "f", GroupRecord(GroupMetadataKey("f"), value))
        asked = asyncio.ensure_future(node.ask(describe_groups.API, 2, {"groups": ["f"]}))
        slices = 0
        while not asked.done():
            await asyncio.sleep(0)
            slices += 1
        (group,) = (await asked).groups
        assert [each.member_id for each in group.members] == [f"m-{n}" for n in range(2_000)]
        assert slices >= 2_000 // 128


@pytest.mark.parametrize("api", [describe_groups.API, offset_fetch.API], ids=lambda api: api.name)
async def test_however_many_groups_a_request_names_some_are_asked_for_at_a_time(api: ApiSpec[Any]) -> None:
    names = [f"g{number}" for number in range(1_000)]
    asked: dict[str, tuple[int, dict[str, Any]]] = {
        "DescribeGroups": (2, {"groups": names}),
        "OffsetFetch": (8, {"require_stable": False, "groups": [{"group_id": each, "topics": None} for each in names]}),
    }
    version, content = asked[api.name]
    async with CoordinatingBroker() as node:
        await node.lead()
        answer = asyncio.ensure_future(node.ask(api, version, content))
        tasks = 0
        while not answer.done():
            await asyncio.sleep(0)
            tasks = max(tasks, len(asyncio.all_tasks()))
        assert [each.group_id for each in (await answer).groups] == names
        assert tasks < 200
