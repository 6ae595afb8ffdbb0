"""The APIs of transactions answer as Apache Kafka's do, in each version."""

from typing import Any

import pytest

from broker_runtime.apis.produce import init_producer_id
from broker_runtime.apis.transactions import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    describe_transactions,
    end_txn,
    list_transactions,
)
from broker_runtime.errors import ErrorCode
from broker_runtime.transactions.ids.partition_set import PartitionSet
from tests.support.groups.coordinating_broker import versions
from tests.support.transactions.transaction_broker import TransactionBroker

ID = "payments"
NONE, UNKNOWN, UNTRIED = ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.OPERATION_NOT_ATTEMPTED


class Node(TransactionBroker):
    """A broker with one producer, whose id is 4000."""

    async def begin(self) -> None:
        self.make_offsets_topic()
        await self.lead_transactions()
        await self.transactions.init_producer(ID, 60_000)

    async def add(
        self, *partitions: tuple[str, int], version: int = 3, epoch: int = 0, verify: bool = False
    ) -> dict[tuple[str, int], ErrorCode]:
        topics: dict[str, list[int]] = {}
        for topic, index in partitions:
            topics.setdefault(topic, []).append(index)
        named = [{"name": topic, "partitions": indexes} for topic, indexes in topics.items()]
        if version >= 4:
            transaction = {
                "transactional_id": ID,
                "producer_id": 4_000,
                "producer_epoch": epoch,
                "verify_only": verify,
                "topics": named,
            }
            answer = await self.ask(add_partitions_to_txn.API, version, {"transactions": [transaction]})
            assert answer.error_code == NONE
            [of_transaction] = answer.results_by_transaction
            assert of_transaction.transactional_id == ID
            found = of_transaction.topic_results
        else:
            content = {
                "v3_and_below_transactional_id": ID,
                "v3_and_below_producer_id": 4_000,
                "v3_and_below_producer_epoch": epoch,
                "v3_and_below_topics": named,
            }
            answer = await self.ask(add_partitions_to_txn.API, version, content)
            found = answer.results_by_topic_v3_and_below
        return {
            (topic.name, each.partition_index): ErrorCode(int(each.partition_error_code))
            for topic in found
            for each in topic.results_by_partition
        }

    async def end(self, version: int, *, epoch: int = 0, committed: bool = True) -> Any:
        content = {
            "transactional_id": ID,
            "producer_id": 4_000,
            "producer_epoch": epoch,
            "committed": committed,
        }
        return await self.ask(end_txn.API, version, content)

    async def describe(self, transactional_id: str = ID) -> Any:
        [found] = (
            await self.ask(describe_transactions.API, 0, {"transactional_ids": [transactional_id]})
        ).transaction_states
        return found

    async def list(self, version: int = 2, **filters: Any) -> Any:
        content = {"state_filters": (), "producer_id_filters": ()} | filters
        return await self.ask(list_transactions.API, version, content)


@pytest.mark.parametrize("version", versions(add_partitions_to_txn.API))
async def test_partitions_are_added(version: int) -> None:
    async with Node() as node:
        await node.begin()
        wanted = (("orders", 0), ("orders", 2))
        assert await node.add(*wanted, version=version) == dict.fromkeys(wanted, NONE)
        assert (await node.transactions.describe(ID)).partitions == PartitionSet.of(*wanted)
        assert (await node.transactions.describe(ID)).client_version == (2 if version >= 4 else 0)


@pytest.mark.parametrize("version", versions(init_producer_id.API))
async def test_a_producer_is_initialized(version: int) -> None:
    async with Node() as node:
        await node.begin()
        content: dict[str, Any] = {"transactional_id": ID, "transaction_timeout": 60_000}
        answer = await node.ask(init_producer_id.API, version, content)
        assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (NONE, 4_000, 1)
        if version >= 3:
            current = content | {"producer_id": 4_000, "producer_epoch": 0}
            fenced = ErrorCode.PRODUCER_FENCED if version >= 4 else ErrorCode.INVALID_PRODUCER_EPOCH
            assert (await node.ask(init_producer_id.API, version, current)).error_code == fenced
            half = content | {"producer_id": 4_000}
            assert (await node.ask(init_producer_id.API, version, half)).error_code == ErrorCode.INVALID_REQUEST
        too_long = content | {"transaction_timeout": 900_001}
        answer = await node.ask(init_producer_id.API, version, too_long)
        assert answer.error_code == ErrorCode.INVALID_TRANSACTION_TIMEOUT


@pytest.mark.parametrize("version", [4, 5])
async def test_partitions_are_verified(version: int) -> None:
    async with Node() as node:
        await node.begin()
        await node.add(("orders", 0))
        assert await node.add(("orders", 0), ("orders", 1), version=version, verify=True) == {
            ("orders", 0): NONE,
            ("orders", 1): ErrorCode.TRANSACTION_ABORTABLE,
        }


@pytest.mark.parametrize("version", [0, 3, 5])
async def test_one_partition_that_does_not_exist_refuses_all(version: int) -> None:
    async with Node() as node:
        await node.begin()
        found = await node.add(("orders", 0), ("orders", 3), ("none", 0), version=version)
        assert found == {("orders", 0): UNTRIED, ("orders", 3): UNKNOWN, ("none", 0): UNKNOWN}
        assert not (await node.transactions.describe(ID)).partitions


