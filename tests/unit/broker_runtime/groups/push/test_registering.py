"""RegisterConsumer: allowed registrations, and the state of the group afterwards."""

import pytest

from broker_runtime.config.keys.broker import BrokerConfig
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.groups.classic.group import ClassicGroup
from broker_runtime.groups.group import Committer, OffsetRetention
from broker_runtime.groups.push.state.calls import StopFetcher
from broker_runtime.groups.records import (
    ClassicMember,
    GroupMetadataKey,
    GroupMetadataValue,
    GroupRecord,
    OffsetCommitKey,
    OffsetCommitValue,
    PushMemberKey,
    PushMemberValue,
)
from tests.support.groups.push_groups import GROUP, Consumer, Coordinator, answer_all


@pytest.fixture
def coordinator() -> Coordinator:
    made = Coordinator()
    made.topic("t", 2)
    return made


def refusal(coordinator: Coordinator, **changes: object) -> ErrorCode:
    with pytest.raises(KafkaError) as caught:
        Consumer(coordinator, "a").register(**changes)
    return caught.value.code


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"group_id": ""}, ErrorCode.INVALID_GROUP_ID),
        ({"consumer_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"session_timeout_ms": 5_999}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"session_timeout_ms": -1}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"session_timeout_ms": 1_800_001}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"auto_offset_reset": "none"}, ErrorCode.INVALID_REQUEST),
        ({"topic_count": ""}, ErrorCode.INVALID_REQUEST),
        ({"topic_count": '{"a b": 1}'}, ErrorCode.INVALID_TOPIC_EXCEPTION),
        ({"topic_count": "*1*("}, ErrorCode.INVALID_REGULAR_EXPRESSION),
    ],
)
def test_an_out_of_range_registration_is_rejected_without_a_trace(
    coordinator: Coordinator, changes: dict[str, object], code: ErrorCode
) -> None:
    assert refusal(coordinator, **changes) is code
    assert (coordinator.state.groups, coordinator.log) == ({}, [])


def test_a_session_is_no_longer_than_its_connection_may_be_idle_between_pings() -> None:
    coordinator = Coordinator(BrokerConfig(connections_max_idle_ms=20_000))
    assert refusal(coordinator, session_timeout_ms=60_001) is ErrorCode.INVALID_SESSION_TIMEOUT
    Consumer(coordinator, "a").register(session_timeout_ms=60_000)


def test_an_id_is_unique_in_its_group(coordinator: Coordinator) -> None:
    (first,) = coordinator.consumers("a")
    assert refusal(coordinator) is ErrorCode.UNRELEASED_INSTANCE_ID
    assert first.connection is not None
    Consumer(coordinator, "a").register(group_id="other")
    first.close()
    Consumer(coordinator, "a").register()


def test_a_registration_that_the_log_refuses_never_was(coordinator: Coordinator) -> None:
    coordinator.log_refuses = True
    assert refusal(coordinator) is ErrorCode.NOT_ENOUGH_REPLICAS
    coordinator.log_refuses = False
    assert coordinator.state.groups == {}
    (consumer,) = coordinator.consumers("a")
    assert len(consumer.reading) == 2


def test_a_group_is_full() -> None:
    coordinator = Coordinator(BrokerConfig(group_max_size=2))
    coordinator.consumers("a", "b")
    assert refusal(coordinator, consumer_id="c") is ErrorCode.GROUP_MAX_SIZE_REACHED
    coordinator.fail_over()
    assert refusal(coordinator, consumer_id="c") is ErrorCode.GROUP_MAX_SIZE_REACHED
    Consumer(coordinator, "a").register()


def test_a_coordinator_is_full() -> None:
    coordinator = Coordinator(BrokerConfig(sluicegate_group_coordinator_groups_max=1))
    coordinator.consumers("a")
    assert refusal(coordinator, group_id="other") is ErrorCode.GROUP_MAX_SIZE_REACHED


