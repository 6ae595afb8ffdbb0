"""Judge nodes, controllers, brokers and releases of clusters, as `sluicegate status` reads them. Pure."""

from collections.abc import Iterator, Mapping, Sequence

from sluicegate_operator.cli.doctor.checks.catalogue import BROKERS, CONTROLLER, NODES, RELEASES
from sluicegate_operator.cli.doctor.checks.results import CheckResult, Unread, listed
from sluicegate_operator.cli.fleets.fleet_view import BrokerRow, ShownCluster

ONLINE, STOPPING = "Online", "Stopping"
OF_SLUICEGATE = "-sluicegate"
"""The end of a release that brokers report, which distinguishes it from one of Apache Kafka."""


def cluster_results(clusters: Sequence[ShownCluster]) -> Iterator[CheckResult]:
    """Yield the results about nodes, then those about controllers, then those about brokers.

    A cluster without nodes has runtime External, or its BrokerCluster says why there are none.
    """
    bundled = [cluster for cluster in clusters if cluster.nodes]
    for cluster in bundled:
        yield from _nodes(cluster)
    for cluster in bundled:
        if cluster.unseen:
            yield CONTROLLER.problem(f"no view of the controller of {cluster.name}: {cluster.unseen}")
        else:
            yield CONTROLLER.ok(f"the active controller of {cluster.name} lists {len(cluster.brokers)} brokers")
    for cluster in bundled:
        if not cluster.unseen:
            yield from _brokers(cluster)


def _nodes(cluster: ShownCluster) -> Iterator[CheckResult]:
    for node in cluster.nodes:
        if node.problem is not None:
            where = f" (pod {node.pod})" if node.pod is not None else ""
            yield NODES.problem(f"{node.role} {node.id} of {cluster.name}{where} is not ready: {node.problem}")
    ready = sum(node.problem is None for node in cluster.nodes)
    if ready:
        yield NODES.ok(f"{ready} of {len(cluster.nodes)} nodes of {cluster.name} are ready")


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
