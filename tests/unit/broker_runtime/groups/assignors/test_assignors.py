"""What both assignors say of small groups."""

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
