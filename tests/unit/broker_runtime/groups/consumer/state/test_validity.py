"""Invalid ConsumerGroupHeartbeat requests (KIP-848)."""

from uuid import UUID

import pytest

from broker_runtime.config.keys.broker import BrokerConfig
from broker_runtime.errors import ErrorCode
from broker_runtime.groups.consumer.state.validity import ConsumerHeartbeatRequest, check_request
from tests.support.groups.consumer_groups import refused

JOIN = ConsumerHeartbeatRequest(
    "readers", "m", 0, rebalance_timeout_ms=60_000, subscribed_topic_names=("orders",), owned={}
)
CONFIG = BrokerConfig(group_consumer_assignors=("uniform", "range"), sluicegate_group_member_topics_max=2)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"group_id": ""}, "GroupId can't be empty."),
        ({"group_id": "  "}, "GroupId can't be empty."),
        ({"member_id": ""}, "MemberId can't be empty."),
        ({"member_id": "", "member_epoch": 3, "api_version": 0}, "MemberId can't be empty."),
        ({"member_id": "", "member_epoch": -1, "api_version": 0}, "MemberId can't be empty."),
        ({"instance_id": ""}, "InstanceId can't be empty."),
        ({"rack_id": " "}, "RackId can't be empty."),
        ({"rebalance_timeout_ms": -1}, "RebalanceTimeoutMs must be provided in first request."),
        ({"owned": None}, "TopicPartitions must be empty when (re-)joining."),
        ({"owned": {UUID(int=1): (0,)}}, "TopicPartitions must be empty when (re-)joining."),
        (
            {"subscribed_topic_names": None},
            "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.",
        ),
        (
            {"subscribed_topic_names": ("a", "b", "c")},
            "SubscribedTopicNames has 3 topics; sluicegate.group.member.topics.max allows 2. Subscribe to "
            "fewer topics, or raise the limit.",
        ),
        ({"member_epoch": -2}, "InstanceId can't be null."),
        ({"member_epoch": -3}, "MemberEpoch is invalid."),
    ],
)
def test_a_request_that_is_not_valid_is_told_why_in_kafkas_words(changes: dict[str, object], message: str) -> None:
    with refused(ErrorCode.INVALID_REQUEST) as messages:
        check_request(JOIN._replace(**changes), CONFIG)  # type: ignore[arg-type]
    assert messages == [message]


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"subscribed_topic_names": ()},
        {"subscribed_topic_names": ("a", "b")},
        {"subscribed_topic_names": None, "subscribed_topic_regex": "o.*"},
        {"member_id": "", "api_version": 0},
        {"server_assignor": "range"},
        {"member_epoch": 5, "owned": None, "rebalance_timeout_ms": -1, "subscribed_topic_names": None},
        {"member_epoch": -1, "owned": None, "rebalance_timeout_ms": -1, "subscribed_topic_names": None},
        {"member_epoch": -2, "instance_id": "i"},
    ],
)
def test_a_valid_request_passes(changes: dict[str, object]) -> None:
    check_request(JOIN._replace(**changes), CONFIG)  # type: ignore[arg-type]


def test_an_assignor_that_is_not_offered_is_refused() -> None:
    with refused(ErrorCode.UNSUPPORTED_ASSIGNOR):
        check_request(JOIN._replace(server_assignor="sticky"), CONFIG)
    with refused(ErrorCode.UNSUPPORTED_ASSIGNOR):
        check_request(JOIN._replace(server_assignor="range"), BrokerConfig(group_consumer_assignors=("uniform",)))
