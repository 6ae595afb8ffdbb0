"""The limit that a connection has met: where it is set, whose it is, and its value at that time."""

from typing import Any

import pytest

from connection_limits.accept_decision import AcceptDecision, AcceptOutcome
from connection_limits.groups.connection_group import AddressGroupLimits
from connection_limits.limit_met import limit_met, rate_in_force
from connection_limits.quotas import ConnectionQuotas
from connection_limits.settings import IpAction, LimitReference, Objective, QuotaSettings

NOW = 5_000_000
IP, OTHER = "10.0.0.1", "10.0.0.2"
LISTENER_KEY = "listener.name.external.max.connection.creation.rate"


def quotas_of(*listeners: str, **settings: Any) -> ConnectionQuotas:
    quotas = ConnectionQuotas(QuotaSettings(quota_window_num=2, **settings), NOW)
    for name in listeners or ("EXTERNAL",):
        quotas.add_listener(name, NOW)
    return quotas


def met(quotas: ConnectionQuotas, ip: str = IP) -> LimitReference:
    """Connect until a limit is met."""
    for _ in range(5):
        decision = quotas.on_accepted("EXTERNAL", ip, NOW)
        if decision.outcome is not AcceptOutcome.ADMIT:
            return limit_met(quotas, "EXTERNAL", decision, ip)
    raise AssertionError("no limit was met")


@pytest.mark.parametrize(
    ("settings", "limit"),
    [
        ({"max_connection_creation_rate": 1}, LimitReference("max.connection.creation.rate", 1)),
        ({"listener_max_connection_creation_rate": {"EXTERNAL": 2}}, LimitReference(LISTENER_KEY, 2)),
        ({"max_connections": 1}, LimitReference("max.connections", 1)),
        ({"max_connections_per_ip": 2}, LimitReference("max.connections.per.ip", 2)),
        (
            {"max_connections_per_ip_overrides": {IP: 3}},
            LimitReference("max.connections.per.ip.overrides", 3, f"ip={IP}"),
        ),
        (
            {"max_connection_creation_rate_per_ip": 1},
            LimitReference("max.connection.creation.rate.per.ip", 1),
        ),
    ],
)
def test_a_limit_of_the_configuration_is_its_key_and_value(settings: dict[str, Any], limit: LimitReference) -> None:
    assert met(quotas_of(**settings)) == limit


@pytest.mark.parametrize("action", IpAction)
def test_a_rate_of_an_address_is_a_client_quota_of_the_address_or_of_all(action: IpAction) -> None:
    quotas = quotas_of(ip_action=action)
    quotas.addresses.update_rate(IP, 1, NOW)
    quotas.addresses.update_rate(None, 2, NOW)
    assert met(quotas) == LimitReference("connection_creation_rate", 1, f"ip={IP}")
    assert met(quotas, OTHER) == LimitReference("connection_creation_rate", 2, "ip=<default>")


@pytest.mark.parametrize(
    ("limits", "key", "value"),
    [
        (AddressGroupLimits(rate=1), "connection_creation_rate", 1),
        (AddressGroupLimits(max_connections=2), "max_connections", 2),
    ],
)
def test_a_connection_group_of_the_operator_is_its_connection_quota(
    limits: AddressGroupLimits, key: str, value: int
) -> None:
    quotas = quotas_of()
    quotas.addresses.groups.set_limits("shop/storm", limits, NOW)
    quotas.addresses.groups.add_member("shop/storm", IP, NOW)
    limit = met(quotas)
    assert limit == LimitReference(key, value, "connection-group=shop/storm", "shop/storm")
    assert limit.name == f"connection-group.shop/storm.{key}"


def test_a_connection_group_of_others_has_no_connection_quota() -> None:
    quotas = quotas_of()
    quotas.addresses.groups.set_limits("storm", AddressGroupLimits(rate=1), NOW)
    quotas.addresses.groups.add_member("storm", IP, NOW)
    assert met(quotas).quota is None


def test_the_rate_in_force_is_the_lesser_of_the_listener_s_and_the_broker_s() -> None:
    quotas = quotas_of("EXTERNAL", "OTHER", listener_max_connection_creation_rate={"EXTERNAL": 50})
    assert [rate_in_force(quotas, name) for name in ("EXTERNAL", "OTHER")] == [50, None]
    quotas.update(QuotaSettings(quota_window_num=2, max_connection_creation_rate=20), NOW)
    assert [rate_in_force(quotas, name) for name in ("EXTERNAL", "OTHER")] == [20, 20]


def test_the_broker_s_rate_is_none_of_the_protected_listener_s() -> None:
    quotas = quotas_of("EXTERNAL", "INTERNAL", max_connection_creation_rate=5, inter_broker_listener="INTERNAL")
    assert [rate_in_force(quotas, name) for name in ("EXTERNAL", "INTERNAL")] == [5, None]


