"""The coordinator's calls of a group of KIP-848, and that its records contain all of its state."""

from uuid import UUID

import pytest

from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.groups.consumer.state.group import APPLIERS, ConsumerGroup
from broker_runtime.groups.group import Committer, GroupType, OffsetRetention
from broker_runtime.groups.records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMetadataKey,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupTargetAssignmentMetadataKey,
    GroupRecord,
)
from broker_runtime.groups.state import GroupsState
from tests.support.groups.consumer_groups import GROUP, Coordinator, durable, refused


@pytest.fixture
def coordinator() -> Coordinator:
    coordinator = Coordinator()
    coordinator.topic("orders", 3)
    coordinator.join("a", "orders")
    return coordinator


def test_members_commit_and_ask_in_their_epoch_only(coordinator: Coordinator) -> None:
    group = coordinator.group
    everything = [(coordinator.environment.image.topics["orders"].id, index) for index in range(3)]
    group.check_commit(Committer("a", 2), everything)
    group.check_fetch(Committer("a", 2))
    group.check_fetch(Committer())
    for committer, code in (
        (Committer("a", 1), ErrorCode.STALE_MEMBER_EPOCH),
        (Committer("a", 3), ErrorCode.STALE_MEMBER_EPOCH),
        (Committer("b", 2), ErrorCode.UNKNOWN_MEMBER_ID),
    ):
        with refused(code):
            group.check_commit(committer, everything)
        with refused(code):
            group.check_fetch(committer)
    with refused(ErrorCode.UNSUPPORTED_VERSION):
        group.check_commit(Committer("a", 2, api_version=8))
    with refused(ErrorCode.UNKNOWN_MEMBER_ID):
        group.check_commit(Committer())


def test_a_member_commits_in_an_earlier_epoch_what_it_has_had_since_then(coordinator: Coordinator) -> None:
    """KIP-1251: it cannot know of its next epoch before the next answer."""
    topic = coordinator.environment.image.topics["orders"].id

    def may(member: str, epoch: int, *partitions: int, topic: UUID | None = topic) -> bool:
        try:
            coordinator.group.check_commit(Committer(member, epoch), [(topic, index) for index in partitions])
        except KafkaError as error:
            return error.code is not ErrorCode.STALE_MEMBER_EPOCH
        return True

    coordinator.environment.timers.now_s += 1
    coordinator.join("b", "orders")
    (kept,) = {tuple(parts) for parts in [coordinator.heartbeat("a", 2).assignment[topic]]}  # type: ignore[index]
    given_up = {0, 1, 2}.difference(kept)
    assert may("a", 2, 0, 1, 2), "it may have what it gives up"
    assert coordinator.heartbeat("a", 2, owned={topic: kept}).member_epoch == 3
    assert may("a", 2, *kept)
    coordinator.group.check_commit(Committer("a", 2), [(topic, index) for index in kept], in_transaction=True)
    assert may("a", 3, *kept)
    assert not may("a", 1, *kept)
    assert not may("a", 4, *kept)
    assert not may("a", 2, *kept, *given_up)
    assert not may("a", 2, 0, topic=None)
    coordinator.heartbeat("b", 3)
    coordinator.topic("orders", 4)
    coordinator.environment.timers.now_s += 1
    epochs = {coordinator.heartbeat(member, 3, owned={topic: ()}).member_epoch for member in ("a", "b")}
    assert epochs == {4}
    assert may("b", 3, *given_up)
    assert not may("b", 2, *given_up)
    coordinator.fail_over()
    assert may("b", 3, *given_up)
    assert not may("b", 2, *given_up)


def test_commits_in_transactions_get_an_illegal_generation_for_any_wrong_epoch(coordinator: Coordinator) -> None:
    group, topic = coordinator.group, coordinator.environment.image.topics["orders"].id
    everything = [(topic, index) for index in range(3)]
    for allowed in (Committer("a", 2, api_version=3), Committer(api_version=0)):
        group.check_commit(allowed, everything, in_transaction=True)
    for committer, partitions, code in (
        (Committer("a", 1), everything, ErrorCode.ILLEGAL_GENERATION),
        (Committer("a", 3), everything, ErrorCode.ILLEGAL_GENERATION),
        (Committer("a", -1), everything, ErrorCode.ILLEGAL_GENERATION),
        (Committer("a", 1), [(None, 0)], ErrorCode.ILLEGAL_GENERATION),
        (Committer("b", 2), everything, ErrorCode.UNKNOWN_MEMBER_ID),
        (Committer("", 2), everything, ErrorCode.UNKNOWN_MEMBER_ID),
    ):
        with refused(code):
            group.check_commit(committer, partitions, in_transaction=True)
    coordinator.leave("a")
    group.check_commit(Committer("a", -1), in_transaction=True)


