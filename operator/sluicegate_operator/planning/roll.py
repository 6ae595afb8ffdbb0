"""Rolls: which nodes may be restarted now, decided anew from what is seen each time, so that nothing is remembered.

The order: nodes that are down anyway, standby controllers, brokers, the active controller last. One at a time (or the
brokers of one rack, see roll_groups); never while another node is down or a replica elsewhere is out of its in-sync
set, and only when every partition keeps min.insync.replicas in-sync replicas that are online without those that go. A
broker that is silent counts as on its way out: a frozen one stays Online, and in its in-sync sets, until its session
ends.

A partition that cannot keep them however healthy it is (replicas - 1 < min.insync.replicas: above all one replica)
would forbid every roll for ever. It gives way when all its other replicas are in sync, and the restart says so in its
notes.

Knows neither Kubernetes nor processes: fleets on both make a `RollView` and carry out the step. `fencing` says in which
order the view must be read.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from sluicegate_operator.planning.cluster_layout import Role
from sluicegate_operator.planning.conditions import NOT_APPLIED, not_applied_words
from sluicegate_operator.planning.fencing import FenceOrder
from sluicegate_operator.planning.overview import BrokerOverview, ClusterOverview
from sluicegate_operator.planning.restart_reasons import RestartReason
from sluicegate_operator.planning.roll_groups import BrokerGroup, Strategy, broker_groups

SHOWN_MAX = 3
SILENCE_MAX_S = 3.0
"""A third of Kafka's session, and one heartbeat and a half."""


@dataclass(frozen=True, slots=True)
class NodeView:
    """A node that should be there, as it is seen. `present`: its pod or process is there; `deleting`: it is on its way
    out; `ready`: the process says so, and of a broker's pod the readiness gate too: Services send clients to it again
    before the next one goes. `failing` says why it cannot start, for example CrashLoopBackOff. `reasons`: see
    restart_reasons."""

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
    """One partition of Kafka's Metadata and its topic's min.insync.replicas; `leader` is None while there is none."""

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
    """`nodes`: every node that should be there, also those without a pod. `overview` and `partitions` are None where
    they could not be read, `unseen` then says why. `fences`: see fencing. `template_observed`: what makes pods (the
    StatefulSet's controller) has taken up the wanted template, else a restarted pod would be the old one again.
    `silence_max_s`: see cluster_layout.silence_max_s. `under_way`: nodes were being restarted at the last look; a roll
    is over when all of them are back, and not when the last one has gone."""

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
    """Why a look planned no roll. `holds`: a roll that is under way goes on when the cause is gone."""

    reason: str
    message: str
    holds: bool = False


NO_NODES = NoRoll("NoNodes", "the cluster has no StatefulSets, so no node can be restarted")
LISTENER_UNREADABLE = NoRoll(
    "Unreadable", "nothing is restarted until all BrokerListeners of the cluster can be read", holds=True
)


class WaitReason(StrEnum):
    """Also the reason in the conditions Rolling and RollBlocked."""

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
"""These do not pass by waiting for a node that is coming back."""
REFUSED = frozenset({WaitReason.RESTART_REFUSED, WaitReason.NOT_APPLIED})
"""The API server has refused a restart, for good or again and again for a minute."""


@dataclass(frozen=True, slots=True)
class PlannedRestart:
    """`notes`: sentences for the Event about what is less safe while it restarts."""

    name: str
    role: Role
    node_id: int
    reasons: tuple[RestartReason, ...]
    notes: tuple[str, ...] = ()

    @property
    def sentence(self) -> str:
        """For the Event, whose reason is the kind of the first of `reasons`."""
        why = ", ".join(map(str, self.reasons))
        return "; ".join((f"restarting {self.name}: {why}", *self.notes))


@dataclass(frozen=True, slots=True)
class Restart:
    """All of `nodes` at once. `waiting`: names of those that need a restart and are not among them."""

    nodes: tuple[PlannedRestart, ...]
    waiting: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Wait:
    """No node may be restarted now: why, and which nodes are waited for."""

    reason: WaitReason
    message: str
    waiting: tuple[str, ...] = ()

    @property
    def blocked(self) -> bool:
        return self.reason in BLOCKING


@dataclass(frozen=True, slots=True)
class Done:
    """No node needs a restart, and all that were restarted are back."""


@dataclass(frozen=True, slots=True)
class Fence:
    """Tell the controller first, then look anew."""

    orders: tuple[FenceOrder, ...]


RollStep = Restart | Wait | Done | Fence


