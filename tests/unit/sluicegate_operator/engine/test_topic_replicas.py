"""A Topic whose number of replicas changes: the requests to brokers, and its status until the change is done."""

from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

import pytest

from sluicegate_operator.engine.topics import REASSIGNING_EVERY_S, TopicReconciler
from sluicegate_operator.handlers.context import Context
from sluicegate_operator.kafka_admin.errors import KafkaApiError
from sluicegate_operator.kafka_admin.views import (
    BrokerView,
    ClusterView,
    ConfigEntry,
    NewTopic,
    Partition,
    PartitionView,
    ReassignmentView,
    TopicView,
)
from sluicegate_operator.settings import TOPIC_DELETION_S, TOPIC_PATIENCE_S, read_settings
from tests.support.fakes.kube.memory_kube import Json, MemoryKube
from tests.support.manifests.bad_manifests import cluster, external, topic

pytestmark = pytest.mark.virtual_time

SHOP = ("default", "shop")
ID = uuid4()


@dataclass
class Brokers:
    """Replaces a BrokerPool and its handles. It reassigns as Kafka does, when `catch_up` is called."""

    placed: dict[int, tuple[int, ...]]
    """The replicas of each partition of the topic orders."""
    count: int = 3
    min_isr: int = 1
    moving: dict[Partition, ReassignmentView] = field(default_factory=dict)
    sent: list[dict[Partition, tuple[int, ...]]] = field(default_factory=list)
    refusals: dict[Partition, str] = field(default_factory=dict)
    may_list: bool = True
    made: list[NewTopic] = field(default_factory=list)
    questions: int = 0
    lost: set[int] = field(default_factory=set)
    """Brokers that are no longer registered."""
    fenced: set[int] = field(default_factory=set)

    @property
    def brokers(self) -> range:
        return range(self.count)

    async def ask_any(self, question: Callable[[None, "Brokers"], Awaitable[Any]]) -> Any:
        return await question(None, self)

    async def describe_topics(self, names: Collection[str] = ("orders",)) -> dict[str, TopicView]:
        self.questions += 1
        return {name: self._view(name) for name in names}

    def _view(self, name: str) -> TopicView:
        if not self.placed:
            return TopicView(name, None, (), "UNKNOWN_TOPIC_OR_PARTITION")
        views = []
        for index, replicas in self.placed.items():
            change = self.moving.get((name, index), ReassignmentView(replicas, (), ()))
            in_sync = tuple(replica for replica in change.replicas if replica not in change.adding)
            views.append(PartitionView(index, replicas[0], change.replicas, in_sync))
        return TopicView(name, ID, tuple(views))

    async def describe_configs_of_topics(self, names: Collection[str]) -> dict[str, dict[str, ConfigEntry]]:
        self.questions += 1
        return {name: {} for name in names}

    async def describe_topic_configs(self, name: str) -> dict[str, ConfigEntry]:
        self.questions += 1
        return {}

    async def alter_topic_configs(self, name: str, change: object) -> None:
        """Accept the change, and never show it."""

    async def describe_cluster(self) -> ClusterView:
        there = [id_ for id_ in self.brokers if id_ not in self.lost]
        views = (BrokerView(id_, f"b{id_}", 9091, fenced=id_ in self.fenced) for id_ in there)
        return ClusterView("c", 1000, tuple(views))

    async def describe_cluster_with_fenced(self) -> ClusterView:
        self.questions += 1
        return await self.describe_cluster()

    async def describe_min_isr(self, names: Collection[str]) -> dict[str, int]:
        self.questions += 1
        return dict.fromkeys(names, self.min_isr)

    async def create_topic(self, new: NewTopic) -> None:
        self.made.append(new)
        replicas = 1 if new.replicas == -1 else new.replicas
        self.placed = {index: tuple(range(replicas)) for index in range(new.partitions)}

    async def list_reassignments(self) -> Mapping[Partition, ReassignmentView]:
        self.questions += 1
        if not self.may_list:
            raise KafkaApiError(31, None, "listing reassignments")
        return dict(self.moving)

    async def alter_reassignments(self, targets: Mapping[Partition, Collection[int]]) -> dict[Partition, str]:
        self.sent.append({partition: tuple(replicas) for partition, replicas in targets.items()})
        for (name, index), target in targets.items():
            if (name, index) in self.refusals:
                continue
            self.moving.pop((name, index), None)
            origin = self.placed[index]
            adding = tuple(replica for replica in target if replica not in origin)
            removing = tuple(replica for replica in origin if replica not in target)
            if adding:
                self.moving[name, index] = ReassignmentView((*target, *removing), adding, removing)
            else:
                self.placed[index] = tuple(target)
        return {partition: why for partition, why in self.refusals.items() if partition in targets}

    def catch_up(self, count: int) -> None:
        """Put the added replicas of so many partitions in sync."""
        for name, index in list(self.moving)[:count]:
            view = self.moving.pop((name, index))
            self.placed[index] = tuple(replica for replica in view.replicas if replica not in view.removing)


