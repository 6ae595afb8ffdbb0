"""AlterPartition, ElectLeaders, reassignments and UnregisterBroker on every version, through a controller in memory."""

from typing import Any
from uuid import UUID

import pytest

from broker_runtime.apis.cluster import broker_registration, unregister_broker
from broker_runtime.apis.partitions import alter_partition, alter_partition_reassignments, list_partition_reassignments
from broker_runtime.apis.request.context import ApiSpec
from broker_runtime.apis.table import BROKER_APIS, CONTROLLER_APIS
from broker_runtime.apis.topics import elect_leaders
from broker_runtime.errors import ErrorCode
from broker_runtime.metadata.areas.brokers import FenceBroker
from broker_runtime.metadata.areas.topics import Partition, PartitionRecord, TopicRecord
from tests.support.worlds.controller import CLUSTER_ID, ControllerInMemory

ID, OTHER = UUID(int=50), UUID(int=51)


def versions(api: ApiSpec[Any]) -> range:
    return range(api.versions[0], api.versions[1] + 1)


class Cluster(ControllerInMemory):
    """Brokers 1 to 3 with the topic "orders".

    Partition 0 is led by 1, and 2 is in sync. Partition 1 is led by 2, which is not the preferred leader, and all are
    in sync.
    """

    async def __aenter__(self) -> "Cluster":
        await super().__aenter__()
        self.epochs = {broker_id: await self.broker(broker_id) for broker_id in (1, 2, 3)}
        await self.write(
            TopicRecord("orders", ID),
            PartitionRecord(ID, 0, (1, 2, 3), (1, 2), 1, 4, 6),
            PartitionRecord(ID, 1, (1, 2, 3), (1, 2, 3), 2, 0, 0),
        )
        return self

    def part(self, index: int) -> Partition:
        return self.image.topics["orders"].partitions[index]


def test_the_kinds_of_listeners_that_serve_them() -> None:
    """As in Apache Kafka: brokers also accept administrators' requests, and forward them."""
    asked_by_anybody = {
        elect_leaders.API.key,
        alter_partition_reassignments.API.key,
        list_partition_reassignments.API.key,
        unregister_broker.API.key,
    }
    on_brokers, on_controllers = {api.key for api in BROKER_APIS}, {api.key for api in CONTROLLER_APIS}
    assert asked_by_anybody <= on_brokers
    assert asked_by_anybody | {alter_partition.API.key} <= on_controllers
    assert alter_partition.API.key not in on_brokers


# AlterPartition


def in_sync(node: Cluster, *isr: int, index: int = 0, **more: Any) -> dict[str, Any]:
    return {
        "partition_index": index,
        "leader_epoch": 4,
        "new_isr": isr,
        "new_isr_with_epochs": [{"broker_id": r, "broker_epoch": node.epochs[r]} for r in isr],
        "leader_recovery_state": 0,
        "partition_epoch": 6,
    } | more


def altering(node: Cluster, *partitions: dict[str, Any], **more: Any) -> dict[str, Any]:
    asked = {"broker_id": 1, "broker_epoch": node.epochs[1], "topics": [{"topic_id": ID, "partitions": partitions}]}
    return asked | more


@pytest.mark.parametrize("version", versions(alter_partition.API))
async def test_a_leader_brings_a_follower_in(version: int) -> None:
    async with Cluster() as node:
        answer = await node.ask(alter_partition.API, version, altering(node, in_sync(node, 1, 2, 3)))
        assert answer["error_code"] == ErrorCode.NONE
        (topic,) = answer["topics"]
        assert topic["topic_id"] == ID
        (part,) = topic["partitions"]
        assert (part["error_code"], part["leader_id"], part["leader_epoch"]) == (ErrorCode.NONE, 1, 4)
        assert (part["isr"], part["partition_epoch"]) == ((1, 2, 3), 7)
        assert node.part(0) == Partition((1, 2, 3), (1, 2, 3), 1, 4, 7)


@pytest.mark.parametrize("version", versions(alter_partition.API))
async def test_each_partition_of_a_request_stands_for_itself(version: int) -> None:
    async with Cluster() as node:
        await node.write(FenceBroker(3, node.epochs[3]))
        asked = altering(
            node,
            in_sync(node, 1),
            in_sync(node, 1, 2),
            in_sync(node, 1, 2, index=1, leader_epoch=0, partition_epoch=0),
            in_sync(node, 1, index=9),
        )
        asked["topics"].append({"topic_id": OTHER, "partitions": [in_sync(node, 1)]})
        answer = await node.ask(alter_partition.API, version, asked)
        assert [part["error_code"] for topic in answer["topics"] for part in topic["partitions"]] == [
            ErrorCode.NONE,
            ErrorCode.INVALID_REQUEST,
            ErrorCode.INVALID_REQUEST,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            ErrorCode.UNKNOWN_TOPIC_ID,
        ]
        assert node.part(0).isr == (1,)
        fenced = await node.ask(alter_partition.API, version, altering(node, in_sync(node, 1, 3, partition_epoch=7)))
        assert fenced["topics"][0]["partitions"][0]["error_code"] == ErrorCode.INELIGIBLE_REPLICA


