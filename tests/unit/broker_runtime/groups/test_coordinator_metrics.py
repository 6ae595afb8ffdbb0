"""A broker's figures on the groups that it coordinates, and on those that it cannot serve yet."""

from unittest.mock import Mock

from broker_runtime.apis.groups import offset_commit
from broker_runtime.coordination.runtime import TermPhase
from broker_runtime.groups.tally import CoordinatorMetrics
from tests.support.groups.coordinating_broker import CoordinatingBroker

PARTITIONS = 2


async def commit(node: CoordinatingBroker, group: str) -> None:
    partition = {
        "partition_index": 0,
        "committed_offset": 7,
        "committed_leader_epoch": -1,
        "committed_metadata": "",
    }
    content = {
        "group_id": group,
        "generation_id_or_member_epoch": -1,
        "member_id": "",
        "group_instance_id": None,
        "topics": [{"name": "orders", "partitions": [partition]}],
    }
    answer = await node.ask(offset_commit.API, 8, content)
    assert answer.topics[0].partitions[0].error_code == 0


async def test_partitions_are_counted_by_what_becomes_of_them() -> None:
    async with CoordinatingBroker(partitions=PARTITIONS) as node:
        assert node.groups.figures() == CoordinatorMetrics(0, 0, 0, 0, 0)
        await node.lead()
        await commit(node, "billing")
        await commit(node, "shipping")
        assert node.groups.figures() == CoordinatorMetrics(0, PARTITIONS, 0, groups=2, offsets=2)
        assert sum(len(state.offsets.groups()) for state in node.groups.states()) == 2
        assert node.groups.notes() == []
        node.lose()
        assert node.groups.figures() == CoordinatorMetrics(0, 0, 0, 0, 0)
        assert list(node.groups.states()) == []


async def test_partitions_being_loaded_are_reported() -> None:
    async with CoordinatingBroker() as node:
        node.groups.terms.update({index: Mock(phase=TermPhase.LOADING) for index in range(3)})
        assert node.groups.figures() == CoordinatorMetrics(3, 0, 0, 0, 0)
        assert list(node.groups.states()) == []
        assert node.groups.notes() == ["groups of 3 partitions of __consumer_offsets are being loaded"]


async def test_some_of_many_problems_are_told() -> None:
    async with CoordinatingBroker() as node:
        node.groups.problems.update({index: f"groups of {index} fail" for index in range(5)})
        assert node.groups.notes() == [
            "groups of 0 fail",
            "groups of 1 fail",
            "groups of 2 fail",
            "2 more partitions of groups are not served",
        ]
        assert node.groups.figures().failed == 5
