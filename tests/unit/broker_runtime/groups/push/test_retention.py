"""The retention of offsets of push groups, and other brokers' reading of their records."""

import pytest

from broker_runtime.errors import ErrorCode
from broker_runtime.groups import record_codec
from broker_runtime.groups.classic.group import APPLIERS as CLASSIC_APPLIERS
from broker_runtime.groups.classic.group import ClassicGroup
from broker_runtime.groups.classic.states import ClassicState
from broker_runtime.groups.consumer.state.group import APPLIERS as CONSUMER_APPLIERS
from broker_runtime.groups.group import GroupType
from broker_runtime.groups.offsets.delete import delete
from broker_runtime.groups.offsets.sweep import expired
from broker_runtime.groups.push.state.group import APPLIERS as PUSH_APPLIERS
from broker_runtime.groups.push.state.states import PushState
from broker_runtime.groups.records import (
    ClassicMember,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    GroupMetadataKey,
    GroupMetadataValue,
    GroupRecord,
    Key,
    PushMemberKey,
    Value,
)
from broker_runtime.groups.state import GroupsState
from tests.support.groups.push_groups import GROUP, SESSION_S, Consumer, Coordinator, answer_all

RETENTION_S = 1_000.0
OTHER = ("other", 0)
MEMBER = ClassicMember("m", None, "m", "/127.0.0.1", 60_000, 6_000, b"", b"")


@pytest.fixture
def coordinator() -> Coordinator:
    made = Coordinator()
    made.topic("t", 2)
    made.topic("other", 1)
    return made


def sweep(coordinator: Coordinator) -> None:
    look, goes_on = expired(round(RETENTION_S * 1000), coordinator.environment.now_ms()), True
    while goes_on:
        goes_on = coordinator.decide(look.decide)


def tell(coordinator: Coordinator, consumer: Consumer, offset: int) -> None:
    """Report the offset with the answer to a ping."""
    consumer.read_to(offset)
    coordinator.wait(SESSION_S / 3)
    answer_all([consumer])


def live_for_long(coordinator: Coordinator) -> Consumer:
    """A consumer that committed long ago, without a commit since; its group once read another topic, too."""
    (first,) = coordinator.consumers("a", topic_count='{"t": 1, "other": 1}')
    tell(coordinator, first, 5)
    first.close()
    (second,) = coordinator.consumers("a")
    for _ in range(round(2 * RETENTION_S)):
        coordinator.wait(1.0)
        answer_all([second])
    return second


def test_offsets_of_topics_that_a_group_reads_are_kept_and_others_expire(coordinator: Coordinator) -> None:
    live_for_long(coordinator)
    assert coordinator.committed()[OTHER] == 5
    sweep(coordinator)
    assert coordinator.committed() == {("t", 0): 5, ("t", 1): 5}


def test_nothing_expires_before_a_new_coordinator_knows_what_the_group_reads(coordinator: Coordinator) -> None:
    consumer = live_for_long(coordinator)
    coordinator.fail_over()
    sweep(coordinator)
    assert len(coordinator.committed()) == 3
    consumer.register()
    answer_all([consumer])
    sweep(coordinator)
    assert len(coordinator.committed()) == 2


def test_offsets_that_a_new_consumer_will_read_neither_expire_nor_can_be_deleted(coordinator: Coordinator) -> None:
    live_for_long(coordinator)
    Consumer(coordinator, "b").register()
    assert coordinator.group_state() is PushState.STOPPING, "for that one"
    Consumer(coordinator, "c", '{"other": 1}').register()
    sweep(coordinator)
    assert coordinator.committed()[OTHER] == 5
    codes = coordinator.decide(lambda state: delete(state, GROUP, [OTHER]))
    assert codes == [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC]


def test_offsets_of_a_group_that_was_left_expire_a_while_after_that_and_the_group_with_them(
    coordinator: Coordinator,
) -> None:
    live_for_long(coordinator).close()
    coordinator.wait(RETENTION_S - 1)
    for noticed in (True, False):
        sweep(coordinator)
        assert len(coordinator.committed()) == 3, "they were committed long before"
        coordinator.fail_over(noticed=noticed)
    coordinator.wait(2.0)
    sweep(coordinator)
    assert coordinator.committed() == {}
    assert GROUP not in coordinator.state.groups


def test_a_group_that_leaves_no_offsets_leaves_nothing(coordinator: Coordinator) -> None:
    (consumer,) = coordinator.consumers("a")
    consumer.close()
    assert GROUP not in coordinator.state.groups
    assert [record.value for record in coordinator.log if isinstance(record.key, PushMemberKey)][-1] is None


def test_a_broker_that_does_not_know_the_protocol_finds_an_empty_group_with_its_offsets(
    coordinator: Coordinator,
) -> None:
    first, second = coordinator.consumers("a", "b")
    for each in (first, second):
        each.read_to(7)
    coordinator.wait(SESSION_S / 3)
    answer_all([first, second])
    first.close()
    second.close()
    state = GroupsState(CLASSIC_APPLIERS, ClassicGroup)
    for offset, record in enumerate(coordinator.log):
        if not isinstance(record.key, PushMemberKey):
            state.apply(record, offset)
    group = state.groups[GROUP]
    assert isinstance(group, ClassicGroup)
    assert (group.state, group.protocol_type) == (ClassicState.EMPTY, "consumer")
    assert {key: value.offset for key, value in state.offsets.of(GROUP).items()} == {("t", 0): 7, ("t", 1): 7}


def test_registrations_have_a_record_type_unknown_to_other_brokers(coordinator: Coordinator) -> None:
    coordinator.consumers("a")
    kinds = {int.from_bytes((record_codec.encode(record)[0] or b"")[:2], "big") for record in coordinator.log}
    assert kinds == {30_001}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (ConsumerGroupMetadataKey(GROUP), ConsumerGroupMetadataValue(1)),
        (GroupMetadataKey(GROUP), GroupMetadataValue("consumer", 1, "range", "m", 0, (MEMBER,))),
    ],
    ids=["KIP-848", "classic"],
)
def test_a_group_rewritten_by_a_broker_without_the_protocol_loses_the_push_type(
    coordinator: Coordinator, key: Key, value: Value
) -> None:
    """Otherwise the partition could not be read, with all its other groups."""
    coordinator.consumers("a")
    state = GroupsState({**CLASSIC_APPLIERS, **CONSUMER_APPLIERS, **PUSH_APPLIERS}, ClassicGroup)
    for offset, record in enumerate([*coordinator.log, GroupRecord(key, value)]):
        state.apply(record, offset)
    assert state.groups[GROUP].type is not GroupType.PUSH
