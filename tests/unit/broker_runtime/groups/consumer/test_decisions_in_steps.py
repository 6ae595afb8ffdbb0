"""Decisions about thousands of names, members or groups (KIP-848): the work of one step."""

import struct
from collections import Counter
from collections.abc import Collection
from functools import partial
from itertools import pairwise
from typing import Any
from uuid import UUID

import pytest

from broker_runtime.config.keys.broker import BrokerConfig
from broker_runtime.coordination.seam import Deciding, in_one_go
from broker_runtime.errors import ErrorCode
from broker_runtime.groups.assignors import TopicDescription
from broker_runtime.groups.classic.joining import join
from broker_runtime.groups.classic.requests import JoinAnswer, JoinRequest, SyncRequest
from broker_runtime.groups.classic.syncing import sync
from broker_runtime.groups.consumer import embedded
from broker_runtime.groups.consumer.classic_members import CLASSIC_MEMBERS
from broker_runtime.groups.consumer.embedded import read_subscription, subscription_version
from broker_runtime.groups.consumer.heartbeat import heartbeat
from broker_runtime.groups.consumer.state import subscriptions
from broker_runtime.groups.consumer.state.group import ConsumerGroup
from broker_runtime.groups.consumer.state.subscriptions import NAMES_AT_ONCE_MAX
from broker_runtime.groups.consumer.state.topics import TopicFacts, known_topics
from broker_runtime.groups.consumer.state.validity import ConsumerHeartbeatRequest
from broker_runtime.groups.consumer.target import _CHUNK_RECORDS
from broker_runtime.groups.consumer.upkeep import on_topics_changed
from broker_runtime.groups.record_codec import encode, encoding
from broker_runtime.groups.records import (
    ClassicProtocol,
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupTargetAssignmentMemberKey,
    GroupRecord,
)
from broker_runtime.groups.shards.ended import group_ended
from broker_runtime.metadata.areas.brokers import RegisterBroker
from broker_runtime.metadata.areas.topics import PartitionRecord, TopicRecord
from broker_runtime.metadata.image import MetadataImage
from broker_runtime.slicing.steps import at_once
from tests.support.groups.consumer_groups import GROUP, Coordinator, durable, empty_state, refused

NAMES = 5_000
NAMES_OF_A_STEP_MAX = 500
MEMBERS = 300
ITEMS_OF_A_STEP = 8
HASH = 15750650709969864355
"""Hash of the topic `t` with NAMES partitions on the racks r0, r1 and r2: groups keep it in their records."""


def made(deciding: Deciding[GroupRecord, Any]) -> tuple[int, Any]:
    """The number of steps, and the decision at their end."""
    assert not isinstance(deciding, tuple), "it is decided in steps"
    steps = 0
    while True:
        try:
            next(deciding)
        except StopIteration as ended:
            return steps, ended.value
        steps += 1


def metadata(topics: int, *owned: int) -> bytes:
    """Metadata of version 1; the owned partitions are of the first topic."""
    names = b"".join(struct.pack(">h5s", 5, b"%05d" % number) for number in range(topics))
    held = struct.pack(f">ih5si{len(owned)}i", 1, 5, b"00000", len(owned), *owned) if owned else struct.pack(">i", 0)
    return struct.pack(">hi", 1, topics) + names + struct.pack(">i", -1) + held


def old_member(coordinator: Coordinator, said: bytes, member_id: str = "") -> Deciding[GroupRecord, Any]:
    protocols = (ClassicProtocol("range", said),)
    request = JoinRequest(GROUP, member_id, None, "c", "/h", 10_000, 60_000, "consumer", protocols, False)
    return join(coordinator.state, coordinator.environment, request, CLASSIC_MEMBERS)


