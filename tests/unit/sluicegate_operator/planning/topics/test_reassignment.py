"""A changed number of replicas: where replicas are added and removed, how fast, and when a user must act."""

from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluicegate_operator.planning.rolls.scale import REASSIGNMENTS_MAX
from sluicegate_operator.planning.topics.reassignment import (
    NO_CHANGE,
    REMOVALS_MAX,
    BrokersSeen,
    ReplicasPlan,
    needs_moves,
    plan_replicas,
    too_few_brokers,
)
from sluicegate_operator.planning.topics.topics import PartitionLayout, TopicOutcome

NO_RACKS: dict[int, str | None] = dict.fromkeys(range(3))


def partition(
    index: int, *replicas: int, isr: tuple[int, ...] | None = None, leader: int | None = None
) -> PartitionLayout:
    return PartitionLayout(index, replicas[0] if leader is None else leader, replicas, replicas if isr is None else isr)


def moving(
    index: int, replicas: tuple[int, ...], adding: tuple[int, ...], removing: tuple[int, ...]
) -> PartitionLayout:
    in_sync = tuple(replica for replica in replicas if replica not in adding)
    return PartitionLayout(index, in_sync[0], replicas, in_sync, adding, removing)


def brokers(racks: dict[int, str | None] | None = None, **more: Any) -> BrokersSeen:
    found = NO_RACKS if racks is None else racks
    return replace(BrokersSeen(len(found), found), **more)


def targets(plan: ReplicasPlan) -> dict[int, tuple[int, ...]]:
    return {move.index: move.replicas for move in plan.moves}


def test_a_correct_layout_needs_no_change() -> None:
    layout = [partition(0, 0, 1), partition(1, 1, 2)]
    assert plan_replicas("orders", 2, layout, brokers()) == NO_CHANGE
    assert not needs_moves(2, layout)


def test_replicas_are_added_behind_those_that_are_there_and_spread() -> None:
    layout = [partition(0, 0), partition(1, 1), partition(2, 2)]
    plan = plan_replicas("orders", 2, layout, brokers(placed=[(0,), (1,), (2,)]))
    assert targets(plan) == {0: (0, 1), 1: (1, 0), 2: (2, 0)}
    assert plan.change is not None
    assert (plan.change.target_replicas, plan.change.partitions, plan.change.moving) == (2, "0/3", 0)


def test_the_emptiest_broker_takes_a_replica() -> None:
    elsewhere = [(1,)] * 9
    plan = plan_replicas("orders", 2, [partition(0, 0)], brokers(placed=[(0,), *elsewhere]))
    assert targets(plan) == {0: (0, 2)}


def test_a_rack_without_a_replica_comes_first() -> None:
    racks: dict[int, str | None] = {0: "a", 1: "a", 2: "b", 3: "b", 4: "c"}
    busy = [(2,), (2,), (4,), (4,), (4,)]
    plan = plan_replicas("orders", 3, [partition(0, 0)], brokers(racks, placed=busy))
    [replicas] = targets(plan).values()
    assert {racks[broker] for broker in replicas} == {"a", "b", "c"}


@pytest.mark.parametrize("why", ["fenced", "going"])
def test_a_broker_that_cannot_keep_a_replica_gets_none(why: str) -> None:
    away: dict[str, Any] = {"fenced": frozenset({1})} if why == "fenced" else {"staying_below": 1, "expected": 3}
    racks: dict[int, str | None] = {0: None, 1: None}
    plan = plan_replicas("orders", 2, [partition(0, 0)], replace(brokers(racks), **away))
    assert plan.moves == ()
    assert plan.waits == f"only 1 of {3 if why == 'going' else 2} brokers can take replicas now"
    assert plan.verdict is None, "nobody has to do anything"


def test_replicas_out_of_sync_go_first_and_the_leader_stays() -> None:
    layout = [partition(0, 0, 1, 2, isr=(0, 2)), partition(1, 0, 1, 2, leader=2)]
    assert targets(plan_replicas("orders", 2, layout, brokers())) == {0: (0, 2), 1: (1, 2)}
    assert targets(plan_replicas("orders", 1, layout, brokers())) == {0: (0,), 1: (2,)}


def test_replicas_are_spread_when_some_go() -> None:
    layout = [partition(0, 0, 1, 2), partition(1, 1, 2, 0), partition(2, 2, 0, 1)]
    plan = plan_replicas("orders", 2, layout, brokers(placed=[one.replicas for one in layout]))
    assert sorted(broker for replicas in targets(plan).values() for broker in replicas) == [0, 0, 1, 1, 2, 2]
    assert [replicas[0] for replicas in targets(plan).values()] == [0, 1, 2], "preferred leaders stay"


