"""Reassign the partitions of a Topic whose number of replicas changed, a few at a time (KIP-455).

The plan is pure and keeps no state, so an operator that starts during a change continues it. The replicas that a
partition keeps stay in their order, and so does its preferred leader. Kafka removes a replica when all added ones are
in sync.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from sluicegate_operator.api.models.topic import ReplicasChange
from sluicegate_operator.planning.rolls.replica_placement import ReplicaTargets
from sluicegate_operator.planning.rolls.scale import REASSIGNMENTS_MAX, Move
from sluicegate_operator.planning.topics.topics import PartitionLayout, TopicOutcome, TopicVerdict

REMOVALS_MAX = 200
"""Maximum number of partitions that only lose replicas in one step: nothing is copied for them."""


@dataclass(frozen=True, slots=True)
class BrokersSeen:
    """The brokers of a cluster, as observed.

    - `expected`: the number of brokers that the cluster should have.
    - `racks`, `fenced`: by id of all registered brokers.
    - `placed`: the replicas of each partition of the cluster.
    - `staying_below`: a broker with this id or a larger one is to be removed; None: no broker is.
    """

    expected: int
    racks: Mapping[int, str | None]
    fenced: frozenset[int] = frozenset()
    staying_below: int | None = None
    placed: Sequence[tuple[int, ...]] = ()

    def stays(self, broker: int) -> bool:
        return self.staying_below is None or broker < self.staying_below

    @property
    def able(self) -> list[int]:
        """Return the ids of brokers that may get replicas."""
        return [broker for broker in self.racks if broker not in self.fenced and self.stays(broker)]


@dataclass(frozen=True, slots=True)
class ReplicasPlan:
    """The next step of a topic's change of replicas.

    - `moves`: reassignments to send now.
    - `change`: for the status; None if every partition has the wanted replicas.
    - `waits`: why partitions wait that are neither moved nor done.
    - `verdict`: why the user must act.
    """

    moves: tuple[Move, ...] = ()
    change: ReplicasChange | None = None
    waits: str = ""
    verdict: TopicVerdict | None = None


NO_CHANGE = ReplicasPlan()


def needs_moves(wanted: int, layout: Iterable[PartitionLayout], registered: Collection[int] | None = None) -> bool:
    """Return whether any partition neither has `wanted` replicas nor is being moved to so many.

    No replica is copied to a broker that is not `registered` any more; None: all are registered.
    """
    return any(len(_without_gone(partition, registered).target) != wanted for partition in layout)


def _without_gone(partition: PartitionLayout, registered: Collection[int] | None) -> PartitionLayout:
    gone = () if registered is None else tuple(one for one in partition.adding if one not in registered)
    return replace(partition, removing=(*partition.removing, *gone)) if gone else partition


def too_few_brokers(wanted: int, brokers: int) -> TopicVerdict | None:
    """Return the verdict if the cluster has fewer brokers than a partition should have replicas."""
    if wanted <= brokers:
        return None
    have = "1 broker" if brokers == 1 else f"{brokers} brokers"
    message = (
        f"replicas is {wanted} and the cluster has {have}: each replica needs another broker; set replicas to"
        f" {brokers} or less, or add brokers"
    )
    return TopicVerdict(TopicOutcome.TOO_FEW_BROKERS, message)


def plan_replicas(
    topic: str,
    wanted: int,
    layout: Sequence[PartitionLayout],
    brokers: BrokersSeen | None = None,
    *,
    min_isr: int = 0,
    moving: int = 0,
) -> ReplicasPlan:
    """Return the next moves of a topic whose partitions should have `wanted` replicas.

    `brokers` may be None while `needs_moves` is false and nothing is copied. `min_isr` is the topic's
    min.insync.replicas. `moving`: reassignments under way in the whole cluster, including those of this topic.
    """
    change = _change(wanted, layout)
    if change is None or brokers is None:
        return ReplicasPlan(change=change)
    layout = [_without_gone(partition, brokers.racks) for partition in layout]
    grows = [partition for partition in layout if len(partition.target) < wanted]
    if grows and (verdict := too_few_brokers(wanted, brokers.expected)):
        return ReplicasPlan(change=change, verdict=verdict)
    if len(grows) < sum(len(partition.target) != wanted for partition in layout) and wanted < min_isr:
        return ReplicasPlan(change=change, verdict=_below_min_isr(wanted, min_isr))
    return _steps(topic, wanted, layout, brokers, change, REASSIGNMENTS_MAX - moving)


def _change(wanted: int, layout: Sequence[PartitionLayout]) -> ReplicasChange | None:
    """Return the change for the status, or None if every partition is done."""
    done = sum(partition.is_settled and len(partition.target) == wanted for partition in layout)
    if done == len(layout):
        return None
    under_way = sum(not partition.is_settled and len(partition.target) == wanted for partition in layout)
    return ReplicasChange(target_replicas=wanted, partitions=f"{done}/{len(layout)}", moving=under_way)


def _below_min_isr(wanted: int, min_isr: int) -> TopicVerdict:
    message = (
        f"replicas is {wanted} and min.insync.replicas of the topic is {min_isr}: producers with acks=all would be"
        f" refused; set replicas to {min_isr} or more, or lower min.insync.replicas first"
    )
    return TopicVerdict(TopicOutcome.BELOW_MIN_INSYNC_REPLICAS, message)


def _steps(
    topic: str,
    wanted: int,
    layout: Sequence[PartitionLayout],
    brokers: BrokersSeen,
    change: ReplicasChange,
    room: int,
) -> ReplicasPlan:
    targets = ReplicaTargets.of(brokers.able, brokers.racks, brokers.placed)
    moves: list[Move] = []
    waits = ""
    copies = removals = 0
    for partition in layout:
        if len(partition.target) == wanted:
            waits = waits or _waits_for_fenced(topic, partition, brokers)
            continue
        if partition.leader is None or not set(partition.target) & set(partition.isr):
            why = "has no leader" if partition.leader is None else "waits for the current reassignment"
            waits = waits or f"partition {topic}-{partition.index} {why}"
            continue
        grows = len(partition.target) < wanted
        # A reassignment that is replaced is already counted.
        if (grows and partition.is_settled and copies >= room) or (not grows and removals >= REMOVALS_MAX):
            continue
        replicas = _grown(partition, wanted, targets) if grows else _shrunk(partition, wanted, brokers, targets)
        if replicas is None:
            waits = waits or f"only {len(targets.load)} of {brokers.expected} brokers can take replicas now"
            continue
        copies += grows and partition.is_settled
        removals += not grows
        moves.append(Move(topic, partition.index, replicas))
    return ReplicasPlan(tuple(moves), change, waits)


def _waits_for_fenced(topic: str, partition: PartitionLayout, brokers: BrokersSeen) -> str:
    """Return which fenced broker the reassignment waits for; empty if it waits for none."""
    away = [broker for broker in partition.adding if broker in brokers.fenced]
    return f"partition {topic}-{partition.index} waits for broker {away[0]}, which is fenced" if away else ""


def _grown(partition: PartitionLayout, wanted: int, targets: ReplicaTargets) -> tuple[int, ...] | None:
    """Return the partition's replicas with added ones, or None if too few brokers are available.

    In the latter case no broker's load grows.
    """
    replicas = list(partition.target)
    while len(replicas) < wanted:
        best = targets.choose(replicas)
        if best is None:
            for added in replicas[len(partition.target) :]:
                targets.release(added)
            return None
        replicas.append(best)
    return tuple(replicas)


def _shrunk(partition: PartitionLayout, wanted: int, brokers: BrokersSeen, targets: ReplicaTargets) -> tuple[int, ...]:
    """Return the replicas to keep.

    The order of preference: in sync, on brokers that stay, the leader, one for each rack, on the brokers with the
    fewest replicas.
    """
    left, kept = list(partition.target), list[int]()

    def worth(broker: int) -> tuple[bool, bool, bool, bool, int, int]:
        return (
            broker not in partition.isr,
            not brokers.stays(broker),
            broker != partition.leader,
            brokers.racks.get(broker) in targets.racks_of(kept),
            targets.load.get(broker, 0),
            partition.target.index(broker),
        )

    while len(kept) < wanted:
        best = min(left, key=worth)
        left.remove(best)
        kept.append(best)
    for broker in left:
        targets.release(broker)
    return tuple(broker for broker in partition.target if broker in kept)
