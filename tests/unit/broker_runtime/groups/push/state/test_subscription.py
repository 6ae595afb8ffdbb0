"""The text of a consumer's subscription."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_runtime.errors import KafkaError
from broker_runtime.groups.push.state.subscription import (
    STREAMS_MAX,
    TOPICS_MAX,
    Subscription,
    Wildcard,
    parse_topic_count,
)


@pytest.mark.parametrize(
    ("text", "expected", "threads"),
    [
        ('{ "topic1": 4, "topic2": 2 }', Subscription({"topic1": 4, "topic2": 2}), 4),
        ("*4*white.*", Subscription({}, Wildcard("white.*", excluded=False), 4), 4),
        ("!1!black|__.*", Subscription({}, Wildcard("black|__.*", excluded=True), 1), 1),
        ("*2*a*b!", Subscription({}, Wildcard("a*b!", excluded=False), 2), 2),
    ],
)
def test_topics_and_wildcards_have_streams(text: str, expected: Subscription, threads: int) -> None:
    assert parse_topic_count(text) == expected
    assert parse_topic_count(text).threads == threads


@pytest.mark.parametrize(
    "text",
    [
        "",
        "t",
        "{}",
        "[]",
        '{"t": 0}',
        '{"t": -1}',
        '{"t": 1.5}',
        '{"t": "1"}',
        '{"t": true}',
        f'{{"t": {STREAMS_MAX + 1}}}',
        '{"": 1}',
        '{"t": 1',
        "*0*t",
        f"*{STREAMS_MAX + 1}*t",
        "*1!t",
        "**t",
        "*-1*t",
        "*1*(",
        "[" * 30_000,
        "{" + ",".join(f'"t{number}": 1' for number in range(TOPICS_MAX + 1)) + "}",
    ],
)
def test_an_invalid_subscription_is_rejected(text: str) -> None:
    with pytest.raises(KafkaError):
        parse_topic_count(text)


@given(st.text(max_size=30) | st.from_regex(r"[*!][0-9]{1,3}[*!].{0,10}", fullmatch=True))
def test_any_text_is_a_subscription_or_refused(text: str) -> None:
    with suppress(KafkaError):
        assert 1 <= parse_topic_count(text).threads <= STREAMS_MAX
