"""Plan rolls: choose the nodes that may be restarted now, from the observed state alone.

Problem: a restart for a new pod template, configuration or image takes a node away. Clients with acks=all must keep
working meanwhile, and a node that is broken must not pull down a second one.

Idea: `plan_roll` is a pure function of a `RollView`. It keeps no state between reconciles: each one decides again from
what it observes, so a restarted operator continues the roll. Nodes restart in this order: nodes that are down anyway,
standby controllers, brokers, the active controller last. One node restarts at a time, or the brokers of one rack (see
`roll_groups`).

Invariants:
- No node restarts while another node is down, or while a replica on another broker is out of its in-sync set.
- Every partition keeps min.insync.replicas in-sync replicas on brokers that are online and do not restart.
- A broker without recent heartbeats counts as leaving. A frozen broker stays Online and in its in-sync sets until its
  session ends.

A partition with replicas - 1 < min.insync.replicas (mostly a partition with one replica) can never keep that many, and
would forbid every roll. It is overridden when all its other replicas are in sync, and the restart's notes report it.

This module knows neither Kubernetes nor processes: the fleets of both make a `RollView` and carry out the step.
`fencing` describes the order in which the parts of the view must be read.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from sluicegate_operator.planning.layout.cluster_layout import Role
from sluicegate_operator.planning.layout.restart_reasons import RestartReason
from sluicegate_operator.planning.registrations.fencing import FenceOrder
from sluicegate_operator.planning.registrations.overview import BrokerOverview, ClusterOverview
from sluicegate_operator.planning.rolls.roll_groups import BrokerGroup, Strategy, broker_groups
from sluicegate_operator.planning.status.conditions import NOT_APPLIED, not_applied_words

SHOWN_MAX = 3
SILENCE_MAX_S = 3.0
"""Default limit of `silence_max_s`, in seconds: a third of Kafka's session, and one and a half heartbeats."""


@dataclass(frozen=True, slots=True)
class NodeView:
    """A node that should exist, as observed.

    - `present`: its pod or process exists.
    - `deleting`: its pod or process is being stopped.
    - `ready`: the process reports ready. For a broker's pod the readiness gate must be true as well, so that Services
      send clients to this broker again before the next one restarts.
    - `failing`: why it cannot start, for example CrashLoopBackOff.
    - `reasons`: why the node needs a restart.
    """

    name: str
    role: Role
    node_id: int
    present: bool = True
    ready: bool = True
    deleting: bool = False
    failing: str = ""
    reasons: tuple[RestartReason, ...] = ()


@dataclass(frozen=True, slots=True, order=True)
class PartitionState:
    """One partition in Kafka's Metadata, with its topic's min.insync.replicas. `leader` is None without a leader."""

    topic: str
    index: int
    leader: int | None
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    min_isr: int = 1

    def __str__(self) -> str:
        return f"{self.topic}-{self.index}"


@dataclass(frozen=True, slots=True)
class RollView:
    """The input of `plan_roll`.

    - `nodes`: every node that should exist, also those without a pod.
    - `overview`, `partitions`: None if they could not be read; `unseen` then has the cause.
    - `fences`: brokers known to be gone, which the controller should fence at once.
    - `template_observed`: the StatefulSet's controller has observed the wanted template. Otherwise a restarted pod
      would be the old one again.
    - `silence_max_s`: a broker without a heartbeat for longer than this may be frozen, and the roll waits for it.
    - `under_way`: nodes were being restarted at the last reconcile. A roll ends when all of them are back, not when the
      last one has stopped.
    """

    nodes: Sequence[NodeView]
    overview: ClusterOverview | None
    partitions: Sequence[PartitionState] | None
    paused: bool = False
    template_observed: bool = True
    unseen: str = ""
    fences: tuple[FenceOrder, ...] = ()
    silence_max_s: float = SILENCE_MAX_S
    strategy: Strategy = "Broker"
    under_way: bool = False


@dataclass(frozen=True, slots=True)
class NoRoll:
    """The reason why a reconcile planned no roll.

    `pauses`: a started roll is paused, and continues when the cause is gone.
    """

    reason: str
    message: str
    pauses: bool = False


NO_NODES = NoRoll("NoNodes", "the cluster has no StatefulSets, so no node can be restarted")
LISTENER_UNREADABLE = NoRoll(
    "Unreadable", "no node is restarted until all BrokerListeners of the cluster can be read", pauses=True
)


