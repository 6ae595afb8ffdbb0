"""Where a group's coordinator is, and what clients are told until there is one."""

from typing import Any

import pytest

from broker_runtime.apis import find_coordinator
from broker_runtime.errors import ErrorCode, ProtocolError
from broker_runtime.groups.partition_of import partition_of
from broker_runtime.metadata.brokers import FenceBroker
from broker_runtime.metadata.topic_names import GROUPS_TOPIC
from broker_runtime.metadata.topics import NO_LEADER
from tests.support.coordinating_broker import CoordinatingBroker, versions

API = find_coordinator.API
SEVERAL_SINCE = 4


async def find(node: CoordinatingBroker, version: int, key: str = "billing", key_type: int = 0) -> Any:
    if version < SEVERAL_SINCE:
        asked = {"key": key} | ({"key_type": key_type} if version else {})
        return await node.ask(API, version, asked)
    (found,) = (await node.ask(API, version, {"key_type": key_type, "coordinator_keys": [key]})).coordinators
    return found


@pytest.mark.parametrize("version", versions(API))
async def test_it_is_the_leader_of_the_groups_partition(version: int) -> None:
    async with CoordinatingBroker(replicas=(1, 2)) as node:
        before = await find(node, version)
        assert (before.error_code, before.node_id) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, -1)
        assert node.asked_for == [GROUPS_TOPIC], "the first group makes the topic"
        node.elect(2, partition_of("billing", 2))
        found = await find(node, version)
        assert (found.error_code, found.node_id, found.host, found.port) == (ErrorCode.NONE, 2, "127.0.0.1", 9092)
        assert node.asked_for == [GROUPS_TOPIC]


async def test_nobody_is_while_the_partition_has_no_leader_or_a_fenced_one() -> None:
    async with CoordinatingBroker(replicas=(1, 2)) as node:
        node.elect(NO_LEADER)
        assert (await find(node, 6)).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        node.elect(2)
        node.metadata.write(FenceBroker(2, node.image.brokers[2].epoch))
        assert (await find(node, 6)).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE


async def test_transactions_have_none_and_other_types_do_not_exist() -> None:
    async with CoordinatingBroker() as node:
        await node.lead()
        assert (await find(node, 6, key_type=1)).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        for kind in (2, 9):
            assert (await find(node, 6, key_type=kind)).error_code == ErrorCode.INVALID_REQUEST


async def test_each_key_is_answered_as_often_as_it_is_asked_for_and_so_many_of_them() -> None:
    async with CoordinatingBroker() as node:
        await node.lead()
        answer = await node.ask(API, 4, {"key_type": 0, "coordinator_keys": ["a", "b", "a"]})
        assert [each.key for each in answer.coordinators] == ["a", "b", "a"]
        many = {"key_type": 0, "coordinator_keys": [str(n) for n in range(10_001)]}
        with pytest.raises(ProtocolError, match="at most 10000 at once"):
            await node.ask(API, 4, many)
