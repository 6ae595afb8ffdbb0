"""ConsumerGroupHeartbeat and ConsumerGroupDescribe in both versions, over a coordinator in memory (KIP-848)."""

from time import process_time
from typing import Any
from uuid import UUID

import pytest

from broker_runtime.apis.groups import consumer_group_describe, consumer_group_heartbeat
from broker_runtime.apis.request.authorization.authorized_operations import NOT_ASKED
from broker_runtime.errors import ErrorCode
from broker_runtime.slicing.steps import at_once
from broker_runtime.wire.encoding.reader import RequestReader
from tests.support.groups.coordinating_broker import CoordinatingBroker, versions

BOTH = versions(consumer_group_heartbeat.API)
MANY = 130
"""Members are described over several time slices."""


async def beat(node: CoordinatingBroker, version: int, member_id: str, epoch: int, **more: Any) -> Any:
    asked: dict[str, Any] = {
        "group_id": "readers",
        "member_id": member_id,
        "member_epoch": epoch,
        "instance_id": None,
        "rack_id": None,
        "rebalance_timeout": -1,
        "subscribed_topic_names": None,
        "server_assignor": None,
        "topic_partitions": None,
        **({"subscribed_topic_regex": None} if version >= 1 else {}),
        **more,
    }
    return await node.ask(consumer_group_heartbeat.API, version, asked)


async def join(node: CoordinatingBroker, version: int, member_id: str, **more: Any) -> Any:
    full = {"rebalance_timeout": 60_000, "subscribed_topic_names": ("orders",), "topic_partitions": ()}
    return await beat(node, version, member_id, 0, **full, **more)


async def described(node: CoordinatingBroker, version: int, *group_ids: str, operations: bool = False) -> Any:
    asked = {"group_ids": group_ids, "include_authorized_operations": operations}
    return (await node.ask(consumer_group_describe.API, version, asked)).groups


@pytest.mark.parametrize("version", BOTH)
async def test_a_member_joins_is_steady_and_leaves(version: int) -> None:
    async with CoordinatingBroker() as node:
        await node.lead()
        joined = await join(node, version, "a")
        assert (joined.error_code, joined.member_id, joined.member_epoch) == (ErrorCode.NONE, "a", 2)
        (topic,) = joined.assignment.topic_partitions
        assert topic.partitions == (0, 1, 2)
        assert joined.heartbeat_interval.total_seconds() == 1
        steady = await beat(node, version, "a", 2, topic_partitions=({"topic_id": topic.topic_id, "partitions": (0,)},))
        assert (steady.error_code, steady.member_epoch, steady.assignment) == (ErrorCode.NONE, 2, None)
        assert (await beat(node, version, "a", -1)).member_epoch == -1
        gone = await beat(node, version, "a", 2)
        assert gone.error_code == ErrorCode.UNKNOWN_MEMBER_ID
        assert "'a'" in gone.error_message


@pytest.mark.parametrize("version", BOTH)
async def test_groups_are_described(version: int) -> None:
    async with CoordinatingBroker() as node:
        await node.lead()
        await join(node, version, "a", instance_id="i", rack_id="r")
        found, missing, nameless = await described(node, version, "readers", "others", "")
        assert (missing.error_code, missing.group_id) == (ErrorCode.GROUP_ID_NOT_FOUND, "others")
        assert (nameless.error_code, nameless.error_message) == (ErrorCode.INVALID_GROUP_ID, None)
        assert (found.error_code, found.group_state, found.assignor_name) == (ErrorCode.NONE, "Stable", "uniform")
        assert (found.group_epoch, found.assignment_epoch) == (2, 2)
        (member,) = found.members
        assert (member.member_id, member.instance_id, member.rack_id, member.member_epoch) == ("a", "i", "r", 2)
        assert (member.subscribed_topic_names, member.subscribed_topic_regex) == (("orders",), "")
        assert member.assignment.topic_partitions == member.target_assignment.topic_partitions
        (topic,) = member.assignment.topic_partitions
        assert (topic.topic_name, topic.partitions) == ("orders", (0, 1, 2))
        if version >= 1:
            assert member.member_type == 1


@pytest.mark.parametrize("asked_for", [True, False])
async def test_authorized_operations_are_described_on_request(asked_for: bool) -> None:
    async with CoordinatingBroker() as node:
        await node.lead()
        await join(node, 1, "a")
        found, missing = await described(node, 1, "readers", "others", operations=asked_for)
        assert found.authorized_operations == (3400 if asked_for else NOT_ASKED)
        assert missing.authorized_operations == NOT_ASKED


async def test_a_group_of_many_is_described_whole() -> None:
    async with CoordinatingBroker() as node:
        await node.lead()
        for number in range(MANY):
            assert (await join(node, 1, f"m{number}")).error_code == ErrorCode.NONE
        (found,) = await described(node, 1, "readers")
        assert [member.member_id for member in found.members] == [f"m{number}" for number in range(MANY)]


def test_reading_a_topic_named_40000_times_does_not_block_the_event_loop() -> None:
    topic = UUID(int=1).bytes
    frame = b"".join(topic + b"\x02" + index.to_bytes(4, "big") + b"\x00" for index in range(40_000))
    began_s = process_time()
    found = at_once(consumer_group_heartbeat._read_owned(RequestReader(memoryview(frame), 0, True), 40_000))
    assert found == {UUID(int=1): tuple(range(40_000))}
    assert process_time() - began_s < 1.0, "it took three seconds where each was added to a copy of the others"
