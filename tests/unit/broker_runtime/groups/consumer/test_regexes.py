"""Subscriptions by regular expressions (KIP-848)."""

import pytest
from msgspec.structs import replace

from broker_runtime.config.keys.broker import BrokerConfig
from broker_runtime.errors import ErrorCode
from broker_runtime.groups.consumer.heartbeat import ConsumerHeartbeatAnswer
from broker_runtime.groups.records import ConsumerGroupMemberMetadataKey, GroupRecord
from broker_runtime.security.acls.model import Acl, AclOperation, AclPermission, AclResource
from broker_runtime.security.acls.topic_filter import TopicFilter
from broker_runtime.security.principal import Principal
from tests.support.groups.consumer_groups import GROUP, SOON_MS, Coordinator, durable, refused
from tests.support.requests.access import authorization_of


@pytest.fixture
def coordinator() -> Coordinator:
    return Coordinator()


def test_topics_are_found_behind_the_join_and_given_with_a_heartbeat(coordinator: Coordinator) -> None:
    orders = coordinator.topic("orders", 1)
    coordinator.topic("reorders", 1)
    assert coordinator.join("a", regex="ord.*") == ConsumerHeartbeatAnswer("a", 2, SOON_MS, {})
    coordinator.wait(1)
    assert coordinator.heartbeat("a", 2) == ConsumerHeartbeatAnswer("a", 3, SOON_MS, {orders: (0,)})
    assert coordinator.group.is_subscribed_to("orders")
    assert not coordinator.group.is_subscribed_to("reorders")


def test_topics_that_the_member_may_not_describe_are_left_out(coordinator: Coordinator) -> None:
    orders = coordinator.topic("orders", 1)
    coordinator.topic("ordinary", 1)
    may_describe = Acl(AclResource.TOPIC, "orders", 3, "User:alice", "*", AclOperation.READ, AclPermission.ALLOW)
    topic_filter = TopicFilter(Principal("User", "alice"), "10.0.0.1", authorization_of(may_describe).authorizer)
    coordinator.join("a", regex="ord.*", topic_filter=topic_filter)
    coordinator.wait(1)
    assert coordinator.heartbeat("a", 2, topic_filter=topic_filter).assignment == {orders: (0,)}
    assert not coordinator.group.is_subscribed_to("ordinary")


def test_a_second_member_with_a_known_expression_is_assigned_at_once(coordinator: Coordinator) -> None:
    orders = coordinator.topic("orders", 2)
    coordinator.join("a", regex="ord.*")
    coordinator.wait(2)
    coordinator.heartbeat("a", 2)
    coordinator.wait(2)
    joined = coordinator.join("b", regex="ord.*")
    assert joined.member_epoch == 4
    assert len(coordinator.group.target["b"][orders]) == 1


def test_an_invalid_expression_is_rejected_also_for_a_member_with_a_valid_one(coordinator: Coordinator) -> None:
    with refused(ErrorCode.INVALID_REGULAR_EXPRESSION):
        coordinator.join("a", regex="[")
    coordinator.join("a", regex="ok")
    with refused(ErrorCode.INVALID_REGULAR_EXPRESSION):
        coordinator.heartbeat("a", 2, subscribed_topic_regex="(")
    assert coordinator.group.members["a"].regex == "ok"


def test_new_topics_are_looked_for_but_not_more_than_every_ten_seconds(coordinator: Coordinator) -> None:
    coordinator.topic("orders", 1)
    coordinator.join("a", regex="ord.*")
    coordinator.wait(2)
    coordinator.heartbeat("a", 2)
    new = coordinator.topic("ordinary", 1)
    coordinator.heartbeat("a", 3)
    assert not coordinator.group.is_subscribed_to("ordinary")
    coordinator.wait(9)
    coordinator.heartbeat("a", 3)
    assert coordinator.group.is_subscribed_to("ordinary")
    told = coordinator.heartbeat("a", 3)
    assert told.assignment is not None
    assert new in told.assignment


def test_expressions_are_looked_at_again_after_the_interval(coordinator: Coordinator) -> None:
    coordinator.topic("orders", 1)
    coordinator.join("a", regex="ord.*")
    coordinator.wait(2)
    coordinator.heartbeat("a", 2)
    first = coordinator.group.subscriptions.resolved["ord.*"].timestamp_ms
    for _ in range(21):
        coordinator.wait(30)
        coordinator.heartbeat("a", 3)
    assert coordinator.group.subscriptions.resolved["ord.*"].timestamp_ms > first
    assert coordinator.group.epoch == 3, "the topics are the same"


