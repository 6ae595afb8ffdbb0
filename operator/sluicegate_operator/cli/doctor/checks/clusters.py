"""Judge nodes, controllers, brokers and releases of clusters, as `sluicegate status` reads them. Pure."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from sluicegate_operator.cli.doctor.checks.catalogue import BROKERS, CONTROLLER, NODES, RELEASES
from sluicegate_operator.cli.doctor.checks.results import CheckResult, Unread, listed
from sluicegate_operator.cli.fleets.fleet_view import BrokerRow, ShownCluster

DENIED = ": 403 "
"""Part of the API server's message for a request that the user has no right to."""
ONLINE, STOPPING = "Online", "Stopping"
OF_SLUICEGATE = "-sluicegate"
"""The end of a release that brokers report, which distinguishes it from one of Apache Kafka."""


def cluster_results(
    clusters: Sequence[ShownCluster], ready_pods: Collection[str] = frozenset()
) -> Iterator[CheckResult]:
    """Yield the results about nodes, then those about controllers, then those about brokers.

    A cluster without nodes has runtime External, or its BrokerCluster says why there are none. `ready_pods`: the pods
    that Kubernetes reports as Ready, whether they answer this user or not.
    """
    bundled = [cluster for cluster in clusters if cluster.nodes]
    for cluster in bundled:
        yield from _nodes(cluster, ready_pods)
    for cluster in bundled:
        yield _controller(cluster)
    for cluster in bundled:
        yield from _brokers(cluster)


def _nodes(cluster: ShownCluster, ready_pods: Collection[str]) -> Iterator[CheckResult]:
    unasked = []
    for node in cluster.nodes:
        name = f"{node.role} {node.id} of {cluster.name}"
        if node.problem is None:
            continue
        if node.pod is None:
            yield NODES.problem(f"{name} is not ready: {node.problem}")
        elif node.pod not in ready_pods:
            yield NODES.problem(f"{name} (pod {node.pod}) is not ready: {node.problem}")
        elif DENIED in node.problem:
            unasked.append(node)
        else:
            yield NODES.problem(
                f"{name} (pod {node.pod}) is ready, and the API server has no answer of it: {node.problem}",
                "check the network from the API server to the pod's port 9404, and `kubectl logs POD`",
            )
    ready = sum(node.problem is None for node in cluster.nodes) + len(unasked)
    if ready:
        yield NODES.ok(f"{ready} of {len(cluster.nodes)} nodes of {cluster.name} are ready")
    if unasked:
        pods = listed(node.pod for node in unasked)
        yield NODES.skipped(f"{pods}: you may not ask these nodes: {unasked[0].problem}")


def _controller(cluster: ShownCluster) -> CheckResult:
    if not cluster.unseen:
        return CONTROLLER.ok(f"the active controller of {cluster.name} answers")
    if DENIED in cluster.unseen:
        return CONTROLLER.skipped(f"you may not ask the controllers of {cluster.name}: {cluster.unseen}")
    return CONTROLLER.problem(f"no view of the controller of {cluster.name}: {cluster.unseen}")


def with_registrations(cluster: ShownCluster, registrations: Sequence[Mapping[str, Any]]) -> ShownCluster:
    """Return the cluster with the brokers of its BrokerRegistrations if the controllers gave no view of them."""
    if not cluster.unseen:
        return cluster
    found = [body for body in registrations if body["spec"]["clusterRef"]["name"] == cluster.name]
    return replace(cluster, brokers=tuple(row for body in found if (row := _registered(body)) is not None))


def _registered(body: Mapping[str, Any]) -> BrokerRow | None:
    status = body.get("status") or {}
    if not status.get("state"):
        return None
    return BrokerRow(
        id=body["spec"]["brokerId"],
        state=status["state"],
        epoch=status.get("brokerEpoch") or 0,
        heartbeat_age_s=status.get("lastHeartbeatAgeSeconds"),
        leaders=status.get("leaders") or 0,
        replicas=status.get("replicas") or 0,
        out_of_sync=status.get("outOfSync") or 0,
        metadata_lag=status.get("metadataLag"),
        pid=None,
        address=None,
    )


def _brokers(cluster: ShownCluster) -> Iterator[CheckResult]:
    good: list[BrokerRow] = []
    for broker in cluster.brokers:
        name = f"broker {broker.id} of {cluster.name}"
        if broker.state not in (ONLINE, STOPPING):
            yield BROKERS.problem(f"{name} is {broker.state}: it serves no clients")
        elif broker.state == STOPPING:
            yield BROKERS.warning(f"{name} is Stopping: its leaders move to other brokers")
        elif broker.out_of_sync:
            yield BROKERS.warning(f"{broker.out_of_sync} of {broker.replicas} replicas of {name} are out of sync")
        else:
            good.append(broker)
    if good:
        yield BROKERS.ok(f"{len(good)} of {len(cluster.brokers)} brokers of {cluster.name} are Online and in sync")


def release_results(releases: Mapping[str, Mapping[int, str] | Unread], own: str | None) -> Iterator[CheckResult]:
    """Yield a result for each cluster. `releases`: the release by broker id, by cluster. `own`: that of the command."""
    for cluster, found in sorted(releases.items()):
        if isinstance(found, Unread):
            yield RELEASES.skipped(f"the releases of the brokers of {cluster} are unknown: {found.why}")
            continue
        by_release: dict[str, list[int]] = {}
        for broker_id, release in sorted(found.items()):
            by_release.setdefault(release.removesuffix(OF_SLUICEGATE), []).append(broker_id)
        shown = "; ".join(f"{release}: broker {listed(ids)}" for release, ids in sorted(by_release.items()))
        if not by_release:
            yield RELEASES.skipped(f"no broker of {cluster} has reported its release")
        elif len(by_release) > 1:
            yield RELEASES.warning(f"the brokers of {cluster} have several releases: {shown}")
        elif own is not None and own not in by_release:
            yield RELEASES.warning(
                f"the brokers of {cluster} have release {next(iter(by_release))}, this command {own}"
            )
        else:
            yield RELEASES.ok(f"the brokers of {cluster} have release {next(iter(by_release))}")
