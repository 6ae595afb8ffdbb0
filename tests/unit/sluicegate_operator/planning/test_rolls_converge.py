"""Rolls and changes of scale from any cluster end, and keep in-sync replicas.

Every partition that could keep its in-sync replicas has kept them meanwhile. The cluster is a model. A restarted node
is away for some rounds, returns with the wanted revision, and is in its in-sync sets some rounds later. A partition
that is moved has its new replicas in the next round.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from hypothesis import assume, given
from hypothesis import strategies as st

from sluicegate_operator.planning.layout.cluster_layout import FIRST_CONTROLLER_ID, Role
from sluicegate_operator.planning.layout.restart_reasons import ReasonKind, RestartReason
from sluicegate_operator.planning.registrations.overview import BrokerOverview, BrokerState, ClusterOverview
from sluicegate_operator.planning.rolls.roll import (
    Done,
    NodeView,
    PartitionState,
    Restart,
    RollStep,
    RollView,
    WaitForNodes,
    plan_roll,
)
from sluicegate_operator.planning.rolls.roll_groups import Strategy
from sluicegate_operator.planning.rolls.scale import ScaleReason, ScaleStep, ScaleView, plan_scale

REASON = (RestartReason(ReasonKind.IMAGE_CHANGED, "a to b"),)
AWAY, CATCHING_UP = 2, 3
"""Rounds until a restarted node is back, and then until its replicas are in sync."""


@dataclass
class Node:
    """`back_in`: rounds until it runs; `in_sync_in`: until its replicas are in sync, from when it runs."""

    pending: bool
    back_in: int = 0
    in_sync_in: int = 0

    @property
    def runs(self) -> bool:
        return self.back_in == 0

    @property
    def in_sync(self) -> bool:
        return self.runs and self.in_sync_in == 0


@dataclass
class Cluster:
    brokers: dict[int, Node]
    controllers: dict[int, Node]
    partitions: dict[tuple[str, int], tuple[int, ...]]
    min_isr: int
    wanted: int
    racks: Mapping[int, str | None]
    strategy: Strategy = "Broker"
    set_size: int = 0
    """Number of replicas in the StatefulSet."""
    under_way: bool = False
    registered: set[int] = field(default_factory=set)

    @property
    def all(self) -> list[Node]:
        return [*self.brokers.values(), *self.controllers.values()]

    def tick(self) -> None:
        for node in self.all:
            if node.back_in:
                node.back_in -= 1
            elif node.in_sync_in:
                node.in_sync_in -= 1
        for ordinal in range(self.set_size):
            if ordinal not in self.brokers:
                self.brokers[ordinal] = Node(pending=False, back_in=AWAY)
        for ordinal in [one for one in self.brokers if one >= self.set_size]:
            del self.brokers[ordinal]
        self.registered |= {ordinal for ordinal, node in self.brokers.items() if node.runs}

    @property
    def active(self) -> int | None:
        return next((id_ for id_, node in sorted(self.controllers.items()) if node.runs), None)

    def online(self, broker: int) -> bool:
        return broker in self.brokers and self.brokers[broker].runs

    def in_sync(self, replicas: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(one for one in replicas if one in self.brokers and self.brokers[one].in_sync)

    def states(self) -> list[PartitionState]:
        return [
            PartitionState(topic, index, next(iter(self.in_sync(found)), -1), found, self.in_sync(found), self.min_isr)
            for (topic, index), found in sorted(self.partitions.items())
        ]

    def overview(self) -> ClusterOverview | None:
        if self.active is None:
            return None
        return ClusterOverview("c", self.active, 1, 9, tuple(self._broker(id_) for id_ in sorted(self.registered)))

    def _broker(self, id_: int) -> BrokerOverview:
        held = [found for found in self.partitions.values() if id_ in found]
        out = sum(id_ not in self.in_sync(found) for found in held)
        state = BrokerState.ONLINE if self.online(id_) else BrokerState.OFFLINE
        return BrokerOverview(id_, 1, "i", state, self.racks.get(id_), 0.0, replicas=len(held), out_of_sync=out)

    def nodes(self) -> list[NodeView]:
        found = [
            NodeView(f"c-{id_}", Role.CONTROLLER, id_, ready=node.runs, reasons=REASON if node.pending else ())
            for id_, node in sorted(self.controllers.items())
        ]
        for ordinal in range(self.set_size):
            node = self.brokers.get(ordinal)
            view = NodeView(f"b-{ordinal}", Role.BROKER, ordinal, present=node is not None, ready=False)
            if node is not None:
                view = replace(view, ready=node.runs, reasons=REASON if node.pending else ())
            found.append(view)
        return found

    def look(self) -> tuple[RollStep, ScaleStep]:
        """Do a round as the operator does: the roll first, then the scale if the roll allows it."""
        overview = self.overview()
        partitions = self.states() if overview is not None and overview.online else None
        roll = plan_roll(RollView(self.nodes(), overview, partitions, strategy=self.strategy, under_way=self.under_way))
        scale = plan_scale(ScaleView(self.wanted, self.set_size, True, overview, partitions, pods=list(self.brokers)))
        self.under_way = not isinstance(roll, Done)
        if isinstance(roll, Restart):
            self._restart(roll)
        else:
            self._scale(scale)
        return roll, scale

    def _restart(self, step: Restart) -> None:
        brokers = {node.node_id for node in step.nodes if node.role is Role.BROKER}
        if len(brokers) > 1 and any(self.brokers[one].runs for one in brokers):
            assert len({self.racks[one] for one in brokers}) == 1, "all of one rack, or one"
        noted = any(node.notes for node in step.nodes)
        running = {one for one in brokers if self.brokers[one].runs}
        for found in self.partitions.values():
            left = set(self.in_sync(found)) - running
            gives_way = len(found) - 1 < self.min_isr and noted
            assert not running & set(found) or len(left) >= self.min_isr or gives_way, (found, running)
        for node in step.nodes:
            known = self.brokers if node.role is Role.BROKER else self.controllers
            assert known[node.node_id].pending
            known[node.node_id] = Node(pending=False, back_in=AWAY, in_sync_in=CATCHING_UP)

    def _scale(self, step: ScaleStep) -> None:
        holders = {one for found in self.partitions.values() for one in found}
        assert step.replicas > max(holders, default=-1) or step.replicas >= self.set_size, "nobody goes with replicas"
        for move in step.moves:
            assert len(set(move.replicas)) == len(move.replicas)
            assert len(move.replicas) == len(self.partitions[move.topic, move.index])
            self.partitions[move.topic, move.index] = move.replicas
        self.registered -= set(step.unregister)
        assert not set(step.unregister) & set(self.brokers), "one that runs would register again"
        self.set_size = step.replicas


@st.composite
def clusters(draw: st.DrawFn) -> Cluster:
    there = draw(st.integers(1, 5))
    wanted = draw(st.integers(1, 5))
    replicas = draw(st.integers(1, min(there, wanted, 3)))
    placed = st.lists(st.integers(0, there - 1), min_size=replicas, max_size=replicas, unique=True).map(tuple)
    partitions = {("t", index): draw(placed) for index in range(draw(st.integers(0, 6)))}
    nodes = st.builds(Node, st.booleans(), st.sampled_from([0, 0, 1]), st.sampled_from([0, 0, 2]))
    controllers = draw(st.sampled_from([1, 3]))
    racked = draw(st.booleans())
    return Cluster(
        {ordinal: draw(nodes) for ordinal in range(there)},
        {FIRST_CONTROLLER_ID + number: draw(nodes) for number in range(controllers)},
        partitions,
        draw(st.integers(1, replicas)),
        wanted,
        {id_: f"zone-{id_ % 2}" if racked else None for id_ in range(5)},
        "Rack" if racked else "Broker",
        set_size=there,
        registered=set(range(there)),
    )


@given(clusters())
def test_rolls_and_changes_of_scale_end(world: Cluster) -> None:
    assume(world.partitions or world.wanted)
    nodes = len(world.brokers) + len(world.controllers) + world.wanted
    # One node after the other, each away and catching up, and as many rounds for replicas that move.
    for _ in range(nodes * (AWAY + CATCHING_UP + 3) + 2 * len(world.partitions) + 10):
        roll, scale = world.look()
        world.tick()
        if isinstance(roll, Done) and scale.reason is ScaleReason.SCALED and all(node.in_sync for node in world.all):
            break
    else:
        why = roll.message if isinstance(roll, WaitForNodes) else str(roll)
        raise AssertionError(f"not at its end: {why}; {scale.reason}: {scale.message}")
    assert isinstance(world.look()[0], Done)
    assert sorted(world.brokers) == list(range(world.wanted))
    assert not any(node.pending for node in world.all)
    assert world.registered == set(range(world.wanted))
