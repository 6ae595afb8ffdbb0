"""Read the state of brokers and pods for planning.rolls.roll and planning.rolls.scale.

The module decides nothing. A state that cannot be read is None with a sentence, because a roll must not continue
without it.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from sluicegate_operator.fleet.kafka.asking import BrokerPool, NoBrokerError
from sluicegate_operator.fleet.pods.pods import NodePod
from sluicegate_operator.kafka_admin.errors import KafkaAdminError
from sluicegate_operator.kafka_admin.views import Partition, TopicView
from sluicegate_operator.planning.layout.cluster_layout import FIRST_CONTROLLER_ID, Role
from sluicegate_operator.planning.layout.restart_reasons import (
    NodeRevision,
    decode_revision,
    restart_reasons,
    restart_requested,
)
from sluicegate_operator.planning.registrations.overview import ClusterOverview
from sluicegate_operator.planning.rolls.roll import NodeView, PartitionState
from sluicegate_operator.resources.labels import RESTARTED_AT, REVISION, node_set_name

BEHIND = "the brokers' metadata differs from the controller's"


@dataclass(frozen=True, slots=True)
class Partitions:
    """The result of reading a cluster's partitions.

    `states` is None if they could not be read; `unseen` then has the cause. `moving`: reassignments under way.
    """

    states: tuple[PartitionState, ...] | None = None
    moving: Collection[Partition] = ()
    unseen: str = ""


async def read_partitions(pool: BrokerPool | None, overview: ClusterOverview | None) -> Partitions:
    """Read the partitions, only from brokers that are online for the controller.

    A broker that is cut off returns old metadata.
    """
    if pool is None or overview is None:
        return Partitions(unseen="no broker answers, so the partitions are unknown")
    asked = replace(pool, brokers=tuple(b for b in pool.brokers if b.broker_id in overview.online))
    try:
        topics = await asked.ask_any(lambda _, handle: handle.describe_topics())
        min_isr = await asked.ask_any(lambda _, handle: handle.describe_min_isr(topics))
        moving = await asked.ask_any(lambda _, handle: handle.list_reassignments())
    except (KafkaAdminError, NoBrokerError) as error:
        return Partitions(unseen=f"the partitions cannot be read: {error}")
    states = partition_states(topics, min_isr)
    if not agrees(overview, states):
        return Partitions(unseen=BEHIND)
    return Partitions(states, moving)


def partition_states(topics: Mapping[str, TopicView], min_isr: Mapping[str, int]) -> tuple[PartitionState, ...]:
    """Return the states of the topics' partitions. A topic that was deleted between the two requests is left out."""
    return tuple(
        PartitionState(name, part.index, part.leader, part.replicas, part.isr, min_isr[name])
        for name, topic in sorted(topics.items())
        if name in min_isr
        for part in topic.partitions
    )


def agrees(overview: ClusterOverview, states: Sequence[PartitionState]) -> bool:
    """Return whether the partitions' states agree with the overview of the brokers.

    They agree if each broker has the same numbers of replicas, and of replicas out of sync, in both.
    """
    replicas = dict.fromkeys((broker.id for broker in overview.brokers), 0)
    out_of_sync = dict(replicas)
    for state in states:
        for broker_id in state.replicas:
            replicas[broker_id] = replicas.get(broker_id, 0) + 1
            out_of_sync[broker_id] = out_of_sync.get(broker_id, 0) + (broker_id not in state.isr)
    return all(
        (replicas[broker.id], out_of_sync[broker.id]) == (broker.replicas, broker.out_of_sync)
        for broker in overview.brokers
    )


@dataclass(frozen=True, slots=True)
class NodeSetSeen:
    """The present StatefulSet of one role: its number of nodes, and the revision of new nodes."""

    replicas: int
    revision: NodeRevision
    observed: bool
    """Whether Kubernetes has observed the newest template of the StatefulSet."""
    restart_requested_at: str = ""
    """Time of the last `kubectl rollout restart`, which has written it into the template."""


def respelled(wanted: NodeSetSeen, pods: Sequence[NodePod]) -> list[NodePod]:
    """Return pods with the wanted configuration whose annotation has the spelling of an older operator."""
    text = wanted.revision.encode()
    given = [pod for pod in pods if not pod.deleting and pod.annotations.get(REVISION) not in (None, text)]
    return [pod for pod in given if not restart_reasons(decode_revision(pod.annotations[REVISION]), wanted.revision)]


def node_views(cluster: str, role: Role, wanted: NodeSetSeen, pods: Sequence[NodePod]) -> list[NodeView]:
    by_ordinal = {pod.ordinal: pod for pod in pods if pod.role is role}
    return [_node_view(cluster, role, ordinal, wanted, by_ordinal.get(ordinal)) for ordinal in range(wanted.replicas)]


def _node_view(cluster: str, role: Role, ordinal: int, wanted: NodeSetSeen, pod: NodePod | None) -> NodeView:
    name = f"{node_set_name(cluster, role)}-{ordinal}"
    node_id = ordinal if role is Role.BROKER else FIRST_CONTROLLER_ID + ordinal
    if pod is None:
        return NodeView(name, role, node_id, present=False, ready=False)
    return NodeView(
        name=name,
        role=role,
        node_id=node_id,
        ready=pod.ready,
        deleting=pod.deleting,
        failing=pod.failing,
        reasons=(
            *restart_reasons(decode_revision(pod.annotations.get(REVISION)), wanted.revision),
            *restart_requested(pod.annotations.get(RESTARTED_AT), wanted.restart_requested_at),
        ),
    )