def test_racks_stay_different_when_replicas_go() -> None:
    racks: dict[int, str | None] = {0: "a", 1: "a", 2: "b"}
    assert targets(plan_replicas("orders", 2, [partition(0, 0, 1, 2)], brokers(racks))) == {0: (0, 2)}


def test_a_broker_that_is_to_go_loses_its_replica_first() -> None:
    layout = [partition(0, 2, 0, 1)]
    plan = plan_replicas("orders", 2, layout, brokers(staying_below=2))
    assert targets(plan) == {0: (0, 1)}


def test_a_reassignment_under_way_is_awaited() -> None:
    layout = [moving(0, (0, 1), (1,), ()), partition(1, 1, 0), moving(2, (0, 1, 2), (1, 2), (0,))]
    plan = plan_replicas("orders", 2, layout)
    assert plan.moves == ()
    assert plan.change is not None
    assert (plan.change.partitions, plan.change.moving) == ("1/3", 2)


def test_a_fenced_broker_that_is_copied_to_is_waited_for_and_named() -> None:
    layout = [moving(0, (0, 1), (1,), ()), moving(1, (1, 2), (2,), ()), partition(2, 2, 0)]
    plan = plan_replicas("orders", 2, layout, brokers(fenced=frozenset({2})))
    assert (plan.moves, plan.waits) == ((), "partition orders-1 waits for broker 2, which is fenced")
    assert plan_replicas("orders", 2, layout, brokers()).waits == ""


def test_a_replica_for_a_broker_that_is_registered_no_more_goes_to_another() -> None:
    layout = [moving(0, (0, 1, 7), (7,), ()), moving(1, (1, 0, 2), (2,), ())]
    assert needs_moves(3, layout, NO_RACKS)
    assert not needs_moves(3, layout, (*NO_RACKS, 7))
    assert targets(plan_replicas("orders", 3, layout, brokers())) == {0: (0, 1, 2)}
    two: dict[int, str | None] = {0: None, 1: None}
    verdict = plan_replicas("orders", 3, layout[:1], brokers(two)).verdict
    assert verdict is not None
    assert verdict.outcome is TopicOutcome.TOO_FEW_BROKERS


def test_a_reassignment_to_another_number_is_replaced() -> None:
    layout = [moving(0, (0, 1, 2), (1, 2), ()), moving(1, (0, 1), (1,), ())]
    back = plan_replicas("orders", 1, layout, brokers())
    assert targets(back) == {0: (0,), 1: (0,)}, "what was copied for nothing is given up"
    on = plan_replicas("orders", 3, layout, brokers(), moving=REASSIGNMENTS_MAX)
    assert targets(on) == {1: (0, 1, 2)}, "it has its room already"


def test_no_partition_is_left_without_a_replica_in_sync() -> None:
    leader_goes = PartitionLayout(0, 0, (1, 2, 0), (0,), adding=(1, 2), removing=(0,))
    plan = plan_replicas("orders", 1, [leader_goes], brokers())
    assert plan.moves == ()
    assert plan.waits == "partition orders-0 waits for the current reassignment"


def test_a_partition_without_a_leader_is_left_alone() -> None:
    layout = [replace(partition(0, 0, 1, isr=(0,)), leader=None), partition(1, 1, 2)]
    plan = plan_replicas("orders", 1, layout, brokers())
    assert targets(plan) == {1: (1,)}
    assert plan.waits == "partition orders-0 has no leader"


def test_few_copies_at_a_time() -> None:
    layout = [partition(index, index % 3) for index in range(100)]
    plan = plan_replicas("orders", 2, layout, brokers(), moving=REASSIGNMENTS_MAX - 3)
    assert list(targets(plan)) == [0, 1, 2]
    assert plan_replicas("orders", 2, layout, brokers(), moving=REASSIGNMENTS_MAX + 5).moves == ()


def test_replicas_that_only_go_cost_no_copies() -> None:
    layout = [partition(index, 0, 1, 2) for index in range(REMOVALS_MAX + 5)]
    assert len(plan_replicas("orders", 2, layout, brokers(), moving=REASSIGNMENTS_MAX).moves) == REMOVALS_MAX


