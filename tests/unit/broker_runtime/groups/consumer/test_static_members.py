"""Static members of KIP-848 groups: instances that return."""

import pytest

from broker_runtime.errors import ErrorCode
from broker_runtime.groups.consumer.heartbeat import ConsumerHeartbeatAnswer
from tests.support.groups.consumer_groups import SOON_MS, Coordinator, durable, refused


@pytest.fixture
def coordinator() -> Coordinator:
    coordinator = Coordinator()
    coordinator.topic("orders", 2)
    coordinator.join("a", "orders", instance_id="i")
    return coordinator


def test_a_second_instance_waits_until_the_first_has_gone(coordinator: Coordinator) -> None:
    with refused(ErrorCode.UNRELEASED_INSTANCE_ID):
        coordinator.join("b", "orders", instance_id="i")


def test_the_next_instance_has_what_the_one_before_it_had(coordinator: Coordinator) -> None:
    had = coordinator.assigned("a")
    assert coordinator.leave("a", -2, instance_id="i") == ConsumerHeartbeatAnswer("a", -2)
    assert coordinator.group.members["a"].epoch == -2
    assert coordinator.join("b", "orders", instance_id="i") == ConsumerHeartbeatAnswer("b", 2, SOON_MS, had)
    assert (coordinator.group.epoch, set(coordinator.group.members)) == (2, {"b"})
    assert coordinator.group.state_name == "Stable"
    with refused(ErrorCode.FENCED_INSTANCE_ID):
        coordinator.heartbeat("a", 2, instance_id="i")
    with refused(ErrorCode.FENCED_INSTANCE_ID):
        coordinator.leave("a", instance_id="i")
    assert durable(coordinator.replayed()) == durable(coordinator.state)


def test_the_same_member_may_be_its_own_next_instance(coordinator: Coordinator) -> None:
    coordinator.leave("a", -2, instance_id="i")
    assert coordinator.join("a", "orders", instance_id="i").member_epoch == 2
    assert durable(coordinator.replayed()) == durable(coordinator.state)


def test_the_next_instance_may_ask_for_something_else(coordinator: Coordinator) -> None:
    other = coordinator.topic("other", 1)
    coordinator.leave("a", -2, instance_id="i")
    coordinator.wait(1)
    joined = coordinator.join("b", "other", instance_id="i")
    assert (joined.member_epoch, joined.assignment) == (3, {other: (0,)})
    assert set(coordinator.group.target) == {"b"}


def test_a_place_is_kept_for_one_session(coordinator: Coordinator) -> None:
    coordinator.leave("a", -2, instance_id="i")
    coordinator.wait(44.9)
    assert coordinator.group.static_members == {"i": "a"}
    coordinator.wait(0.2)
    assert coordinator.group.is_empty
    with refused(ErrorCode.UNKNOWN_MEMBER_ID):
        coordinator.heartbeat("a", 2, instance_id="i")


def test_an_instance_that_left_permanently_is_not_waited_for(coordinator: Coordinator) -> None:
    coordinator.leave("a", -1, instance_id="i")
    assert coordinator.group.is_empty
    assert coordinator.join("b", "orders", instance_id="i").member_id == "b"


def test_an_instance_that_is_away_speaks_only_by_joining(coordinator: Coordinator) -> None:
    coordinator.leave("a", -2, instance_id="i")
    with refused(ErrorCode.FENCED_MEMBER_EPOCH):
        coordinator.heartbeat("a", 2, instance_id="i")
