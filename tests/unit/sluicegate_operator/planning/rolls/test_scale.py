"""Scaling: brokers are removed only when they are empty, and a drain ends with every replica on a remaining broker."""

from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluicegate_operator.planning.registrations.overview import BrokerOverview, BrokerState, ClusterOverview
from sluicegate_operator.planning.rolls.roll import PartitionState
from sluicegate_operator.planning.rolls.scale import (
    REASSIGNMENTS_MAX,
    ScaleReason,
    ScaleStep,
    ScaleView,
    plan_scale,
)

ONLINE, OFFLINE = BrokerState.ONLINE, BrokerState.OFFLINE


def partition(index: int, *replicas: int) -> PartitionState:
    return PartitionState("orders", index, replicas[0], replicas, replicas)


def overview(
    states: dict[int, BrokerState], partitions: tuple[PartitionState, ...], racks: str = ""
) -> ClusterOverview:
    held = {n: sum(n in p.replicas for p in partitions) for n in states}
    brokers = (
        BrokerOverview(n, n, "i", state, racks[n] if racks else None, replicas=held[n]) for n, state in states.items()
    )
    return ClusterOverview("c", 1000, 1, 9, tuple(brokers))


def view(
    *partitions: PartitionState, wanted: int = 3, current: int = 5, drain: bool = True, racks: str = ""
) -> ScaleView:
    seen = overview(dict.fromkeys(range(current), ONLINE), partitions, racks)
    return ScaleView(wanted, current, drain, seen, partitions, tuple(range(current)))


FREE = partition(0, 0, 1)
ON_4 = partition(1, 4, 0)


@pytest.mark.parametrize(
    ("of", "replicas", "reason"),
    [
        pytest.param(view(FREE, current=3), 3, ScaleReason.SCALED, id="as it should be"),
        pytest.param(view(FREE, current=3, wanted=5), 5, ScaleReason.SCALING_UP, id="more brokers, at once"),
        pytest.param(view(FREE, wanted=3), 3, ScaleReason.SCALING_DOWN, id="those that go hold nothing"),
        pytest.param(view(FREE, ON_4, drain=False), 5, ScaleReason.REPLICAS_REMAIN, id="one holds a replica"),
        pytest.param(
            view(partition(0, 3), drain=False), 4, ScaleReason.REPLICAS_REMAIN, id="one of two may go already"
        ),
        pytest.param(replace(view(FREE), overview=None), 5, ScaleReason.UNKNOWN, id="nobody knows who holds what"),
        pytest.param(
            replace(view(current=3, wanted=5), overview=None), 5, ScaleReason.SCALING_UP, id="up needs no view"
        ),
        pytest.param(
            replace(view(ON_4), partitions=None), 5, ScaleReason.UNKNOWN, id="nobody knows where replicas are"
        ),
        pytest.param(view(ON_4), 5, ScaleReason.DRAINING, id="with drain it is moved"),
        pytest.param(
            view(partition(0, 4, 3, 2, 1)), 5, ScaleReason.TOO_FEW_BROKERS, id="more replicas than brokers stay"
        ),
    ],
)
def test_how_many_there_should_be(of: ScaleView, replicas: int, reason: ScaleReason) -> None:
    step = plan_scale(of)
    assert (step.replicas, step.reason) == (replicas, reason)
    assert bool(step.message) is (reason not in (ScaleReason.SCALED, ScaleReason.SCALING_UP))
    assert not step.unregister


def test_the_sentence_names_broker_and_partition() -> None:
    step = plan_scale(view(FREE, ON_4, drain=False))
    assert (
        step.message == "replicas remain on broker 4, for example of orders-1; move them to other brokers, or set"
        " brokers.drain: true"
    )
    assert step.blocked


def test_a_replica_that_came_in_the_last_moment_brings_its_broker_back() -> None:
    gone = replace(view(ON_4, current=3), pods=(0, 1, 2))
    assert plan_scale(gone).replicas == 5


def test_the_controllers_count_is_enough_to_stay() -> None:
    older = replace(view(ON_4, drain=False), partitions=())
    assert plan_scale(older).replicas == 5


@pytest.mark.parametrize(
    ("state", "pods", "unregistered"),
    [
        pytest.param(OFFLINE, (0, 1, 2), (3,), id="gone"),
        pytest.param(OFFLINE, (0, 1, 2, 3), (), id="its pod is there"),
        pytest.param(BrokerState.STOPPING, (0, 1, 2), (), id="its session has not ended"),
    ],
)
def test_a_broker_is_unregistered_when_it_is_gone(
    state: BrokerState, pods: tuple[int, ...], unregistered: tuple[int, ...]
) -> None:
    seen = overview(dict.fromkeys(range(3), ONLINE) | {3: state}, (FREE,))
    assert plan_scale(ScaleView(3, 3, False, seen, (FREE,), pods)).unregister == unregistered