def test_an_expression_that_matches_too_many_topics_keeps_those_that_it_had(caplog: pytest.LogCaptureFixture) -> None:
    coordinator = Coordinator(BrokerConfig(sluicegate_group_member_topics_max=2))
    topics = [coordinator.topic(f"ord-{number}", 1) for number in range(2)]
    coordinator.join("a", regex="ord.*")
    coordinator.wait(2)
    assert coordinator.heartbeat("a", 2).assignment == dict.fromkeys(topics, (0,))
    coordinator.topic("ord-2", 1)
    coordinator.wait(11)
    coordinator.heartbeat("a", 3)
    coordinator.heartbeat("a", 3)
    assert coordinator.assigned("a") == dict.fromkeys(topics, (0,))
    (told,) = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert told == (
        f"a subscription of group {GROUP} gets no other topics: the expression 'ord.*' matches 3 topics; "
        "sluicegate.group.member.topics.max allows 2. Use an expression that matches fewer topics, or raise the limit"
    )


def test_expressions_that_would_make_too_many_topics_together_keep_those_that_they_had(
    caplog: pytest.LogCaptureFixture,
) -> None:
    coordinator = Coordinator(BrokerConfig(sluicegate_group_topics_max=3))
    topics = [coordinator.topic(name, 1) for name in ("a0", "a1", "a2", "b0", "b1", "b2")]
    coordinator.join("first", regex="a.*")
    coordinator.wait(11)
    coordinator.join("second", regex="b.*")
    for _ in range(3):
        for member_id in ("first", "second"):
            coordinator.heartbeat(member_id, coordinator.group.members[member_id].epoch)
        coordinator.wait(11)
    assert coordinator.group.subscriptions.topics.keys() == {"a0", "a1", "a2"}
    assert {topic for one in ("first", "second") for topic in coordinator.assigned(one)} == set(topics[:3])
    (warning,) = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert warning == (
        f"a subscription of group {GROUP} gets no other topics: the group would have 6 topics with those that 'b.*' "
        "and its other expressions match now; sluicegate.group.topics.max allows 3. Use expressions that match fewer "
        "topics, or raise the limit"
    )


def test_the_last_subscriber_takes_its_expression_along(coordinator: Coordinator) -> None:
    coordinator.topic("orders", 1)
    coordinator.join("a", regex="ord.*")
    coordinator.join("b", "orders")
    coordinator.leave("a")
    assert coordinator.group.subscriptions.resolved == {}
    assert coordinator.group.is_subscribed_to("orders")
    coordinator.leave("b")
    assert not coordinator.group.is_subscribed_to("orders")
    assert durable(coordinator.replayed()) == durable(coordinator.state)


def test_an_empty_expression_ends_the_subscription(coordinator: Coordinator) -> None:
    orders = coordinator.topic("orders", 1)
    coordinator.join("a", regex="ord.*")
    coordinator.wait(2)
    coordinator.heartbeat("a", 2)
    told = coordinator.heartbeat("a", 3, subscribed_topic_regex="", owned={orders: (0,)})
    assert told.assignment == {}
    assert coordinator.group.subscriptions.regexes == {}


def test_names_and_an_expression_add_up(coordinator: Coordinator) -> None:
    orders, other = coordinator.topic("orders", 1), coordinator.topic("other", 1)
    coordinator.join("a", "other")
    coordinator.heartbeat("a", 2, subscribed_topic_regex="ord.*")
    coordinator.wait(2)
    assert coordinator.heartbeat("a", 2).assignment == {orders: (0,), other: (0,)}


def test_an_invalid_expression_in_the_log_matches_nothing_and_is_logged_once(
    coordinator: Coordinator, caplog: pytest.LogCaptureFixture
) -> None:
    orders = coordinator.topic("orders", 1)
    coordinator.join("a", regex="ord.*")
    coordinator.join("b", regex="other")
    metadata = replace(coordinator.group.members["b"].metadata, subscribed_topic_regex="(?=look-ahead)")
    coordinator.decide(lambda _: ([GroupRecord(ConsumerGroupMemberMetadataKey(GROUP, "b"), metadata)], None))
    coordinator.fail_over()
    for number in range(3):
        coordinator.topic(f"ord-{number}", 1)
        coordinator.wait(11)
        for member_id in ("a", "b"):
            coordinator.heartbeat(member_id, coordinator.group.members[member_id].epoch)
    assert coordinator.group.subscriptions.resolved["(?=look-ahead)"].topics == ()
    assert coordinator.group.subscriptions.resolved["ord.*"].topics == ("ord-0", "ord-1", "ord-2", "orders")
    assert orders in coordinator.group.target["a"]
    (told,) = [record.getMessage() for record in caplog.records if record.levelname in ("WARNING", "ERROR")]
    assert told.startswith(f"a subscription of group {GROUP} matches no topics: '(?=look-ahead)'")