class Operator:
    def __init__(self, brokers: Brokers, **spec: Any) -> None:
        self.brokers = brokers
        self.kube = MemoryKube(cluster())
        self.apply(**spec)
        self.again()

    def again(self) -> None:
        """Start another process of the operator, without memory."""
        context = Context(self.kube, read_settings({}, None, None, None))  # type: ignore[arg-type]
        context.pool = self._pool  # type: ignore[method-assign, assignment]
        self._reconciler = TopicReconciler(context, patience_s=TOPIC_PATIENCE_S, deletion_s=TOPIC_DELETION_S)

    def apply(self, **spec: Any) -> None:
        document = topic("orders", **{"partitions": len(self.brokers.placed) or 4} | spec)
        document["spec"] = {key: value for key, value in document["spec"].items() if value is not None}
        self.kube.put(document)

    async def _pool(self, _: object) -> Brokers:
        return self.brokers

    async def look(self) -> object:
        return await self._reconciler.reconcile(SHOP)

    @property
    def status(self) -> Json:
        found: Json = self.kube.take("Topic", "orders")["status"]
        return found

    @property
    def ready(self) -> tuple[str, str]:
        condition = self.kube.condition("Topic", "orders")
        return condition["reason"], condition["message"]


def on_one(partitions: int) -> Brokers:
    return Brokers({index: (index % 3,) for index in range(partitions)})


async def test_replicas_are_added_with_progress_until_all_are_in_sync() -> None:
    operator = Operator(on_one(4), replicas=3)
    assert await operator.look() == REASSIGNING_EVERY_S
    [sent] = operator.brokers.sent
    assert {len(replicas) for replicas in sent.values()} == {3}
    assert operator.status["replicasChange"] == {"targetReplicas": 3, "partitions": "0/4", "moving": 4}
    assert operator.status["replicas"] == 1, "until the last has them"
    assert operator.ready == ("Reassigning", "0/4 partitions have 3 replicas; partitions in reassignment: 4")
    operator.brokers.catch_up(3)
    operator.again()
    assert await operator.look() == REASSIGNING_EVERY_S
    assert operator.status["replicasChange"] == {"targetReplicas": 3, "partitions": "3/4", "moving": 1}
    assert operator.ready[1] == "3/4 partitions have 3 replicas; partitions in reassignment: 1"
    operator.brokers.catch_up(1)
    await operator.look()
    assert operator.ready == ("Applied", "4 partitions, 3 replicas")
    assert "replicasChange" not in operator.status
    assert len(operator.brokers.sent) == 1, "what was sent once is waited for"
    events = {reason: [e["message"] for e in operator.kube.events(reason)] for reason in ("Reassigning", "Reassigned")}
    assert events == {
        "Reassigning": ["topic orders is reassigned to 3 replicas"],
        "Reassigned": ["each partition of topic orders has 3 replicas"],
    }


async def test_a_broker_lost_during_a_copy_is_named_and_replaced_once_it_is_unregistered() -> None:
    operator = Operator(on_one(1), replicas=2)
    await operator.look()
    assert operator.brokers.sent == [{("orders", 0): (0, 1)}]
    operator.brokers.fenced = {1}
    await operator.look()
    assert operator.ready == (
        "Reassigning",
        "0/1 partitions have 2 replicas; partitions in reassignment: 1; partition orders-0 waits for broker 1,"
        " which is fenced",
    )
    operator.brokers.lost, operator.brokers.fenced = {1}, set()
    operator.again()
    await operator.look()
    assert operator.brokers.sent[1:] == [{("orders", 0): (0, 2)}]
    operator.brokers.catch_up(1)
    await operator.look()
    assert operator.ready == ("Applied", "1 partitions, 2 replicas")


async def test_replicas_are_taken_away_at_once() -> None:
    operator = Operator(Brokers(dict.fromkeys(range(4), (0, 1, 2))), replicas=2)
    await operator.look()
    assert [len(replicas) for replicas in operator.brokers.placed.values()] == [2, 2, 2, 2]
    await operator.look()
    assert operator.ready == ("Applied", "4 partitions, 2 replicas")


async def test_a_topic_without_a_replica_count_keeps_its_replicas() -> None:
    operator = Operator(Brokers({0: (0, 1), 1: (1, 2)}), replicas=None)
    await operator.look()
    assert operator.brokers.sent == []
    assert operator.ready == ("Applied", "2 partitions, 2 replicas")


async def test_a_new_topic_that_does_not_say_its_replicas_has_the_brokers_default() -> None:
    operator = Operator(Brokers({}), replicas=None)
    await operator.look()
    assert [new.replicas for new in operator.brokers.made] == [-1]
    assert operator.ready == ("Applied", "4 partitions, 1 replicas")


async def test_more_replicas_than_brokers_is_a_matter_for_a_person() -> None:
    operator = Operator(on_one(2), replicas=5)
    await operator.look()
    assert operator.brokers.sent == []
    assert operator.ready[0] == "TooFewBrokers"
    assert "replicas is 5 and the cluster has 3 brokers" in operator.ready[1]
    assert operator.kube.condition("Topic", "orders", "Stalled")["status"] == "True"
    operator.apply(replicas=3)
    assert await operator.look() == REASSIGNING_EVERY_S


