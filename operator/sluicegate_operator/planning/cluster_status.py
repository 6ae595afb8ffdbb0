"""The status of a BrokerCluster and of its BrokerListeners, from the nodes that were seen."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sluicegate_operator.api.broker_cluster import BrokerCluster, BrokerClusterStatus
from sluicegate_operator.api.broker_listener import BrokerListener, BrokerListenerStatus
from sluicegate_operator.planning.cluster_layout import ClusterLayout
from sluicegate_operator.planning.conditions import (
    Finding,
    Progress,
    conditions,
    observed_generation,
    ready,
    stalled,
    working,
)

ADDRESSES_MAX = 100


@dataclass(frozen=True, slots=True)
class ObservedCluster:
    """`error` is why the cluster could not be looked at or its children not be applied; empty when all went well.
    `rolling` is how many brokers still run an older configuration."""

    brokers_expected: int
    brokers_ready: int
    controllers_expected: int = 0
    controllers_ready: int = 0
    rolling: int = 0
    cluster_id: str = ""
    controller_id: int = -1
    error: str = ""


def cluster_status(cluster: BrokerCluster, seen: ObservedCluster, now: datetime) -> BrokerClusterStatus:
    old = cluster.status
    progress = _cluster_progress(cluster, seen)
    brokers = f"{seen.brokers_ready}/{seen.brokers_expected}"
    own = (
        Finding("BrokersReady", _all(seen.brokers_ready, seen.brokers_expected), "Counted", brokers),
        Finding(
            "ControllersReady",
            seen.controllers_ready >= seen.controllers_expected,
            "Counted",
            f"{seen.controllers_ready}/{seen.controllers_expected}",
        ),
    )
    return BrokerClusterStatus(
        observed_generation=observed_generation(cluster, old, progress),
        conditions=conditions(cluster, old, (*progress.findings, *own), now),
        brokers=brokers,
        ready_brokers=seen.brokers_ready,
        cluster_id=seen.cluster_id or old.cluster_id,
        controller_id=seen.controller_id,
    )


def _all(ready_nodes: int, expected: int) -> bool:
    return expected > 0 and ready_nodes >= expected


def _cluster_progress(cluster: BrokerCluster, seen: ObservedCluster) -> Progress:
    if cluster.spec.paused:
        return stalled("Paused", "spec.paused is true: nothing is changed until it is false")
    if seen.error:
        return working("Failed", seen.error)
    if seen.controllers_ready < seen.controllers_expected:
        return working("ControllersStarting", f"{seen.controllers_ready}/{seen.controllers_expected} controllers ready")
    if not _all(seen.brokers_ready, seen.brokers_expected):
        return working("BrokersStarting", f"{seen.brokers_ready}/{seen.brokers_expected} brokers ready")
    if seen.rolling:
        return working("Rolling", f"{seen.rolling} brokers still run the older configuration")
    return ready("Running", f"{seen.brokers_ready}/{seen.brokers_expected} brokers ready")


def listener_status(
    listener: BrokerListener, layout: ClusterLayout | None, addresses: Sequence[str], now: datetime
) -> BrokerListenerStatus:
    """`addresses` are host:port of this listener on brokers that are ready; without a layout the cluster is missing."""
    old = listener.status
    progress = _listener_progress(listener, layout, addresses)
    host = f"{listener.name}.{listener.namespace}.svc:{listener.spec.port}" if progress.settled and addresses else ""
    return BrokerListenerStatus(
        observed_generation=observed_generation(listener, old, progress),
        conditions=conditions(listener, old, progress.findings, now),
        addresses=tuple(sorted(addresses))[:ADDRESSES_MAX],
        bootstrap=host,
    )


def _listener_progress(listener: BrokerListener, layout: ClusterLayout | None, addresses: Sequence[str]) -> Progress:
    if layout is None:
        name = listener.spec.cluster_ref.name
        return stalled(
            "ClusterMissing",
            f"there is no bundled BrokerCluster {name} in namespace {listener.namespace}; create it or correct"
            " clusterRef",
        )
    clash = next((clash for clash in layout.clashes if clash.resource == listener.name), None)
    if clash is not None:
        return stalled("Conflicted", clash.message)
    if len(addresses) < len(layout.broker_ids):
        return working("BrokersStarting", f"open on {len(addresses)}/{len(layout.broker_ids)} brokers")
    return ready("Listening", f"open on {len(addresses)}/{len(layout.broker_ids)} brokers")