def test_a_heartbeat_with_thousands_of_names_is_decided_in_steps_as_a_short_one_is() -> None:
    coordinator = Coordinator()
    topic = coordinator.topic("n7", 2)
    names = tuple(f"n{number}" for number in reversed(range(NAMES))) * 2
    request = ConsumerHeartbeatRequest(GROUP, "a", 0, None, None, 5_000, names, None, None, {})
    steps, (records, answer) = made(heartbeat(coordinator.state, coordinator.environment, request))
    assert steps > 2 * NAMES // NAMES_OF_A_STEP_MAX
    assert (answer.member_epoch, answer.assignment, coordinator.state.groups) == (2, {topic: (0, 1)}, {})
    value = next(record.value for record in records if isinstance(record.key, ConsumerGroupMemberMetadataKey))
    assert value.subscribed_topic_names == tuple(sorted(set(names)))
    coordinator.decide(lambda _: (records, None))
    assert coordinator.assigned("a") == {topic: (0, 1)}


def test_every_request_of_a_group_with_thousands_of_names_is_decided_in_steps() -> None:
    coordinator = Coordinator()
    coordinator.join("a", *(f"n{number}" for number in range(NAMES)))
    coordinator.join("b", "n0")
    for epoch in (coordinator.group.members["a"].epoch, -1):
        request = ConsumerHeartbeatRequest(GROUP, "a", epoch, rebalance_timeout_ms=7)
        assert not isinstance(heartbeat(coordinator.state, coordinator.environment, request), tuple)
    before = dict(coordinator.group.subscriptions.topics)
    coordinator.leave("a")
    assert before["n0"] == 2
    assert coordinator.group.subscriptions.topics == {"n0": 1}


def of_thousands_of_topics() -> tuple[Coordinator, list[UUID]]:
    """A group whose member has joined, and will be assigned all of them by its next heartbeat."""
    coordinator = Coordinator()
    names = [f"n{number}" for number in range(NAMES)]
    topics = [coordinator.topic(name, 1) for name in names]
    coordinator.join("a", *names)
    coordinator.wait(5)
    assert len(coordinator.group.target["a"]) == NAMES
    return coordinator, topics


def test_a_member_takes_and_gives_up_thousands_of_topics_in_steps() -> None:
    coordinator, topics = of_thousands_of_topics()
    epoch = coordinator.group.members["a"].epoch
    request = ConsumerHeartbeatRequest(GROUP, "a", epoch, rebalance_timeout_ms=7)
    steps, (records, answer) = made(heartbeat(coordinator.state, coordinator.environment, request))
    assert steps > 2 * NAMES // NAMES_OF_A_STEP_MAX
    assert answer.assignment == dict.fromkeys(topics, (0,))
    coordinator.decide(lambda _: (records, None))
    coordinator.heartbeat("a", answer.member_epoch, subscribed_topic_names=("n0",), owned=answer.assignment)
    coordinator.decide(lambda _: ((), at_once(coordinator.state.count_the_rest())))
    assert not coordinator.group.subscriptions.are_many
    pending = coordinator.group.members["a"].current.partitions_pending_revocation
    assert len(pending) == NAMES - 1
    request = ConsumerHeartbeatRequest(GROUP, "a", coordinator.group.members["a"].epoch, owned={topics[0]: (0,)})
    _, (_, answer) = made(heartbeat(coordinator.state, coordinator.environment, request))
    assert answer.member_epoch > epoch


def test_what_a_record_of_thousands_of_topics_changes_is_counted_in_steps() -> None:
    coordinator, topics = of_thousands_of_topics()
    group, state = coordinator.group, coordinator.state
    coordinator.heartbeat("a", group.members["a"].epoch)
    assert len(state.uncounted) > 0
    before = coordinator.replayed()
    steps, _ = made(state.count_the_rest())  # type: ignore[arg-type]
    assert steps > NAMES // NAMES_OF_A_STEP_MAX
    assert state.uncounted == []
    assert not any(group.owners.free(topic, (0,)) for topic in topics)
    assert durable(before) == durable(state)
    coordinator.leave("a")
    steps, _ = made(state.count_the_rest())  # type: ignore[arg-type]
    assert steps > 2 * NAMES // NAMES_OF_A_STEP_MAX
    assert (group.subscriptions.topics, group.owners.free(topics[0], (0,))) == ({}, (0,))
    assert all(group.owners.free(topic, (0,)) for topic in topics), "a partition that is free again was a's"


