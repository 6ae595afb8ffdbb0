"""Properties of every assignment, for random groups: completeness, balance, stickiness, determinism."""

from collections.abc import Mapping
from random import Random
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_runtime.groups.assignors import ASSIGNORS, MemberSubscription, TopicDescription
from broker_runtime.groups.records import Assignment

Members = dict[str, MemberSubscription]
Topics = dict[UUID, TopicDescription]
Owners = dict[tuple[UUID, int], str]

TOPIC_IDS = [UUID(int=number) for number in range(6)]
RACKS = ["east", "north", "west"]
RANDOMS = st.randoms(use_true_random=True)
"""Generates the content of a group: drawing each number would take ten times as long."""
MEMBER_IDS = st.sampled_from([f"{first}{second}" for first in "abc" for second in "123456"])

uniform, range_ = ASSIGNORS["uniform"], ASSIGNORS["range"]
both = pytest.mark.parametrize("name", ASSIGNORS)


@st.composite
def topics(draw: st.DrawFn) -> Topics:
    random, described = draw(RANDOMS), {}
    for topic_id in draw(st.sets(st.sampled_from(TOPIC_IDS))):
        partitions = draw(st.integers(0, 12))
        racks = tuple(frozenset(random.sample(RACKS, random.randrange(4))) for _ in range(partitions))
        described[topic_id] = TopicDescription(partitions, racks if random.random() < 0.5 else ())
    return described


@st.composite
def members(draw: st.DrawFn, alike: bool | None = None, fresh: bool = False) -> Members:
    """Random members. `current` may be anything: deleted topics, missing partitions, or partitions of others."""
    random, found = draw(RANDOMS), {}
    alike = random.random() < 0.5 if alike is None else alike
    one = frozenset(random.sample(TOPIC_IDS, random.randrange(7)))
    for number, member_id in enumerate(draw(st.sets(MEMBER_IDS, min_size=1, max_size=9))):
        some = random.sample(TOPIC_IDS, random.randrange(4))
        found[member_id] = MemberSubscription(
            random.choice([None, f"instance-{number}"]),
            random.choice([None, *RACKS]),
            one if alike else frozenset(random.sample(TOPIC_IDS, random.randrange(7))),
            {} if fresh else {topic_id: tuple(random.choices(range(15), k=random.randint(1, 6))) for topic_id in some},
        )
    return found


def owners(assigned: Mapping[str, Assignment]) -> Owners:
    """Owner of each partition; fails if a partition has two."""
    found: Owners = {}
    for member_id, assignment in assigned.items():
        for topic_id, partitions in assignment.items():
            assert partitions, "a topic without partitions stands in an assignment"
            assert list(partitions) == sorted(partitions)
            for partition in partitions:
                assert (topic_id, partition) not in found
                found[topic_id, partition] = member_id
    return found


def size(assignment: Assignment) -> int:
    return sum(map(len, assignment.values()))


def holding(group: Members, assigned: Mapping[str, Assignment]) -> Members:
    return {member_id: member._replace(current=assigned[member_id]) for member_id, member in group.items()}


@both
@given(group=members(), described=topics())
def test_every_partition_of_a_subscribed_topic_has_one_owner_among_its_subscribers(
    name: str, group: Members, described: Topics
) -> None:
    assigned = ASSIGNORS[name](group, described)
    assert list(assigned) == list(group)
    found = owners(assigned)
    subscribed = set().union(*(member.topics for member in group.values()))
    assert set(found) == {
        (topic_id, partition)
        for topic_id, topic in described.items()
        for partition in range(topic.partitions)
        if topic_id in subscribed
    }
    assert all(topic_id in group[member_id].topics for (topic_id, _), member_id in found.items())


@both
@given(group=members(), described=topics(), random=RANDOMS)
def test_the_order_of_members_and_topics_changes_nothing(
    name: str, group: Members, described: Topics, random: Random
) -> None:
    shuffled = random.sample(list(group.items()), len(group))
    others = random.sample(list(described.items()), len(described))
    assert ASSIGNORS[name](dict(shuffled), dict(others)) == ASSIGNORS[name](group, described)


@both
@given(group=members(), described=topics())
def test_an_unchanged_group_gets_the_identical_assignment_objects(name: str, group: Members, described: Topics) -> None:
    settled = holding(group, ASSIGNORS[name](group, described))
    again = ASSIGNORS[name](settled, described)
    assert all(again[member_id] is member.current for member_id, member in settled.items())


@given(group=members(alike=True), described=topics())
def test_uniform_with_equal_subscriptions_differs_by_one_at_most(group: Members, described: Topics) -> None:
    sizes = [size(assignment) for assignment in uniform(group, described).values()]
    assert max(sizes) - min(sizes) <= 1


