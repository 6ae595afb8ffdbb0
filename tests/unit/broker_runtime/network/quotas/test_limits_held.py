"""The effect of each limit now: which of several it is, for what share of the time, and how often."""

from typing import Any

import pytest

from broker_runtime.network.quotas.limits_held import SHOWN_MAX, LimitsHeld
from connection_limits.accept_decision import AcceptDecision, AcceptOutcome
from connection_limits.cluster.reports import Answer, Grant, Verdict
from connection_limits.cluster.shares import Shares
from connection_limits.cluster_rates import ClusterRates
from connection_limits.groups.connection_group import AddressGroupLimits
from connection_limits.limit_met import limit_met
from connection_limits.quotas import ConnectionQuotas
from connection_limits.settings import LimitReference, Objective, QuotaSettings, Strategy

NOW = 5_000_000
ONE_A_SECOND: dict[str, Any] = {"strategy": Strategy.TOKEN_BUCKET, "quota_window_num": 2}


def quotas_of(*listeners: str, **settings: Any) -> ConnectionQuotas:
    quotas = ConnectionQuotas(QuotaSettings(**(ONE_A_SECOND | settings)), NOW)
    for name in listeners or ("EXTERNAL",):
        quotas.add_listener(name, NOW)
    return quotas


def page(quotas: ConnectionQuotas, now_ms: int = NOW, after: str = "") -> Any:
    return LimitsHeld(quotas, now_ms).page(after)


def held(quotas: ConnectionQuotas, now_ms: int = NOW) -> Any:
    return LimitsHeld(quotas, now_ms).held()


def storm(quotas: ConnectionQuotas, listener: str, seconds: int) -> tuple[int, str]:
    """Connect as fast as the acceptor takes connections; return the end time, and the limit that was met last."""
    now_ms, end_ms, met = NOW, NOW + 1000 * seconds, ""
    while now_ms < end_ms:
        decision = quotas.on_accepted(listener, "10.0.0.1", now_ms)
        while decision.outcome is AcceptOutcome.WAIT_UNTIL:
            met = limit_met(quotas, listener, decision, "10.0.0.1").name
            now_ms = max(now_ms, decision.at_ms)
            decision = quotas.on_wait_over(listener, "10.0.0.1", now_ms)
        now_ms += 1
    return now_ms, met


def test_without_limits_nothing_is_held() -> None:
    quotas = quotas_of()
    quotas.on_accepted("EXTERNAL", "10.0.0.1", NOW)
    found = page(quotas)
    assert found["broker"] == {
        "connection_creation_rate": None,
        "adaptive": None,
        "cluster": None,
        "max_connections": None,
        "rate": pytest.approx(1.0),
        "connections": 1,
        "held": {"rate": 0, "connections": 0},
        "blocked_share": 0.0,
    }
    assert found["listeners"]["EXTERNAL"]["inherited"] == ["connection_creation_rate", "max_connections"]
    assert found["default_ip"]["connection_creation_rate"] is None
    assert (found["ips"], found["next"]) == ({}, None)


def test_a_rate_that_adapts_is_shown_with_its_bounds() -> None:
    quotas = quotas_of(listener_objectives={"EXTERNAL": Objective(p99_ms=20, min_rate=5)})
    listener = page(quotas, NOW + 3_000)["listeners"]["EXTERNAL"]
    assert listener["adaptive"] == {
        "min_rate": 5,
        "max_rate": None,
        "objective_p99_ms": 20,
        "p99_ms": None,
        "reason": "start",
        "unchanged_s": 3.0,
        "cuts": 0,
    }
    assert page(quotas)["broker"]["adaptive"] is None


def test_a_listeners_rate_is_what_holds() -> None:
    quotas = quotas_of("EXTERNAL", "OTHER", listener_max_connection_creation_rate={"EXTERNAL": 10})
    now_ms, met = storm(quotas, "EXTERNAL", 10)
    found = page(quotas, now_ms)
    listener = found["listeners"]["EXTERNAL"]
    assert met == "listener.name.external.max.connection.creation.rate"
    assert listener["connection_creation_rate"] == 10
    assert listener["blocked_share"] > 0.9
    assert 90 <= listener["held"]["rate"] <= 110
    assert found["broker"]["blocked_share"] == 0.0
    assert found["listeners"]["OTHER"]["blocked_share"] == 0.0
    later = page(quotas, now_ms + 11_000)["listeners"]["EXTERNAL"]
    assert later["blocked_share"] == 0.0, "the share is of the last ten seconds"
    assert later["held"] == listener["held"], "the count is from the start"


