"""Topics as the operator makes them, against running brokers: Apache Kafka and ours."""

import asyncio
from collections.abc import AsyncIterator, Sequence

import pytest

from sluicegate_operator.api.models.topic import Topic
from sluicegate_operator.fleet.base import BrokerAddress
from sluicegate_operator.fleet.kafka.asking import BrokerPool, NoBrokerError
from sluicegate_operator.fleet.kafka.topics import (
    TooFewBrokersError,
    apply_topic_actions,
    delete_topic,
    enforce_topic,
    observe_topic,
    observe_topics,
)
from sluicegate_operator.kafka_admin.client import AdminClient
from sluicegate_operator.kafka_admin.errors import KafkaApiError
from sluicegate_operator.planning.topics.topics import CreateTopic, DeleteTopic, ObservedTopic
from tests.support.processes.single_node import SingleNode

SHOWN_WITHIN_S = 30.0
ANOTHER = "AAAAAAAAAAAAAAAAAABBBA"
"""The id of no topic."""


@pytest.fixture
async def pool(node: SingleNode) -> AsyncIterator[BrokerPool]:
    async with AdminClient([(node.host, node.port)], request_timeout_s=30) as admin:
        yield BrokerPool(admin, (BrokerAddress(node.node_id, node.host, node.port),))


def topic(
    name: str, *, partitions: int, replicas: int = 1, config: dict[str, str] | None = None, managed: Sequence[str] = ()
) -> Topic:
    spec = {"clusterRef": {"name": "shop"}, "partitions": partitions, "replicas": replicas, "config": config or {}}
    manifest = {"apiVersion": "sluicegate.dev/v1alpha1", "kind": "Topic", "metadata": {"name": name}, "spec": spec}
    return Topic.model_validate(manifest | {"status": {"configKeys": tuple(managed)}})


async def shown(pool: BrokerPool, name: str) -> ObservedTopic:
    """Wait until the broker shows a created topic: its controller answers before the broker has the metadata."""
    async with asyncio.timeout(SHOWN_WITHIN_S):
        while (found := await observe_topic(pool, name)) is None:  # noqa: ASYNC110 - of another process
            await asyncio.sleep(0.05)
    return found


class Remembered:
    def __init__(self) -> None:
        self.keys: list[tuple[str, ...]] = []
        self.ids: list[str] = []

    async def remember_keys(self, managed: tuple[str, ...]) -> None:
        self.keys.append(managed)

    async def govern(self, topic_id: str, found: object, changes: object) -> None:
        self.ids.append(topic_id)


async def test_a_topic_is_created_grown_reconfigured_left_alone_and_deleted(pool: BrokerPool) -> None:
    assert await observe_topic(pool, "orders") is None
    versions = [
        topic("orders", partitions=2, config={"retention.ms": "60000"}),
        topic("orders", partitions=5, config={"max.message.bytes": "5000"}, managed=["retention.ms"]),
    ]
    remembered = Remembered()
    for wanted in versions:
        result = await enforce_topic(pool, wanted, remembered)
        assert result.settled
        assert result.observed is not None
        assert (result.observed.partitions, result.observed.replicas) == (wanted.spec.partitions, 1)
        assert result.observed.configs == wanted.spec.config
        assert len(result.observed.topic_id) == 22
        seen = await observe_topics(pool, ["orders", "nothing"])
        assert seen == {"orders": result.observed, "nothing": None}
    assert remembered.keys == [("retention.ms",), ("max.message.bytes", "retention.ms"), ("max.message.bytes",)]
    assert (await enforce_topic(pool, versions[-1], remembered)).changes == ()
    assert await observe_topic(pool, "orders") == result.observed
    assert result.observed is not None
    topic_id = result.observed.topic_id
    assert set(remembered.ids) == {topic_id}, "the creation and the next look report the same id"
    assert await delete_topic(pool, "orders", ANOTHER), "the topic with that id is gone"
    assert await observe_topic(pool, "orders") == result.observed
    assert await delete_topic(pool, "orders", topic_id)
    assert await observe_topic(pool, "orders") is None


async def test_actions_that_are_already_done_are_no_errors(pool: BrokerPool) -> None:
    create = CreateTopic("twice", 1, 1, {})
    topic_id = await apply_topic_actions(pool, [create, create])
    assert (await shown(pool, "twice")).topic_id == topic_id
    await apply_topic_actions(pool, [DeleteTopic("twice", topic_id), DeleteTopic("twice", topic_id)])
    assert await delete_topic(pool, "twice", topic_id)


async def test_a_refusal_has_kafkas_name(pool: BrokerPool) -> None:
    with pytest.raises(KafkaApiError, match="creating topic wide: INVALID_REPLICATION_FACTOR"):
        await enforce_topic(pool, topic("wide", partitions=1, replicas=7), Remembered())


async def test_a_topic_is_made_when_enough_brokers_are_online(pool: BrokerPool) -> None:
    spread = topic("spread", partitions=2)
    with pytest.raises(TooFewBrokersError, match="1 of the cluster's 2 brokers are Online"):
        await enforce_topic(pool, spread, Remembered(), create_on=2)
    assert await observe_topic(pool, "spread") is None
    assert (await enforce_topic(pool, spread, Remembered(), create_on=1)).settled
    assert (await enforce_topic(pool, spread, Remembered(), create_on=2)).settled, "one that is there waits for nobody"


async def test_no_broker_is_an_error_of_its_own() -> None:
    async with AdminClient([("127.0.0.1", 1)]) as admin:
        pool = BrokerPool(admin, (BrokerAddress(0, "127.0.0.1", 1),))
        with pytest.raises(NoBrokerError, match=r"broker 127\.0\.0\.1:1: cannot connect"):
            await enforce_topic(pool, topic("orders", partitions=1), Remembered())
