"""Decisions about ConsumerGroupHeartbeat, as members see them (KIP-848)."""

import pytest

from broker_runtime.config.keys.broker import BrokerConfig
from broker_runtime.coordination.seam import in_one_go
from broker_runtime.errors import ErrorCode
from broker_runtime.groups.consumer.heartbeat import ConsumerHeartbeatAnswer, heartbeat
from broker_runtime.groups.consumer.state.validity import ConsumerHeartbeatRequest
from tests.support.groups.consumer_groups import GROUP, SOON_MS, Coordinator, refused


@pytest.fixture
def coordinator() -> Coordinator:
    return Coordinator()


def test_the_first_member_has_all_partitions_at_once(coordinator: Coordinator) -> None:
    topic = coordinator.topic("orders", 3)
    assert coordinator.join("a", "orders") == ConsumerHeartbeatAnswer("a", 2, SOON_MS, {topic: (0, 1, 2)})
    assert coordinator.group.state_name == "Stable"


def test_a_steady_members_heartbeat_returns_its_epoch_and_writes_no_record(coordinator: Coordinator) -> None:
    coordinator.topic("orders", 3)
    coordinator.join("a", "orders")
    coordinator.heartbeat("a", 2)
    written = len(coordinator.log)
    assert coordinator.heartbeat("a", 2) == ConsumerHeartbeatAnswer("a", 2, 5_000, None)
    assert len(coordinator.log) == written


def test_members_of_a_rebalance_get_a_short_heartbeat_interval(coordinator: Coordinator) -> None:
    coordinator.topic("orders", 3)
    coordinator.join("a", "orders")
    coordinator.heartbeat("a", 2)
    assert coordinator.heartbeat("a", 2).heartbeat_interval_ms == 5_000
    assert coordinator.join("b", "orders").heartbeat_interval_ms == SOON_MS
    assert coordinator.heartbeat("a", 2).heartbeat_interval_ms == SOON_MS


def test_a_rebalance_does_not_lengthen_the_heartbeat_interval() -> None:
    coordinator = Coordinator(BrokerConfig(group_consumer_heartbeat_interval_ms=500))
    coordinator.topic("orders", 3)
    assert coordinator.join("a", "orders").heartbeat_interval_ms == 500


def test_the_times_of_a_group_are_its_own_and_change_at_once(coordinator: Coordinator) -> None:
    coordinator.topic("orders", 3)
    coordinator.join("a", "orders")
    coordinator.heartbeat("a", 2)
    assert coordinator.heartbeat("a", 2).heartbeat_interval_ms == 5_000
    coordinator.configure("consumer.heartbeat.interval.ms", "7000")
    coordinator.configure("consumer.session.timeout.ms", "50000")
    coordinator.wait(44)
    assert coordinator.heartbeat("a", 2).heartbeat_interval_ms == 7_000, "the session began before the change"
    coordinator.wait(49)
    assert "a" in coordinator.group.members
    coordinator.wait(2)
    assert GROUP not in coordinator.state.groups or not coordinator.group.members
    coordinator.configure("consumer.heartbeat.interval.ms", None)
    coordinator.join("b", "orders")
    coordinator.wait(1)
    epoch = coordinator.group.epoch
    assert coordinator.heartbeat("b", epoch).heartbeat_interval_ms == 5_000


def test_the_assignment_interval_of_a_group_is_its_own(coordinator: Coordinator) -> None:
    coordinator.configure("consumer.assignment.interval.ms", "9000")
    coordinator.topic("orders", 4)
    coordinator.join("a", "orders")
    coordinator.join("b", "orders")
    coordinator.wait(8)
    assert coordinator.heartbeat("b", 2).member_epoch == 2
    assert (coordinator.group.epoch, coordinator.group.assignment_epoch) == (3, 2)
    coordinator.wait(1)
    assert coordinator.heartbeat("b", 2).member_epoch == 3


