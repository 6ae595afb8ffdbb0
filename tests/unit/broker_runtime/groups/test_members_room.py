"""What members of all groups tell a coordinator is limited by its bytes, whichever protocol they use."""

from typing import Any

import pytest

from broker_runtime.apis.groups import consumer_group_heartbeat, join_group
from broker_runtime.config.keys.broker import BrokerConfig
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.groups.members_bytes import members_bytes
from broker_runtime.groups.members_room import MEMBER_BYTES, TOPIC_BYTES, MembersRoom
from broker_runtime.groups.records import ClassicProtocol
from broker_runtime.groups.tally import Census
from tests.support.groups.classic_coordinator import ClassicCoordinator, told
from tests.support.groups.coordinating_broker import CoordinatingBroker
from tests.support.groups.push_groups import Consumer, Coordinator

MOST = "sluicegate.groups.members.bytes.max"
AT_ONCE = {"group.initial.rebalance.delay.ms": "0"}


async def join(node: CoordinatingBroker, group_id: str, size: int, member_id: str = "") -> tuple[ErrorCode, str]:
    content = {"group_id": group_id, "session_timeout": 10_000, "rebalance_timeout": 10_000, "member_id": member_id}
    content |= {"protocol_type": "x", "protocols": [{"name": "p", "metadata": bytes(size)}]}
    answer = await node.ask(join_group.API, 3, content)
    return ErrorCode(answer.error_code), answer.member_id


async def beat(node: CoordinatingBroker, group_id: str, topics: int, member_id: str = "m") -> ErrorCode:
    content: dict[str, Any] = {"group_id": group_id, "member_id": member_id, "member_epoch": 0, "instance_id": None}
    names = [f"topic-{number}" for number in range(topics)]
    content |= {"rebalance_timeout": 60_000, "subscribed_topic_names": names, "server_assignor": None}
    content |= {"subscribed_topic_regex": None, "topic_partitions": [], "rack_id": None}
    return ErrorCode((await node.ask(consumer_group_heartbeat.API, 1, content)).error_code)


def test_taken_room_is_free_again_with_the_next_count() -> None:
    room = MembersRoom()
    room.take(60, 100, "g")
    with pytest.raises(KafkaError, match="needs 41 bytes, and members of groups on this broker use 60; at most 100"):
        room.take(41, 100, "g")
    room.begin_count()
    room.take(30, 100, "g")
    assert room.used == 90
    room.end_count(10)
    assert room.used == 40, "what was taken while the count ran may not be in it"
    room.begin_count()
    room.end_count(10)
    assert room.used == 10


async def test_metadata_of_classic_members_fills_the_room_of_all_groups_and_partitions() -> None:
    async with CoordinatingBroker(AT_ONCE | {MOST: str(3 * (MEMBER_BYTES + 1001))}, partitions=4) as node:
        await node.lead()
        census = Census(node.groups.states, lambda: node.groups.members_room)
        found = [await join(node, f"group-{number}", 1000) for number in range(4)]
        assert [code for code, _ in found] == [ErrorCode.NONE] * 3 + [ErrorCode.GROUP_MAX_SIZE_REACHED]
        assert "group-3" not in {name for state in node.groups.states() for name in state.groups}
        code, _ = await join(node, "group-0", 1000, found[0][1])
        assert code is ErrorCode.NONE, "a member that tells nothing new needs no room"
        await census.count()
        assert node.groups.members_room.used == 3 * (MEMBER_BYTES + 1001)
        node.lose()
        await node.lead()
        await census.count()
        assert (await join(node, "group-3", 1000))[0] is ErrorCode.NONE, "members that have joined only are gone"


async def test_topics_of_consumers_fill_it_too() -> None:
    async with CoordinatingBroker({MOST: str(2 * MEMBER_BYTES + 11 * TOPIC_BYTES)}, partitions=1) as node:
        await node.lead()
        assert await beat(node, "first", 10) is ErrorCode.NONE
        assert await beat(node, "second", 2) is ErrorCode.GROUP_MAX_SIZE_REACHED
        assert await beat(node, "second", 1) is ErrorCode.NONE
        assert await beat(node, "second", 1) is ErrorCode.NONE, "a member that tells nothing new needs no room"
        await Census(node.groups.states, lambda: node.groups.members_room).count()
        assert node.groups.members_room.used == 2 * MEMBER_BYTES + 11 * TOPIC_BYTES
        assert await join(node, "third", 0) == (ErrorCode.GROUP_MAX_SIZE_REACHED, "")


def test_assignments_of_leaders_fill_it_too() -> None:
    coordinator = ClassicCoordinator(BrokerConfig(sluicegate_groups_members_bytes_max=MEMBER_BYTES + 1100))
    member_id = coordinator.joined(protocols=(ClassicProtocol("range", bytes(1000)),))
    coordinator.advance(10.0)
    with pytest.raises(KafkaError) as refused:
        coordinator.sync(member_id, assignments={member_id: bytes(100)})
    assert refused.value.code is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert told(coordinator.sync(member_id, assignments={member_id: bytes(90)})).error is ErrorCode.NONE
    assert members_bytes(coordinator.group) == MEMBER_BYTES + len("range") + 1000 + 90


def test_registrations_of_push_consumers_fill_it_too() -> None:
    coordinator = Coordinator(BrokerConfig(sluicegate_groups_members_bytes_max=2 * MEMBER_BYTES))
    coordinator.consumers("a")
    with pytest.raises(KafkaError) as refused:
        Consumer(coordinator, "b").register()
    assert refused.value.code is ErrorCode.GROUP_MAX_SIZE_REACHED
    [group] = coordinator.state.groups.values()
    assert MEMBER_BYTES < members_bytes(group) < 2 * MEMBER_BYTES
