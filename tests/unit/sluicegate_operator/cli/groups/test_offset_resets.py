"""The start positions of a reset: users' texts, and the result for each partition."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluicegate_operator.cli.groups.offset_resets import (
    LogEnds,
    Reset,
    ResetError,
    ResetTarget,
    Way,
    chosen_partitions,
    parse_datetime,
    parse_duration,
    parse_topic,
    parse_topics,
    plan_resets,
)

NOW = datetime(2026, 11, 23, 8, 0, tzinfo=UTC)
NOW_MS = int(NOW.timestamp() * 1000)
LOG = {("orders", 0): LogEnds(earliest=10, latest=100, at_time=40)}


@pytest.mark.parametrize(
    ("target", "after"),
    [
        (ResetTarget(Way.EARLIEST), 10),
        (ResetTarget(Way.LATEST), 100),
        (ResetTarget(Way.OFFSET, 55), 55),
        (ResetTarget(Way.OFFSET, 5), 10),
        (ResetTarget(Way.OFFSET, 101), 100),
        (ResetTarget(Way.SHIFT, -20), 30),
        (ResetTarget(Way.SHIFT, -41), 10),
        (ResetTarget(Way.SHIFT, 51), 100),
        (ResetTarget(Way.DURATION, 7), 40),
        (ResetTarget(Way.DATETIME, 7), 40),
    ],
)
def test_each_way_leads_into_the_log(target: ResetTarget, after: int) -> None:
    assert plan_resets(target, {("orders", 0): 50}, LOG) == [Reset("orders", 0, 50, after, 100 - after)]


def test_a_reset_to_a_time_after_all_records_goes_to_the_end() -> None:
    (reset,) = plan_resets(ResetTarget(Way.DATETIME, 7), {}, {("orders", 0): LogEnds(10, 100, None)})
    assert (reset.before, reset.after) == (None, 100)


def test_a_shift_needs_something_to_shift() -> None:
    with pytest.raises(ResetError, match="the group has no committed offset for orders-0"):
        plan_resets(ResetTarget(Way.SHIFT, 1), {("orders", 1): 50}, LOG)


@given(st.sampled_from([way for way in Way if way is not Way.SHIFT]), st.integers(), st.integers(0), st.integers(0))
def test_nothing_leads_out_of_the_log(way: Way, value: int, earliest: int, length: int) -> None:
    (reset,) = plan_resets(ResetTarget(way, value), {}, {("a", 0): LogEnds(earliest, earliest + length)})
    assert earliest <= reset.after <= earliest + length
    assert reset.lag == earliest + length - reset.after


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("PT1H30M", 5400), ("P7D", 7 * 86400), ("P1DT1S", 86401), ("PT0.5S", 0.5), ("PT0S", 0)],
)
def test_durations_are_iso_8601(text: str, seconds: float) -> None:
    assert parse_duration(text, NOW) == NOW_MS - int(seconds * 1000)


def test_times_before_1970_count_as_1970() -> None:
    assert parse_duration("P999999999999D", NOW) == parse_duration("P999999D", NOW) == 0
    assert parse_datetime("0001-01-01T00:00:00+00:00") == 0


@pytest.mark.parametrize("text", ["", "P", "PT", "1h", "PT1D", "P-1D", "P1H", "PT1M2H", "P1Y"])
def test_an_invalid_duration_is_rejected(text: str) -> None:
    with pytest.raises(ResetError, match="write PnDTnHnMnS"):
        parse_duration(text, NOW)


@pytest.mark.parametrize(
    "text", ["2026-11-23T08:00:00", "2026-11-23T08:00:00Z", "2026-11-23T10:00+02:00", "2026-11-23T08:00:00.000"]
)
def test_moments_without_a_zone_are_utc(text: str) -> None:
    assert parse_datetime(text) == NOW_MS


@pytest.mark.parametrize("text", ["", "yesterday", "2026-13-01T00:00:00", "1763884800"])
def test_an_invalid_time_is_rejected(text: str) -> None:
    with pytest.raises(ResetError, match="write YYYY-MM-DDThh:mm:ss"):
        parse_datetime(text)


def test_topics_are_named_with_or_without_partitions() -> None:
    assert parse_topic("orders") == ("orders", None)
    assert parse_topic("orders:2,0,2") == ("orders", (0, 2))
    for text in ("", ":1", "orders:", "orders:a", "orders:1,", "orders:-1"):
        with pytest.raises(ResetError, match="write TOPIC, or TOPIC:0,1"):
            parse_topic(text)


def test_only_what_is_there_is_chosen() -> None:
    there = {"orders": (0, 1, 2), "bills": (0,)}
    assert chosen_partitions({"orders": (2,), "bills": None}, there) == [("bills", 0), ("orders", 2)]
    with pytest.raises(ResetError, match="--topic none: the topic does not exist"):
        chosen_partitions({"none": None}, there)
    with pytest.raises(ResetError, match="the topic has 3 partitions, and partition 3 does not exist"):
        chosen_partitions({"orders": (0, 3)}, there)


def test_a_topic_may_be_named_several_times() -> None:
    assert parse_topics(["a:1", "b", "a:0,1"]) == {"a": (0, 1), "b": None}
    assert parse_topics(["a:1", "a"]) == parse_topics(["a", "a:1"]) == {"a": None}