def test_a_full_request_is_answered_in_full(coordinator: Coordinator) -> None:
    topic = coordinator.topic("orders", 2)
    coordinator.join("a", "orders")
    full = {"subscribed_topic_names": ("orders",), "rebalance_timeout_ms": 60_000, "owned": {topic: (0, 1)}}
    assert coordinator.heartbeat("a", 2, **full).assignment == {topic: (0, 1)}
    assert coordinator.heartbeat("a", 2, owned={topic: (0, 1)}).assignment is None


def test_a_partition_goes_to_the_next_member_only_when_the_first_has_given_it_up(coordinator: Coordinator) -> None:
    topic = coordinator.topic("orders", 2)
    coordinator.join("a", "orders")
    coordinator.wait(1)
    joined = coordinator.join("b", "orders")
    assert (joined.member_epoch, joined.assignment) == (3, {})
    told = coordinator.heartbeat("a", 2)
    assert told.member_epoch == 2
    assert told.assignment is not None
    (kept,) = told.assignment[topic]
    assert coordinator.heartbeat("b", 3).assignment is None
    assert coordinator.heartbeat("a", 2, owned={topic: (0, 1)}) == ConsumerHeartbeatAnswer("a", 2, SOON_MS, None)
    assert coordinator.heartbeat("a", 2, owned={topic: (kept,)}) == ConsumerHeartbeatAnswer("a", 3, SOON_MS, None)
    assert coordinator.heartbeat("b", 3) == ConsumerHeartbeatAnswer("b", 3, SOON_MS, {topic: (1 - kept,)})
    assert coordinator.group.state_name == "Stable"


def test_assignments_are_computed_once_in_an_interval(coordinator: Coordinator) -> None:
    topic = coordinator.topic("orders", 4)
    coordinator.join("a", "orders")
    assert coordinator.join("b", "orders") == ConsumerHeartbeatAnswer("b", 2, SOON_MS, {})
    assert (coordinator.group.epoch, coordinator.group.assignment_epoch) == (3, 2)
    assert coordinator.group.state_name == "Assigning"
    coordinator.wait(1)
    assert coordinator.heartbeat("b", 2).member_epoch == 3
    assert coordinator.group.assignment_epoch == 3
    assert coordinator.heartbeat("a", 2).assignment is not None
    assert len(coordinator.assigned("a")[topic]) == 2


def test_without_an_interval_each_change_is_assigned_at_once() -> None:
    coordinator = Coordinator(BrokerConfig(group_consumer_assignment_interval_ms=0))
    coordinator.topic("orders", 4)
    coordinator.join("a", "orders")
    assert coordinator.join("b", "orders").member_epoch == 3


def test_epochs_that_cannot_be_are_fenced(coordinator: Coordinator) -> None:
    topic = coordinator.topic("orders", 2)
    coordinator.join("a", "orders")
    with refused(ErrorCode.FENCED_MEMBER_EPOCH):
        coordinator.heartbeat("a", 3)
    coordinator.topic("orders", 4)
    coordinator.wait(1)
    assert coordinator.heartbeat("a", 2).member_epoch == 3
    with refused(ErrorCode.FENCED_MEMBER_EPOCH):
        coordinator.heartbeat("a", 2)
    with refused(ErrorCode.FENCED_MEMBER_EPOCH):
        coordinator.heartbeat("a", 2, owned={topic: (0, 9)})
    assert coordinator.heartbeat("a", 2, owned={topic: (0, 1)}).member_epoch == 3, "the answer was lost"


def test_a_member_may_begin_again_and_has_what_it_had(coordinator: Coordinator) -> None:
    topic = coordinator.topic("orders", 2)
    coordinator.join("a", "orders")
    assert coordinator.join("a", "orders") == ConsumerHeartbeatAnswer("a", 2, SOON_MS, {topic: (0, 1)})


def test_members_and_groups_that_are_not_there(coordinator: Coordinator) -> None:
    with refused(ErrorCode.GROUP_ID_NOT_FOUND):
        coordinator.heartbeat("a", 2)
    with refused(ErrorCode.GROUP_ID_NOT_FOUND):
        coordinator.leave("a")
    coordinator.join("a", "orders")
    for epoch in (1, -1):
        with refused(ErrorCode.UNKNOWN_MEMBER_ID):
            coordinator.heartbeat("b", epoch)
        with refused(ErrorCode.UNKNOWN_MEMBER_ID):
            coordinator.heartbeat("b", epoch, instance_id="i")


