"""Counts of connections that an observed limit would have held, from brokers' answers to one figure."""

from datetime import UTC, datetime, timedelta

import pytest

from sluicegate_operator.quotas.observing.observed_counts import observed, would_hold

NOW = datetime(2026, 1, 1, tzinfo=UTC)
LATER = NOW + timedelta(seconds=30)


def test_an_answer_has_counts_by_group_and_reason() -> None:
    group = {"mode": "Observe", "would_hold": {"too_many": 2, "delayed": 3}, "held": {}}
    assert would_hold({"groups": {"shop/q": group}, "next": None}) == {"shop/q": {"too_many": 2, "delayed": 3}}


@pytest.mark.parametrize("page", [{}, {"groups": []}, {"groups": {"q": {}}}, {"groups": {"q": {"would_hold": "x"}}}])
def test_an_answer_without_counts_is_rejected(page: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="the broker's response has no counts of groups"):
        would_hold(page)


def test_brokers_are_added_up_and_who_does_not_answer_is_seen() -> None:
    answers = [{"q": {"too_many": 2, "delayed": 3}}, None, {"q": {"dropped": 1}, "other": {"too_many": 9}}, {}]
    found = observed("q", answers, None, NOW)
    assert (found.would_hold, found.by_rate, found.by_count, found.brokers, found.at) == (6, 4, 2, "3/4", NOW)


def test_the_time_is_that_of_the_last_change() -> None:
    first = observed("q", [{"q": {"too_many": 2}}], None, NOW)
    assert observed("q", [{"q": {"too_many": 2}}], first, LATER) == first
    assert observed("q", [{"q": {"too_many": 3}}], first, LATER).at == LATER