async def test_a_producer_adds_no_internal_topic() -> None:
    async with Node() as node:
        await node.begin()
        found = await node.add(("orders", 0), ("__consumer_offsets", 0), ("none", 0))
        assert found == {
            ("orders", 0): UNTRIED,
            ("__consumer_offsets", 0): ErrorCode.TOPIC_AUTHORIZATION_FAILED,
            ("none", 0): UNKNOWN,
        }
        assert await node.add(("__consumer_offsets", 0), version=5) == {("__consumer_offsets", 0): NONE}


@pytest.mark.parametrize(
    ("version", "code"),
    [(0, ErrorCode.INVALID_PRODUCER_EPOCH), (1, ErrorCode.INVALID_PRODUCER_EPOCH), (2, ErrorCode.PRODUCER_FENCED)],
)
async def test_old_versions_have_an_invalid_epoch_instead_of_a_fenced_producer(version: int, code: ErrorCode) -> None:
    async with Node() as node:
        await node.begin()
        assert await node.add(("orders", 0), version=version, epoch=1) == {("orders", 0): code}
        assert (await node.end(version, epoch=1)).error_code == code
        assert await add_offsets(node, version, epoch=1) == code


async def add_offsets(node: Node, version: int, *, epoch: int = 0) -> ErrorCode:
    content = {"transactional_id": ID, "producer_id": 4_000, "producer_epoch": epoch, "group_id": "billing"}
    return ErrorCode(int((await node.ask(add_offsets_to_txn.API, version, content)).error_code))


@pytest.mark.parametrize("version", versions(add_offsets_to_txn.API))
async def test_the_groups_partition_is_added(version: int) -> None:
    async with Node() as node:
        await node.begin()
        assert await add_offsets(node, version) == NONE
        [(topic, _)] = (await node.transactions.describe(ID)).partitions
        assert topic == "__consumer_offsets"


async def test_offsets_are_added_once_their_topic_exists() -> None:
    async with Node() as node:
        await node.lead_transactions()
        assert await add_offsets(node, 4) == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert node.asked_for == ["__consumer_offsets"]


@pytest.mark.parametrize("version", versions(end_txn.API))
async def test_a_transaction_is_ended(version: int) -> None:
    async with Node() as node:
        await node.begin()
        await node.add(("orders", 0))
        answer = await node.end(version)
        assert answer.error_code == NONE
        if version >= 5:
            assert (answer.producer_id, answer.producer_epoch) == (4_000, 1)
        assert (await node.end(version)).error_code == ErrorCode.CONCURRENT_TRANSACTIONS
        node.markers.write_all()
        await node.until(lambda: node.states()[-1] == "CompleteCommit")
        assert (await node.end(version)).error_code == NONE, "the answer was lost"


async def test_a_transaction_is_described() -> None:
    async with Node() as node:
        await node.begin()
        await node.add(("orders", 2), ("orders", 0))
        found = await node.describe()
        assert (found.error_code, found.transaction_state, found.producer_id, found.producer_epoch) == (
            NONE,
            "Ongoing",
            4_000,
            0,
        )
        assert found.transaction_timeout.total_seconds() == 60
        assert round(found.transaction_start_time.timestamp() * 1000) == node.clock.wall_ms()
        assert [(each.topic, each.partitions) for each in found.topics] == [("orders", (0, 2))]
        assert (await node.describe("other")).error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
        assert (await node.describe("")).error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(
    ("filters", "listed"),
    [
        ({}, True),
        ({"state_filters": ["Ongoing", "Empty"]}, True),
        ({"state_filters": ["Dead", "CompleteAbort"]}, False),
        ({"producer_id_filters": [4_000, 5]}, True),
        ({"producer_id_filters": [5]}, False),
        ({"duration_filter": 999}, True),
        ({"duration_filter": 1_000}, False),
        ({"transactional_id_pattern": "pay.*"}, True),
        ({"transactional_id_pattern": "pay"}, False),
        ({"transactional_id_pattern": ""}, True),
    ],
)
async def test_transactional_ids_are_listed(filters: dict[str, Any], listed: bool) -> None:
    async with Node() as node:
        await node.begin()
        await node.add(("orders", 0))
        node.clock.advance(1)
        answer = await node.list(**filters)
        assert answer.error_code == NONE
        found = [
            (each.transactional_id, each.producer_id, each.transaction_state) for each in answer.transaction_states
        ]
        assert found == ([(ID, 4_000, "Ongoing")] if listed else [])


async def test_unknown_states_and_invalid_patterns_are_told() -> None:
    async with Node() as node:
        await node.begin()
        answer = await node.list(state_filters=["Empty", "empty", "Half"])
        assert (answer.unknown_state_filters, len(answer.transaction_states)) == (("empty", "Half"), 1)
        answer = await node.list(transactional_id_pattern="(")
        assert answer.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION


async def test_another_thread_matches_a_pattern_and_one_that_takes_too_long_is_refused() -> None:
    """Such a pattern takes 100 ms for one id of this length."""
    async with Node() as node:
        await node.begin()
        await node.transactions.init_producer("ab" * 16_000, 60_000)
        answer = await node.list(transactional_id_pattern=".*b.{800}")
        assert (answer.error_code, len(answer.transaction_states), node.offloaded) == (NONE, 1, 1)
        for number in range(12):
            await node.transactions.init_producer(f"{number:02}" * 16_000, 60_000)
        answer = await node.list(transactional_id_pattern=".*b.{800}")
        assert answer.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION
        assert len((await node.list(transactional_id_pattern="pay.*")).transaction_states) == 1


async def test_a_broker_that_loads_its_ids_lists_none() -> None:
    async with Node(replicas=(1, 2)) as node:
        node.elect_transactions(1)
        assert (await node.list(0)).error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