def test_a_question_about_what_is_not_counted_yet_is_answered_right() -> None:
    coordinator, topics = of_thousands_of_topics()
    group = coordinator.group
    coordinator.heartbeat("a", group.members["a"].epoch)
    next(iter(coordinator.state.count_the_rest()))
    assert not group.owners.free(topics[-1], (0,))
    assert group.is_subscribed_to(f"n{NAMES - 1}")


def test_records_of_thousands_of_topics_are_encoded_in_steps() -> None:
    coordinator, _ = of_thousands_of_topics()
    coordinator.join("b", regex="n.*")
    coordinator.wait(5)
    coordinator.heartbeat("a", coordinator.group.members["a"].epoch)
    kinds = set()
    for record in coordinator.log:
        encoded = encoding(record)
        if not isinstance(encoded, tuple):
            kinds.add(type(record.key))
            steps, bytes_ = made(encoded)  # type: ignore[arg-type]
            assert steps > NAMES // NAMES_OF_A_STEP_MAX
            assert bytes_ == encode(record)
    assert kinds == {
        ConsumerGroupMemberMetadataKey,
        ConsumerGroupTargetAssignmentMemberKey,
        ConsumerGroupCurrentMemberAssignmentKey,
        ConsumerGroupRegularExpressionKey,
    }


@pytest.mark.parametrize("named", [2, 3])
def test_a_group_may_subscribe_to_so_many_topics(named: int) -> None:
    coordinator = Coordinator(BrokerConfig(sluicegate_group_topics_max=3))
    coordinator.join("a", "t")
    names = ("t", "u", "v", "w")[: named + 1]
    if named == 2:
        coordinator.join("b", *names)
        return
    with refused(ErrorCode.INVALID_REQUEST) as messages:
        coordinator.join("b", *names)
    assert "4 topics" in messages[0]
    assert "sluicegate.group.topics.max allows 3" in messages[0]
    assert set(coordinator.group.members) == {"a"}


def test_a_member_that_changes_some_names_is_counted_once_for_each() -> None:
    coordinator = Coordinator()
    coordinator.join("a", "t", "u", "v")
    coordinator.join("b", "t")
    coordinator.heartbeat("a", coordinator.group.members["a"].epoch, subscribed_topic_names=("w", "v", "v"))
    assert coordinator.group.subscriptions.topics == {"v": 1, "w": 1, "t": 1}


def test_the_subscription_of_a_classic_member_is_read_in_steps() -> None:
    held = [number * 7 % 20_011 for number in range(20_000)]
    steps, found = made(read_subscription(metadata(NAMES, *held)))  # type: ignore[arg-type]
    assert steps > NAMES // NAMES_OF_A_STEP_MAX + len(held) // NAMES_OF_A_STEP_MAX
    assert (len(found.topics), found.owned) == (NAMES, {"00000": tuple(sorted(held))})


def test_a_classic_member_with_thousands_of_names_joins_in_steps() -> None:
    coordinator = Coordinator()
    coordinator.join("a", "00000")
    steps, (_, later) = made(old_member(coordinator, metadata(NAMES)))
    assert steps > NAMES // NAMES_OF_A_STEP_MAX
    assert later.result.error is ErrorCode.NONE


def test_a_classic_member_whose_long_words_are_no_subscription_is_refused() -> None:
    coordinator = Coordinator()
    coordinator.join("a", "00000")
    _, (records, later) = made(old_member(coordinator, metadata(NAMES)[:-6]))
    assert (records, later.result.error) == ((), ErrorCode.INCONSISTENT_GROUP_PROTOCOL)


