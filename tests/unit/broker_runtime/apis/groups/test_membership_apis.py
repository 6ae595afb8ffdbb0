"""JoinGroup, SyncGroup, Heartbeat and LeaveGroup in every version, over a coordinator in memory."""

import asyncio
from typing import Any

import pytest

from broker_runtime.apis.groups import heartbeat, join_group, leave_group, sync_group
from broker_runtime.apis.request.many_items import ITEMS_PER_SLICE
from broker_runtime.errors import ErrorCode
from broker_runtime.wire.encoding.reader import RequestReader
from broker_runtime.wire.messages import encode_request_body
from tests.support.groups.coordinating_broker import CoordinatingBroker, versions
from tests.support.oracles.counted_iterations import counted_iterations
from tests.support.requests.calls import a_call

JOIN, SYNC, BEAT, LEAVE = join_group.API, sync_group.API, heartbeat.API, leave_group.API
AT_ONCE = {"group.initial.rebalance.delay.ms": "0"}


def of_version(fields: dict[str, Any], version: int, **since: int) -> dict[str, Any]:
    """The fields that this version has."""
    return {name: value for name, value in fields.items() if version >= since.get(name, 0)}


def joining(version: int, member_id: str = "", **more: Any) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "group_id": "billing",
        "session_timeout": 10_000,
        "rebalance_timeout": 60_000,
        "member_id": member_id,
        "group_instance_id": None,
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": b"\x00\x00\x00\x00\x00\x00"}],
        "reason": "a test",
    }
    since = {"rebalance_timeout": 1, "group_instance_id": 5, "reason": 8}
    return of_version(fields | more, version, **since)


async def join(node: CoordinatingBroker, version: int, member_id: str = "", **more: Any) -> Any:
    return await node.ask(JOIN, version, joining(version, member_id, **more))


async def sync(node: CoordinatingBroker, version: int, member_id: str, generation: int = 1, **more: Any) -> Any:
    fields: dict[str, Any] = {
        "group_id": "billing",
        "generation_id": generation,
        "member_id": member_id,
        "group_instance_id": None,
        "protocol_type": "consumer",
        "protocol_name": "range",
        "assignments": [{"member_id": member_id, "assignment": b"everything"}],
    }
    since = {"group_instance_id": 3, "protocol_type": 5, "protocol_name": 5}
    return await node.ask(SYNC, version, of_version(fields | more, version, **since))


async def beat(node: CoordinatingBroker, version: int, member_id: str, generation: int = 1) -> ErrorCode:
    fields = {"group_id": "billing", "generation_id": generation, "member_id": member_id, "group_instance_id": None}
    answer: Any = await node.ask(BEAT, version, of_version(fields, version, group_instance_id=3))
    return ErrorCode(answer.error_code)


async def joined(node: CoordinatingBroker, version: int = 9) -> Any:
    answer = await join(node, version)
    if version >= 4:
        assert answer.error_code == ErrorCode.MEMBER_ID_REQUIRED
        answer = await join(node, version, answer.member_id)
    return answer


@pytest.mark.parametrize("version", versions(JOIN))
async def test_every_version_joins(version: int) -> None:
    async with CoordinatingBroker(AT_ONCE) as node:
        await node.lead()
        answer = await joined(node, version)
        assert (answer.error_code, answer.generation_id, answer.protocol_name) == (ErrorCode.NONE, 1, "range")
        assert answer.leader == answer.member_id
        (told,) = answer.members
        assert (told.member_id, told.metadata) == (answer.member_id, b"\x00\x00\x00\x00\x00\x00")
        if version >= 5:
            assert told.group_instance_id is None
        if version >= 7:
            assert answer.protocol_type == "consumer"
        if version >= 9:
            assert answer.skip_assignment is False


