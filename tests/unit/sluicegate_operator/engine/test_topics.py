"""Topics that appear and disappear: settings of an existing topic, and deletion of Kafka's topic with its Topic."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID, uuid4

import pytest

from sluicegate_operator.api.models.topic import FINALIZER
from sluicegate_operator.engine.lasting_refusals import TOLD_AFTER_S
from sluicegate_operator.engine.topics import TopicReconciler
from sluicegate_operator.engine.work_queue import Retry
from sluicegate_operator.fleet.kafka.asking import NoBrokerError
from sluicegate_operator.fleet.kafka.topics import kafka_form
from sluicegate_operator.handlers.context import Context
from sluicegate_operator.kafka_admin.configs import ConfigChange
from sluicegate_operator.kafka_admin.errors import KafkaApiError
from sluicegate_operator.kafka_admin.views import (
    BrokerView,
    ClusterView,
    ConfigEntry,
    ConfigSource,
    NewTopic,
    PartitionView,
    TopicView,
)
from sluicegate_operator.kube.http.errors import KubeError
from sluicegate_operator.kube.http.kinds import Kind
from sluicegate_operator.settings import TOPIC_DELETION_S, TOPIC_PATIENCE_S, read_settings
from tests.support.fakes.kube.memory_kube import Json, MemoryKube
from tests.support.manifests.bad_manifests import cluster, topic

pytestmark = pytest.mark.virtual_time

SHOP = ("default", "shop")
POLICY_VIOLATION, UNKNOWN_TOPIC_ID = 44, 100


@dataclass
class KafkaTopic:
    partitions: int
    replicas: int
    configs: dict[str, str]
    id: UUID = field(default_factory=uuid4)


@dataclass
class Brokers:
    """Replaces a BrokerPool and the handle of its one broker."""

    topics: dict[str, KafkaTopic] = field(default_factory=dict)
    away: bool = False
    questions: int = 0

    async def ask_any(self, question: Callable[[None, "Brokers"], Awaitable[Any]]) -> Any:
        if self.away:
            raise NoBrokerError("broker 0 is away")
        return await question(None, self)

    async def describe_topics(self, names: Iterable[str]) -> dict[str, TopicView]:
        self.questions += 1
        return {name: self._view(name) for name in names}

    def _view(self, name: str) -> TopicView:
        found = self.topics.get(name)
        if found is None:
            return TopicView(name, None, (), "UNKNOWN_TOPIC_OR_PARTITION")
        replicas = tuple(range(found.replicas))
        return TopicView(
            name, found.id, tuple(PartitionView(i, 0, replicas, replicas) for i in range(found.partitions))
        )

    async def describe_configs_of_topics(self, names: Iterable[str]) -> dict[str, dict[str, ConfigEntry]]:
        self.questions += 1
        return {name: self._configs(name) for name in names if name in self.topics}

    async def describe_topic_configs(self, name: str) -> dict[str, ConfigEntry]:
        self.questions += 1
        return self._configs(name)

    def _configs(self, name: str) -> dict[str, ConfigEntry]:
        found = self.topics[name].configs
        return {key: ConfigEntry(key, value, ConfigSource.DYNAMIC_TOPIC_CONFIG) for key, value in found.items()}

    async def describe_cluster(self) -> ClusterView:
        return ClusterView("c", 1000, tuple(BrokerView(id_, f"b{id_}", 9091, None) for id_ in range(3)))

    async def create_topic(self, new: NewTopic) -> UUID:
        made = self.topics[new.name] = KafkaTopic(new.partitions, new.replicas, dict(new.configs))
        return made.id

    async def create_partitions(self, name: str, total: int) -> None:
        self.topics[name].partitions = total

    async def alter_topic_configs(self, name: str, change: ConfigChange) -> None:
        left = {key: value for key, value in self.topics[name].configs.items() if key not in change.delete}
        self.topics[name].configs = left | dict(change.set)

    async def delete_topic(self, name: str, topic_id: UUID) -> None:
        if self.topics[name].id != topic_id:
            raise KafkaApiError(UNKNOWN_TOPIC_ID, None, f"deleting topic {name}")
        del self.topics[name]


class Operator:
    """One reconciler over a MemoryKube and Brokers; `again` starts another process of it, without memory."""

    def __init__(self, kube: MemoryKube, brokers: Brokers) -> None:
        self.kube = kube
        self.brokers = brokers
        self.again()

    def again(self) -> None:
        self._context = Context(self.kube, read_settings({}, None, None, None))  # type: ignore[arg-type]
        self._context.pool = self._pool  # type: ignore[method-assign, assignment]
        self._reconciler = TopicReconciler(self._context, patience_s=TOPIC_PATIENCE_S, deletion_s=TOPIC_DELETION_S)

    async def _pool(self, _: object) -> Brokers:
        return self.brokers

    async def look(self) -> object:
        return await self._reconciler.reconcile(SHOP)


def orders(**spec: Any) -> Json:
    return topic("orders", **{"partitions": 2, "replicas": 1} | spec)


async def applied(*documents: Json, brokers: Brokers | None = None) -> Operator:
    operator = Operator(MemoryKube(cluster(), *documents), brokers or Brokers())
    await operator.look()
    return operator


def reasons(kube: MemoryKube) -> list[str]:
    return [event["reason"] for reason in REASONS for event in kube.events(reason)]


REASONS = ("Changed", "Adopted", "TopicDeleted", "TopicKept", "TopicLeftBehind")


# -- a topic that was there ------------------------------------------------------------------------------------------


async def test_manual_configuration_of_an_adopted_topic_is_kept_and_reported() -> None:
    brokers = Brokers({"orders": KafkaTopic(2, 1, {"cleanup.policy": "compact", "retention.ms": "1"})})
    operator = await applied(orders(config={"retention.ms": "60000", "segment.ms": "7"}), brokers=brokers)
    assert brokers.topics["orders"].configs == {
        "cleanup.policy": "compact",
        "retention.ms": "60000",
        "segment.ms": "7",
    }
    [event] = operator.kube.events("Adopted")
    assert "topic orders existed already" in event["message"]
    assert "segment.ms" in event["message"]
    assert "settings that the Topic does not have were kept: cleanup.policy=compact" in event["message"]
    await operator.look()
    assert reasons(operator.kube) == ["Adopted"]
    assert operator.kube.condition("Topic", "orders")["status"] == "True"


async def test_topics_that_are_as_they_should_be_cost_two_questions_however_many_they_are() -> None:
    brokers = Brokers()
    operator = await applied(*(topic(f"t{number}", partitions=2, replicas=1) for number in range(20)), brokers=brokers)
    assert len(brokers.topics) == 20
    brokers.questions = 0
    await operator.look()
    assert brokers.questions == 2
    brokers.topics["t7"].partitions = 1
    del brokers.topics["t8"]
    await operator.look()
    assert (brokers.topics["t7"].partitions, brokers.topics["t8"].partitions) == (2, 2), "what was seen decides"


async def test_only_what_was_set_for_the_topic_is_taken_away_by_whichever_operator() -> None:
    operator = await applied(orders(config={"retention.ms": "60000", "segment.ms": "7"}))
    brokers = operator.brokers
    assert operator.kube.take("Topic", "orders")["status"]["configKeys"] == ["retention.ms", "segment.ms"]
    brokers.topics["orders"].configs |= {"cleanup.policy": "compact"}
    operator.again()
    operator.kube.put(orders(config={"segment.ms": "7"}))
    await operator.look()
    assert brokers.topics["orders"].configs == {"segment.ms": "7", "cleanup.policy": "compact"}
    assert operator.kube.take("Topic", "orders")["status"]["configKeys"] == ["segment.ms"]
    brokers.topics["orders"].configs["segment.ms"] = "9"
    await operator.look()
    assert brokers.topics["orders"].configs["segment.ms"] == "7"


async def test_a_key_is_remembered_before_it_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    brokers = Brokers({"orders": KafkaTopic(2, 1, {})})

    async def refuse(*_: object) -> None:
        assert kube.take("Topic", "orders")["status"]["configKeys"] == ["segment.ms"]
        raise NoBrokerError("gone in that moment")

    monkeypatch.setattr(brokers, "alter_topic_configs", refuse)
    kube = MemoryKube(cluster(), orders(config={"segment.ms": "7"}))
    await Operator(kube, brokers).look()
    assert "gone in that moment" in kube.condition("Topic", "orders")["message"]


@pytest.mark.parametrize("there", [True, False])
async def test_a_key_whose_value_is_refused_is_not_ours_and_the_value_of_others_stays(
    monkeypatch: pytest.MonkeyPatch, there: bool
) -> None:
    brokers = Brokers({"orders": KafkaTopic(2, 1, {"retention.ms": "-1", "segment.ms": "7"})} if there else {})

    async def refuse(*_: object) -> None:
        raise KafkaApiError(POLICY_VIOLATION, "retention.ms must be -1 or above a day", "topic orders")

    with monkeypatch.context() as refused:
        refused.setattr(brokers, "alter_topic_configs", refuse)
        refused.setattr(brokers, "create_topic", refuse)
        operator = await applied(orders(config={"retention.ms": "1000", "segment.ms": "7"}), brokers=brokers)
        await operator.look()
    status = operator.kube.take("Topic", "orders")["status"]
    assert status["configKeys"] == (["segment.ms"] if there else [])
    brokers.topics.setdefault("orders", KafkaTopic(2, 1, {"retention.ms": "-1"}))
    operator.kube.put(orders())
    await operator.look()
    assert brokers.topics["orders"].configs == {"retention.ms": "-1"}


async def test_a_key_of_ours_whose_new_value_is_refused_stays_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    operator = await applied(orders(config={"segment.ms": "7"}))

    async def refuse(*_: object) -> None:
        raise KafkaApiError(POLICY_VIOLATION, None, "topic orders")

    with monkeypatch.context() as refused:
        refused.setattr(operator.brokers, "alter_topic_configs", refuse)
        operator.kube.put(orders(config={"segment.ms": "1"}))
        await operator.look()
    operator.kube.put(orders())
    await operator.look()
    assert operator.brokers.topics["orders"].configs == {}


class _Refusing(MemoryKube):
    """Refuses to write configKeys of the Topic orders."""

    refusal: KubeError | None = KubeError("PATCH /topics/orders/status: 403 denied by policy", 403)

    async def apply_status(self, kind: Kind, namespace: str, name: str, status: Any, **more: Any) -> Any:
        if name == "orders" and "configKeys" in status and self.refusal is not None:
            raise self.refusal
        return await super().apply_status(kind, namespace, name, status, **more)


async def test_keys_that_cannot_be_remembered_stop_their_topic_only() -> None:
    kube, brokers = _Refusing(cluster(), orders(config={"segment.ms": "7"}), topic("payments")), Brokers()
    operator = Operator(kube, brokers)
    assert isinstance(await operator.look(), Retry)
    assert set(brokers.topics) == {"payments"}, "a key is remembered before it is set"
    assert kube.condition("Topic", "payments")["status"] == "True"
    stalled = kube.condition("Topic", "orders", "Stalled")
    assert (stalled["status"], stalled["reason"]) == ("True", "Refused")
    assert stalled["message"].endswith(
        "configKeys cannot be written: PATCH /topics/orders/status: 403 denied by policy"
    )
    kube.refusal = None
    await operator.look()
    assert set(brokers.topics) == {"orders", "payments"}


async def test_keys_that_cannot_be_remembered_for_now_are_tried_again_and_that_is_told_after_a_minute() -> None:
    kube, brokers = _Refusing(cluster(), orders(config={"segment.ms": "7"}), topic("payments")), Brokers()
    kube.refusal = KubeError("failed calling webhook", 500, retriable=True)
    operator = Operator(kube, brokers)
    for wait_s in (0.0, TOLD_AFTER_S - 1):
        await asyncio.sleep(wait_s)
        with pytest.raises(KubeError, match="failed calling webhook"):
            await operator.look()
    await asyncio.sleep(1)
    assert isinstance(await operator.look(), Retry)
    assert kube.condition("Topic", "orders", "Reconciling")["reason"] == "NotApplied"
    assert kube.condition("Topic", "payments")["status"] == "True"
    kube.refusal = None
    await operator.look()
    assert kube.condition("Topic", "orders")["status"] == "True"


# -- a Topic that goes -----------------------------------------------------------------------------------------------


async def test_the_finalizer_is_there_as_long_as_a_deletion_deletes_the_topic() -> None:
    operator = await applied(orders(deletionPolicy="Delete"), topic("kept"))
    assert operator.kube.take("Topic", "orders")["metadata"]["finalizers"] == [FINALIZER]
    assert not operator.kube.take("Topic", "kept")["metadata"].get("finalizers")
    operator.kube.put(orders(deletionPolicy="Retain"))
    await operator.look()
    assert operator.kube.take("Topic", "orders")["metadata"]["finalizers"] == []


async def test_a_refused_finalizer_stalls_its_topic_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def refuse(*_: object) -> None:
        raise KubeError("PATCH /topics/orders: 403 topics is forbidden", 403)

    kube, brokers = MemoryKube(cluster(), orders(deletionPolicy="Delete"), topic("kept")), Brokers()
    monkeypatch.setattr(kube, "patch_metadata", refuse)
    assert isinstance(await Operator(kube, brokers).look(), Retry)
    assert set(brokers.topics) == {"kept"}
    assert kube.condition("Topic", "kept")["status"] == "True"
    stalled = kube.condition("Topic", "orders", "Stalled")
    assert (stalled["status"], stalled["reason"]) == ("True", "Refused")
    assert "403 topics is forbidden" in stalled["message"]


@pytest.mark.parametrize("orphaned", [False, True])
async def test_a_refused_finalizer_is_retried_and_other_topics_continue(
    monkeypatch: pytest.MonkeyPatch, orphaned: bool
) -> None:
    operator = await applied(orders(deletionPolicy="Delete"))
    operator.kube.delete_as_a_person("Topic", "orders")
    operator.kube.put(topic("kept"))
    if orphaned:
        operator.kube.remove("BrokerCluster", "shop")

    async def refuse(*_: object) -> None:
        raise KubeError("PATCH /topics/orders: 403 topics is forbidden", 403)

    with monkeypatch.context() as refused:
        refused.setattr(operator.kube, "patch_metadata", refuse)
        assert isinstance(await operator.look(), Retry)
    assert operator.kube.condition("Topic", "kept")["reason"] == ("ClusterMissing" if orphaned else "Applied")
    assert operator.kube.names("Topic") == ["kept", "orders"]
    await operator.look()
    assert operator.kube.names("Topic") == ["kept"]


async def test_a_topic_that_was_deleted_while_the_operator_was_away_is_deleted_once_it_is_back() -> None:
    operator = await applied(orders(deletionPolicy="Delete"))
    operator.kube.delete_as_a_person("Topic", "orders")
    operator.again()
    await operator.look()
    assert operator.brokers.topics == {}
    assert operator.kube.names("Topic") == []
    assert [event["type"] for event in operator.kube.events("TopicDeleted")] == ["Normal"]


async def test_a_topic_that_is_applied_again_with_retain_ends_a_pending_deletion() -> None:
    operator = await applied(orders(deletionPolicy="Delete"))
    operator.kube.put(cluster(paused=True))
    operator.kube.delete_as_a_person("Topic", "orders")
    await operator.look()
    operator.kube.put(orders(deletionPolicy="Retain"))
    operator.kube.put(cluster())
    await operator.look()
    assert set(operator.brokers.topics) == {"orders"}
    assert operator.kube.names("Topic") == []
    assert "deletionPolicy" in operator.kube.events("TopicKept")[0]["message"]


async def test_another_topic_that_names_it_ends_a_pending_deletion() -> None:
    operator = await applied(orders(deletionPolicy="Delete"))
    operator.brokers.away = True
    operator.kube.delete_as_a_person("Topic", "orders")
    assert isinstance(await operator.look(), Retry)
    operator.brokers.away = False
    operator.kube.put(topic("orders-again", topicName="orders", partitions=2))
    await operator.look()
    assert set(operator.brokers.topics) == {"orders"}
    assert operator.kube.names("Topic") == ["orders-again"]
    assert "Topic orders-again names it, too" in operator.kube.events("TopicKept")[0]["message"]


async def test_a_topic_that_somebody_made_anew_is_not_this_topics_to_delete() -> None:
    operator = await applied(orders(deletionPolicy="Delete"))
    operator.brokers.topics["orders"] = KafkaTopic(1, 1, {})
    operator.kube.delete_as_a_person("Topic", "orders")
    await operator.look()
    assert set(operator.brokers.topics) == {"orders"}
    assert operator.kube.names("Topic") == []
    assert [event["type"] for event in operator.kube.events("TopicKept")] == ["Warning"]


async def test_unreachable_brokers_do_not_turn_a_recreated_topic_into_this_topics_own() -> None:
    operator = await applied(orders(deletionPolicy="Delete"))
    operator.brokers.away = True
    await operator.look()
    operator.brokers.away = False
    operator.brokers.topics["orders"] = KafkaTopic(1, 1, {})
    operator.kube.delete_as_a_person("Topic", "orders")
    await operator.look()
    assert set(operator.brokers.topics) == {"orders"}
    assert [event["type"] for event in operator.kube.events("TopicKept")] == ["Warning"]


@pytest.mark.parametrize("refused", [True, False], ids=["its change was refused", "the brokers were away"])
async def test_a_topic_that_its_topic_never_governed_stays_with_its_records(
    monkeypatch: pytest.MonkeyPatch, refused: bool
) -> None:
    async def refuse(*_: object) -> None:
        raise KafkaApiError(POLICY_VIOLATION, "only the team of orders may", "topic orders")

    brokers = Brokers({"orders": KafkaTopic(1, 1, {})}, away=not refused)
    monkeypatch.setattr(brokers, "create_partitions", refuse)
    operator = await applied(orders(deletionPolicy="Delete"), brokers=brokers)
    assert operator.kube.condition("Topic", "orders")["reason"] == ("Refused" if refused else "WaitingForBrokers")
    operator.kube.delete_as_a_person("Topic", "orders")
    brokers.away = False
    await operator.look()
    assert set(brokers.topics) == {"orders"}
    assert operator.kube.names("Topic") == []
    [event] = operator.kube.events("TopicKept")
    assert (event["type"], event["message"].split(":")[0]) == ("Warning", "topic orders, if there is one, stays")


async def test_a_topic_that_somebody_made_after_the_topic_was_refused_is_not_this_topics_to_delete() -> None:
    operator = await applied(orders(deletionPolicy="Delete"), brokers=Brokers(away=True))
    operator.kube.delete_as_a_person("Topic", "orders")
    operator.brokers.topics["orders"] = KafkaTopic(1, 1, {})
    operator.brokers.away = False
    await operator.look()
    assert set(operator.brokers.topics) == {"orders"}


@pytest.mark.parametrize("there", [False, True])
async def test_the_id_is_written_before_brokers_can_fail_again(monkeypatch: pytest.MonkeyPatch, there: bool) -> None:
    brokers = Brokers({"orders": KafkaTopic(1, 1, {"segment.ms": "7"})} if there else {})

    async def fail() -> None:
        raise NoBrokerError("gone in that moment")

    after: list[Iterable[str]] = []
    describe = brokers.describe_topics

    async def describe_once(names: Iterable[str]) -> dict[str, TopicView]:
        if after:
            await fail()
        after.append(names)
        return await describe(names)

    monkeypatch.setattr(brokers, "describe_topics", describe_once)
    operator = await applied(orders(deletionPolicy="Delete"), brokers=brokers)
    assert operator.kube.condition("Topic", "orders")["reason"] == "WaitingForBrokers"
    status = operator.kube.take("Topic", "orders")["status"]
    assert status["topicId"] == kafka_form(brokers.topics["orders"].id)
    assert reasons(operator.kube) == ["Adopted" if there else "Changed"]
    after.clear()
    monkeypatch.setattr(brokers, "describe_topics", describe)
    operator.kube.delete_as_a_person("Topic", "orders")
    await operator.look()
    assert brokers.topics == {}


async def test_an_id_that_cannot_be_written_keeps_the_topic() -> None:
    class RefusesIds(MemoryKube):
        async def apply_status(self, kind: Kind, namespace: str, name: str, status: Any, **more: Any) -> Any:
            if status.get("topicId"):
                raise KubeError("PATCH /topics/orders/status: 403 denied by policy", 403)
            return await super().apply_status(kind, namespace, name, status, **more)

    kube, brokers = RefusesIds(cluster(), orders(deletionPolicy="Delete")), Brokers()
    operator = Operator(kube, brokers)
    await operator.look()
    stalled = kube.condition("Topic", "orders", "Stalled")
    assert "status.topicId cannot be written: PATCH" in stalled["message"]
    kube.delete_as_a_person("Topic", "orders")
    await operator.look()
    assert set(brokers.topics) == {"orders"}
    assert kube.names("Topic") == []


async def test_brokers_that_were_away_do_not_make_a_topic_one_that_was_there_before() -> None:
    operator = await applied(orders())
    operator.brokers.away = True
    await operator.look()
    operator.brokers.away = False
    await operator.look()
    assert operator.kube.events("Adopted") == []


async def test_after_the_deadline_the_topic_is_left_behind_with_a_warning() -> None:
    operator = await applied(orders(deletionPolicy="Delete"))
    operator.brokers.away = True
    operator.kube.delete_as_a_person("Topic", "orders")
    assert isinstance(await operator.look(), Retry)
    await asyncio.sleep(TOPIC_DELETION_S / 2)
    await operator.look()
    assert operator.kube.names("Topic") == ["orders"]
    await asyncio.sleep(TOPIC_DELETION_S / 2)
    await operator.look()
    assert operator.kube.names("Topic") == []
    [event] = operator.kube.events("TopicLeftBehind")
    assert event["type"] == "Warning"
    assert "within 300 s (broker 0 is away)" in event["message"]


@pytest.mark.parametrize("marked", [False, True], ids=["it is gone", "it is going too"])
async def test_a_topic_is_released_if_its_cluster_is_deleted(marked: bool) -> None:
    operator = await applied(orders(deletionPolicy="Delete"))
    operator.kube.delete_as_a_person("Topic", "orders")
    if marked:
        gone = cluster()
        operator.kube.put(gone | {"metadata": gone["metadata"] | {"deletionTimestamp": "2026-01-01T00:00:00Z"}})
    else:
        operator.kube.remove("BrokerCluster", "shop")
    await operator.look()
    assert operator.kube.names("Topic") == []
    assert "BrokerCluster shop does not exist" in operator.kube.events("TopicKept")[0]["message"]


async def test_an_unreadable_topic_delays_a_deletion_until_the_deadline() -> None:
    operator = await applied(orders(deletionPolicy="Delete"), topic("strange", deletionPolicy="Delete"))
    operator.kube.put(topic("strange", topicName="orders", partitions="two", deletionPolicy="Delete"))
    operator.kube.delete_as_a_person("Topic", "orders")
    await operator.look()
    assert set(operator.brokers.topics) == {"orders", "strange"}
    assert operator.kube.condition("Topic", "strange", "Stalled")["reason"] == "Unreadable"
    operator.kube.delete_as_a_person("Topic", "strange")
    await operator.look()
    assert operator.kube.names("Topic") == ["strange"]
    await asyncio.sleep(TOPIC_DELETION_S)
    await operator.look()
    assert operator.kube.names("Topic") == []
    # The owner of that topic was unreadable.
    assert set(operator.brokers.topics) == {"strange"}