def test_a_brokers_rate_is_what_holds_the_listeners_that_inherit_it() -> None:
    quotas = quotas_of(max_connection_creation_rate=10)
    now_ms, met = storm(quotas, "EXTERNAL", 5)
    found = page(quotas, now_ms)
    assert met == "max.connection.creation.rate"
    assert found["broker"]["blocked_share"] > 0.9
    assert found["broker"]["held"]["rate"] > 40
    listener = found["listeners"]["EXTERNAL"]
    assert (listener["connection_creation_rate"], listener["blocked_share"]) == (10, 0.0)


@pytest.mark.parametrize(
    ("settings", "which"),
    [
        ({"max_connections": 2}, "broker"),
        ({"max_connections": 2, "listener_max_connections": {"EXTERNAL": 9}}, "broker"),
        ({"max_connections": 9, "listener_max_connections": {"EXTERNAL": 2}}, "listener"),
    ],
)
def test_a_count_that_is_full_holds(settings: dict[str, Any], which: str) -> None:
    quotas = quotas_of(**settings)
    decisions = [quotas.on_accepted("EXTERNAL", "10.0.0.1", NOW).outcome for _ in range(3)]
    assert decisions == [AcceptOutcome.ADMIT, AcceptOutcome.ADMIT, AcceptOutcome.WAIT_FOR_SLOT]
    found = page(quotas, NOW + 4_000)
    shares = {"broker": found["broker"], "listener": found["listeners"]["EXTERNAL"]}
    assert shares.pop(which)["blocked_share"] == 1.0
    assert [other["blocked_share"] for other in shares.values()] == [0.0]
    own = "listener.name.external." if which == "listener" else ""
    met = limit_met(quotas, "EXTERNAL", AcceptDecision(AcceptOutcome.WAIT_FOR_SLOT), "10.0.0.1")
    assert met == LimitReference(f"{own}max.connections", 2)


def test_one_wait_may_be_for_two_limits_one_after_the_other() -> None:
    quotas = quotas_of(listener_max_connection_creation_rate={"EXTERNAL": 1}, max_connections=1)
    quotas.on_accepted("EXTERNAL", "10.0.0.1", NOW)
    waits = quotas.on_accepted("EXTERNAL", "10.0.0.1", NOW)
    assert waits.outcome is AcceptOutcome.WAIT_UNTIL
    assert quotas.on_wait_over("EXTERNAL", "10.0.0.1", waits.at_ms).outcome is AcceptOutcome.WAIT_FOR_SLOT
    now_ms = waits.at_ms + 3_000
    found = page(quotas, now_ms)
    assert found["listeners"]["EXTERNAL"]["blocked_share"] == pytest.approx(0.25)
    assert found["broker"]["blocked_share"] == pytest.approx(0.75)
    quotas.on_closed("EXTERNAL", "10.0.0.1", now_ms)
    assert quotas.on_wait_over("EXTERNAL", "10.0.0.1", now_ms).outcome is AcceptOutcome.ADMIT
    assert page(quotas, now_ms + 20_000)["broker"]["blocked_share"] == 0.0
    assert (found["listeners"]["EXTERNAL"]["held"], found["broker"]["held"]) == (
        {"rate": 1, "connections": 0},
        {"rate": 0, "connections": 1},
    )


def test_a_wait_that_is_abandoned_ends() -> None:
    quotas = quotas_of(max_connections=1)
    for _ in range(2):
        quotas.on_accepted("EXTERNAL", "10.0.0.1", NOW)
    quotas.on_wait_abandoned("EXTERNAL", NOW + 1_000)
    assert page(quotas, NOW + 20_000)["broker"]["blocked_share"] == 0.0


def test_addresses_have_their_limits_their_rate_and_their_count() -> None:
    quotas = quotas_of(max_connections_per_ip=7, max_connections_per_ip_overrides={"10.0.0.2": 1})
    quotas.addresses.update_rate("10.0.0.1", 1, NOW)
    quotas.addresses.update_rate(None, 5, NOW)
    for ip in ("10.0.0.1", "10.0.0.1", "10.0.0.2", "10.0.0.2"):
        quotas.on_accepted("EXTERNAL", ip, NOW)
    found = page(quotas)
    assert found["default_ip"] == {
        "connection_creation_rate": 5,
        "max_connections": 7,
        "held": {"rate": 0, "connections": 0},
    }
    assert found["ips"] == {
        "10.0.0.1": {
            "connection_creation_rate": 1,
            "max_connections": None,
            "rate": pytest.approx(1.0),
            "connections": 1,
            "held": {"rate": 1, "connections": 0},
        },
        "10.0.0.2": {
            "connection_creation_rate": None,
            "max_connections": 1,
            "rate": pytest.approx(2.0),
            "connections": 1,
            "held": {"rate": 0, "connections": 1},
        },
    }
    assert page(quotas, after="10.0.0.1")["ips"].keys() == {"10.0.0.2"}


