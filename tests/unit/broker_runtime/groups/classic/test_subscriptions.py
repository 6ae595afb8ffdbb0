"""A classic member's metadata that is not a subscription, as the coordinator treats it."""

import struct

import pytest

from broker_runtime.groups.classic.subscriptions import subscribed_topics
from broker_runtime.groups.records import ClassicProtocol
from tests.support.groups.classic_coordinator import ClassicCoordinator


def subscription(version: int, count: int, names: bytes = b"") -> bytes:
    return struct.pack(">hi", version, count) + names


NOT_SUBSCRIPTIONS = [
    pytest.param(subscription(1, -1), id="no array of topics"),
    pytest.param(subscription(0, -7), id="a negative number of topics"),
    pytest.param(subscription(-1, 1, b"\x00\x01t"), id="a negative version"),
    pytest.param(subscription(1, 1, b"\xff\xff"), id="a topic without a name"),
    pytest.param(subscription(1, 2, b"\x00\x01t"), id="too short"),
]


@pytest.mark.parametrize("metadata", NOT_SUBSCRIPTIONS)
def test_bytes_that_are_not_a_subscription_are_refused(metadata: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        list(subscribed_topics(metadata))


@pytest.mark.parametrize("metadata", NOT_SUBSCRIPTIONS)
def test_a_group_whose_subscription_is_unknown_counts_as_subscribed_to_every_topic_as_in_kafka(metadata: bytes) -> None:
    """The group's offsets may not be deleted, and do not expire."""
    coordinator = ClassicCoordinator()
    coordinator.stable(protocols=(ClassicProtocol("range", metadata),))
    assert coordinator.group.is_subscribed_to("any")
    assert coordinator.group.offset_retention() is None


def test_a_subscription_to_no_topic_is_one() -> None:
    coordinator = ClassicCoordinator()
    coordinator.stable(protocols=(ClassicProtocol("range", subscription(1, 0)),))
    assert not coordinator.group.is_subscribed_to("any")
    assert coordinator.group.offset_retention() is not None