@given(group=members(alike=True), described=topics())
def test_uniform_with_equal_subscriptions_moves_no_more_than_balance_needs(group: Members, described: Topics) -> None:
    assigned = uniform(group, described)
    there = {(topic_id, number) for topic_id, topic in described.items() for number in range(topic.partitions)}
    subscription = next(iter(group.values())).topics
    had: Owners = {}
    for member_id in sorted(group):
        for topic_id, partitions in group[member_id].current.items():
            for partition in partitions:
                if (topic_id, partition) in there and topic_id in subscription:
                    had.setdefault((topic_id, partition), member_id)
    each, extra = divmod(len(owners(assigned)), len(group))
    sizes = [list(had.values()).count(member_id) for member_id in group]
    may_stay = sum(min(held, each) for held in sizes) + min(extra, sum(held > each for held in sizes))
    assert sum(owners(assigned)[one] == member_id for one, member_id in had.items()) == may_stay


@given(group=members(alike=True, fresh=True), described=topics(), data=st.data())
def test_members_keep_their_partitions_when_another_one_leaves_a_uniform_group(
    group: Members, described: Topics, data: st.DataObject
) -> None:
    settled = holding(group, uniform(group, described))
    del settled[data.draw(st.sampled_from(sorted(settled)))]
    left = uniform(settled, described)
    for member_id, member in settled.items():
        for topic_id, partitions in member.current.items():
            assert set(partitions) <= set(left[member_id][topic_id])


@given(group=members(alike=True, fresh=True), described=topics(), joining=members(fresh=True))
def test_when_some_join_a_group_with_equal_subscriptions_partitions_move_to_them_only(
    group: Members, described: Topics, joining: Members
) -> None:
    subscription = next(iter(group.values())).topics
    settled = holding(group, uniform(group, described))
    new = {f"new-{member_id}": member._replace(topics=subscription) for member_id, member in joining.items()}
    before, after = owners(uniform(settled, described)), owners(uniform(settled | new, described))
    assert all(after[one] == member_id or after[one] in new for one, member_id in before.items())


@given(group=members(alike=False), described=topics())
def test_uniform_with_different_subscriptions_leaves_no_move_that_makes_two_more_equal(
    group: Members, described: Topics
) -> None:
    assigned = uniform(group, described)
    for (topic_id, _), member_id in owners(assigned).items():
        others = [size(assigned[other]) for other, member in group.items() if topic_id in member.topics]
        assert size(assigned[member_id]) - min(others) <= 1


@pytest.mark.parametrize("others", [frozenset(), frozenset(TOPIC_IDS[1:2])], ids=["equal", "different"])
@given(names=st.sets(MEMBER_IDS, min_size=2, max_size=9).map(sorted), random=RANDOMS)
def test_every_member_reads_in_its_own_rack_where_possible(
    others: frozenset[UUID], names: list[str], random: Random
) -> None:
    homes = random.sample(names, len(names))
    topic = TopicDescription(len(names), tuple(frozenset({home}) for home in homes))
    first = frozenset(TOPIC_IDS[:1])
    group = {name: MemberSubscription(None, name, first | others if name == names[0] else first, {}) for name in names}
    found = uniform(group, {TOPIC_IDS[0]: topic})
    assert found == {home: {TOPIC_IDS[0]: (partition,)} for partition, home in enumerate(homes)}


@given(group=members(), described=topics())
def test_range_gives_each_subscriber_neighbours_and_as_many_as_others(group: Members, described: Topics) -> None:
    assigned = range_(group, described)
    for topic_id, topic in described.items():
        parts = [assigned[one].get(topic_id, ()) for one, member in group.items() if topic_id in member.topics]
        assert all(part == tuple(range(part[0], part[-1] + 1)) for part in parts if part)
        assert not parts or max(map(len, parts)) - min(map(len, parts)) <= 1
        assert sum(map(len, parts)) == (topic.partitions if parts else 0)


@given(group=members(), described=topics())
def test_range_co_partitions_topics_of_one_size_with_the_same_subscribers(group: Members, described: Topics) -> None:
    assigned = range_(group, described)

    def kind(topic_id: UUID) -> tuple[int, list[str]]:
        subscribers = [member_id for member_id, member in group.items() if topic_id in member.topics]
        return described[topic_id].partitions, subscribers

    for one in described:
        for other in described:
            if kind(one) == kind(other):
                assert all(found.get(one) == found.get(other) for found in assigned.values())


@given(group=members(), described=topics())
def test_range_gives_returning_static_members_their_former_partitions(group: Members, described: Topics) -> None:
    new_ids = {
        member_id: member_id if member.instance_id is None else f"back-{member_id}"
        for member_id, member in group.items()
    }
    before = range_(group, described)
    after = range_({new_ids[member_id]: member for member_id, member in group.items()}, described)
    assert after == {new_ids[member_id]: assignment for member_id, assignment in before.items()}
