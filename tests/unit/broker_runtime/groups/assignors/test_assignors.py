"""The assignments of both assignors for small groups."""

from uuid import UUID

import pytest

from broker_runtime.groups.assignors import ASSIGNORS, MemberSubscription, TopicDescription
from broker_runtime.groups.records import Assignment

T1, T2 = UUID(int=1), UUID(int=2)


def member(*topics: UUID, instance_id: str | None = None, current: Assignment | None = None) -> MemberSubscription:
    return MemberSubscription(instance_id, None, frozenset(topics), current or {})


def topic(partitions: int) -> TopicDescription:
    return TopicDescription(partitions, ())


def test_kafkas_names_are_known() -> None:
    assert set(ASSIGNORS) == {"uniform", "range"}


@pytest.mark.parametrize("name", ASSIGNORS)
def test_a_group_without_members_and_one_without_topics(name: str) -> None:
    assert ASSIGNORS[name]({}, {T1: topic(3)}) == {}
    assert ASSIGNORS[name]({"a": member()}, {T1: topic(3)}) == {"a": {}}
    assert ASSIGNORS[name]({"a": member(T2)}, {T1: topic(3)}) == {"a": {}}


def test_range_gives_neighbours_of_each_topic_and_the_same_of_topics_of_one_size() -> None:
    assigned = ASSIGNORS["range"]({"b": member(T1, T2), "a": member(T1, T2)}, {T1: topic(3), T2: topic(3)})
    assert assigned == {"a": {T1: (0, 1), T2: (0, 1)}, "b": {T1: (2,), T2: (2,)}}


def test_range_orders_static_members_by_instance_and_before_others() -> None:
    members = {"a": member(T1), "y": member(T1, instance_id="2"), "z": member(T1, instance_id="1")}
    assert ASSIGNORS["range"](members, {T1: topic(3)}) == {"z": {T1: (0,)}, "y": {T1: (1,)}, "a": {T1: (2,)}}
    back = {"a": member(T1), "b": member(T1, instance_id="2"), "z": member(T1, instance_id="1")}
    assert ASSIGNORS["range"](back, {T1: topic(3)})["b"] == {T1: (1,)}


def test_uniform_counts_over_all_topics() -> None:
    assigned = ASSIGNORS["uniform"]({"a": member(T1, T2), "b": member(T1, T2)}, {T1: topic(1), T2: topic(3)})
    assert sorted(sum(map(len, found.values())) for found in assigned.values()) == [2, 2]


def test_one_of_two_members_that_claim_a_partition_keeps_it() -> None:
    members = {"a": member(T1, current={T1: (0,)}), "b": member(T1, current={T1: (0, 1)})}
    assert ASSIGNORS["uniform"](members, {T1: topic(2)}) == {"a": {T1: (0,)}, "b": {T1: (1,)}}


def test_a_partition_that_is_not_there_counts_for_nothing() -> None:
    members = {"a": member(T1, current={T1: (0, 3)}), "b": member(T1, current={T1: (1,)})}
    assert ASSIGNORS["uniform"](members, {T1: topic(3)}) == {"a": {T1: (0, 2)}, "b": {T1: (1,)}}


def test_an_overloaded_member_first_loses_partitions_outside_its_rack() -> None:
    racks = (frozenset({"north"}), frozenset({"south"}), frozenset({"south"}), frozenset({"north", "south"}))
    members = {
        "a": MemberSubscription(None, "south", frozenset({T1}), {T1: (0, 1, 2, 3)}),
        "b": MemberSubscription(None, "north", frozenset({T1}), {}),
    }
    assigned = ASSIGNORS["uniform"](members, {T1: TopicDescription(4, racks)})
    assert assigned == {"a": {T1: (1, 2)}, "b": {T1: (0, 3)}}


def test_partitions_in_few_racks_are_assigned_before_those_in_all_racks() -> None:
    racks = (frozenset({"north", "south"}), frozenset({"north"}))
    members = {
        "a": MemberSubscription(None, "north", frozenset({T1}), {}),
        "b": MemberSubscription(None, "south", frozenset({T1}), {}),
    }
    assert ASSIGNORS["uniform"](members, {T1: TopicDescription(2, racks)}) == {"a": {T1: (1,)}, "b": {T1: (0,)}}


def test_a_member_that_reads_more_topics_takes_less_of_those_that_others_read() -> None:
    members = {"a": member(T1), "b": member(T1, T2)}
    assigned = ASSIGNORS["uniform"](members, {T1: topic(2), T2: topic(2)})
    assert assigned == {"a": {T1: (0, 1)}, "b": {T2: (0, 1)}}


def test_free_partitions_go_to_the_least_loaded_member_and_owned_ones_stay() -> None:
    members = {"a": member(T1, T2, current={T2: (0, 1, 2)}), "b": member(T1)}
    assigned = ASSIGNORS["uniform"](members, {T1: topic(3), T2: topic(3)})
    assert assigned == {"a": {T2: (0, 1, 2)}, "b": {T1: (0, 1, 2)}}


def test_the_most_loaded_member_loses_each_partition_that_a_new_member_takes() -> None:
    members = {"a": member(T1, current={T1: (0, 1, 2, 3, 4)}), "b": member(T1, current={T1: (5, 6, 7, 8, 9)})}
    assigned = ASSIGNORS["uniform"](members | {"c": member(T1, T2)}, {T1: topic(10)})
    assert assigned == {"a": {T1: (0, 1, 2)}, "b": {T1: (5, 6, 7, 8)}, "c": {T1: (3, 4, 9)}}


def test_range_keeps_one_order_of_members_whatever_else_they_read() -> None:
    members = {"a": member(T1), "b": member(T1, T2), "c": member(T1)}
    assert ASSIGNORS["range"](members, {T1: topic(3)}) == {"a": {T1: (0,)}, "b": {T1: (1,)}, "c": {T1: (2,)}}