async def test_version_3_knows_a_follower_that_was_restarted() -> None:
    async with Cluster() as node:
        before = node.epochs[3]
        node.epochs[3] = await node.broker(3)
        stale = in_sync(node, 1, 2, 3) | {
            "new_isr_with_epochs": [{"broker_id": r, "broker_epoch": node.epochs[r]} for r in (1, 2)]
            + [{"broker_id": 3, "broker_epoch": before}]
        }
        answer = await node.ask(alter_partition.API, 3, altering(node, stale))
        assert answer["topics"][0]["partitions"][0]["error_code"] == ErrorCode.INELIGIBLE_REPLICA
        answer = await node.ask(alter_partition.API, 3, altering(node, in_sync(node, 1, 2, 3)))
        assert answer["topics"][0]["partitions"][0]["error_code"] == ErrorCode.NONE


@pytest.mark.parametrize("wrong", [{"broker_epoch": 10**6}, {"broker_id": 9}])
async def test_a_leader_with_another_epoch_alters_nothing(wrong: dict[str, int]) -> None:
    async with Cluster() as node:
        answer = await node.ask(alter_partition.API, 3, altering(node, in_sync(node, 1), **wrong))
        assert (answer["error_code"], list(answer["topics"])) == (ErrorCode.STALE_BROKER_EPOCH, [])
        assert node.part(0).isr == (1, 2)


# ElectLeaders


def electing(kind: int, *partitions: int, everything: bool = False) -> dict[str, Any]:
    topics = None if everything else [{"topic": "orders", "partitions": partitions}]
    return {"election_type": kind, "topic_partitions": topics, "timeout": 1000}


def elected(answer: dict[str, Any]) -> dict[tuple[str, int], ErrorCode]:
    return {
        (topic["topic"], part["partition_id"]): part["error_code"]
        for topic in answer["replica_election_results"]
        for part in topic["partition_result"]
    }