class WaitReason(StrEnum):
    """The reason why a roll waits. It is also the reason in the conditions Rolling and RollBlocked."""

    PAUSED = "Paused"
    TEMPLATE_NOT_OBSERVED = "TemplateNotObserved"
    NODE_RESTARTING = "NodeRestarting"
    NODE_NOT_READY = "NodeNotReady"
    NODE_FAILING = "NodeFailing"
    CONTROLLER_UNKNOWN = "ControllerUnknown"
    PARTITIONS_UNKNOWN = "PartitionsUnknown"
    BROKER_NOT_ONLINE = "BrokerNotOnline"
    BROKER_SILENT = "BrokerSilent"
    OUT_OF_SYNC = "OutOfSync"
    BELOW_MIN_ISR = "BelowMinIsr"
    RESTART_REFUSED = "RestartRefused"
    NOT_APPLIED = NOT_APPLIED


BLOCKING = frozenset(
    {
        WaitReason.PAUSED,
        WaitReason.NODE_FAILING,
        WaitReason.CONTROLLER_UNKNOWN,
        WaitReason.PARTITIONS_UNKNOWN,
        WaitReason.BELOW_MIN_ISR,
        WaitReason.RESTART_REFUSED,
        WaitReason.NOT_APPLIED,
    }
)
"""Reasons that do not pass by waiting for a restarting node."""
REFUSED = frozenset({WaitReason.RESTART_REFUSED, WaitReason.NOT_APPLIED})
"""Reasons of a restart that the API server refused, permanently or repeatedly for a minute."""


@dataclass(frozen=True, slots=True)
class PlannedRestart:
    """A node to restart. `notes`: sentences for the Event about risks during the restart."""

    name: str
    role: Role
    node_id: int
    reasons: tuple[RestartReason, ...]
    notes: tuple[str, ...] = ()

    @property
    def sentence(self) -> str:
        """Return the message of the Event about the restart.

        The Event's reason is the kind of the first of `reasons`.
        """
        why = ", ".join(map(str, self.reasons))
        return "; ".join((f"restarting {self.name}: {why}", *self.notes))


@dataclass(frozen=True, slots=True)
class Restart:
    """The step of restarting all of `nodes` at once. `waiting`: names of the other nodes that need a restart."""

    nodes: tuple[PlannedRestart, ...]
    waiting: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class WaitForNodes:
    """The step of waiting: no node may be restarted now. `waiting`: names of the nodes that need a restart."""

    reason: WaitReason
    message: str
    waiting: tuple[str, ...] = ()

    @property
    def blocked(self) -> bool:
        return self.reason in BLOCKING


@dataclass(frozen=True, slots=True)
class Done:
    """The end of a roll: no node needs a restart, and all restarted nodes are back."""


@dataclass(frozen=True, slots=True)
class Fence:
    """The step of sending fence orders to the controller. The next reconcile observes and plans again."""

    orders: tuple[FenceOrder, ...]


RollStep = Restart | WaitForNodes | Done | Fence


def refused_restart(step: Restart, refused: Collection[str], refusal: str, *, may_pass: bool) -> WaitForNodes:
    """Return the outcome of a restart that the API server refuses for the nodes with the names `refused`.

    `refusal` is the API server's message. `may_pass`: the API server has refused for a minute, and may accept the next
    attempt.
    """
    named = _shown(refused)
    left = (*(node.name for node in step.nodes if node.name in refused), *step.waiting)
    if may_pass:
        return WaitForNodes(WaitReason.NOT_APPLIED, f"{named} cannot be restarted: {not_applied_words(refusal)}", left)
    sentence = (
        f"{named} cannot be restarted, because the API server refuses to delete the pod: {refusal}; change the"
        " policy or the RBAC rule that refuses the request, or delete the pod manually"
    )
    return WaitForNodes(WaitReason.RESTART_REFUSED, sentence, left)


def plan_roll(view: RollView) -> RollStep:
    """Return the next step of the roll: fence lost brokers, restart nodes, wait with a reason, or nothing."""
    if view.fences:
        return Fence(view.fences)
    pending = [node for node in view.nodes if node.reasons and not node.deleting]
    if not pending:
        awaited = _not_back(view) if view.under_way else None
        return WaitForNodes(awaited.reason, awaited.message) if awaited else Done()
    step = _next(view, pending)
    if isinstance(step, _Wait):
        return WaitForNodes(step.reason, step.message, _names(pending))
    chosen = {restart.name for restart in step}
    return Restart(tuple(step), _names(node for node in pending if node.name not in chosen))


@dataclass(frozen=True, slots=True)
class _Wait:
    reason: WaitReason
    message: str


def _not_back(view: RollView) -> _Wait | None:
    if troubled := _troubled(view):
        return _trouble(min(troubled, key=lambda node: not node.failing))
    if view.overview is None:
        return _Wait(
            WaitReason.NODE_NOT_READY, "no controller is active yet, so it is unknown whether all brokers are Online"
        )
    expected = [node.node_id for node in view.nodes if node.role is Role.BROKER]
    behind = (b for b in view.overview.brokers if b.out_of_sync and b.id in expected)
    return _not_online(view.overview, expected) or next(map(_out_of_sync, behind), None)


