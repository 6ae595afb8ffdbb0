"""Scale brokers: how many the StatefulSet should have now, and what must happen before it may have fewer.

Problem: a broker that is removed with replicas on it takes data away.

Idea: `plan_scale` is pure and keeps no state. A broker may be removed only when it has no replica, so the StatefulSet
always includes the highest broker that has one. With `drain`, the plan moves replicas to the brokers that stay, at
most `REASSIGNMENTS_MAX` at a time. If a replica lands on a broker that is being removed, the broker restarts with its
volume, and the drain continues.

A broker is unregistered when its pod is gone and the controller reports it Offline: a running broker would register
again.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from sluicegate_operator.planning.registrations.overview import BrokerState, ClusterOverview
from sluicegate_operator.planning.rolls.replica_placement import ReplicaTargets
from sluicegate_operator.planning.rolls.roll import PartitionState
from sluicegate_operator.planning.status.conditions import NOT_APPLIED, not_applied_words

REASSIGNMENTS_MAX = 20
"""Maximum number of partitions that are moved at the same time: replicating all at once would starve the clients."""

INTERNAL_TOPICS = frozenset({"__consumer_offsets"})
"""The topics that a broker creates.

They have one replica for each registered broker, up to offsets.topic.replication.factor.
"""


@dataclass(frozen=True, slots=True)
class ScaleView:
    """The input of `plan_scale`.

    - `current`: replicas of the StatefulSet now, 0 before it exists.
    - `pods`: ids of brokers that have a pod, read after `overview`.
    - `moving`: (topic, index) of reassignments under way. Their replicas in `partitions` are the old and the new ones
      together, as Kafka reports them.
    """

    wanted: int
    current: int
    drain: bool
    overview: ClusterOverview | None
    partitions: Sequence[PartitionState] | None
    pods: Collection[int] = ()
    moving: Collection[tuple[str, int]] = ()
    unseen: str = ""


@dataclass(frozen=True, slots=True)
class Move:
    """The move of a topic's partition to other brokers."""

    topic: str
    index: int
    replicas: tuple[int, ...]


class ScaleReason(StrEnum):
    """The reason why the cluster has its present number of brokers. The values are reasons of a condition."""

    SCALED = "Scaled"
    SCALING_UP = "ScalingUp"
    SCALING_DOWN = "ScalingDown"
    DRAINING = "Draining"
    REPLICAS_REMAIN = "ReplicasRemain"
    TOO_FEW_BROKERS = "TooFewBrokers"
    UNKNOWN = "ReplicasUnknown"
    UNREGISTERING = "Unregistering"
    MOVE_REFUSED = "MoveRefused"
    UNREGISTER_REFUSED = "UnregisterRefused"
    SCALE_REFUSED = "ScaleRefused"
    NOT_APPLIED = NOT_APPLIED


REFUSED_FOR_GOOD = frozenset({ScaleReason.MOVE_REFUSED, ScaleReason.UNREGISTER_REFUSED, ScaleReason.SCALE_REFUSED})
REFUSED = REFUSED_FOR_GOOD | {ScaleReason.NOT_APPLIED}
"""Reasons of a step that a broker or the API server refused, permanently or repeatedly for a minute."""
NEEDS_A_PERSON = frozenset({ScaleReason.REPLICAS_REMAIN, ScaleReason.TOO_FEW_BROKERS}) | REFUSED_FOR_GOOD
BLOCKING = NEEDS_A_PERSON | {ScaleReason.UNKNOWN, ScaleReason.NOT_APPLIED}
REFUSALS_SHOWN_MAX = 3


@dataclass(frozen=True, slots=True)
class ScaleStep:
    """The next step of scaling.

    `replicas` is the number that the StatefulSet should ask for now. `moves` and `unregister` are to be carried out;
    `message` is the sentence for the status.
    """

    replicas: int
    reason: ScaleReason
    message: str = ""
    moves: tuple[Move, ...] = ()
    unregister: tuple[int, ...] = ()

    @property
    def blocked(self) -> bool:
        return self.reason in BLOCKING