@pytest.mark.parametrize("version", versions(elect_leaders.API))
async def test_preferred_leaders_are_elected(version: int) -> None:
    async with Cluster() as node:
        asked = electing(0, 0, 1, 1, 7)
        asked["topic_partitions"].append({"topic": "nope", "partitions": [0]})
        answer = await node.ask(elect_leaders.API, version, asked)
        assert elected(answer) == {
            ("orders", 0): ErrorCode.ELECTION_NOT_NEEDED,
            ("orders", 1): ErrorCode.NONE,
            ("orders", 7): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            ("nope", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        }
        assert (node.part(1).leader, node.part(1).leader_epoch, node.part(1).partition_epoch) == (1, 1, 1)


@pytest.mark.parametrize("version", versions(elect_leaders.API))
async def test_electing_all_partitions_reports_only_those_with_an_election(version: int) -> None:
    async with Cluster() as node:
        answer = await node.ask(elect_leaders.API, version, electing(0, everything=True))
        assert elected(answer) == {("orders", 1): ErrorCode.NONE}


async def test_unclean_elections_and_what_is_no_election() -> None:
    async with Cluster() as node:
        await node.write(PartitionRecord(ID, 0, (1, 2, 3), (3,), -1, 5, 7), FenceBroker(3, node.epochs[3]))
        answer = await node.ask(elect_leaders.API, 2, electing(1, 0, 1))
        assert elected(answer) == {("orders", 0): ErrorCode.NONE, ("orders", 1): ErrorCode.ELECTION_NOT_NEEDED}
        assert (node.part(0).leader, node.part(0).isr) == (1, (1,))
        wrong = await node.ask(elect_leaders.API, 2, electing(5, 0))
        assert wrong["error_code"] == ErrorCode.INVALID_REQUEST
        assert elected(wrong) == {("orders", 0): ErrorCode.INVALID_REQUEST}


# Reassignments


def moving(index: int, replicas: list[int] | None, name: str = "orders", **more: Any) -> dict[str, Any]:
    topics = [{"name": name, "partitions": [{"partition_index": index, "replicas": replicas}]}]
    return {"timeout": 1000, "topics": topics, "allow_replication_factor_change": True} | more


async def listed(node: Cluster, topics: list[dict[str, Any]] | None) -> list[tuple[str, int, Any, Any, Any]]:
    answer = await node.ask(list_partition_reassignments.API, 0, {"timeout": 1000, "topics": topics})
    assert answer["error_code"] == ErrorCode.NONE
    return [
        (t["name"], p["partition_index"], p["replicas"], p["adding_replicas"], p["removing_replicas"])
        for t in answer["topics"]
        for p in t["partitions"]
    ]


@pytest.mark.parametrize("version", versions(alter_partition_reassignments.API))
async def test_a_reassignment_is_begun_listed_and_cancelled(version: int) -> None:
    async with Cluster() as node:
        await node.broker(4)
        answer = await node.ask(alter_partition_reassignments.API, version, moving(0, [4, 1]))
        assert (answer["error_code"], answer["responses"][0]["partitions"][0]["error_code"]) == (0, 0)
        under_way = [("orders", 0, (4, 1, 2, 3), (4,), (2, 3))]
        assert await listed(node, None) == under_way
        assert await listed(node, [{"name": "orders", "partition_indexes": [0, 1]}]) == under_way
        assert await listed(node, [{"name": "orders", "partition_indexes": [1]}]) == []
        assert await listed(node, [{"name": "nope", "partition_indexes": [0]}]) == []
        for code in (ErrorCode.NONE, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS):
            answer = await node.ask(alter_partition_reassignments.API, version, moving(0, None))
            assert answer["responses"][0]["partitions"][0]["error_code"] == code
        assert await listed(node, None) == []


async def test_partitions_that_cannot_be_moved() -> None:
    async with Cluster() as node:
        asked = moving(0, [9])
        asked["topics"] += moving(0, [1], "nope")["topics"] + moving(1, [1])["topics"] + moving(1, [2])["topics"]
        answer = await node.ask(alter_partition_reassignments.API, 1, asked)
        assert [p["error_code"] for t in answer["responses"] for p in t["partitions"]] == [
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            ErrorCode.INVALID_REQUEST,
            ErrorCode.INVALID_REQUEST,
        ]
        assert node.part(1).replicas == (1, 2, 3)
        kept = await node.ask(
            alter_partition_reassignments.API, 1, moving(0, [1, 2], allow_replication_factor_change=False)
        )
        assert kept["responses"][0]["partitions"][0]["error_code"] == ErrorCode.INVALID_REPLICATION_FACTOR
        assert kept["allow_replication_factor_change"] is False


# Registrations


async def test_a_broker_is_unregistered() -> None:
    async with Cluster() as node:
        answer = await node.ask(unregister_broker.API, 0, {"broker_id": 1})
        assert answer == {"error_code": ErrorCode.NONE, "error_message": ""}
        assert list(node.image.brokers) == [2, 3]
        assert (node.part(0).leader, node.part(0).isr, node.part(1).isr) == (2, (2,), (2, 3))
        again = await node.ask(unregister_broker.API, 0, {"broker_id": 1})
        assert again["error_code"] == ErrorCode.BROKER_ID_NOT_REGISTERED


@pytest.mark.parametrize("version", versions(broker_registration.API))
async def test_features_are_taken_down_and_migrating_brokers_are_refused(version: int) -> None:
    async with Cluster() as node:
        asked = {
            "broker_id": 7,
            "cluster_id": CLUSTER_ID,
            "incarnation_id": UUID(int=7),
            "listeners": [{"name": "PLAINTEXT", "host": "h", "port": 9092, "security_protocol": 0}],
            "features": [{"name": "group.version", "min_supported_version": 1, "max_supported_version": 2}],
            "rack": None,
        }
        await node.ask(broker_registration.API, version, asked)
        assert node.image.brokers[7].features == (("group.version", 1, 2),)
        if version >= 1:
            answer = await node.ask(broker_registration.API, version, asked | {"is_migrating_zk_broker": True})
            assert answer == {"error_code": ErrorCode.BROKER_ID_NOT_REGISTERED, "broker_epoch": -1}


@pytest.mark.parametrize(
    ("api", "content"),
    [
        (alter_partition.API, {"broker_id": 1, "broker_epoch": 1, "topics": []}),
        (elect_leaders.API, electing(0, 1)),
        (alter_partition_reassignments.API, moving(0, [1])),
        (list_partition_reassignments.API, {"timeout": 1000, "topics": None}),
        (unregister_broker.API, {"broker_id": 1}),
    ],
)
async def test_a_controller_that_stops_says_that_it_is_not_the_controller(
    api: ApiSpec[Any], content: dict[str, Any]
) -> None:
    async with Cluster() as node:
        await node.controller.stop()
        answer = await node.ask(api, api.versions[1], content)
        assert answer["error_code"] == ErrorCode.NOT_CONTROLLER