async def test_a_topic_that_no_cluster_could_hold_is_not_made() -> None:
    operator = Operator(Brokers({}), replicas=5)
    await operator.look()
    assert operator.brokers.made == []
    assert operator.ready[0] == "TooFewBrokers"
    assert operator.kube.condition("Topic", "orders", "Stalled")["status"] == "True"


async def test_brokers_of_others_are_counted_as_they_are_registered() -> None:
    operator = Operator(Brokers({0: (0,)}, count=5), replicas=5)
    operator.kube.put(external() | {"status": {"clusterId": "c"}})
    assert await operator.look() == REASSIGNING_EVERY_S
    assert [len(replicas) for replicas in operator.brokers.sent[0].values()] == [5]


async def test_fewer_replicas_than_acks_all_needs_is_a_matter_for_a_person() -> None:
    operator = Operator(Brokers({0: (0, 1, 2)}, min_isr=2), replicas=1)
    await operator.look()
    assert operator.brokers.placed == {0: (0, 1, 2)}
    assert operator.ready[0] == "BelowMinInsyncReplicas"


async def test_a_partition_that_brokers_refuse_is_said_and_tried_again() -> None:
    operator = Operator(on_one(2), replicas=2)
    operator.brokers.refusals["orders", 1] = "INVALID_REPLICA_ASSIGNMENT"
    assert await operator.look() == REASSIGNING_EVERY_S
    assert operator.ready == (
        "Reassigning",
        "0/2 partitions have 2 replicas; partitions in reassignment: 1; partition orders-1 cannot be"
        " reassigned: INVALID_REPLICA_ASSIGNMENT",
    )
    operator.brokers.refusals.clear()
    operator.brokers.catch_up(1)
    await operator.look()
    operator.brokers.catch_up(1)
    await operator.look()
    assert operator.ready[0] == "Applied"


async def test_a_cluster_that_does_not_list_reassignments_is_governed_all_the_same() -> None:
    operator = Operator(Brokers({0: (0, 1)}), replicas=2)
    operator.brokers.may_list = False
    operator.brokers.moving["orders", 0] = ReassignmentView((0, 1), (1,), ())
    await operator.look()
    assert operator.ready[0] == "Applied"


async def test_a_topic_in_sync_costs_two_questions() -> None:
    operator = Operator(Brokers({0: (0, 1), 1: (1, 2)}), replicas=2)
    await operator.look()
    operator.brokers.questions = 0
    await operator.look()
    assert operator.brokers.questions == 2


async def test_a_change_that_is_taken_back_gives_up_what_is_copied() -> None:
    operator = Operator(on_one(4), replicas=3)
    await operator.look()
    operator.apply(replicas=1)
    await operator.look()
    await operator.look()
    assert operator.brokers.moving == {}
    assert operator.ready == ("Applied", "4 partitions, 1 replicas")


async def test_a_reassignment_of_another_client_that_ends_between_two_questions_is_not_undone() -> None:
    class Ending(Brokers):
        """Describes the topic once as it was when all replicas of before and after were in sync."""

        def _view(self, name: str) -> TopicView:
            if self.questions > 1:
                return super()._view(name)
            both = (3, 4, 5, 0, 1, 2)
            return TopicView(name, ID, (PartitionView(0, 0, both, both),))

    brokers = Ending({0: (3, 4, 5)}, count=6)
    await Operator(brokers, replicas=3).look()
    assert brokers.sent == []


async def test_a_topic_without_its_former_replica_count_does_not_report_it() -> None:
    operator = Operator(on_one(2), replicas=3)
    await operator.look()
    operator.apply(replicas=None)
    await operator.look()
    assert "replicasChange" not in operator.status
    assert operator.kube.events("Reassigned") == []


async def test_the_progress_stays_while_brokers_do_not_show_another_change_yet() -> None:
    operator = Operator(on_one(2), replicas=3)
    await operator.look()
    operator.apply(replicas=3, config={"retention.ms": "1"})
    await operator.look()
    assert operator.ready[0] == "Applying"
    assert operator.status["replicasChange"]["partitions"] == "0/2"
    assert operator.kube.events("Reassigned") == []


@pytest.mark.parametrize("there", [False, True])
async def test_a_change_of_replicas_of_an_earlier_topic_is_not_said_to_have_ended(there: bool) -> None:
    operator = Operator(on_one(2) if there else Brokers({}), replicas=1)
    change = {"targetReplicas": 1, "partitions": "1/2", "moving": 1}
    operator.kube.take("Topic", "orders")["status"] = {"topicId": "of-an-earlier-topic", "replicasChange": change}
    await operator.look()
    await operator.look()
    assert (operator.ready[0], "replicasChange" in operator.status) == ("Applied", False)
    assert operator.kube.events("Reassigned") == []