def refused_restart(step: Restart, refused: Collection[str], refusal: str, *, may_pass: bool) -> Wait:
    """The outcome of a restart that the API server refuses for the nodes with the names `refused`.

    `refusal` is the API server's sentence. `may_pass`: it has refused for a minute, and may accept the next try.
    """
    named = _shown(refused)
    left = (*(node.name for node in step.nodes if node.name in refused), *step.waiting)
    if may_pass:
        return Wait(WaitReason.NOT_APPLIED, f"{named} cannot be restarted: {not_applied_words(refusal)}", left)
    sentence = (
        f"{named} cannot be restarted, because the API server refuses to delete the pod: {refusal};"
        " change the policy or the RBAC rule that refuses it, or delete the pod yourself"
    )
    return Wait(WaitReason.RESTART_REFUSED, sentence, left)


def plan_roll(view: RollView) -> RollStep:
    if view.fences:
        return Fence(view.fences)
    pending = [node for node in view.nodes if node.reasons and not node.deleting]
    if not pending:
        awaited = _not_back(view) if view.under_way else None
        return Wait(awaited.reason, awaited.message) if awaited else Done()
    step = _next(view, pending)
    if isinstance(step, _Hold):
        return Wait(step.reason, step.message, _names(pending))
    chosen = {restart.name for restart in step}
    return Restart(tuple(step), _names(node for node in pending if node.name not in chosen))


@dataclass(frozen=True, slots=True)
class _Hold:
    reason: WaitReason
    message: str


def _not_back(view: RollView) -> _Hold | None:
    if troubled := _troubled(view):
        return _trouble(min(troubled, key=lambda node: not node.failing))
    if view.overview is None:
        return _Hold(WaitReason.NODE_NOT_READY, "no controller is active yet, to say that all brokers are back")
    expected = [node.node_id for node in view.nodes if node.role is Role.BROKER]
    behind = (b for b in view.overview.brokers if b.out_of_sync and b.id in expected)
    return _not_online(view.overview, expected) or next(map(_out_of_sync, behind), None)


def _next(view: RollView, pending: Sequence[NodeView]) -> list[PlannedRestart] | _Hold:
    if view.paused:
        return _Hold(WaitReason.PAUSED, f"rollout.paused is true: {_paused(pending)} stay as they are")
    if not view.template_observed:
        return _Hold(WaitReason.TEMPLATE_NOT_OBSERVED, "Kubernetes has not taken up the new pod template yet")
    if down := [node for node in pending if _is_down(node, view.overview)]:
        return [_restart(node) for node in down]
    candidates = _candidates(view, pending)
    if isinstance(candidates, _Hold):
        return candidates
    if view.overview is None:
        return _Hold(WaitReason.CONTROLLER_UNKNOWN, view.unseen or "no active controller says which brokers are online")
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
    """A restart takes nothing away. A broker that the controller has online serves, whatever its probe says."""
    if not node.present or node.ready:
        return False
    if node.role is Role.CONTROLLER:
        return overview is None or overview.controller_id != node.node_id
    return overview is not None and node.node_id not in overview.online


def _candidates(view: RollView, pending: Sequence[NodeView]) -> Sequence[NodeView] | _Hold:
    """While a node is in trouble no other is taken down; if the restart may mend it, it is the one that goes."""
    troubled = _troubled(view)
    if not troubled:
        return pending
    if len(troubled) == 1 and troubled[0] in pending:
        return troubled
    # One that fails is named before one that is on its way.
    return _trouble(min((n for n in troubled if n not in pending), key=lambda n: not n.failing, default=troubled[0]))


def _troubled(view: RollView) -> list[NodeView]:
    return [node for node in view.nodes if node.deleting or node.failing or not (node.present and node.ready)]


def _trouble(node: NodeView) -> _Hold:
    if node.failing:
        return _Hold(WaitReason.NODE_FAILING, f"{node.name} does not start: {node.failing}; mend it first")
    if node.deleting or not node.present:
        return _Hold(WaitReason.NODE_RESTARTING, f"{node.name} is being restarted")
    return _Hold(WaitReason.NODE_NOT_READY, f"{node.name} is not ready")


def _without_controller(view: RollView, active_id: int) -> tuple[str, ...]:
    standby = any(node.role is Role.CONTROLLER and node.node_id != active_id for node in view.nodes)
    return () if standby else ("there is no standby: no topic, leader or limit changes until the controller is back",)


