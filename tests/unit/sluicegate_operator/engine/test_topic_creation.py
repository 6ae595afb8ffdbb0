"""The topics' reconciler reports a topic that cannot be created yet, and waits for brokers."""

from typing import Any

import pytest

from sluicegate_operator.engine.topics import TopicReconciler
from sluicegate_operator.fleet.base import BrokerAddress
from sluicegate_operator.fleet.kafka.asking import BrokerPool, NoBrokerError
from sluicegate_operator.fleet.kafka.reassigning import BrokersWanted
from sluicegate_operator.fleet.kafka.topics import NOT_SEEN, SeenTopics, TooFewBrokersError, TopicResult
from sluicegate_operator.handlers.context import Context
from sluicegate_operator.kafka_admin.client import AdminClient
from sluicegate_operator.kafka_admin.errors import KafkaApiError
from sluicegate_operator.planning.topics.topics import ObservedTopic
from sluicegate_operator.settings import TOPIC_DELETION_S, read_settings
from tests.support.fakes.kube.memory_kube import MemoryKube
from tests.support.manifests.bad_manifests import cluster, topic

SHOP = ("default", "shop")


class Brokers:
    """Replaces `enforce_topic`: so many brokers are Online, or they answer with `error`."""

    def __init__(self, online: int) -> None:
        self.online = online
        self.error: Exception | None = None
        self.asked: list[int] = []

    async def __call__(
        self,
        _pool: BrokerPool,
        topic: Any,
        _remember: Any,
        *,
        brokers: BrokersWanted,
        create_on: int = 0,
        seen: SeenTopics = NOT_SEEN,
    ) -> TopicResult:
        assert brokers == BrokersWanted(3, staying_below=3)
        self.asked.append(create_on)
        if self.error is not None:
            raise self.error
        if self.online < create_on:
            raise TooFewBrokersError(self.online, create_on)
        return TopicResult(None, ObservedTopic("id", topic.spec.partitions, topic.spec.replicas or 1), (), settled=True)


@pytest.fixture
def brokers(monkeypatch: pytest.MonkeyPatch) -> Brokers:
    brokers = Brokers(online=2)
    monkeypatch.setattr("sluicegate_operator.engine.topics.enforce_topic", brokers)

    async def nothing_seen(*_: object) -> SeenTopics:
        return NOT_SEEN

    monkeypatch.setattr("sluicegate_operator.engine.topics.observe_topics", nothing_seen)

    async def pool(*_: object) -> BrokerPool:
        return BrokerPool(AdminClient([("b0", 9091)]), (BrokerAddress(0, "b0", 9091),))

    monkeypatch.setattr(Context, "pool", pool)
    return brokers


def reconciler(kube: MemoryKube, patience_s: float) -> TopicReconciler:
    context = Context(kube, read_settings({}, None, None, None))  # type: ignore[arg-type]
    return TopicReconciler(context, patience_s=patience_s, deletion_s=TOPIC_DELETION_S)


async def test_a_topic_waits_for_all_brokers_of_the_spec(brokers: Brokers) -> None:
    kube = MemoryKube(cluster(), topic())
    topics = reconciler(kube, 60.0)
    for _ in range(2):
        await topics.reconcile(SHOP)
    waits = kube.condition("Topic", "orders")
    assert (waits["status"], waits["reason"]) == ("False", "WaitingForBrokers")
    assert waits["message"] == "2 of the cluster's 3 brokers are Online; the topic is created when all of them are"
    assert kube.condition("Topic", "orders", "Stalled")["status"] == "False"
    brokers.online = 3
    await topics.reconcile(SHOP)
    assert kube.condition("Topic", "orders")["reason"] == "Applied"
    assert brokers.asked == [3, 3, 3]


async def test_it_does_not_wait_for_ever(brokers: Brokers) -> None:
    kube = MemoryKube(cluster(), topic())
    topics = reconciler(kube, 0.0)
    for _ in range(2):
        await topics.reconcile(SHOP)
    assert kube.condition("Topic", "orders")["reason"] == "Applied"
    assert brokers.asked == [3, 3, 0]


async def test_a_broker_that_is_away_is_waited_for_and_a_refusal_is_a_matter_for_a_person(brokers: Brokers) -> None:
    kube = MemoryKube(cluster(), topic())
    topics = reconciler(kube, 60.0)
    brokers.error = NoBrokerError("broker 0: cannot connect")
    await topics.reconcile(SHOP)
    assert kube.condition("Topic", "orders")["reason"] == "WaitingForBrokers"
    assert kube.events("Refused") == []
    brokers.error = KafkaApiError(40, "retention.ms: must be a number", "creating topic orders")
    for _ in range(2):
        await topics.reconcile(SHOP)
    stalled = kube.condition("Topic", "orders", "Stalled")
    assert (stalled["status"], stalled["reason"]) == ("True", "Refused")
    assert "retention.ms: must be a number" in stalled["message"]
    [event] = kube.events("Refused")
    assert (event["type"], event["count"]) == ("Warning", 1)
