"""BrokerRegistration, BrokerHeartbeat, AllocateProducerIds, InitProducerId and DescribeCluster on every version."""

from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest

from broker_runtime.apis.cluster import broker_heartbeat, broker_registration, describe_cluster
from broker_runtime.apis.produce import allocate_producer_ids, init_producer_id
from broker_runtime.apis.produce.producer_ids import ProducerIdBlocks
from broker_runtime.apis.request.context import ApiSpec
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.metadata.areas.brokers import FenceBroker
from broker_runtime.metadata.areas.topics import PartitionRecord, TopicRecord
from tests.support.worlds.controller import CLUSTER_ID, ControllerInMemory


def versions(api: ApiSpec[Any]) -> range:
    return range(api.versions[0], api.versions[1] + 1)


def registration(incarnation: int = 1, cluster_id: str = CLUSTER_ID) -> dict[str, Any]:
    return {
        "broker_id": 1,
        "cluster_id": cluster_id,
        "incarnation_id": UUID(int=incarnation),
        "listeners": [{"name": "PLAINTEXT", "host": "h", "port": 9092, "security_protocol": 0}],
        "features": [],
        "rack": "a",
    }


def beat(epoch: int, **more: bool) -> dict[str, Any]:
    return {
        "broker_id": 1,
        "broker_epoch": epoch,
        "current_metadata_offset": 100,
        "want_fence": False,
        "want_shut_down": False,
    } | more


@pytest.mark.parametrize("version", versions(broker_registration.API))
async def test_a_broker_registers(version: int) -> None:
    async with ControllerInMemory() as node:
        answer = await node.ask(broker_registration.API, version, registration())
        assert answer == {"error_code": ErrorCode.NONE, "broker_epoch": node.image.brokers[1].epoch}
        refused = await node.ask(broker_registration.API, version, registration(cluster_id="other"))
        assert refused == {"error_code": ErrorCode.INCONSISTENT_CLUSTER_ID, "broker_epoch": -1}


@pytest.mark.parametrize("version", versions(broker_registration.API))
async def test_versions_from_3_on_have_the_epoch_for_which_data_is_complete(version: int) -> None:
    async with ControllerInMemory(properties={"min.insync.replicas": "2"}) as node:
        epoch, _ = await node.broker(1), await node.broker(2)
        topic = UUID(int=5)
        await node.write(TopicRecord("t", topic), PartitionRecord(topic, 0, (1, 2), (2,), 2, 0, 0, elr=(1,)))
        node.controller.sessions.end(1)
        asked = registration(incarnation=9) | ({"previous_broker_epoch": epoch} if version >= 3 else {})
        await node.ask(broker_registration.API, version, asked)
        assert node.image.topics["t"].partitions[0].elr == ((1,) if version >= 3 else ())


@pytest.mark.parametrize("version", versions(broker_heartbeat.API))
async def test_a_broker_is_unfenced_and_shut_down_by_heartbeats(version: int) -> None:
    async with ControllerInMemory() as node:
        epoch = (await node.ask(broker_registration.API, 4, registration()))["broker_epoch"]
        up = await node.ask(broker_heartbeat.API, version, beat(epoch))
        assert (up["is_caught_up"], up["is_fenced"], up["should_shut_down"]) == (True, False, False)
        down = await node.ask(broker_heartbeat.API, version, beat(epoch, want_shut_down=True))
        assert (down["is_fenced"], down["should_shut_down"]) == (True, True)
        stale = await node.ask(broker_heartbeat.API, version, beat(epoch + 1))
        assert (stale["error_code"], stale["is_fenced"]) == (ErrorCode.STALE_BROKER_EPOCH, True)
        again = await node.ask(broker_registration.API, 4, registration(incarnation=2))
        assert again["error_code"] == ErrorCode.NONE