def test_addresses_come_in_pages() -> None:
    quotas = quotas_of()
    ips = [f"10.0.{number // 100}.{number % 100}" for number in range(SHOWN_MAX + 3)]
    for ip in ips:
        quotas.addresses.update_rate(ip, 1, NOW)
    first = page(quotas)
    rest = page(quotas, after=first["next"])
    assert (len(first["ips"]), len(rest["ips"]), rest["next"]) == (SHOWN_MAX, 3, None)
    assert first["ips"].keys() | rest["ips"].keys() == set(ips)


def test_only_limits_that_delayed_a_connection_are_sampled() -> None:
    quotas = quotas_of()
    for number in range(SHOWN_MAX + 3):
        ip = f"10.0.{number // 100}.{number % 100}"
        quotas.addresses.update_rate(ip, 1, NOW)
        for _ in range(4 if number == 77 else 2):
            quotas.on_accepted("EXTERNAL", ip, NOW)
    quotas.addresses.update_rate("192.0.2.1", 1, NOW)
    quotas.addresses.groups.set_limits("shop/pods", AddressGroupLimits(rate=1), NOW)
    quotas.addresses.groups.set_limits("shop/quiet", AddressGroupLimits(rate=1), NOW)
    quotas.addresses.groups.add_member("shop/pods", "172.16.0.0/12", NOW)
    for _ in range(3):
        quotas.on_accepted("EXTERNAL", "172.16.0.1", NOW)
    found = held(quotas)
    assert len(found["ips"]) == SHOWN_MAX
    assert found["ips"]["10.0.0.77"]["held"] == {"rate": 3, "connections": 0}
    assert "192.0.2.1" not in found["ips"]
    assert found["groups"] == {"shop/pods": {"held": {"delayed": 2}}}
    assert found["left_out"] == 3


def test_counters_of_a_limit_are_removed_with_it() -> None:
    quotas = quotas_of(max_connections_per_ip_overrides={"10.0.0.2": 1})
    quotas.addresses.update_rate("10.0.0.1", 1, NOW)
    for ip in ("10.0.0.1", "10.0.0.1", "10.0.0.2", "10.0.0.2"):
        quotas.on_accepted("EXTERNAL", ip, NOW)
    assert held(quotas)["ips"].keys() == {"10.0.0.1", "10.0.0.2"}
    quotas.addresses.update_rate("10.0.0.1", None, NOW)
    quotas.update(QuotaSettings(**ONE_A_SECOND), NOW)
    assert held(quotas)["ips"] == {}


def test_a_rate_of_the_cluster_is_shown_with_its_share() -> None:
    quotas = quotas_of(
        listener_max_connection_creation_rate={"EXTERNAL": 90}, cluster_wide_listeners=frozenset({"EXTERNAL"})
    )
    starting = {"rate": 90, "share": 0.0, "demand": 0.0, "brokers": None, "age_s": None, "state": "waiting"}
    listener = page(quotas)["listeners"]["EXTERNAL"]
    assert (listener["connection_creation_rate"], listener["cluster"]) == (90, starting)
    shares = Shares(200, 4_000, NOW)
    rates = ClusterRates(quotas, shares, NOW)
    rates.update({}, NOW)
    report = shares.begin_report(1, 11, NOW)
    grants = (Grant("listener:EXTERNAL", 90_000, 30_000),)
    shares.answered(report, Answer(Verdict.GRANTED, 7, 4_000, 3, False, grants), NOW)
    found: Any = LimitsHeld(quotas, NOW + 500, rates).page("")
    assert found["listeners"]["EXTERNAL"]["cluster"] == {
        "rate": 90,
        "share": 30.0,
        "demand": 0.0,
        "brokers": 3,
        "age_s": 0.5,
        "state": "granted",
    }
    assert found["broker"]["cluster"] is None
