"""The draft's ownership, and its test whether a rebalance is necessary."""

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_runtime.groups.push.state import ownership
from broker_runtime.groups.push.state.ownership import (
    AssignmentInput,
    KnownTopic,
    Necessity,
    Ownership,
    necessity,
    plan,
)
from broker_runtime.groups.push.state.subscription import Subscription, parse_topic_count
from broker_runtime.security.acls.model import Acl, AclOperation, AclPermission, AclResource
from broker_runtime.security.acls.topic_filter import TopicFilter
from broker_runtime.security.principal import Principal
from tests.support.requests.access import authorization_of

T, U = UUID(int=1), UUID(int=2)
TOPICS = {"t": KnownTopic(T, 5), "u": KnownTopic(U, 1), "__consumer_offsets": KnownTopic(UUID(int=3), 1)}


def owned(current: Ownership | None = None, **said: str) -> Ownership:
    return plan(
        AssignmentInput({name: parse_topic_count(text) for name, text in said.items()}, TOPICS, current)
    ).ownership


def test_neighbouring_partitions_go_to_neighbouring_threads() -> None:
    assert owned(a='{"t": 2}', b='{"t": 1, "u": 1}') == {
        "a": {"a-0": {T: (0, 1)}, "a-1": {T: (2, 3)}},
        "b": {"b-0": {T: (4,), U: (0,)}},
    }


def test_a_thread_reads_the_topics_that_have_so_many_streams() -> None:
    assert owned(a='{"t": 2, "u": 1}') == {"a": {"a-0": {T: (0, 1, 2), U: (0,)}, "a-1": {T: (3, 4)}}}


def test_a_wildcard_leaves_out_what_its_consumer_may_not_describe() -> None:
    filters = {
        name: TopicFilter(Principal("User", name), "10.0.0.1", authorization_of(*acls).authorizer)
        for name, *acls in (
            ("alice", Acl(AclResource.TOPIC, "t", 3, "User:alice", "*", AclOperation.DESCRIBE, AclPermission.ALLOW)),
            ("bob",),
        )
    }
    checks = {each: each.now() for each in filters.values()}
    said = {"alice": parse_topic_count("*1*.*"), "bob": parse_topic_count("!1!x"), "own": parse_topic_count("*1*.*")}
    found = plan(AssignmentInput(said, TOPICS, filter_of=filters, checks=checks)).ownership
    assert found == {
        "alice": {"alice-0": {T: (0, 1, 2)}},
        "bob": {"bob-0": {}},
        "own": {"own-0": {T: (3, 4), U: (0,)}},
    }


def test_wildcards_leave_internal_topics_to_those_who_name_them() -> None:
    assert owned(a="*1*.*") == owned(a="!1!x") == {"a": {"a-0": {T: (0, 1, 2, 3, 4), U: (0,)}}}
    assert owned(a="*1*__.*") == {"a": {"a-0": {}}}
    assert owned(a='{"__consumer_offsets": 1}') == {"a": {"a-0": {UUID(int=3): (0,)}}}
    assert owned(a="!2!t") == {"a": {"a-0": {U: (0,)}, "a-1": {}}}


def test_a_consumer_that_messages_have_no_room_for_owns_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ownership, "PARTITIONS_MAX", 4)
    found = plan(AssignmentInput({"a": parse_topic_count('{"t": 1}'), "b": parse_topic_count('{"u": 1}')}, TOPICS))
    assert found.too_many == ("a",)
    assert found.ownership == {"a": {"a-0": {}}, "b": {"b-0": {U: (0,)}}}


@pytest.mark.parametrize(
    ("current", "expected"),
    [
        (None, Necessity.NO_OWNERSHIP),
        ({}, Necessity.NOT_OWNED),
        ({"a": {"a-0": {T: (0,)}}, "b": {}}, Necessity.NOT_OWNED),
        ({"a": {"a-0": {T: (0,)}}, "b": {"b-0": {T: (1, 2)}}}, Necessity.NOT_THERE),
        ({"a": {"a-0": {T: (1,)}}, "b": {"b-0": {T: (0,)}}}, Necessity.OTHER_OWNERS),
        ({"a": {"a-0": {T: (0,)}}, "b": {"b-0": {T: (1,)}}}, None),
        ({"a": {"a-0": {T: (0,)}, "a-1": {}}, "b": {"b-0": {T: (1,)}}, "c": {"c-0": {}}}, None),
    ],
)
def test_a_rebalance_is_necessary_as_the_draft_says(current: Ownership | None, expected: Necessity | None) -> None:
    assert necessity(current, {"a": {"a-0": {T: (0,)}}, "b": {"b-0": {T: (1,)}}}) is expected


_subscriptions = st.dictionaries(
    st.text("abc-0", min_size=1, max_size=3),
    st.sampled_from(['{"t": 1}', '{"t": 3, "u": 2}', '{"u": 1}', "*2*.*", "!1!t", '{"nosuch": 1}']).map(
        parse_topic_count
    ),
    max_size=5,
)


def _as_drawn(threads: list[str], partitions: int) -> dict[str, tuple[int, ...]]:
    """The assignment of the original algorithm.

    Threads are in the order of their ids. Each gets the same number of partitions, and the first ones get one more each
    until none is left.
    """
    each, extra = divmod(partitions, len(threads))
    found = {}
    for position, thread in enumerate(sorted(threads)):
        start = each * position + min(position, extra)
        count = each + (1 if position + 1 <= extra else 0)
        if count:
            found[thread] = tuple(range(start, start + count))
    return found


@given(
    st.dictionaries(st.text("ab-01", min_size=1, max_size=3), st.integers(1, 13), min_size=1, max_size=5),
    st.integers(0, 40),
)
def test_ownership_matches_the_drafts_drawing(streams: dict[str, int], partitions: int) -> None:
    subscriptions = {name: parse_topic_count(f'{{"t": {count}}}') for name, count in streams.items()}
    found = plan(AssignmentInput(subscriptions, {"t": KnownTopic(T, partitions)})).ownership
    threads = [f"{name}-{number}" for name, count in streams.items() for number in range(count)]
    owned = {thread: numbers[T] for each in found.values() for thread, numbers in each.items() if T in numbers}
    assert owned == _as_drawn(threads, partitions)


@given(_subscriptions)
def test_each_partition_that_is_read_has_one_owner_and_nothing_is_to_be_done_then(
    subscriptions: dict[str, Subscription],
) -> None:
    taken = AssignmentInput(subscriptions, TOPICS)
    found = plan(taken)
    parts = [
        (topic_id, number)
        for threads in found.ownership.values()
        for assignment in threads.values()
        for topic_id, numbers in assignment.items()
        for number in numbers
    ]
    assert len(parts) == len(set(parts))
    assert {topic_id for topic_id, _ in parts} == found.names.keys()
    assert len(parts) == sum(TOPICS[name].partitions for name in found.names.values())
    assert found.ownership.keys() == subscriptions.keys()
    again = plan(taken._replace(current=found.ownership))
    assert again.necessity is None