def refused_moves(step: ScaleStep, refused: Mapping[tuple[str, int], str], *, others_move: bool) -> ScaleStep:
    """Return the outcome of `step` if brokers refuse to move partitions.

    `refused` has their message by topic and index. The step keeps its reason while other partitions move
    (`others_move`): then only its message has the refusals.
    """
    if not refused:
        return step
    found = [f"{topic}-{index} cannot be moved: {why}" for (topic, index), why in sorted(refused.items())]
    more = len(found) - REFUSALS_SHOWN_MAX
    sentences = [step.message, *found[:REFUSALS_SHOWN_MAX], *([f"{more} more moves are refused"] if more > 0 else [])]
    reason = step.reason if others_move else ScaleReason.MOVE_REFUSED
    return replace(step, reason=reason, message="; ".join(sentences))


def refused_unregistering(step: ScaleStep, refused: Mapping[int, str]) -> ScaleStep:
    """Return the outcome of `step` if the controller refuses to unregister brokers.

    `refused` has the controller's message by broker.
    """
    if not refused:
        return step
    found = [f"broker {broker_id} cannot be unregistered: {why}" for broker_id, why in sorted(refused.items())]
    is_all = step.reason is ScaleReason.UNREGISTERING
    message = "; ".join(found if is_all else [step.message, *found])
    return replace(step, reason=ScaleReason.UNREGISTER_REFUSED if is_all else step.reason, message=message)


def refused_scale(step: ScaleStep, current: int, refusal: str, *, may_pass: bool) -> ScaleStep:
    """Return the outcome of `step` if the API server refuses another number of brokers than `current`.

    `refusal` is the API server's message. `may_pass`: the API server has refused for a minute, and may accept the next
    attempt.
    """
    unchanged = f"the StatefulSet keeps {current} brokers instead of {step.replicas}"
    if may_pass:
        return replace(step, reason=ScaleReason.NOT_APPLIED, message=f"{unchanged}: {not_applied_words(refusal)}")
    message = (
        f"{unchanged}, because the API server refuses the change: {refusal}; change the policy or the RBAC"
        " rule that refuses the request"
    )
    return replace(step, reason=ScaleReason.SCALE_REFUSED, message=message)


def plan_scale(view: ScaleView) -> ScaleStep:
    """Return the number of broker pods that the StatefulSet should have now, and what removing brokers waits for."""
    if view.overview is None:
        why = view.unseen or "no controller is active, so it is unknown which brokers have replicas"
        if view.wanted < view.current:
            return ScaleStep(view.current, ScaleReason.UNKNOWN, f"no broker is removed: {why}")
        return ScaleStep(view.wanted, _upwards(view))
    holders = _holders(view, view.overview)
    replicas = max(view.wanted, 1 + max(holders, default=-1))
    gone = _leftovers(view.overview, view.pods, replicas)
    if not holders:
        return _without_holders(view, gone)
    step = _drain(view, view.overview, holders) if view.drain else _remaining(view, holders)
    return ScaleStep(replicas, step.reason, step.message, step.moves, gone)


def _upwards(view: ScaleView) -> ScaleReason:
    return ScaleReason.SCALED if view.wanted == view.current else ScaleReason.SCALING_UP


def _without_holders(view: ScaleView, gone: tuple[int, ...]) -> ScaleStep:
    if view.wanted < view.current:
        sentence = f"no replicas are left on {_brokers(range(view.wanted, view.current))}: scaling down"
        return ScaleStep(view.wanted, ScaleReason.SCALING_DOWN, sentence, unregister=gone)
    if gone:
        sentence = f"unregistering {_brokers(gone)} without replicas"
        return ScaleStep(view.wanted, ScaleReason.UNREGISTERING, sentence, unregister=gone)
    return ScaleStep(view.wanted, _upwards(view))


