"""Replica placement: round robin, racks, fenced brokers, and assignments by hand."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_runtime.controller.partitions.placement import check_assignment, place
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.metadata.areas.brokers import StopBroker
from broker_runtime.slicing.steps import at_once
from tests.support.worlds.controller import Metadata


def cluster(racks: list[str | None], fenced: tuple[int, ...] = ()) -> Metadata:
    metadata = Metadata()
    for broker_id, rack in enumerate(racks):
        metadata.broker(broker_id, rack=rack, fenced=broker_id in fenced)
    return metadata


@given(st.integers(1, 30), st.integers(1, 6), st.integers(0, 10**6))
def test_partitions_are_spread_evenly(partitions: int, brokers: int, start: int) -> None:
    placed = at_once(place(partitions, 1, cluster([None] * brokers).image, start))
    counts = Counter(replicas[0] for replicas in placed)
    assert len(placed) == partitions
    assert max(counts.values()) - min([*counts.values(), partitions // brokers]) <= 1


def test_fenced_brokers_lead_nothing() -> None:
    placed = at_once(place(12, 1, cluster([None] * 3, fenced=(1,)).image, 5))
    assert {replicas[0] for replicas in placed} == {0, 2}


def test_leaders_go_rack_by_rack() -> None:
    placed = at_once(place(4, 1, cluster(["a", "a", "b", "b"]).image, 0))
    assert [replicas[0] for replicas in placed] == [0, 2, 1, 3]


def test_replicas_lie_on_different_racks() -> None:
    metadata = cluster(["a", "a", "b", "b", "c", "c"], fenced=(5,))
    for replicas in at_once(place(30, 3, metadata.image, 7)):
        assert len(set(replicas)) == 3
        assert {metadata.image.brokers[r].rack for r in replicas} == {"a", "b", "c"}
        assert replicas[0] != 5


@given(st.integers(1, 60), st.integers(1, 6), st.integers(1, 6), st.integers(0, 10**6))
def test_leaders_and_replicas_are_spread_evenly(partitions: int, brokers: int, factor: int, start: int) -> None:
    factor = min(factor, brokers)
    placed = at_once(place(partitions, factor, cluster([None] * brokers).image, start))
    leads = Counter(dict.fromkeys(range(brokers), 0) | Counter(replicas[0] for replicas in placed))
    holds = Counter(dict.fromkeys(range(brokers), 0) | Counter(r for replicas in placed for r in replicas))
    assert max(leads.values()) - min(leads.values()) <= 1
    # A leader cannot follow itself, so the last few may not be spread evenly.
    assert max(holds.values()) - min(holds.values()) <= 2
    assert all(len(set(replicas)) == factor for replicas in placed)


@given(st.lists(st.sampled_from(["a", "b", "c"]), min_size=3, max_size=9), st.integers(1, 3), st.integers(0, 10**6))
def test_no_rack_gets_two_replicas_while_another_has_none(racks: list[str], factor: int, start: int) -> None:
    metadata = cluster(list(racks))
    placed = at_once(place(24, factor, metadata.image, start))
    for replicas in placed:
        assert len({racks[r] for r in replicas}) == min(factor, len(set(racks)))
    counts = Counter(replicas[0] for replicas in placed)
    assert max(counts.values()) - min(counts.get(broker, 0) for broker in range(len(racks))) <= 1


def test_within_a_larger_rack_followers_are_spread() -> None:
    placed = at_once(place(12, 2, cluster(["a", "a", "a", "b"]).image, 0))
    held = Counter(r for replicas in placed for r in replicas)
    assert held[3] == 12
    assert sorted(held[broker] for broker in (0, 1, 2)) == [4, 4, 4]


@pytest.mark.parametrize("factor", [2, 3, 4])
def test_partitions_of_one_leader_have_different_first_followers(factor: int) -> None:
    placed = at_once(place(24, factor, cluster([None] * 4).image, 3))
    for leader in range(4):
        assert {replicas[1] for replicas in placed if replicas[0] == leader} == {0, 1, 2, 3} - {leader}


def test_followers_are_placed_on_fenced_brokers_only_if_no_others_exist() -> None:
    metadata = cluster([None] * 4, fenced=(0,))
    assert {r for replicas in at_once(place(12, 3, metadata.image, 0)) for r in replicas} == {1, 2, 3}
    assert all(0 in replicas[1:] for replicas in at_once(place(12, 4, metadata.image, 0)))


def test_a_stopping_broker_gets_nothing() -> None:
    metadata = cluster([None] * 3)
    metadata.write(StopBroker(1, metadata.image.brokers[1].epoch, metadata.image.offset + 1))
    assert {r for replicas in at_once(place(12, 2, metadata.image, 0)) for r in replicas} == {0, 2}
    with pytest.raises(KafkaError, match=r"only 2 broker\(s\) are registered"):
        at_once(place(1, 3, metadata.image, 0))


@pytest.mark.parametrize(
    ("metadata", "factor", "message"),
    [
        (cluster([None]), 2, "only 1 broker(s) are registered"),
        (cluster([None], fenced=(0,)), 1, "All brokers are currently fenced."),
        (cluster([None, None], fenced=(0, 1)), 3, "All brokers are currently fenced."),
    ],
)
def test_what_cannot_be_placed(metadata: Metadata, factor: int, message: str) -> None:
    with pytest.raises(KafkaError) as refused:
        at_once(place(1, factor, metadata.image, 0))
    assert refused.value.code == ErrorCode.INVALID_REPLICATION_FACTOR
    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("replicas", "factor", "message"),
    [
        ([], None, "an empty replica list"),
        ([9], None, "broker 9, but no such broker is registered"),
        ([1, 1], None, "the broker 1 more than once"),
        ([1, 0], 1, "2 replica(s), but this is not consistent with previous partitions, which have 1"),
    ],
)
def test_assignments_that_are_refused(replicas: list[int], factor: int | None, message: str) -> None:
    with pytest.raises(KafkaError) as refused:
        check_assignment(replicas, cluster([None, None]).image, factor)
    assert refused.value.code == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert message in str(refused.value)
