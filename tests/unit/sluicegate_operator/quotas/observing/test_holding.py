"""The effect of limits in a quota's status: the figure, and how seldom it is written again."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from sluicegate_operator.api import ConnectionQuota, parse_resource
from sluicegate_operator.api.models.connection_quota import Holding
from sluicegate_operator.quotas.model.targets import TargetKey
from sluicegate_operator.quotas.observing.holding import (
    QUIET_S,
    BrokerReadings,
    Key,
    Reading,
    ThrottledConnections,
    holding,
    is_known,
    key_of,
    quotas_of,
    reading,
    throttles,
)
from tests.support.manifests.bad_manifests import cluster, listener, manifest
from tests.support.worlds.planned_quotas import PlannedQuotas

NOW = datetime(2026, 1, 1, tzinfo=UTC)
LATER = NOW + timedelta(seconds=10)
EXTERNAL: Key = ("listeners", "EXTERNAL")
ADDRESS: Key = ("ips", "10.0.0.1")


def document(**more: Any) -> dict[str, Any]:
    """An answer of a broker."""
    acceptor = {"held": {"rate": 0, "connections": 0}, "blocked_share": 0.0}
    listeners = {"EXTERNAL": {"held": {"rate": 40, "connections": 2}, "blocked_share": 0.82}}
    known = {"broker": acceptor, "listeners": listeners, "default_ip": {"held": {"rate": 1, "connections": 0}}}
    return known | {"ips": {}, "groups": {}, "left_out": 0} | more


def blocked(*shares: float) -> list[BrokerReadings]:
    """One reading of brokers whose acceptors waited for such shares of the time."""
    return [BrokerReadings(Reading(10.0, {EXTERNAL: ThrottledConnections(7, share)})) for share in shares]


def refused(*totals: tuple[int, int], seconds: float = 10.0) -> list[BrokerReadings]:
    """Readings of brokers that had refused so many before, and have now."""
    return [
        BrokerReadings(
            Reading(100.0 + seconds, {ADDRESS: ThrottledConnections(after)}),
            Reading(100.0, {ADDRESS: ThrottledConnections(before)}),
        )
        for before, after in totals
    ]


def test_an_answer_is_read() -> None:
    found = reading(document(ips={"10.0.0.1": {"held": {"rate": 3}}}, groups={"a/b": {"held": {"delayed": 4}}}), 5.0)
    assert found.throttled == {
        ("broker", ""): ThrottledConnections(0, 0.0),
        EXTERNAL: ThrottledConnections(42, 0.82),
        ("default_ip", ""): ThrottledConnections(1),
        ADDRESS: ThrottledConnections(3),
        ("groups", "a/b"): ThrottledConnections(4),
    }
    assert found.complete
    assert not reading(document(left_out=3), 5.0).complete


@pytest.mark.parametrize("answer", [{}, [], document(ips={"x": {}}), document(broker={"held": {}}), {"broker": 3}])
def test_an_answer_without_limits_is_rejected(answer: Any) -> None:
    with pytest.raises(ValueError, match="the broker's response has no limits"):
        reading(answer, 0.0)


def test_a_listener_shows_the_broker_where_clients_wait_most() -> None:
    found = holding(EXTERNAL, blocked(0.0, 0.84, 0.3), None, 0.0, NOW)
    assert found == Holding(summary="85% of time", blocked_percent=85, held_per_second=0.0, brokers="3/3", since=NOW)


@pytest.mark.parametrize(("share", "percent"), [(0.011, 1), (0.04, 5), (0.5, 50), (0.999, 100)])
def test_a_share_is_rounded_and_never_to_nothing(share: float, percent: int) -> None:
    found = holding(EXTERNAL, blocked(share), None, 0.0, NOW)
    assert found is not None
    assert found.blocked_percent == percent


def test_addresses_show_what_all_brokers_refuse_in_a_second() -> None:
    found = holding(ADDRESS, refused((0, 100), (5, 27)), None, 0.0, NOW)
    assert found == Holding(summary="12/s", blocked_percent=None, held_per_second=12.0, brokers="2/2", since=NOW)
    slow = holding(ADDRESS, refused((0, 1)), None, 0.0, NOW)
    assert slow is not None
    assert slow.summary == "0.1/s"


def test_a_broker_that_was_started_again_counts_from_zero() -> None:
    found = holding(ADDRESS, refused((1_000, 30)), None, 0.0, NOW)
    assert found is not None
    assert found.held_per_second == 3.0


def test_a_figure_that_changes_a_little_is_not_written_again() -> None:
    first = holding(EXTERNAL, blocked(0.84), None, 0.0, NOW)
    assert first is not None
    assert holding(EXTERNAL, blocked(0.77), first, 0.0, LATER) is first
    other = holding(EXTERNAL, blocked(0.4), first, 0.0, LATER)
    assert other is not None
    assert (other.blocked_percent, other.since) == (40, NOW)
    rate = holding(ADDRESS, refused((0, 120)), None, 0.0, NOW)
    assert holding(ADDRESS, refused((0, 160)), rate, 0.0, LATER) is rate
    assert holding(ADDRESS, refused((0, 900)), rate, 0.0, LATER) != rate


def test_a_broker_that_does_not_answer_is_counted() -> None:
    found = holding(EXTERNAL, [*blocked(0.84), BrokerReadings(None)], None, 0.0, NOW)
    assert found is not None
    assert found.brokers == "1/2"
    assert holding(EXTERNAL, [BrokerReadings(None)], found, 0.0, LATER) is found, "nobody says anything else"
    assert holding(EXTERNAL, [BrokerReadings(None)], None, 0.0, NOW) is None
    assert holding(EXTERNAL, [BrokerReadings(None)], found, QUIET_S, LATER) is None, "what it holds now is not known"


def test_the_figure_of_an_idle_limit_is_removed_after_a_while() -> None:
    first = holding(EXTERNAL, blocked(0.84), None, 0.0, NOW)
    quiet = blocked(0.0)
    assert holding(EXTERNAL, quiet, first, QUIET_S / 2, LATER) is first
    assert holding(EXTERNAL, quiet, first, QUIET_S, LATER) is None
    assert holding(EXTERNAL, quiet, None, 0.0, LATER) is None
    assert holding(ADDRESS, refused((9, 9)), Holding(summary="1/s", held_per_second=1.0), QUIET_S, LATER) is None


def test_a_limit_that_hardly_delays_is_not_reported() -> None:
    assert holding(EXTERNAL, blocked(0.004), None, 0.0, NOW) is None
    assert not throttles(EXTERNAL, blocked(0.004))
    assert throttles(EXTERNAL, blocked(0.004, 0.02))
    assert throttles(ADDRESS, refused((0, 1)))
    assert not throttles(ADDRESS, refused((1, 1)))


def test_the_first_reading_of_addresses_gives_no_rate() -> None:
    first = [BrokerReadings(Reading(10.0, {ADDRESS: ThrottledConnections(500)}))]
    old = Holding(summary="12/s", held_per_second=12.0)
    assert not is_known(ADDRESS, first)
    assert holding(ADDRESS, first, old, 0.0, NOW) is old, "an operator that has just started keeps it"
    assert holding(ADDRESS, first, None, 0.0, NOW) is None


def test_incomplete_readings_do_not_reset_the_figure() -> None:
    old = Holding(summary="12/s", held_per_second=12.0)
    looks = [BrokerReadings(Reading(20.0, {}, complete=False), Reading(10.0, {}, complete=False))]
    assert holding(ADDRESS, looks, old, QUIET_S, NOW) is old


TARGETS = [
    ({"broker": {}}, ("broker", "")),
    ({"listener": "EXTERNAL"}, EXTERNAL),
    ({"ip": "10.0.0.1"}, ADDRESS),
    ({"defaultIp": {}}, ("default_ip", "")),
    ({"cidr": "10.0.0.0/8"}, ("groups", "default/limit")),
    ({"workload": {"podSelector": {}}}, ("groups", "default/limit")),
]


@pytest.mark.parametrize(("target", "key"), TARGETS)
def test_a_figure_and_its_quota_find_each_other(target: dict[str, Any], key: Key) -> None:
    spec = {"clusterRef": {"name": "shop"}, "target": target, "maxConnectionCreationRate": 5}
    quota = parse_resource(manifest("ConnectionQuota", spec, "limit"))
    assert isinstance(quota, ConnectionQuota)
    planner = PlannedQuotas()
    shop: Any = parse_resource(cluster())
    external: Any = parse_resource(listener())
    for _ in planner.update(shop, [external], [quota], NOW):
        pass
    assert key_of("default", TargetKey.of_quota(quota), "limit") == key
    assert set(quotas_of("default", key, planner.plan)) == {"limit"}
    assert not quotas_of("default", ("groups", "elsewhere/limit"), planner.plan)
