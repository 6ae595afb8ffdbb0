"""The coordinator of a group, and the answers to clients until there is one."""

from typing import Any

import pytest

from broker_runtime.apis.groups import find_coordinator
from broker_runtime.apis.request.many_items import ITEMS_PER_SLICE
from broker_runtime.coordination.partition_of import partition_of
from broker_runtime.errors import ErrorCode, ProtocolError
from broker_runtime.metadata.areas.brokers import FenceBroker
from broker_runtime.metadata.areas.topics import NO_LEADER
from broker_runtime.metadata.topic_names import GROUPS_TOPIC, TRANSACTIONS_TOPIC
from tests.support.groups.coordinating_broker import CoordinatingBroker, versions
from tests.support.oracles.counted_iterations import counted_iterations
from tests.support.transactions.transaction_broker import TransactionBroker

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


async def test_no_coordinator_is_available_while_the_partition_has_no_unfenced_leader() -> None:
    async with CoordinatingBroker(replicas=(1, 2)) as node:
        node.elect(NO_LEADER)
        assert (await find(node, 6)).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        node.elect(2)
        node.metadata.write(FenceBroker(2, node.image.brokers[2].epoch))
        assert (await find(node, 6)).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE


@pytest.mark.parametrize("version", versions(API)[1:])
async def test_it_is_the_leader_of_the_transactional_ids_partition(version: int) -> None:
    async with TransactionBroker(replicas=(1, 2)) as node:
        before = await find(node, version, key_type=1)
        assert (before.error_code, before.node_id) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, -1)
        assert node.asked_for == [TRANSACTIONS_TOPIC], "the first transactional id makes the topic"
        node.elect_transactions(2)
        found = await find(node, version, key_type=1)
        assert (found.error_code, found.node_id, found.host, found.port) == (ErrorCode.NONE, 2, "127.0.0.1", 9092)


@pytest.mark.parametrize(("key_type", "code"), [(0, ErrorCode.INVALID_GROUP_ID), (1, ErrorCode.INVALID_REQUEST)])
async def test_a_key_that_is_longer_than_a_record_allows_has_no_coordinator(key_type: int, code: ErrorCode) -> None:
    async with TransactionBroker() as node:
        await node.lead()
        await node.lead_transactions()
        assert (await find(node, 6, "x" * 32_768, key_type)).error_code == code
        assert (await find(node, 6, "x" * 32_767, key_type)).error_code == ErrorCode.NONE


async def test_other_types_do_not_exist() -> None:
    async with CoordinatingBroker() as node:
        await node.lead()
        for kind in (2, 9):
            assert (await find(node, 6, key_type=kind)).error_code == ErrorCode.INVALID_REQUEST


async def test_each_requested_key_is_answered_also_if_repeated() -> None:
    async with CoordinatingBroker() as node:
        await node.lead()
        answer = await node.ask(API, 4, {"key_type": 0, "coordinator_keys": ["a", "b", "a"]})
        assert [each.key for each in answer.coordinators] == ["a", "b", "a"]


async def test_other_tasks_run_between_very_many_or_long_keys() -> None:
    async with CoordinatingBroker() as node:
        await node.lead()
        many = [str(number) for number in range(20 * ITEMS_PER_SLICE)]
        with counted_iterations() as iterations:
            answer = await node.ask(API, 4, {"key_type": 0, "coordinator_keys": many})
        assert [each.key for each in answer.coordinators] == many
        assert iterations.count >= 20
        with counted_iterations() as iterations:
            await node.ask(API, 4, {"key_type": 0, "coordinator_keys": ["x" * 32_767] * 20})
        assert iterations.count >= 20


async def test_a_key_that_no_group_can_have_is_refused_by_itself() -> None:
    async with CoordinatingBroker() as node:
        await node.lead()
        answer = await node.ask(API, 4, {"key_type": 0, "coordinator_keys": ["x" * 40_000, "billing"]})
        assert [each.error_code for each in answer.coordinators] == [ErrorCode.INVALID_GROUP_ID, ErrorCode.NONE]


async def test_a_request_that_is_too_large_is_refused() -> None:
    async with CoordinatingBroker() as node:
        await node.lead()
        with pytest.raises(ProtocolError, match=r"at most 4194304 are allowed .*; split the request into several"):
            await node.ask(API, 4, {"key_type": 0, "coordinator_keys": ["x" * 1000] * 4200})