def test_the_version_of_a_subscription_is_its_first_two_bytes() -> None:
    assert subscription_version(b"\x00\x03") == 3
    with pytest.raises(ValueError, match="1 bytes"):
        subscription_version(b"\x00")
    with pytest.raises(ValueError, match="version -1"):
        subscription_version(b"\xff\xff")


def test_a_sync_reads_nothing_of_a_subscription_but_its_version(monkeypatch: pytest.MonkeyPatch) -> None:
    coordinator = Coordinator()
    coordinator.join("a", "00000")
    member_id = coordinator.decide(lambda _: old_member(coordinator, metadata(NAMES))).result.member_id
    coordinator.wait(2)
    joined = coordinator.decide(lambda _: old_member(coordinator, metadata(NAMES), member_id)).result
    numbers: list[int] = []
    real = embedded._Bytes.number

    def counted(self: embedded._Bytes, kind: struct.Struct) -> int:
        numbers.append(1)
        return real(self, kind)

    monkeypatch.setattr(embedded._Bytes, "number", counted)
    request = SyncRequest(GROUP, joined.member_id, joined.generation)
    answer = coordinator.decide(lambda state: sync(state, coordinator.environment, request, CLASSIC_MEMBERS))
    assert (answer.result.error, len(numbers)) == (ErrorCode.NONE, 1)  # type: ignore[union-attr]


def of_old_members(coordinator: Coordinator) -> None:
    for _ in range(MEMBERS):
        coordinator.decide(lambda _: old_member(coordinator, metadata(1)))
    coordinator.wait(7)


def test_a_group_of_many_members_is_upgraded_and_downgraded_in_steps() -> None:
    coordinator = Coordinator()
    coordinator.topic("00000", 3)
    of_old_members(coordinator)
    request = ConsumerHeartbeatRequest(GROUP, "new", 0, None, None, 5_000, ("00000",), None, None, {})
    steps, (records, _) = made(heartbeat(coordinator.state, coordinator.environment, request))
    assert steps > 3 * MEMBERS // ITEMS_OF_A_STEP
    coordinator.decide(lambda _: (records, None))
    assert isinstance(coordinator.group, ConsumerGroup)
    coordinator.wait(0)
    coordinator.leave("new")
    ((_, downgrade),) = [timer for timer in coordinator.environment.timers.take_due() if "downgrade" in str(timer[0])]
    steps, (records, _) = made(downgrade(coordinator.state))
    assert steps > 2 * MEMBERS // ITEMS_OF_A_STEP
    assert len(records[-1].value.members) == MEMBERS


def test_a_client_that_joins_with_an_id_of_the_ended_group_keeps_its_session() -> None:
    """The timers of many ids that were given are cancelled in portions, while the next group has members."""
    coordinator = Coordinator()
    coordinator.state.on_end = partial(group_ended, environment=coordinator.environment)
    coordinator.topic("00000", 1)
    coordinator.decide(lambda _: old_member(coordinator, metadata(1)))
    coordinator.wait(7)
    given = []
    for _ in range(120):
        protocols = (ClassicProtocol("range", metadata(1)),)
        request = JoinRequest(GROUP, "", None, "c", "/h", 10_000, 60_000, "consumer", protocols, True)
        asked = partial(join, environment=coordinator.environment, request=request, modern=CLASSIC_MEMBERS)
        answer = coordinator.decide(asked).result
        assert isinstance(answer, JoinAnswer)
        given.append(answer.member_id)
    coordinator.join("new", "00000")
    assert isinstance(coordinator.group, ConsumerGroup)
    coordinator.decide(lambda _: old_member(coordinator, metadata(1), given[110]))
    coordinator.wait(0)
    assert not coordinator.environment.timers.is_set(GROUP, "pending", given[119])
    assert coordinator.environment.timers.is_set(GROUP, "session", given[110])