def test_version_0_has_its_member_id_made(coordinator: Coordinator) -> None:
    assert coordinator.join("", "orders", api_version=0).member_id == "id-1"


def test_a_full_group_takes_its_members_only() -> None:
    coordinator = Coordinator(BrokerConfig(group_consumer_max_size=2))
    coordinator.join("a", "orders")
    coordinator.join("b", "orders")
    with refused(ErrorCode.GROUP_MAX_SIZE_REACHED):
        coordinator.join("c", "orders")
    coordinator.join("b", "orders")
    coordinator.leave("a")
    coordinator.join("c", "orders")


def test_a_leaving_member_frees_its_partitions(coordinator: Coordinator) -> None:
    topic = coordinator.topic("orders", 2)
    coordinator.join("a", "orders")
    coordinator.wait(1)
    coordinator.join("b", "orders")
    assert coordinator.leave("a") == ConsumerHeartbeatAnswer("a", -1)
    coordinator.wait(1)
    assert coordinator.heartbeat("b", 3) == ConsumerHeartbeatAnswer("b", 4, SOON_MS, {topic: (0, 1)})
    coordinator.leave("b")
    assert coordinator.group.state_name == "Empty"
    assert coordinator.group.is_empty


def test_a_silent_member_is_put_out(coordinator: Coordinator) -> None:
    coordinator.join("a", "orders")
    coordinator.wait(44)
    coordinator.heartbeat("a", 2)
    coordinator.wait(44.9)
    assert "a" in coordinator.group.members
    coordinator.wait(0.2)
    with refused(ErrorCode.UNKNOWN_MEMBER_ID):
        coordinator.heartbeat("a", 2)
    assert coordinator.group.epoch == 3


def test_a_member_that_does_not_revoke_in_time_is_fenced(coordinator: Coordinator) -> None:
    topic = coordinator.topic("orders", 2)
    coordinator.join("a", "orders", rebalance_timeout_ms=20_000)
    coordinator.wait(1)
    coordinator.join("b", "orders")
    coordinator.heartbeat("a", 2)
    for _ in range(3):
        coordinator.wait(5)
        coordinator.heartbeat("a", 2, owned={topic: (0, 1)})
    coordinator.wait(5.1)
    assert set(coordinator.group.members) == {"b"}
    assert coordinator.heartbeat("b", 3).assignment == {topic: (0, 1)}


def test_a_member_that_revokes_in_time_stays(coordinator: Coordinator) -> None:
    coordinator.topic("orders", 2)
    coordinator.join("a", "orders", rebalance_timeout_ms=20_000)
    coordinator.wait(1)
    coordinator.join("b", "orders")
    coordinator.heartbeat("a", 2)
    coordinator.heartbeat("a", 2, owned=coordinator.assigned("a"))
    assert not coordinator.environment.timers.is_set(GROUP, "rebalance", "a")
    coordinator.wait(30)
    assert "a" in coordinator.group.members


def test_the_assignor_that_most_members_ask_for_is_taken(coordinator: Coordinator) -> None:
    one, two = coordinator.topic("one", 1), coordinator.topic("two", 1)
    coordinator.join("a", "one", "two", server_assignor="range")
    coordinator.wait(1)
    coordinator.join("b", "one", "two")
    coordinator.heartbeat("a", 2)
    assert coordinator.assigned("a") == {one: (0,), two: (0,)}, "range gives the first partition to the first member"
    coordinator.heartbeat("b", 3, server_assignor="uniform")
    coordinator.wait(1)
    coordinator.join("c", "one", "two", server_assignor="uniform")
    coordinator.heartbeat("a", 3)
    assert sum(len(each) for each in coordinator.assigned("a").values()) == 1