def test_only_a_connection_that_waits_waits_for_a_limit() -> None:
    with pytest.raises(ValueError, match="has no waiting connection"):
        limit_met(quotas_of(), "EXTERNAL", AcceptDecision(AcceptOutcome.WAIT_FOR_SLOT), IP)


def test_a_rate_that_adapts_is_its_objective_and_counts_as_its_maximum() -> None:
    objective = Objective(p99_ms=20, min_rate=1)
    rates = {"EXTERNAL": 10}
    quotas = quotas_of(listener_max_connection_creation_rate=rates, listener_objectives={"EXTERNAL": objective})
    quotas.listeners["EXTERNAL"].rate_limit.set_limit(2, NOW)
    key = "listener.name.external.connection.quota.adaptive.p99.ms"
    assert met(quotas) == LimitReference(key, 20)
    assert rate_in_force(quotas, "EXTERNAL") == 10
    broker = quotas_of(max_connection_creation_rate=1, objective=objective)
    assert met(broker) == LimitReference("connection.quota.adaptive.p99.ms", 20)
    assert rate_in_force(broker, "EXTERNAL") == 1


@pytest.mark.parametrize(
    ("settings", "named", "quota"),
    [
        ({"max_connection_creation_rate": 1}, "max.connection.creation.rate", "shop/all"),
        ({"max_connections": 1}, "max.connections", "shop/all"),
        ({"max_connections_per_ip": 2}, "max.connections.per.ip", "shop/all"),
        ({"listener_max_connection_creation_rate": {"EXTERNAL": 2}}, LISTENER_KEY, "shop/all"),
        ({"listener_max_connection_creation_rate": {"EXTERNAL": 2}}, "max.connection.creation.rate", None),
        ({"max_connections_per_ip_overrides": {IP: 3}}, "max.connections.per.ip", None),
    ],
)
def test_a_limit_of_the_broker_or_a_listener_has_the_quota_that_is_named_for_its_key(
    settings: dict[str, Any], named: str, quota: str | None
) -> None:
    assert met(quotas_of(quota_names={named: "shop/all"}, **settings)).quota == quota


def test_the_rate_of_all_addresses_has_the_quota_that_is_named_for_it() -> None:
    quotas = quotas_of(quota_names={"connection_creation_rate": "shop/each"})
    quotas.addresses.update_rate(None, 1, NOW)
    assert met(quotas).quota == "shop/each"
    quotas.addresses.update_rate(OTHER, 1, NOW)
    assert met(quotas, OTHER).quota is None


def test_a_rate_that_adapts_has_the_quota_that_is_named_for_its_objective() -> None:
    key = "listener.name.external.connection.quota.adaptive.p99.ms"
    quotas = quotas_of(
        quota_names={key: "shop/calm"},
        listener_max_connection_creation_rate={"EXTERNAL": 10},
        listener_objectives={"EXTERNAL": Objective(p99_ms=20, min_rate=1)},
    )
    quotas.listeners["EXTERNAL"].rate_limit.set_limit(2, NOW)
    assert met(quotas) == LimitReference(key, 20, quota="shop/calm")


def test_a_rate_of_the_cluster_has_the_quota_that_is_named_for_the_configured_key() -> None:
    quotas = quotas_of(
        quota_names={LISTENER_KEY: "shop/together"},
        listener_max_connection_creation_rate={"EXTERNAL": 90},
        cluster_wide_listeners=frozenset({"EXTERNAL"}),
    )
    assert met(quotas) == LimitReference(f"{LISTENER_KEY}.cluster", 90, quota="shop/together")


def test_a_rate_of_the_cluster_has_a_name_of_its_own_and_its_value_is_that_of_all_brokers() -> None:
    listener = quotas_of(
        listener_max_connection_creation_rate={"EXTERNAL": 90}, cluster_wide_listeners=frozenset({"EXTERNAL"})
    )
    assert met(listener) == LimitReference(f"{LISTENER_KEY}.cluster", 90)
    assert rate_in_force(listener, "EXTERNAL") == 90
    broker = quotas_of(max_connection_creation_rate=90, cluster_wide=True)
    assert met(broker) == LimitReference("max.connection.creation.rate.cluster", 90)
    groups = quotas_of()
    groups.addresses.groups.set_limits("shop/a", AddressGroupLimits(90, shared=True, cluster_wide=True), NOW)
    groups.addresses.groups.add_member("shop/a", IP, NOW)
    limit = met(groups)
    assert limit == LimitReference("connection_creation_rate.cluster", 90, "connection-group=shop/a", "shop/a")
    assert limit.name == "connection-group.shop/a.connection_creation_rate.cluster"