def _holders(view: ScaleView, overview: ClusterOverview) -> list[int]:
    """Return the brokers to remove that still have replicas.

    The controller's count and the partitions of a broker's Metadata may be from different moments: either is enough to
    stay.
    """
    counted = {broker.id for broker in overview.brokers if broker.replicas}
    named = {replica for partition in view.partitions or () for replica in partition.replicas}
    return sorted(broker_id for broker_id in counted | named if broker_id >= view.wanted)


def _leftovers(overview: ClusterOverview, pods: Collection[int], replicas: int) -> tuple[int, ...]:
    """Return the brokers to unregister: those above every broker that has a replica."""
    return tuple(
        broker.id
        for broker in overview.brokers
        if broker.id >= replicas and broker.id not in pods and broker.state is BrokerState.OFFLINE
    )


def _remaining(view: ScaleView, holders: Sequence[int]) -> ScaleStep:
    example = next((p for p in view.partitions or () if set(p.replicas) & set(holders)), None)
    named = f", for example of {example}" if example else ""
    sentence = f"replicas remain on {_brokers(holders)}{named}; move them to other brokers, or set brokers.drain: true"
    return ScaleStep(view.current, ScaleReason.REPLICAS_REMAIN, sentence)


def _drain(view: ScaleView, overview: ClusterOverview, holders: Sequence[int]) -> ScaleStep:
    if view.partitions is None:
        sentence = f"no broker is drained: {view.unseen or 'no broker reports where the replicas are'}"
        return ScaleStep(view.current, ScaleReason.UNKNOWN, sentence)
    targets = _targets(view, overview)
    leaving = [partition for partition in sorted(view.partitions) if set(partition.replicas) & set(holders)]
    moves: list[Move] = []
    for partition in leaving:
        if (partition.topic, partition.index) in view.moving:
            continue
        if len(view.moving) + len(moves) >= REASSIGNMENTS_MAX:
            break
        replicas = _place(targets, partition, view.wanted)
        if replicas is None:
            return ScaleStep(
                view.current,
                ScaleReason.TOO_FEW_BROKERS,
                f"{partition} has {len(partition.replicas)} replicas, but only {len(targets.load)} of the"
                " remaining brokers are Online; start the others, or keep brokers.replicas at"
                f" {len(partition.replicas)} or more",
            )
        moves.append(Move(partition.topic, partition.index, replicas))
    sentence = f"{len(leaving)} partitions are being moved from {_brokers(holders)} to the other brokers"
    return ScaleStep(view.current, ScaleReason.DRAINING, sentence, tuple(moves))


def _targets(view: ScaleView, overview: ClusterOverview) -> ReplicaTargets:
    """Return the brokers that stay and are Online."""
    staying = (broker for broker in overview.online if broker < view.wanted)
    racks = {broker.id: broker.rack for broker in overview.brokers}
    return ReplicaTargets.of(staying, racks, (partition.replicas for partition in view.partitions or ()))


def _place(targets: ReplicaTargets, partition: PartitionState, staying_below: int) -> tuple[int, ...] | None:
    """Return the partition's new replicas: those that stay, and a chosen broker for each other one.

    Returns None if there are not enough brokers. An internal topic gets fewer replicas then, because its number of
    replicas was not chosen by a user.
    """
    kept = {replica for replica in partition.replicas if replica < staying_below}
    placed: list[int] = []
    for replica in partition.replicas:
        if replica < staying_below:
            placed.append(replica)
            continue
        if partition.topic in INTERNAL_TOPICS and len(kept) == staying_below:
            continue
        best = targets.choose(kept)
        if best is None:
            return None
        kept.add(best)
        placed.append(best)
    return tuple(placed)


def _brokers(ids: Collection[int]) -> str:
    return f"broker{'s' if len(ids) > 1 else ''} {', '.join(map(str, ids))}"