@pytest.mark.parametrize("version", versions(JOIN))
async def test_every_version_is_refused(version: int) -> None:
    async with CoordinatingBroker(AT_ONCE) as node:
        await node.lead()
        for wrong, error in (
            ({"session_timeout": 5_999}, ErrorCode.INVALID_SESSION_TIMEOUT),
            ({"member_id": "nobody"}, ErrorCode.UNKNOWN_MEMBER_ID),
            ({"protocols": []}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ):
            answer = (
                await join(node, version, **wrong) if "member_id" not in wrong else await join(node, version, "nobody")
            )
            assert (answer.error_code, answer.generation_id, answer.members) == (error, -1, ())
            assert answer.protocol_name == (None if version >= 7 else "")


async def test_the_first_version_has_its_session_timeout_for_its_rebalance_timeout() -> None:
    async with CoordinatingBroker(AT_ONCE) as node:
        await node.lead()
        answer = await join(node, 0)
        state = node.groups.term_of("billing").state
        group: Any = state.groups["billing"]
        assert group.members.by_id[answer.member_id].rebalance_timeout_ms == 10_000
        assert group.members.by_id[answer.member_id].client_host == "/127.0.0.1"


@pytest.mark.parametrize("version", versions(SYNC))
async def test_every_version_syncs(version: int) -> None:
    async with CoordinatingBroker(AT_ONCE) as node:
        await node.lead()
        member_id = (await joined(node)).member_id
        answer = await sync(node, version, member_id)
        assert (answer.error_code, answer.assignment) == (ErrorCode.NONE, b"everything")
        if version >= 5:
            assert (answer.protocol_type, answer.protocol_name) == ("consumer", "range")
            silent = await sync(node, version, member_id, protocol_name=None)
            assert silent.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        assert (await sync(node, version, "nobody")).error_code == ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("version", versions(BEAT))
async def test_every_version_beats(version: int) -> None:
    async with CoordinatingBroker(AT_ONCE) as node:
        await node.lead()
        member_id = (await joined(node)).member_id
        assert await beat(node, version, member_id) is ErrorCode.NONE
        assert await beat(node, version, member_id, 2) is ErrorCode.ILLEGAL_GENERATION


@pytest.mark.parametrize("version", versions(LEAVE))
async def test_every_version_leaves(version: int) -> None:
    async with CoordinatingBroker(AT_ONCE) as node:
        await node.lead()
        member_id = (await joined(node)).member_id
        for error in (ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID):
            if version < 3:
                answer: Any = await node.ask(LEAVE, version, {"group_id": "billing", "member_id": member_id})
                assert answer.error_code == error
                continue
            leaving = {"member_id": member_id, "group_instance_id": None} | ({"reason": "x"} if version >= 5 else {})
            answer = await node.ask(LEAVE, version, {"group_id": "billing", "members": [leaving]})
            assert answer.error_code == ErrorCode.NONE
            assert [(each.member_id, each.error_code) for each in answer.members] == [(member_id, error)]


async def test_a_follower_waits_for_its_leader() -> None:
    async with CoordinatingBroker(AT_ONCE) as node:
        await node.lead()
        leader = (await joined(node)).member_id
        follower = (await join(node, 9)).member_id
        joining = asyncio.create_task(join(node, 9, follower))
        await asyncio.sleep(0)
        assert await beat(node, 4, leader) is ErrorCode.REBALANCE_IN_PROGRESS
        assert (await join(node, 9, leader)).generation_id == 2
        assert (await joining).leader == leader
        syncing = asyncio.create_task(sync(node, 5, follower, 2))
        parts = [{"member_id": leader, "assignment": b"1"}, {"member_id": follower, "assignment": b"2"}]
        assert (await sync(node, 5, leader, 2, assignments=parts)).assignment == b"1"
        assert (await syncing).assignment == b"2"


async def test_pending_joins_fail_when_the_coordinator_moves() -> None:
    async with CoordinatingBroker() as node:
        await node.lead()
        member_id = (await join(node, 9)).member_id
        joining = asyncio.create_task(join(node, 9, member_id))
        await asyncio.sleep(0.001)
        node.lose()
        assert (await joining).error_code == ErrorCode.NOT_COORDINATOR
        assert await beat(node, 4, member_id) is ErrorCode.NOT_COORDINATOR


async def test_members_continue_at_the_groups_new_coordinator() -> None:
    async with CoordinatingBroker(AT_ONCE) as node:
        await node.lead()
        member_id = (await joined(node)).member_id
        await sync(node, 5, member_id)
        node.lose()
        node.elect(1)
        assert await beat(node, 4, member_id) in (ErrorCode.NONE, ErrorCode.NOT_COORDINATOR)
        await node.loaded()
        assert await beat(node, 4, member_id) is ErrorCode.NONE
        assert (await sync(node, 5, member_id)).assignment == b"everything"


async def test_member_data_beyond_the_limits_is_rejected_without_being_read() -> None:
    """The rest of the request is not a protocol, and is never read."""
    limits = {"sluicegate.group.member.protocols.max": "3", "sluicegate.group.member.bytes.max": "1000"}
    fine = [{"name": "a", "metadata": b"x"}] * 3
    for protocols, refused in ((fine, False), ([*fine, *fine], True), ([{"name": "a", "metadata": bytes(1000)}], True)):
        async with CoordinatingBroker(AT_ONCE | limits) as node:
            await node.lead()
            answer = await join(node, 3, protocols=protocols)
            assert answer.error_code == (ErrorCode.INVALID_REQUEST if refused else ErrorCode.NONE)
    async with CoordinatingBroker(AT_ONCE | limits) as node:
        await node.lead()
        frame = encode_request_body(JOIN.key, 3, joining(3) | {"protocols": [*fine, *fine, *fine]})
        reader = RequestReader(memoryview(frame[: -4 * 7]), 0, flexible=False)
        answer = await JOIN.handle(reader, a_call(JOIN, 3), node)  # type: ignore[arg-type, misc]
        assert b"".join(map(bytes, answer))[12:14] == ErrorCode.INVALID_REQUEST.to_bytes(2, "big")


async def test_a_leader_that_assigns_too_much_or_to_too_many_is_refused() -> None:
    limits = {"sluicegate.group.assignments.bytes.max": "1000", "group.max.size": "3"}
    async with CoordinatingBroker(AT_ONCE | limits) as node:
        await node.lead()
        member_id = (await joined(node)).member_id
        for assignments in (
            [{"member_id": str(number), "assignment": b"x"} for number in range(4)],
            [{"member_id": member_id, "assignment": bytes(1000)}],
        ):
            answer = await sync(node, 5, member_id, assignments=assignments)
            assert answer.error_code == ErrorCode.INVALID_REQUEST
        assert (await sync(node, 5, member_id)).assignment == b"everything"


async def test_others_have_their_iterations_while_a_leader_assigns_to_very_many() -> None:
    async with CoordinatingBroker(AT_ONCE) as node:
        await node.lead()
        member_id = (await joined(node)).member_id
        many = [{"member_id": str(number), "assignment": b"x"} for number in range(4 * ITEMS_PER_SLICE)]
        with counted_iterations() as iterations:
            await sync(node, 5, member_id, assignments=many)
        assert iterations.count >= 4
