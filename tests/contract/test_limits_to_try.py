"""The limits of `sluicegate what-if`, between the operator that translates quotas and the pipeline that tries them."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from audit_pipeline.what_if.attempts import Limit
from audit_pipeline.what_if.limits import LimitsToTry, read_limits
from connection_limits import keys
from connection_limits.accept_decision import AcceptOutcome
from connection_limits.groups.connection_group import AddressGroupLimits
from connection_limits.limit_met import limit_met
from connection_limits.quotas import ConnectionQuotas
from connection_limits.settings import IpAction, QuotaSettings, Strategy
from sluicegate_operator.api import BrokerCluster, ConnectionQuota, parse_resource
from sluicegate_operator.quotas.limits_to_try import QuotasToTry, limits_to_try
from tests.support.manifests.bad_manifests import cluster, quota

NOW = datetime(2026, 1, 1, tzinfo=UTC)
LISTENER, OTHER = "EXTERNAL", "INTERNAL"
IP = "10.0.0.7"


def a_quota(target: dict[str, Any], name: str = "limit", **spec: Any) -> ConnectionQuota:
    parsed = parse_resource(quota(target, **spec) | {"metadata": {"name": name, "namespace": "shop"}})
    assert isinstance(parsed, ConnectionQuota)
    return parsed


def tried(*quotas: ConnectionQuota, **given: Any) -> LimitsToTry:
    """Return the limits as the pipeline reads them from the operator's document."""
    return read_limits(json.loads(json.dumps(limits_to_try(QuotasToTry(quotas, **given), NOW))))


def met(limits: LimitsToTry) -> Limit:
    """Return the limit that the second of two connections of one address meets."""
    quotas = ConnectionQuotas(limits.settings_for((LISTENER, OTHER)), 0)
    for name in (LISTENER, OTHER):
        quotas.add_listener(name, 0)
    limits.enforce(quotas, (LISTENER, OTHER), 0)
    for _ in range(40):
        decision = quotas.on_accepted(LISTENER, IP, 0)
        if decision.outcome is not AcceptOutcome.ADMIT:
            found = limit_met(quotas, LISTENER, decision, IP)
            return Limit(found.key, found.entity, found.quota)
    raise AssertionError("no limit was met")


@pytest.mark.parametrize(
    "target",
    [
        {"broker": {}},
        {"listener": LISTENER},
        {"ip": IP},
        {"defaultIp": {}},
        {"cidr": "10.0.0.0/24"},
        {"workload": {"podSelector": {}}},
    ],
    ids=str,
)
@pytest.mark.parametrize("limit", ["maxConnectionCreationRate", "maxConnections"])
def test_each_limit_holds_connections_and_has_the_name_of_its_quota(target: dict[str, Any], limit: str) -> None:
    spec: dict[str, Any] = {limit: 1}
    limits = tried(a_quota(target, **spec), members={"limit": [IP]})
    assert limits.name_of(met(limits)) == "shop/limit"
    assert limits.quotas == {"shop/limit"}
    assert limits.notes == ()


@pytest.mark.parametrize("target", [{"broker": {}}, {"listener": LISTENER}, {"ip": IP}, {"cidr": "10.0.0.0/24"}])
def test_a_rate_of_the_cluster_is_tried_as_one_of_each_broker_with_a_note(target: dict[str, Any]) -> None:
    shared = {"limitIs": "Shared"} if "cidr" in target else {}
    limits = tried(a_quota(target, maxConnectionCreationRate=1, scope="Cluster", **shared))
    assert limits.name_of(met(limits)) == "shop/limit"
    (note,) = limits.notes
    assert "scope Cluster, and is tried as if each broker had the whole rate" in note


def test_the_stricter_of_two_quotas_gives_its_name_and_the_other_a_note() -> None:
    limits = tried(
        a_quota({"listener": LISTENER}, "weak", maxConnectionCreationRate=9),
        a_quota({"listener": LISTENER}, "strict", maxConnectionCreationRate=1),
    )
    assert limits.name_of(met(limits)) == "shop/strict"
    assert ["weak" in note for note in limits.notes] == [True]


def test_the_cluster_says_how_rates_are_measured() -> None:
    settings = {"strategy": "token-bucket", "ipAction": "drop", "windowNum": 5, "windowSizeSeconds": 2}
    shop = parse_resource(cluster(connectionQuota=settings) | {"metadata": {"name": "shop", "namespace": "shop"}})
    assert isinstance(shop, BrokerCluster)
    limits = tried(a_quota({"ip": IP}, maxConnections=3), cluster=shop)
    assert limits.settings == QuotaSettings(
        max_connections_per_ip_overrides={IP: 3},
        inter_broker_listener="INTERNAL",
        strategy=Strategy.TOKEN_BUCKET,
        ip_action=IpAction.DROP,
        quota_window_num=5,
        quota_window_size_s=2,
    )


def test_quotas_that_observe_enforce_nothing_unless_that_is_asked_for() -> None:
    observing = a_quota({"cidr": "10.0.0.0/24"}, mode="Observe", maxConnections=2, limitIs="Shared")
    limits = tried(observing)
    assert limits.groups["shop/limit"] == AddressGroupLimits(max_connections=2, shared=True, observe=True)
    assert ["--enforce" in note for note in limits.notes] == [True]
    assert limits.quotas == set()
    assert tried(observing, enforce=True).groups["shop/limit"] == AddressGroupLimits(max_connections=2, shared=True)


def test_an_adaptive_rate_is_tried_at_its_maximum() -> None:
    bounds = {"minRate": 1, "maxRate": 7, "objective": {"requestP99": "20ms"}}
    limits = tried(a_quota({"listener": LISTENER}, adaptive=bounds))
    assert limits.listener_limits == {LISTENER.lower(): (None, 7)}
    assert ["adaptive.maxRate" in note for note in limits.notes] == [True]


def test_a_workload_without_members_and_an_expired_quota_are_notes() -> None:
    workload = a_quota({"workload": {"podSelector": {}}}, "pods", maxConnections=2)
    expired = a_quota({"broker": {}}, "old", maxConnections=2, expiresAt="2025-01-01T00:00:00Z")
    limits = tried(workload, expired)
    assert limits.quotas == set()
    (first, second) = limits.notes
    assert "--member pods=ADDRESS" in first
    assert "expired at expiresAt" in second


def test_addresses_of_a_log_that_are_hashed_leave_the_limits_of_all() -> None:
    limits = tried(
        a_quota({"ip": IP}, "one", maxConnectionCreationRate=1, maxConnections=1),
        a_quota({"defaultIp": {}}, "all", maxConnectionCreationRate=2),
        a_quota({"cidr": "10.0.0.0/24"}, "range", maxConnections=1),
    )
    assert limits.has_addresses
    left = limits.without_addresses()
    assert not left.has_addresses
    assert left.ip_rates == {None: 2}
    assert left.name_of(Limit(keys.ENTITY_RATE, f"ip={keys.DEFAULT_ENTITY}")) == "shop/all"