@pytest.mark.parametrize(("have", "words"), [(1, "the cluster has 1 broker:"), (3, "the cluster has 3 brokers:")])
def test_more_replicas_than_brokers_is_a_sentence(have: int, words: str) -> None:
    verdict = too_few_brokers(5, have)
    assert verdict is not None
    assert verdict.outcome is TopicOutcome.TOO_FEW_BROKERS
    assert words in verdict.message
    assert f"set replicas to {have} or less, or add brokers" in verdict.message
    assert too_few_brokers(have, have) is None
    plan = plan_replicas("orders", 5, [partition(0, 0)], brokers())
    assert plan.moves == ()
    assert plan.verdict is not None
    assert plan.verdict.outcome is TopicOutcome.TOO_FEW_BROKERS


def test_replicas_that_there_are_more_of_than_brokers_stay() -> None:
    layout = [partition(0, 0, 1, 2)]
    assert plan_replicas("orders", 3, layout, brokers(expected=2, staying_below=2)) == NO_CHANGE


def test_fewer_replicas_than_acks_all_needs_is_refused() -> None:
    plan = plan_replicas("orders", 1, [partition(0, 0, 1)], brokers(), min_isr=2)
    assert plan.moves == ()
    assert plan.verdict is not None
    assert plan.verdict.outcome is TopicOutcome.BELOW_MIN_INSYNC_REPLICAS
    assert "set replicas to 2 or more, or lower min.insync.replicas first" in plan.verdict.message
    assert plan_replicas("orders", 1, [partition(0, 0, 1)], brokers(), min_isr=1).moves


@dataclass
class Played:
    """A cluster that acts as KIP-455 says.

    An added replica gets in sync in some later round. Replicas are removed when all added ones are in sync.
    """

    layout: dict[int, PartitionLayout]
    seen: BrokersSeen
    most: int = field(default=0)

    def turn(self, wanted: int, finish: int) -> ReplicasPlan:
        layout = list(self.layout.values())
        under_way = sum(not one.is_settled for one in layout)
        placed = [one.replicas for one in layout]
        plan = plan_replicas("orders", wanted, layout, replace(self.seen, placed=placed), moving=under_way)
        for move in plan.moves:
            self._begin(move.index, move.replicas)
        ending = [one for one in self.layout.values() if not one.is_settled]
        self.most = max(self.most, len(ending))
        for one in ending[:finish]:
            self.layout[one.index] = partition(one.index, *one.target, leader=self._leader(one))
        return plan

    def _begin(self, index: int, target: tuple[int, ...]) -> None:
        old = self.layout[index]
        assert len(set(target)) == len(target)
        assert set(target) & set(old.isr), "no replica of the new ones has the records"
        assert all(self.seen.stays(broker) for broker in target if broker not in old.replicas)
        origin = tuple(replica for replica in old.replicas if replica not in old.adding)
        adding = tuple(replica for replica in target if replica not in origin)
        removing = tuple(replica for replica in origin if replica not in target)
        isr = tuple(replica for replica in old.isr if replica in (*target, *removing))
        begun = PartitionLayout(index, old.leader, (*target, *removing), isr, adding, removing)
        if not set(adding) - set(isr):
            begun = partition(index, *target, isr=tuple(r for r in isr if r in target), leader=self._leader(begun))
        self.layout[index] = begun

    @staticmethod
    def _leader(one: PartitionLayout) -> int:
        return one.leader if one.leader in one.target else one.target[0]


@given(st.integers(1, 5), st.lists(st.integers(1, 5), min_size=1, max_size=4), st.data())
def test_any_series_of_changes_ends_with_the_number_that_was_said_last(
    count: int, changes: list[int], data: st.DataObject
) -> None:
    racks = {broker: data.draw(st.sampled_from([None, "a", "b"])) for broker in range(count)}
    first = st.lists(st.integers(0, count - 1), min_size=1, max_size=count, unique=True)
    layout = {index: partition(index, *data.draw(first)) for index in range(data.draw(st.integers(1, 30)))}
    played = Played(layout, BrokersSeen(count, racks))
    for wanted in changes:
        for _ in range(data.draw(st.integers(0, 3))):
            played.turn(min(wanted, count), data.draw(st.integers(0, 4)))
    last = min(changes[-1], count)
    for _ in range(100):
        plan = played.turn(last, REASSIGNMENTS_MAX)
        if plan.change is None:
            break
    assert plan == NO_CHANGE
    assert all(len(one.replicas) == last and one.is_settled for one in played.layout.values())
    assert played.most <= REASSIGNMENTS_MAX