def _silent(view: RollView, overview: ClusterOverview, going: frozenset[int] = frozenset()) -> _Hold | None:
    """A broker that is to stay and may be frozen; one that is known to be away is spoken of elsewhere."""
    stay = {node.node_id for node in view.nodes if node.role is Role.BROKER} - going
    for broker in overview.brokers:
        age_s = broker.heartbeat_age_s
        if broker.id in stay & overview.online and age_s is not None and age_s > view.silence_max_s:
            # Without its age, which would make another message each second.
            sentence = f"broker {broker.id} has been silent for more than {view.silence_max_s:g} s and may be frozen"
            return _Hold(WaitReason.BROKER_SILENT, sentence)
    return None


def _brokers(view: RollView, overview: ClusterOverview, pending: Sequence[NodeView]) -> list[PlannedRestart] | _Hold:
    expected = [node.node_id for node in view.nodes if node.role is Role.BROKER]
    away = [broker_id for broker_id in expected if broker_id not in overview.online]
    if len(away) == 1 and (own := [node for node in pending if node.node_id in away]):
        return [_restart(own[0])]
    if hold := _not_online(overview, expected):
        return hold
    if view.partitions is None:
        return _Hold(WaitReason.PARTITIONS_UNKNOWN, view.unseen or "no broker says which replicas are in sync")
    safety = _Safety(view.partitions, frozenset(expected), overview)
    racks = {broker.id: broker.rack for broker in overview.brokers}
    first: _Hold | None = None
    not_whole: dict[BrokerGroup, str] = {}
    for group in broker_groups(view.strategy, [node.node_id for node in pending], racks):
        verdict = _silent(view, overview, group.brokers) or safety.without(group)
        if not isinstance(verdict, _Hold):
            why_alone = (why for rack, why in not_whole.items() if group.brokers < rack.brokers)
            notes = (*_notes(verdict, group), *why_alone)
            chosen = (node for node in pending if node.node_id in group.brokers)
            return [_restart(node, notes) for node in sorted(chosen, key=lambda node: node.node_id)]
        if group.of_a_rack:
            not_whole[group] = f"not its whole rack at once: {verdict.message}"
        else:
            first = first or verdict
    assert first is not None, "each broker to restart has been tried by itself"
    return first


def _not_online(overview: ClusterOverview, expected: Sequence[int]) -> _Hold | None:
    for broker_id in expected:
        if broker_id not in overview.online:
            broker = overview.broker(broker_id)
            state = broker.state.value if broker else "not registered"
            return _Hold(WaitReason.BROKER_NOT_ONLINE, f"broker {broker_id} is {state}, and must be Online first")
    return None


def _out_of_sync(broker: BrokerOverview) -> _Hold:
    return _Hold(WaitReason.OUT_OF_SYNC, f"broker {broker.id} is not back in {broker.out_of_sync} in-sync sets")


def _notes(giving_way: Sequence[PartitionState], group: BrokerGroup) -> tuple[str, ...]:
    if not giving_way:
        return ()
    return (
        f"{len(giving_way)} partitions have no more replicas than min.insync.replicas needs and are not available for"
        f" acks=all while {group} restarts: {_shown(giving_way)}",
    )


@dataclass(frozen=True, slots=True)
class _Safety:
    partitions: Sequence[PartitionState]
    expected: frozenset[int]
    overview: ClusterOverview

    def without(self, group: BrokerGroup) -> "list[PartitionState] | _Hold":
        """The partitions that give way while the brokers are away, or why they must stay. A partition gives way to one
        broker only: the others may serve its readers meanwhile."""
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
            return _Hold(
                WaitReason.BELOW_MIN_ISR,
                f"{partition} would have {len(left)} in-sync replicas without {group} and needs"
                f" {partition.min_isr} (min.insync.replicas)",
            )
        return giving_way

    def _behind(self, going: frozenset[int]) -> _Hold | None:
        """A broker that is to stay and is not back in sync. For one that nobody expects (scaled away, dead for good) a
        roll does not wait. The controller's own count is asked as well: a broker's Metadata may be older."""
        stay = self.expected - going
        for partition in self.partitions:
            if behind := (stay & set(partition.replicas)) - set(partition.isr):
                sentence = f"broker {min(behind)} is not back in the in-sync set of {partition}"
                return _Hold(WaitReason.OUT_OF_SYNC, sentence)
        for broker in self.overview.brokers:
            if broker.out_of_sync and broker.id in stay:
                return _out_of_sync(broker)
        return None


def _restart(node: NodeView, notes: tuple[str, ...] = ()) -> PlannedRestart:
    return PlannedRestart(node.name, node.role, node.node_id, node.reasons, notes)


def _paused(pending: Sequence[NodeView]) -> str:
    """All of them with their reasons, so that people can read what a roll would do before they let it go."""
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
