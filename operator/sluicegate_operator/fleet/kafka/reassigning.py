"""Bring a topic's partitions to the number of replicas in its Topic, one step at each reconcile.

planning.topics.reassignment decides what is sent; this module reads the state and sends the requests.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from sluicegate_operator.api.models.topic import Topic
from sluicegate_operator.fleet.base import BrokerAddress
from sluicegate_operator.fleet.kafka.asking import BrokerPool
from sluicegate_operator.kafka_admin.client import BrokerHandle
from sluicegate_operator.kafka_admin.views import ClusterView, Partition, PartitionView, ReassignmentView, TopicView
from sluicegate_operator.planning.topics.reassignment import (
    NO_CHANGE,
    BrokersSeen,
    ReplicasPlan,
    needs_moves,
    plan_replicas,
)
from sluicegate_operator.planning.topics.topics import ObservedTopic, PartitionLayout


@dataclass(frozen=True, slots=True)
class BrokersWanted:
    """The brokers that a cluster should have.

    `expected` is their number. `staying_below`: brokers with this id or a larger one are to be removed; None if no
    broker is.
    """

    expected: int
    staying_below: int | None = None


def plan_of(topic: Topic, observed: ObservedTopic | None) -> ReplicasPlan:
    """Return the progress of a topic's change of the number of replicas, without any move."""
    if topic.spec.replicas is None or observed is None or not observed.layout:
        return NO_CHANGE
    return plan_replicas(topic.topic_name, topic.spec.replicas, observed.layout)


async def reassign_replicas(
    pool: BrokerPool, topic: Topic, observed: ObservedTopic | None, brokers: BrokersWanted
) -> ReplicasPlan:
    """Send the next moves of the topic's replicas. Return the remaining work, and why partitions were refused.

    Raises KafkaAdminError if the brokers refuse, NoBrokerError if none can be reached.
    """
    wanted = topic.spec.replicas
    if wanted is None or observed is None:
        return plan_of(topic, observed)
    name = topic.topic_name
    if not needs_moves(wanted, observed.layout):
        if not any(partition.adding for partition in observed.layout):
            return plan_of(topic, observed)
        there = _seen(await pool.ask_any(lambda _, handle: handle.describe_cluster_with_fenced()), brokers)
        if not needs_moves(wanted, observed.layout, there.racks):
            return plan_replicas(name, wanted, observed.layout, there)
    seen, moving, topics = await pool.ask_any(lambda _, handle: _read(handle, brokers))
    now = {one.index: one for one in topics[name].partitions} if name in topics else {}
    layout = [_as_of_now(one, now.get(one.index), moving.get((name, one.index))) for one in observed.layout]
    shrinks = any(len(partition.target) > wanted for partition in layout)
    min_isr = await _min_isr(pool, name) if shrinks else 0
    plan = plan_replicas(name, wanted, layout, seen, min_isr=min_isr, moving=len(moving))
    if not plan.moves:
        return plan
    targets = {(move.topic, move.index): move.replicas for move in plan.moves}
    refused = await pool.ask_any(lambda _, handle: handle.alter_reassignments(targets))
    if not refused:
        return plan
    (_, index), why = min(refused.items())
    return replace(plan, waits=f"partition {name}-{index} cannot be reassigned: {why}")


def _as_of_now(
    partition: PartitionLayout, now: PartitionView | None, change: ReassignmentView | None
) -> PartitionLayout:
    """Return the partition with the controller's reassignment of it, or else as a broker has described it since.

    The observed state may be from before a reassignment began. Or it is from just before another client's reassignment
    ended, and has the old and the new replicas together.
    """
    if change is not None:
        return replace(partition, replicas=change.replicas, adding=change.adding, removing=change.removing)
    if now is None:
        return partition
    return PartitionLayout(partition.index, now.leader, now.replicas, now.isr)


async def _read(
    handle: BrokerHandle, wanted: BrokersWanted
) -> tuple[BrokersSeen, Mapping[Partition, ReassignmentView], Mapping[str, TopicView]]:
    """Return the brokers, the reassignments under way in the cluster, and all topics, read in this order."""
    cluster = await handle.describe_cluster_with_fenced()
    moving = await handle.list_reassignments()
    topics = await handle.describe_topics()
    placed = [partition.replicas for topic in topics.values() for partition in topic.partitions]
    return replace(_seen(cluster, wanted), placed=placed), moving, topics


def _seen(cluster: ClusterView, wanted: BrokersWanted) -> BrokersSeen:
    """Return the brokers without the replicas that they have."""
    return BrokersSeen(
        expected=wanted.expected,
        racks={broker.id: broker.rack for broker in cluster.brokers},
        fenced=frozenset(broker.id for broker in cluster.brokers if broker.fenced),
        staying_below=wanted.staying_below,
    )


async def _min_isr(pool: BrokerPool, name: str) -> int:
    async def ask(_: BrokerAddress, handle: BrokerHandle) -> int:
        return (await handle.describe_min_isr([name])).get(name, 0)

    return await pool.ask_any(ask)