def _next(view: RollView, pending: Sequence[NodeView]) -> list[PlannedRestart] | _Wait:
    if view.paused:
        return _Wait(WaitReason.PAUSED, f"rollout.paused is true, so these nodes are not restarted: {_paused(pending)}")
    if not view.template_observed:
        return _Wait(WaitReason.TEMPLATE_NOT_OBSERVED, "Kubernetes has not observed the new pod template yet")
    if down := [node for node in pending if _is_down(node, view.overview)]:
        return [_restart(node) for node in down]
    candidates = _candidates(view, pending)
    if isinstance(candidates, _Wait):
        return candidates
    if view.overview is None:
        return _Wait(
            WaitReason.CONTROLLER_UNKNOWN,
            view.unseen or "no controller is active, so it is unknown which brokers are Online",
        )
    active_id = view.overview.controller_id
    if standbys := [n for n in candidates if n.role is Role.CONTROLLER and n.node_id != active_id]:
        return [_restart(standbys[0])]
    if brokers := [node for node in candidates if node.role is Role.BROKER]:
        return _brokers(view, view.overview, brokers)
    if silent := _silent(view, view.overview):
        # The next activation would give it a whole new session.
        return silent
    return [_restart(candidates[0], _without_controller(view, active_id))]


def _is_down(node: NodeView, overview: ClusterOverview | None) -> bool:
    """Return whether a restart takes nothing away.

    A broker that is Online serves clients, whatever its probe reports.
    """
    if not node.present or node.ready:
        return False
    if node.role is Role.CONTROLLER:
        return overview is None or overview.controller_id != node.node_id
    return overview is not None and node.node_id not in overview.online


def _candidates(view: RollView, pending: Sequence[NodeView]) -> Sequence[NodeView] | _Wait:
    """Return the nodes that may restart.

    While a node is in trouble, no other node is taken down. If its restart may help, it is the only candidate.
    """
    troubled = _troubled(view)
    if not troubled:
        return pending
    if len(troubled) == 1 and troubled[0] in pending:
        return troubled
    # A failing node is named before one that is restarting.
    return _trouble(min((n for n in troubled if n not in pending), key=lambda n: not n.failing, default=troubled[0]))


def _troubled(view: RollView) -> list[NodeView]:
    return [node for node in view.nodes if node.deleting or node.failing or not (node.present and node.ready)]


def _trouble(node: NodeView) -> _Wait:
    if node.failing:
        return _Wait(WaitReason.NODE_FAILING, f"{node.name} does not start: {node.failing}; fix this node first")
    if node.deleting or not node.present:
        return _Wait(WaitReason.NODE_RESTARTING, f"{node.name} is being restarted")
    return _Wait(WaitReason.NODE_NOT_READY, f"{node.name} is not ready")


def _without_controller(view: RollView, active_id: int) -> tuple[str, ...]:
    standby = any(node.role is Role.CONTROLLER and node.node_id != active_id for node in view.nodes)
    return (
        ()
        if standby
        else (
            "the cluster has no standby controller: topics, leaders and limits cannot change until the controller is"
            " running again",
        )
    )


def _silent(view: RollView, overview: ClusterOverview, going: frozenset[int] = frozenset()) -> _Wait | None:
    """Return why the roll waits for a broker that must stay up and may be frozen.

    Brokers known to be offline are reported elsewhere.
    """
    stay = {node.node_id for node in view.nodes if node.role is Role.BROKER} - going
    for broker in overview.brokers:
        age_s = broker.heartbeat_age_s
        if broker.id in stay & overview.online and age_s is not None and age_s > view.silence_max_s:
            # Without the age, which would change the message every second.
            sentence = f"broker {broker.id} has been silent for more than {view.silence_max_s:g} s and may be frozen"
            return _Wait(WaitReason.BROKER_SILENT, sentence)
    return None


