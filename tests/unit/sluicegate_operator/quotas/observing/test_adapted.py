"""The adaptive rates in a status: read from brokers, kept while they change little, and told in Events."""

from datetime import UTC, datetime, timedelta

import pytest

from sluicegate_operator.api.models.parts.adaptive_rate import ADAPTED_BROKERS_MAX, AdaptedRates
from sluicegate_operator.api.schema.metadata import INT_MAX
from sluicegate_operator.quotas.observing.adapted import ReportedRate, adapted, moved_words
from sluicegate_operator.quotas.observing.holding import reading

NOW = datetime(2026, 1, 1, tzinfo=UTC)
MIN, MAX = 50, 2000


def rate(now: int, reason: str = "objective kept", unchanged_s: float = 4.0) -> ReportedRate:
    return ReportedRate(now, MIN, MAX, reason, unchanged_s)


def status(*rates: int) -> AdaptedRates:
    found = adapted({broker_id: rate(one) for broker_id, one in enumerate(rates)}, (), None, NOW)
    assert found is not None
    return found


def test_the_rates_of_brokers_are_read_from_their_answers() -> None:
    nothing = {"held": {"rate": 0, "connections": 0}, "blocked_share": 0.0}
    adaptive = {"min_rate": 50, "max_rate": None, "reason": "quiet", "unchanged_s": 1.5}
    found = reading(
        {
            "broker": nothing | {"adaptive": None},
            "listeners": {
                "EXTERNAL": nothing | {"adaptive": adaptive, "connection_creation_rate": 137},
                # A broker of an earlier release does not have the field.
                "OTHER": nothing,
            },
            "default_ip": nothing,
            "ips": {},
            "groups": {},
            "left_out": 0,
        },
        at_s=1.0,
    )
    assert found.adaptive == {("listeners", "EXTERNAL"): ReportedRate(137, 50, INT_MAX, "quiet", 1.5)}


def test_a_status_names_each_broker_since_when_and_why() -> None:
    found = adapted({1: rate(400), 0: rate(120, "objective missed", 7.0)}, (), None, NOW)
    assert found is not None
    assert found.summary == "120 to 400/s"
    assert [(one.broker_id, one.rate, one.reason) for one in found.brokers] == [
        (0, 120, "objective missed"),
        (1, 400, "objective kept"),
    ]
    assert found.brokers[0].since == NOW - timedelta(seconds=7)
    assert status(300, 300).summary == "300/s"


def test_a_small_change_is_not_written() -> None:
    old = status(120, 400)
    assert adapted({0: rate(170), 1: rate(300)}, (), old, NOW) == old


def test_a_change_by_half_is_written() -> None:
    found = adapted({0: rate(181), 1: rate(260)}, (), status(120, 400), NOW)
    assert found is not None
    assert [one.rate for one in found.brokers] == [181, 260]


def test_a_bound_is_written_at_once_when_it_is_reached() -> None:
    for old, new in ((MIN + 1, MIN), (MAX - 1, MAX)):
        found = adapted({0: rate(new)}, (), status(old), NOW)
        assert found is not None
        assert found.summary == f"{new}/s"


@pytest.mark.parametrize(("bound", "next_to_it"), [(MIN, MIN + 3), (MAX, MAX - 100)])
def test_a_rate_that_oscillates_at_a_bound_is_written_once(bound: int, next_to_it: int) -> None:
    old = status(bound)
    for now in (next_to_it, bound) * 5:
        assert adapted({0: rate(now)}, (), old, NOW) == old


def test_bounds_that_are_near_each_other_are_not_written_in_turn() -> None:
    narrow = [ReportedRate(one, 50, 60, "objective kept", 0.5) for one in (50, 60)]
    old = adapted({0: narrow[0]}, (), None, NOW)
    assert adapted({0: narrow[1]}, (), old, NOW) == old


def test_a_rate_without_a_limit_is_read() -> None:
    adaptive = {"min_rate": 50, "max_rate": None, "reason": "start", "unchanged_s": 1.5}
    unlimited = ReportedRate.of({"adaptive": adaptive, "connection_creation_rate": None})
    found = adapted({0: unlimited, 1: rate(120)}, (), None, NOW)
    assert found is not None
    assert (found.summary, found.brokers[0].rate) == ("120/s to unlimited", INT_MAX)
    assert moved_words(found, adapted({0: rate(120)}, (), found, NOW)) == "broker 0 unlimited -> 120/s (objective kept)"


def test_a_silent_broker_keeps_its_rate_and_one_that_has_gone_loses_it() -> None:
    old = status(120, 400, 500)
    found = adapted({0: rate(120)}, [1], old, NOW)
    assert found is not None
    assert [one.broker_id for one in found.brokers] == [0, 1]
    assert adapted({}, (), old, NOW) is None


def test_the_status_of_a_large_cluster_is_bounded() -> None:
    found = status(*range(60, 60 + 2 * ADAPTED_BROKERS_MAX))
    assert len(found.brokers) == ADAPTED_BROKERS_MAX


def test_an_event_names_the_rates_that_moved() -> None:
    assert moved_words(None, status(MAX)) == ""
    assert moved_words(status(MAX), None) == ""
    assert moved_words(status(MAX, 400), status(120, 400)) == "broker 0 2000/s -> 120/s (objective kept)"
    many = moved_words(status(*[MAX] * 9), status(*[120] * 9))
    assert many.count("->") == 5
    assert many.endswith("; ...")