def test_a_static_member_that_goes_for_a_while_has_its_partitions_since_no_epoch(coordinator: Coordinator) -> None:
    topic = coordinator.environment.image.topics["orders"].id
    coordinator.join("s", "orders", instance_id="i", group_id="other")
    coordinator.leave("s", -2, instance_id="i", group_id="other")
    group = coordinator.state.groups["other"]
    assert isinstance(group, ConsumerGroup)
    assert group.members["s"].held_since(topic) == dict.fromkeys(range(3), 0)


def test_anybody_may_commit_to_an_empty_group(coordinator: Coordinator) -> None:
    coordinator.leave("a")
    coordinator.group.check_commit(Committer())
    with refused(ErrorCode.UNKNOWN_MEMBER_ID):
        coordinator.group.check_commit(Committer("a", 2))


def test_offsets_of_topics_that_are_read_do_not_expire(coordinator: Coordinator) -> None:
    assert coordinator.group.offset_retention() == OffsetRetention(None, frozenset({"orders"}))
    assert coordinator.group.is_subscribed_to("orders")
    coordinator.leave("a")
    assert coordinator.group.offset_retention() == OffsetRetention(None)


def test_the_retention_refers_to_the_subscribed_names_without_a_copy(coordinator: Coordinator) -> None:
    retention = coordinator.group.offset_retention()
    assert retention is not None
    coordinator.join("b", "payments")
    assert "payments" in retention.subscribed


def test_a_list_of_groups_shows_the_groups_id_type_and_protocol_type(coordinator: Coordinator) -> None:
    group = coordinator.group
    assert (group.group_id, group.type, group.protocol_type) == (GROUP, GroupType.CONSUMER, "consumer")


def test_tombstones_end_it(coordinator: Coordinator) -> None:
    coordinator.join("b", regex="o.*", instance_id="i")
    for record in coordinator.group.tombstones():
        coordinator.state.apply(record, coordinator.state.next_offset)
        assert record.value is None
    assert coordinator.state.groups == {}


def test_tombstones_of_what_is_not_there_are_passed_over() -> None:
    state = GroupsState(APPLIERS)
    for key in (
        ConsumerGroupMetadataKey("gone"),
        ConsumerGroupPartitionMetadataKey("gone"),
        ConsumerGroupMemberMetadataKey("gone", "m"),
        ConsumerGroupCurrentMemberAssignmentKey("gone", "m"),
        ConsumerGroupTargetAssignmentMetadataKey("gone"),
    ):
        state.apply(GroupRecord(key, None), state.next_offset)
    assert state.groups == {}


def test_a_cleaned_log_makes_the_same_group(coordinator: Coordinator) -> None:
    """The last record of each key is enough, at any position."""
    coordinator.wait(1)
    coordinator.join("b", "orders")
    coordinator.heartbeat("a", 2)
    coordinator.heartbeat("a", 2, owned=coordinator.assigned("a"))
    coordinator.heartbeat("b", 3)
    coordinator.heartbeat("b", 3, client_host="/elsewhere")
    last = {record.key: number for number, record in enumerate(coordinator.log)}
    state = GroupsState(APPLIERS)
    for number in sorted(last.values()):
        state.apply(coordinator.log[number], number)
    assert durable(state) == durable(coordinator.state)


def test_a_fail_over_gives_every_member_its_whole_session(coordinator: Coordinator) -> None:
    coordinator.wait(40)
    coordinator.fail_over()
    coordinator.wait(44)
    assert coordinator.heartbeat("a", 2).member_epoch == 2
    coordinator.fail_over()
    coordinator.wait(46)
    assert coordinator.group.is_empty


def test_a_pending_revocation_stays_due_after_a_failover(coordinator: Coordinator) -> None:
    coordinator.wait(1)
    coordinator.join("b", "orders")
    coordinator.heartbeat("a", 2)
    coordinator.fail_over()
    for _ in range(13):
        coordinator.wait(5)
        for member in list(coordinator.group.members.values()):
            coordinator.heartbeat(member.member_id, member.epoch)
    assert set(coordinator.group.members) == {"b"}
    assert isinstance(coordinator.group, ConsumerGroup)