def test_topics_that_come_and_grow_are_found_with_the_next_heartbeat(coordinator: Coordinator) -> None:
    coordinator.join("a", "orders")
    assert coordinator.heartbeat("a", 2).assignment is None
    topic = coordinator.topic("orders", 1)
    coordinator.wait(1)
    assert coordinator.heartbeat("a", 2) == ConsumerHeartbeatAnswer("a", 3, SOON_MS, {topic: (0,)})
    coordinator.topic("other", 1)
    assert coordinator.heartbeat("a", 3) == ConsumerHeartbeatAnswer("a", 3, SOON_MS, None)
    coordinator.topic("orders", 3)
    coordinator.wait(1)
    assert coordinator.heartbeat("a", 3) == ConsumerHeartbeatAnswer("a", 4, SOON_MS, {topic: (0, 1, 2)})


def test_a_topic_that_goes_is_taken_away(coordinator: Coordinator) -> None:
    one, two = coordinator.topic("one", 1), coordinator.topic("two", 1)
    coordinator.join("a", "one", "two")
    coordinator.delete_topic("two")
    coordinator.wait(1)
    assert coordinator.heartbeat("a", 2).assignment == {one: (0,)}
    assert coordinator.heartbeat("a", 2, owned={one: (0,)}).member_epoch == 3
    assert coordinator.group.state_name == "Stable"
    assert two not in coordinator.assigned("a")


def test_a_member_that_unsubscribes_releases_partitions_at_once(coordinator: Coordinator) -> None:
    one, _ = coordinator.topic("one", 1), coordinator.topic("two", 1)
    coordinator.join("a", "one", "two")
    told = coordinator.heartbeat("a", 2, subscribed_topic_names=("one",))
    assert (told.member_epoch, told.assignment) == (2, {one: (0,)})


def test_a_changed_client_is_written_and_wants_no_new_assignment(coordinator: Coordinator) -> None:
    coordinator.topic("one", 1)
    coordinator.join("a", "one", client_id="x", client_host="/10.0.0.1")
    coordinator.heartbeat("a", 2, client_id="x", client_host="/10.0.0.2")
    assert coordinator.group.members["a"].metadata.client_host == "/10.0.0.2"
    assert coordinator.group.epoch == 2


def test_a_refused_request_writes_nothing(coordinator: Coordinator) -> None:
    with refused(ErrorCode.INVALID_REGULAR_EXPRESSION):
        coordinator.join("a", regex="(")
    assert coordinator.log == []
    assert GROUP not in coordinator.state.groups


def test_a_member_whose_leave_the_log_refuses_is_fenced_when_its_session_ends(coordinator: Coordinator) -> None:
    """With too few replicas nothing is written; no other event would ever free its partitions."""
    topic = coordinator.topic("orders", 2)
    coordinator.join("a", "orders")
    leaving = ConsumerHeartbeatRequest(GROUP, "a", -1)
    # The decision is dropped, as after the log's refusal.
    assert in_one_go(heartbeat(coordinator.state, coordinator.environment, leaving))[0]
    assert "a" in coordinator.group.members
    coordinator.wait(60)
    assert "a" not in coordinator.group.members
    assert coordinator.join("b", "orders").assignment == {topic: (0, 1)}


def test_topics_that_have_changed_are_seen_though_the_log_refuses_what_follows_of_it() -> None:
    """The log refuses while replicas are too few: no other event would show the group its new partitions."""
    coordinator = Coordinator(BrokerConfig(group_consumer_assignment_interval_ms=0))
    topic = coordinator.topic("orders", 1)
    coordinator.join("a", "orders")
    coordinator.topic("orders", 2)
    owned = {topic: (0,)}
    request = ConsumerHeartbeatRequest(GROUP, "a", coordinator.group.epoch, owned=owned)
    records, _ = heartbeat(coordinator.state, coordinator.environment, request)
    assert records, "the log takes nothing of it"
    told = coordinator.heartbeat("a", coordinator.group.epoch, owned=owned)
    assert told.assignment == {topic: (0, 1)}
    coordinator.heartbeat("a", told.member_epoch, owned={topic: (0, 1)})
    assert not coordinator.group.metadata_stale