def _brokers(view: RollView, overview: ClusterOverview, pending: Sequence[NodeView]) -> list[PlannedRestart] | _Wait:
    expected = [node.node_id for node in view.nodes if node.role is Role.BROKER]
    away = [broker_id for broker_id in expected if broker_id not in overview.online]
    if len(away) == 1 and (own := [node for node in pending if node.node_id in away]):
        return [_restart(own[0])]
    if wait := _not_online(overview, expected):
        return wait
    if view.partitions is None:
        return _Wait(WaitReason.PARTITIONS_UNKNOWN, view.unseen or "no broker reports which replicas are in sync")
    safety = _Safety(view.partitions, frozenset(expected), overview)
    racks = {broker.id: broker.rack for broker in overview.brokers}
    first: _Wait | None = None
    not_whole: dict[BrokerGroup, str] = {}
    for group in broker_groups(view.strategy, [node.node_id for node in pending], racks):
        verdict = _silent(view, overview, group.brokers) or safety.without(group)
        if not isinstance(verdict, _Wait):
            why_alone = (why for rack, why in not_whole.items() if group.brokers < rack.brokers)
            notes = (*_notes(verdict, group), *why_alone)
            chosen = (node for node in pending if node.node_id in group.brokers)
            return [_restart(node, notes) for node in sorted(chosen, key=lambda node: node.node_id)]
        if group.of_a_rack:
            not_whole[group] = f"the whole rack cannot restart at once: {verdict.message}"
        else:
            first = first or verdict
    assert first is not None, "each broker to restart has been tried by itself"
    return first


def _not_online(overview: ClusterOverview, expected: Sequence[int]) -> _Wait | None:
    for broker_id in expected:
        if broker_id not in overview.online:
            broker = overview.broker(broker_id)
            state = broker.state.value if broker else "not registered"
            return _Wait(WaitReason.BROKER_NOT_ONLINE, f"broker {broker_id} is {state} and must be Online first")
    return None


def _out_of_sync(broker: BrokerOverview) -> _Wait:
    return _Wait(WaitReason.OUT_OF_SYNC, f"broker {broker.id} is still missing in {broker.out_of_sync} in-sync sets")


def _notes(giving_way: Sequence[PartitionState], group: BrokerGroup) -> tuple[str, ...]:
    if not giving_way:
        return ()
    return (
        f"{len(giving_way)} partitions have only as many replicas as min.insync.replicas needs, and refuse"
        f" acks=all while {group} restarts: {_shown(giving_way)}",
    )


@dataclass(frozen=True, slots=True)
class _Safety:
    partitions: Sequence[PartitionState]
    expected: frozenset[int]
    overview: ClusterOverview

    def without(self, group: BrokerGroup) -> "list[PartitionState] | _Wait":
        """Return the partitions that are overridden while the brokers are away, or why the brokers must stay.

        A partition is overridden for one broker only: its other replicas may serve its readers meanwhile.
        """
        going = group.brokers
        if behind := self._behind(going):
            return behind
        giving_way = []
        for partition in self.partitions:
            lost = going.intersection(partition.replicas)
            if not lost:
                continue
            left = (set(partition.isr) & self.overview.online) - going
            if len(left) >= partition.min_isr:
                continue
            if len(partition.replicas) - 1 < partition.min_isr and len(lost) == 1:
                giving_way.append(partition)
                continue
            return _Wait(
                WaitReason.BELOW_MIN_ISR,
                f"{partition} would have {len(left)} in-sync replicas without {group} and needs"
                f" {partition.min_isr} (min.insync.replicas)",
            )
        return giving_way

    def _behind(self, going: frozenset[int]) -> _Wait | None:
        """Return why the roll waits for a broker that must stay up and is not back in sync.

        A roll does not wait for a broker that is not expected (scaled away, or permanently dead). The controller's own
        count is checked as well, because a broker's Metadata may be older.
        """
        stay = self.expected - going
        for partition in self.partitions:
            if behind := (stay & set(partition.replicas)) - set(partition.isr):
                sentence = f"broker {min(behind)} is still missing in the in-sync set of {partition}"
                return _Wait(WaitReason.OUT_OF_SYNC, sentence)
        for broker in self.overview.brokers:
            if broker.out_of_sync and broker.id in stay:
                return _out_of_sync(broker)
        return None


def _restart(node: NodeView, notes: tuple[str, ...] = ()) -> PlannedRestart:
    return PlannedRestart(node.name, node.role, node.node_id, node.reasons, notes)


def _paused(pending: Sequence[NodeView]) -> str:
    """Name all pending nodes with their reasons, so that users can read what a roll would do before they unpause it."""
    by_reasons: dict[str, list[str]] = {}
    for node in pending:
        by_reasons.setdefault(", ".join(map(str, node.reasons)), []).append(node.name)
    return "; ".join(f"{', '.join(names)} for {why}" for why, names in by_reasons.items())


def _names(nodes: Iterable[NodeView]) -> tuple[str, ...]:
    return tuple(node.name for node in nodes)


def _shown(items: Iterable[object]) -> str:
    names = [str(item) for item in items]
    more = len(names) - SHOWN_MAX
    return ", ".join(names[:SHOWN_MAX]) + (f" and {more} more" if more > 0 else "")