def test_topics_that_a_group_has_left_are_forgotten() -> None:
    coordinator = Coordinator()
    for number in range(600):
        coordinator.topic(f"n{number}", 1)
    coordinator.join("a", *(f"n{number}" for number in range(600)))
    coordinator.join("b", "n0")
    assert len(coordinator.group.topic_facts) == 600
    coordinator.heartbeat("a", coordinator.group.members["a"].epoch, subscribed_topic_names=("n0",))
    coordinator.wait(5)
    assert coordinator.group.topic_facts.keys() == {"n0"}


def test_the_topics_that_a_deleted_group_knew_are_freed_in_steps() -> None:
    coordinator = Coordinator()
    for number in range(NAMES):
        coordinator.topic(f"n{number}", 1)
    coordinator.join("a", *(f"n{number}" for number in range(NAMES)))
    coordinator.join("b", "n0")
    known = coordinator.group.topic_facts
    for record in coordinator.group.tombstones():
        coordinator.state.apply(record, coordinator.state.next_offset)
    assert len(known) == NAMES
    steps, _ = made(coordinator.state.count_the_rest())  # type: ignore[arg-type]
    assert (len(known), steps > NAMES // NAMES_OF_A_STEP_MAX) == (0, True)


def test_an_assignment_of_thousands_of_partitions_is_counted_in_steps() -> None:
    coordinator = Coordinator()
    topics = [coordinator.topic(f"n{number}", NAMES) for number in range(2)]
    coordinator.join("a", "n0", "n1")
    coordinator.wait(2)
    coordinator.heartbeat("a", 1)
    for record in coordinator.log:
        if isinstance(record.key, ConsumerGroupCurrentMemberAssignmentKey):
            assigned = record
    state = empty_state()
    for record in coordinator.log[: coordinator.log.index(assigned) + 1]:
        at_once(state.count_the_rest())
        state.apply(record, state.next_offset)
    steps, _ = made(state.count_the_rest())  # type: ignore[arg-type]
    assert steps >= 2 * NAMES // (64 * 32)
    group = state.groups[GROUP]
    assert isinstance(group, ConsumerGroup)
    assert [list(group.owners.free(topic, range(NAMES + 1))) for topic in topics] == [[NAMES]] * 2


def test_the_names_of_a_group_that_is_upgraded_are_counted_in_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    coordinator = Coordinator()
    members, names = 20, NAMES_AT_ONCE_MAX + 44
    for _ in range(members):
        coordinator.decide(lambda _: old_member(coordinator, metadata(names)))
    coordinator.wait(7)
    counted = [0]
    real = subscriptions._add

    def noted(counter: Counter[str], some: Collection[str], count: int) -> None:
        counted[-1] += len(some)
        real(counter, some, count)

    monkeypatch.setattr(subscriptions, "_add", noted)
    request = ConsumerHeartbeatRequest(GROUP, "new", 0, None, None, 5_000, ("00000",), None, None, {})
    deciding = heartbeat(coordinator.state, coordinator.environment, request)
    assert not isinstance(deciding, tuple)
    for _ in deciding:
        counted.append(0)
    assert sum(counted) >= members * names
    assert max(counted) <= NAMES_OF_A_STEP_MAX


def test_changed_topics_touch_one_group_without_members_in_one_step() -> None:
    coordinator = Coordinator()
    for number in range(100):
        coordinator.join("a", "t", group_id=f"g{number}")
        coordinator.leave("a", group_id=f"g{number}")
    groups = [group for group in coordinator.state.groups.values() if isinstance(group, ConsumerGroup)]
    for group in groups:
        group.regexes_stale = False
    touched = [0]
    for _ in on_topics_changed(coordinator.state, ["t"]):
        touched.append(sum(group.regexes_stale for group in groups))
    assert touched[-1] == 100
    assert max(after - before for before, after in pairwise(touched)) == 1


def test_changed_topics_touch_one_group_in_one_step() -> None:
    coordinator = Coordinator()
    for number in range(100):
        coordinator.join("a", "t" if number % 2 else "u", group_id=f"g{number}")
    groups = [group for group in coordinator.state.groups.values() if isinstance(group, ConsumerGroup)]
    for group in groups:
        group.metadata_stale = group.regexes_stale = False
    touched = [0]
    for _ in on_topics_changed(coordinator.state, ["t", *(f"n{number}" for number in range(1_000))]):
        touched.append(sum(group.regexes_stale for group in groups))
    assert max(after - before for before, after in pairwise(touched)) == 1
    assert [group.metadata_stale for group in groups] == [bool(number % 2) for number in range(100)]


def test_thousands_of_topics_that_changed_are_forgotten_in_steps() -> None:
    coordinator = Coordinator()
    coordinator.join("a", *(names := [f"n{number}" for number in range(NAMES)]))
    group, facts = coordinator.group, TopicFacts(UUID(int=1), 1, TopicDescription(1, ()))
    group.topic_facts.update(dict.fromkeys(names, facts))
    known = [NAMES]
    for _ in on_topics_changed(coordinator.state, names):
        known.append(len(group.topic_facts))
    assert known[-1] == 0
    assert max(before - after for before, after in pairwise(known)) <= NAMES_OF_A_STEP_MAX


def test_the_racks_of_a_topic_with_thousands_of_partitions_are_read_in_steps() -> None:
    image = MetadataImage()
    for broker_id in range(3):
        image.apply(RegisterBroker(broker_id, UUID(int=9), image.next_offset, (), f"r{broker_id}"), image.next_offset)
    image.apply(TopicRecord("t", UUID(int=1)), image.next_offset)
    for index in range(NAMES):
        on = (index % 3, (index + 1) % 3)
        image.apply(PartitionRecord(UUID(int=1), index, on, on, on[0], 0, 0), image.next_offset)
    steps, found = made(known_topics(["t"], image, {}))  # type: ignore[arg-type]
    assert steps > 2 * NAMES // NAMES_OF_A_STEP_MAX
    assert found["t"].description.racks[:2] == ({"r0", "r1"}, {"r1", "r2"})
    assert found["t"].hash == HASH


def test_a_topic_that_changed_is_described_again() -> None:
    coordinator = Coordinator()
    coordinator.topic("t", 1)
    coordinator.topic("u", 1)
    coordinator.join("a", "t", "u")
    coordinator.join("b", "t")
    assert set(coordinator.group.topic_facts) == {"t", "u"}
    coordinator.topic("t", 2)
    assert set(coordinator.group.topic_facts) == {"u"}


def test_an_assignment_whose_record_the_log_never_takes_is_given_up_and_computed_again() -> None:
    coordinator = Coordinator()
    coordinator.topic("orders", MEMBERS)
    for number in range(MEMBERS):
        coordinator.join(f"m{number}", "orders")
    coordinator.aside_at_once = False
    coordinator.wait(1)
    coordinator.decide(coordinator.environment.aside.pop()())
    timers = coordinator.environment.timers
    ((_, first),) = timers.take_due()
    coordinator.decide(first)
    ((key, second),) = timers.take_due()
    in_one_go(second(coordinator.state))
    # The log refuses this chunk as too large: the runtime cancels the chunk's timers, and does not try it again.
    timers.cancel(key)
    coordinator.wait(9)
    assert (coordinator.group.assigning, len(coordinator.group.target)) == (True, _CHUNK_RECORDS)
    coordinator.wait(2)
    assert not coordinator.group.assigning
    coordinator.aside_at_once = True
    coordinator.heartbeat("m0", coordinator.group.members["m0"].epoch)
    coordinator.wait(2)
    assert coordinator.group.assignment_epoch == coordinator.group.epoch
    assert len(coordinator.group.target) == MEMBERS
