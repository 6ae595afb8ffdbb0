"""The statuses of quotas on ranges and workloads, of observed ones and of expired ones."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from sluicegate_operator.api import BrokerCluster, BrokerListener, ConnectionQuota, parse_resource
from sluicegate_operator.api.models.connection_quota import ConnectionQuotaStatus, Effective, ObservedCounts
from sluicegate_operator.api.models.parts.broker_shares import BrokerShare, BrokerShares, ShareState
from sluicegate_operator.quotas.status import Enforcement, quota_status
from tests.support.manifests.bad_manifests import cluster, listener, quota
from tests.support.manifests.quota_manifests import of_pods
from tests.support.oracles.kstatus import kstatus
from tests.support.worlds.planned_quotas import PlannedQuotas

NOW = datetime(2026, 1, 1, tzinfo=UTC)
DONE = Enforcement(expected=(0, 1, 2))
SHARED: dict[str, Any] = {"limitIs": "Shared"}


def status(
    target: dict[str, Any], enforcement: Enforcement = DONE, selected: set[str] | None = None, **said: Any
) -> ConnectionQuotaStatus:
    meta = {"name": "q", "uid": "q", "generation": 1}
    parsed = parse_resource(quota(target, maxConnections=3, **said) | {"metadata": meta})
    shop, external = parse_resource(cluster()), parse_resource(listener())
    assert isinstance(parsed, ConnectionQuota)
    assert isinstance(shop, BrokerCluster)
    assert isinstance(external, BrokerListener)
    planner = PlannedQuotas()
    planner.select({} if selected is None else {"q": dict.fromkeys(selected, 7.0)})
    for _ in planner.update(shop, [external], [parsed], NOW):
        pass
    return quota_status(parsed, planner.plan.of[parsed.name], enforcement, NOW)


def said(status: ConnectionQuotaStatus, condition: str) -> tuple[str, str, str]:
    found = status.condition(condition)
    assert found is not None
    return found.status, found.reason, found.message


def test_a_range_is_one_member() -> None:
    found = status({"cidr": "10.0.0.0/8"})
    assert (found.target, found.members, found.host_network_pods) == ("cidr 10.0.0.0/8", 1, None)
    assert found.effective == Effective(max_connections=3)
    assert said(found, "Enforced")[:2] == ("True", "Enforced")
    assert said(found, "ClientAddressHidden")[0] == "False"


def test_a_workload_says_how_many_addresses_it_is_for() -> None:
    found = status(of_pods(), selected={"10.0.0.1", "10.0.0.2"})
    assert found.members == 2
    assert said(found, "Ready") == ("True", "Enforced", "enforced by all 3 brokers for 2 addresses of pods")
    assert said(found, "PodsLeftOut")[0] == "False"
    nobody = status(of_pods(), selected=set())
    assert said(nobody, "Ready")[2] == "enforced by all 3 brokers; no selected pod has an address"


def test_pods_on_their_nodes_network_are_told() -> None:
    found = status(of_pods(), Enforcement(expected=(0,), host_network_pods=2), selected={"10.0.0.1"})
    assert found.host_network_pods == 2
    assert said(found, "PodsLeftOut")[:2] == ("True", "HostNetwork")
    assert said(found, "PodsLeftOut")[2].startswith("2 of the selected pods use hostNetwork")


def test_a_rate_of_the_cluster_shows_the_shares_of_brokers() -> None:
    shares = BrokerShares(
        summary="20 to 280/s",
        brokers=[
            BrokerShare(broker_id=0, share=20.0, state=ShareState.GRANTED),
            BrokerShare(broker_id=1, share=280.0, state=ShareState.RESERVE),
        ],
    )
    for target, more in (({"listener": "EXTERNAL"}, {}), ({"ip": "10.0.0.1"}, {}), ({"cidr": "10.0.0.0/8"}, SHARED)):
        of_cluster: dict[str, Any] = {"maxConnectionCreationRate": 300, "scope": "Cluster"} | more
        found = status(target, replace(DONE, shares=shares), **of_cluster)
        assert found.effective == Effective(max_connection_creation_rate=300, scope="Cluster", max_connections=3)
        assert found.shares == shares
        assert said(found, "Ready")[:2] == ("True", "Enforced"), "brokers keep the limit without the controller"
        assert said(found, "ShareGranted")[:2] == ("False", "OnReserve")
        before = status(target, DONE, **of_cluster)
        assert (before.shares, before.condition("ShareGranted")) == (None, None)
        alone = status(target, replace(DONE, shares=shares), **of_cluster | {"scope": "Broker"})
        assert (alone.shares, alone.condition("ShareGranted")) == (None, None)
        assert alone.effective == Effective(max_connection_creation_rate=300, max_connections=3)


def test_until_pods_are_known_nothing_is_claimed() -> None:
    found = status(of_pods())
    assert said(found, "Ready")[:2] == ("False", "PodsUnknown")
    assert said(found, "Stalled")[0] == "False"
    assert (found.members, found.brokers) == (None, "")
    assert kstatus(document(found)) == "InProgress"


def test_a_limit_on_pods_is_not_reported_as_enforced_while_pods_are_unseen() -> None:
    for mode in ("Enforce", "Observe"):
        blind = replace(DONE, pods_unseen="GET /api/v1/pods: 403 forbidden")
        found = status(of_pods(), blind, selected={"10.0.0.1"}, mode=mode)
        state, reason, message = said(found, "Ready")
        assert (state, reason) == ("False", "PodsUnknown")
        assert message == (
            "changes of pods cannot be watched: GET /api/v1/pods: 403 forbidden; brokers keep the limits of"
            " the 1 known addresses; check that the operator reaches the API server and has the right to list"
            " and watch pods and namespaces"
        )
        assert kstatus(document(found)) == "InProgress"
        assert (found.members, found.brokers, found.enforced_at) == (1, "3/3", None)
        assert said(found, "Enforced")[0] == ("Unknown" if mode == "Enforce" else "False")
    lagging = said(status(of_pods(), replace(blind, lagging=(1,)), selected={"10.0.0.1"}), "Ready")
    assert lagging[1] == "Applying"
    unknown = said(status(of_pods(), blind), "Ready")
    assert unknown[1] == "PodsUnknown"
    assert "403 forbidden; check that the operator" in unknown[2]


def test_an_observed_limit_is_in_force_and_enforces_nothing() -> None:
    counted = ObservedCounts(would_hold=7, by_count=7, brokers="3/3", at=NOW)
    found = status({"cidr": "10.0.0.0/8"}, Enforcement(expected=(0, 1, 2), observed=counted), mode="Observe")
    assert said(found, "Ready") == (
        "True",
        "Observing",
        "observed by all 3 brokers; no connection is delayed or rejected",
    )
    assert said(found, "Enforced")[:2] == ("False", "Observing")
    assert (found.effective, found.observed) == (None, counted)
    assert kstatus(document(found)) == "Current"


def test_a_limit_that_has_ended_as_asked_is_ready() -> None:
    found = status({"ip": "10.0.0.1"}, Enforcement(), expiresAt=(NOW - timedelta(seconds=1)).isoformat())
    assert said(found, "Ready")[:2] == ("True", "Expired")
    assert said(found, "Enforced")[:2] == ("False", "Expired")
    assert (found.effective, found.brokers, found.members) == (None, "", None)
    assert kstatus(document(found)) == "Current"


def document(status: ConnectionQuotaStatus) -> dict[str, Any]:
    return {"metadata": {"generation": 1}, "status": status.manifest()}