def test_a_broker_that_is_away_and_should_be_there_is_never_unregistered() -> None:
    seen = overview({0: ONLINE, 1: ONLINE, 2: OFFLINE}, (FREE,))
    assert plan_scale(ScaleView(3, 3, True, seen, (FREE,), (0, 1))) == ScaleStep(3, ScaleReason.SCALED)


def test_racks_are_kept_and_the_emptiest_broker_is_taken() -> None:
    step = plan_scale(view(partition(0, 0, 4), partition(1, 2), racks="aabab"))
    assert [move.replicas for move in step.moves] == [(0, 2)], "a broker of another rack, although 1 has less"
    step = plan_scale(view(partition(0, 4), partition(1, 0), partition(2, 1)))
    assert [move.replicas for move in step.moves] == [(2,)], "the one with the fewest replicas"


def test_an_internal_topic_has_no_more_replicas_than_brokers_stay() -> None:
    offsets = replace(partition(0, 4, 1, 2, 0), topic="__consumer_offsets")
    assert [move.replicas for move in plan_scale(view(offsets)).moves] == [(1, 2, 0)]
    of_those_that_go = replace(partition(0, 4, 3), topic="__consumer_offsets")
    assert [move.replicas for move in plan_scale(view(of_those_that_go, wanted=1)).moves] == [(0,)]
    seen = overview({0: ONLINE, 1: ONLINE, 2: OFFLINE, 3: ONLINE, 4: ONLINE}, (offsets,))
    some = replace(offsets, replicas=(4, 1, 0), isr=(4, 1, 0))
    step = plan_scale(replace(view(some), overview=seen))
    assert step.reason is ScaleReason.TOO_FEW_BROKERS, "a broker that stays and is away is waited for"


def test_moves_are_few_at_a_time_and_not_planned_twice() -> None:
    many = tuple(partition(n, 4, 0) for n in range(REASSIGNMENTS_MAX + 5))
    assert len(plan_scale(view(*many)).moves) == REASSIGNMENTS_MAX
    busy = replace(view(*many), moving={("orders", n) for n in range(REASSIGNMENTS_MAX - 1)})
    assert [move.index for move in plan_scale(busy).moves] == [REASSIGNMENTS_MAX - 1]


@dataclass
class Played:
    """A cluster that executes orders: one reassignment ends in each round, pods follow the StatefulSet."""

    placed: dict[int, tuple[int, ...]]
    wanted: int
    current: int
    moving: dict[int, tuple[int, ...]] = field(default_factory=dict)
    registered: set[int] = field(default_factory=set)

    def view(self) -> ScaleView:
        shown = {n: tuple(dict.fromkeys((*r, *self.moving.get(n, ())))) for n, r in self.placed.items()}
        partitions = tuple(partition(n, *replicas) for n, replicas in shown.items())
        states = {n: ONLINE if n < self.current else OFFLINE for n in sorted(self.registered)}
        moving = [("orders", n) for n in self.moving]
        pods = tuple(range(self.current))
        return ScaleView(self.wanted, self.current, True, overview(states, partitions), partitions, pods, moving)

    def turn(self) -> ScaleStep:
        step = plan_scale(self.view())
        holders = {replica for replicas in (*self.placed.values(), *self.moving.values()) for replica in replicas}
        assert max(holders) < max(step.replicas, self.wanted), "a broker that holds a replica was taken away"
        assert not holders & set(step.unregister)
        for move in step.moves:
            assert len(set(move.replicas)) == len(self.placed[move.index]), "a replica was lost"
            assert max(move.replicas) < self.wanted
            self.moving[move.index] = move.replicas
        self.current = step.replicas
        self.registered -= set(step.unregister)
        if self.moving:
            index, replicas = self.moving.popitem()
            self.placed[index] = replicas
        return step


@given(st.integers(1, 4), st.integers(1, 4), st.data())
def test_a_drain_ends_and_loses_nothing(wanted: int, surplus: int, data: st.DataObject) -> None:
    current = wanted + surplus
    replicas = st.lists(st.integers(0, current - 1), min_size=1, max_size=wanted, unique=True).map(tuple)
    placed = data.draw(st.dictionaries(st.integers(0, 30), replicas, min_size=1, max_size=30))
    played = Played(placed, wanted, current, registered=set(range(current)))
    for _ in range(2 * len(placed) + 4):
        played.turn()
    assert plan_scale(played.view()) == ScaleStep(wanted, ScaleReason.SCALED)
    assert played.registered == set(range(wanted))