def test_a_group_with_members_of_another_protocol_is_theirs(coordinator: Coordinator) -> None:
    member = ClassicMember("m", None, "c", "h", 1, 1, b"", b"")
    value = GroupMetadataValue("consumer", 1, "range", "m", 0, (member,))
    coordinator.state.apply(GroupRecord(GroupMetadataKey(GROUP), value), 0)
    assert refusal(coordinator) is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_a_group_goes_from_classic_to_push_and_back_with_its_offsets(coordinator: Coordinator) -> None:
    empty = GroupMetadataValue("consumer", 1, None, None, 0, ())
    coordinator.decide(lambda _: ([GroupRecord(GroupMetadataKey(GROUP), empty)], None))
    offset = GroupRecord(OffsetCommitKey(GROUP, "t", 0), OffsetCommitValue(41, -1, "", 0))
    coordinator.decide(lambda _: ([offset], None))
    (consumer,) = coordinator.consumers("a")
    assert consumer.positions[("t", 0)] == 41
    consumer.read_to(50)
    coordinator.topic("t", 3)
    answer_all([consumer])
    consumer.close()
    group = coordinator.state.groups[GROUP]
    assert isinstance(group, ClassicGroup)
    assert group.is_empty
    assert coordinator.committed() == {("t", 0): 50, ("t", 1): 50}
    offsets = coordinator.committed()
    coordinator.fail_over()
    assert isinstance(coordinator.state.groups[GROUP], ClassicGroup)
    assert coordinator.committed() == offsets


def test_a_consumer_may_come_back_after_a_fail_over_with_another_subscription(coordinator: Coordinator) -> None:
    (consumer,) = coordinator.consumers("a")
    coordinator.topic("u", 1)
    coordinator.fail_over()
    consumer.register(topic_count='{"u": 1}')
    answer_all([consumer])
    assert consumer.reading == {("u", 0)}
    assert not coordinator.group.may_read(["t"])
    assert coordinator.group.may_read(["u"])


def test_a_registration_that_is_as_before_writes_nothing(coordinator: Coordinator) -> None:
    (consumer,) = coordinator.consumers("a")
    written = len(coordinator.log)
    coordinator.fail_over()
    consumer.register()
    assert len(coordinator.log) == written


def test_a_registration_by_another_version_is_read_and_harmless(coordinator: Coordinator) -> None:
    odd = PushMemberValue("by a newer rule", True, "smallest", 6_000, "h")
    coordinator.decide(lambda _: ([GroupRecord(PushMemberKey(GROUP, "odd"), odd)], None))
    coordinator.fail_over()
    (consumer,) = coordinator.consumers("a")
    for _ in range(8):
        coordinator.wait(1.0)
        answer_all([consumer])
    assert len(consumer.reading) == 2


def test_only_consumers_that_were_started_commit(coordinator: Coordinator) -> None:
    coordinator.topic("t", 3)
    consumer, _ = coordinator.consumers("a", "b")
    group = coordinator.group
    group.check_commit(Committer("a"))
    for committer, code in (
        (Committer(), ErrorCode.UNKNOWN_MEMBER_ID),
        (Committer("c"), ErrorCode.UNKNOWN_MEMBER_ID),
        (Committer("a", 3), ErrorCode.ILLEGAL_GENERATION),
    ):
        with pytest.raises(KafkaError) as caught:
            group.check_commit(committer)
        assert caught.value.code is code
    Consumer(coordinator, "c").register()
    group.check_commit(Committer("a"))
    consumer.answer(StopFetcher)
    with pytest.raises(KafkaError) as caught:
        group.check_commit(Committer("a"))
    assert caught.value.code is ErrorCode.REBALANCE_IN_PROGRESS


def test_offsets_of_topics_that_are_read_do_not_expire(coordinator: Coordinator) -> None:
    consumer = Consumer(coordinator, "a")
    coordinator.aside_at_once = False
    consumer.register()
    assert coordinator.group.offset_retention() is None
    assert coordinator.group.is_subscribed_to("t")
    coordinator.aside_at_once = True
    coordinator.wait(0.0)
    assert coordinator.group.state_name == "CompletingRebalance"
    assert coordinator.group.offset_retention() is None
    assert not coordinator.group.is_subscribed_to("u")
    answer_all([consumer])
    assert coordinator.group.offset_retention() == OffsetRetention(None, frozenset({"t"}))


def test_a_group_ends_with_tombstones_of_all_its_consumers(coordinator: Coordinator) -> None:
    coordinator.consumers("a", "b")
    coordinator.decide(lambda state: (state.groups[GROUP].tombstones(), None))
    assert coordinator.state.groups == {}
