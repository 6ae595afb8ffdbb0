"""The arguments of a consumer."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from broker_runtime.groups.push.state.subscription import STREAMS_MAX as BROKERS_STREAMS_MAX
from broker_runtime.groups.push.state.subscription import parse_topic_count
from sluicegate_consumer import Consumer, ConsumerError, Settings, SettingsError
from sluicegate_consumer.backoff import Backoff
from sluicegate_consumer.config import STREAMS_MAX, addresses, topic_count


def test_the_broker_understands_every_subscription() -> None:
    assert STREAMS_MAX == BROKERS_STREAMS_MAX
    assert parse_topic_count(topic_count(["a", "b"], None, 2)).topics == {"a": 2, "b": 2}
    assert parse_topic_count(topic_count({"a": 1, "b": 3}, None, 1)).topics == {"a": 1, "b": 3}
    wildcard, others = parse_topic_count(topic_count(None, "o.*", 2)), parse_topic_count(topic_count(None, "!o.*", 1))
    assert wildcard.wildcard is not None
    assert others.wildcard is not None


@pytest.mark.parametrize(
    ("topics", "pattern", "streams"),
    [
        (None, None, 1),
        (["a"], "b", 1),
        ([], None, 1),
        ({}, None, 1),
        ("a", None, 1),
        (["a"], None, 0),
        (["a"], None, 101),
        ({"a": 0}, None, 1),
        ({"a": 101}, None, 1),
        ({"a": 2}, None, 4),
        (None, "", 1),
        (None, "!", 1),
        ([b"a"], None, 1),
        (["a"], None, 1.5),
    ],
)
def test_a_subscription_to_nothing_or_too_much_is_refused(
    topics: Sequence[str] | Mapping[str, int] | None, pattern: str | None, streams: int
) -> None:
    with pytest.raises(SettingsError):
        Consumer("k:9092", "g", topics=topics, pattern=pattern, streams=streams)


@pytest.mark.parametrize(
    "wrong",
    [
        {"session_timeout_s": 0},
        {"session_timeout_s": float("inf")},
        {"callback_timeout_s": 4.0},
        {"backoff_max_s": -1.0},
        {"prefetch_bytes_max": 0},
        {"fetch_wait_s": float("nan")},
        {"acknowledge": "never"},
        {"auto_offset_reset": "smallest"},
        {"isolation": "none"},
        {"close_by": "force"},
        {"auto_commit": "false"},
        {"session_timeout_s": "6"},
        {"fetch_bytes_max": 1e6},
        {"corrupt_retries_max": True},
        {"client_id": None},
        {"consumer_id": ""},
        {"consumer_id": "c" * 1025},
    ],
)
def test_settings_that_cannot_be_are_refused(wrong: dict[str, Any]) -> None:
    (name,) = wrong
    with pytest.raises(SettingsError, match=name):
        Settings(**wrong)


@pytest.mark.parametrize("group", [None, "", "g" * 1025, 7])
def test_a_group_whose_id_no_coordinator_takes_is_refused(group: Any) -> None:
    with pytest.raises(SettingsError, match="group_id"):
        Consumer("k:9092", group, topics=["a"])


async def test_iterating_over_a_consumer_that_was_not_started_raises_an_error() -> None:
    consumer = Consumer("k:9092", "g", topics=["a"])
    for each in (consumer, consumer.streams[0]):
        with pytest.raises(ConsumerError, match="async with"):
            await anext(each)


def test_bootstrap_servers_are_hosts_and_ports() -> None:
    assert addresses("a:1, [::1]:2") == (("a", 1), ("::1", 2))
    assert addresses(["a:1"]) == (("a", 1),)
    for wrong in ("", "a", "a:", ":1", "a:0", "a:65536", "a:b"):
        with pytest.raises(SettingsError):
            addresses(wrong)
    with pytest.raises(SettingsError):
        addresses([])


def test_attempts_come_later_and_later_and_not_all_at_once() -> None:
    early, late = Backoff(1.0, 5.0, lambda: 0.0), Backoff(1.0, 5.0, lambda: 1.0)
    assert [early.next_s() for _ in range(5)] == [0.5, 1.0, 2.0, 2.5, 2.5]
    assert [late.next_s() for _ in range(5)] == [1.0, 2.0, 4.0, 5.0, 5.0]
    late.reset()
    assert late.next_s() == 1.0


@pytest.mark.parametrize("outage_s", [0.5, 3.4, 7.0])
def test_a_recovered_coordinator_is_found_soon_with_few_attempts(outage_s: float) -> None:
    """Brokers are not asked all the time: thousands of consumers would burden brokers during a fail-over."""
    backoff, asked_s, attempts = Backoff(0.05, 2.0, lambda: 1.0), 0.0, 0
    while asked_s < outage_s:
        asked_s += backoff.next_s(soon=True)
        attempts += 1
    assert asked_s <= outage_s + max(0.2, outage_s / 8)
    assert attempts <= 25