async def test_blocks_of_producer_ids_are_never_given_twice_not_even_after_a_kill() -> None:
    async with ControllerInMemory() as node:
        asked = {"broker_id": 1, "broker_epoch": await node.broker()}
        first = await node.ask(allocate_producer_ids.API, 0, asked)
        disk = node.fs.process_killed()
    async with ControllerInMemory(disk) as again:
        second = await again.ask(allocate_producer_ids.API, 0, asked)
        stale = await again.ask(allocate_producer_ids.API, 0, asked | {"broker_epoch": 99})
    assert (first["producer_id_start"], second["producer_id_start"]) == (0, 1000)
    assert (first["producer_id_len"], stale["error_code"]) == (1000, ErrorCode.STALE_BROKER_EPOCH)


class Broker:
    """The parts of a broker's node that InitProducerId uses."""

    def __init__(self, node: ControllerInMemory) -> None:
        self.node = node
        self.settings, self.image = node.settings, node.image
        self.blocks_taken = 0
        self.code = ErrorCode.NONE
        self.producer_ids = ProducerIdBlocks(node.settings.node_id, node.image, cast("Any", self))

    async def request(self, api_key: int, version: int, request: dict[str, Any]) -> SimpleNamespace:
        self.blocks_taken += 1
        answer = await self.node.ask(allocate_producer_ids.API, version, request)
        return SimpleNamespace(**(answer | ({"error_code": self.code} if self.code else {})))


def producer(transactional_id: str | None = None) -> dict[str, Any]:
    return {"transactional_id": transactional_id, "transaction_timeout": 1000}


@pytest.mark.parametrize("version", versions(init_producer_id.API))
async def test_every_producer_gets_an_id_of_its_own(version: int) -> None:
    async with ControllerInMemory() as node:
        await node.broker()
        broker = Broker(node)
        answers = [await node.ask(init_producer_id.API, version, producer(), broker) for _ in range(1001)]
        assert len({answer["producer_id"] for answer in answers}) == 1001
        assert {answer["producer_epoch"] for answer in answers} == {0}
        assert broker.blocks_taken == 2


async def test_a_controller_that_cannot_answer_allocates_no_producer_ids() -> None:
    async with ControllerInMemory() as node:
        broker = Broker(node)
        unregistered = await node.ask(init_producer_id.API, 4, producer(), broker)
        assert unregistered["error_code"] == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        await node.broker()
        broker.code = ErrorCode.STALE_BROKER_EPOCH
        with pytest.raises(KafkaError, match="STALE_BROKER_EPOCH"):
            await broker.producer_ids.next_id()


@pytest.mark.parametrize("version", versions(describe_cluster.API))
async def test_a_broker_describes_the_brokers_of_its_listener(version: int) -> None:
    async with ControllerInMemory() as node:
        await node.broker(1)
        await node.broker(2, "OTHER")
        await node.write(FenceBroker(3, await node.broker(3)))
        broker = SimpleNamespace(
            controller=None, image=node.image, settings=node.settings, cluster_id=CLUSTER_ID, clock=node.clock
        )
        asked = {"include_cluster_authorized_operations": False, "endpoint_type": 1, "include_fenced_brokers": True}
        answer = await node.ask(describe_cluster.API, version, asked, broker)
        assert (answer["cluster_id"], answer["controller_id"]) == (CLUSTER_ID, 1)
        assert [(each["broker_id"], each["is_fenced"]) for each in answer["brokers"]] == (
            [(1, False), (3, True)] if version == 2 else [(1, False)]
        )


@pytest.mark.parametrize(
    ("kind", "code"),
    [(2, ErrorCode.NONE), (1, ErrorCode.MISMATCHED_ENDPOINT_TYPE), (7, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE)],
)
async def test_a_controller_describes_controllers(kind: int, code: ErrorCode) -> None:
    properties = {"process.roles": "controller", "controller.listener.names": "PLAINTEXT"}
    async with ControllerInMemory(properties=properties) as node:
        asked = {"include_cluster_authorized_operations": False, "endpoint_type": kind}
        answer = await node.ask(describe_cluster.API, 1, asked)
        assert answer["error_code"] == code
        assert [each["broker_id"] for each in answer["brokers"]] == ([1] if kind == 2 else [])
        assert answer["controller_id"] == (1 if kind == 2 else -1)
