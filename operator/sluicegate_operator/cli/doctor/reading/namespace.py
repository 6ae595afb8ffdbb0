"""Reads the objects of one namespace of Kubernetes for the checks: pods, policies, listeners, claims, registrations."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sluicegate_operator.cli.asking.brokers_asked import is_node
from sluicegate_operator.cli.doctor.checks.addresses import address_results, addresses_of
from sluicegate_operator.cli.doctor.checks.catalogue import FREE_SPACE, NETWORK_POLICIES, NODES, OBJECTS
from sluicegate_operator.cli.doctor.checks.clusters import cluster_results, release_results, with_registrations
from sluicegate_operator.cli.doctor.checks.network import ClusterPods, network_results
from sluicegate_operator.cli.doctor.checks.network_rules import PodSeen
from sluicegate_operator.cli.doctor.checks.objects import object_results
from sluicegate_operator.cli.doctor.checks.operator_runs import OperatorSeen
from sluicegate_operator.cli.doctor.checks.results import CheckResult, Unread
from sluicegate_operator.cli.doctor.checks.space import claims_space, space_results
from sluicegate_operator.cli.doctor.checks.volumes import class_names, is_claim_of_node, unread_nodes, volume_results
from sluicegate_operator.cli.doctor.reading.reads import STORAGE_CLASS, DoctorReads
from sluicegate_operator.cli.fleets.fleet_view import ShownCluster
from sluicegate_operator.cli.fleets.kubernetes_view import node_view
from sluicegate_operator.kube.cache.cached_object import cluster_of
from sluicegate_operator.kube.http.kinds import (
    BROKER_LISTENER,
    BROKER_REGISTRATION,
    NAMESPACE,
    NETWORK_POLICY,
    NODE,
    PERSISTENT_VOLUME_CLAIM,
    POD,
    USER_KINDS,
    Kind,
    kind_of,
)
from sluicegate_operator.planning.layout.cluster_layout import Role, role_of
from sluicegate_operator.resources.labels import CLUSTER_LABEL, MANAGED_BY_LABEL, MANAGER

Json = dict[str, Any]
Listed = Sequence[Json] | Unread
SUMMARIES_MAX = 50
"""Maximum number of kubelets whose statistics are read."""


@dataclass(frozen=True, slots=True)
class NamespaceSeen:
    """The objects of a namespace that were read. `kinds` has the objects of each kind that users write."""

    name: str
    labels: Mapping[str, str] | None
    pods: Listed
    policies: Listed
    claims: Listed
    registrations: Listed
    kinds: Mapping[Kind, Listed]

    def bodies(self, cluster: str | None) -> list[Json]:
        """Return the objects of one cluster, or of all clusters."""
        found = [body for ones in self.kinds.values() if not isinstance(ones, Unread) for body in ones]
        return [body for body in found if cluster in (None, cluster_of(kind_of(body), body))]


async def namespace_results(
    reads: DoctorReads,
    namespace: str,
    cluster: str | None,
    clusters: Sequence[ShownCluster] | Unread,
    operator: OperatorSeen | None,
    release: str | None,
) -> list[CheckResult]:
    """Return the results about the objects of a namespace, or about those of one cluster in it.

    `clusters` are those of the namespace as `status` shows them.
    """
    seen = await namespace_seen(reads, namespace, cluster)
    names = () if isinstance(clusters, Unread) else [one.name for one in clusters if one.nodes]
    bodies = seen.bodies(cluster)
    listeners = [body for body in bodies if body["kind"] == BROKER_LISTENER.kind]
    claims: Sequence[Json] = () if isinstance(seen.claims, Unread) else seen.claims
    classes, attempts, summaries = await asyncio.gather(
        reads.get_all(STORAGE_CLASS, class_names(claims)),
        reads.connect(addresses_of(listeners)),
        _summaries(reads, seen, claims),
    )
    return [
        *_shown(seen, clusters),
        *release_results({name: _releases(seen.registrations, name) for name in names}, release),
        *_network(seen, names, listeners, operator),
        *address_results(attempts),
        *volume_results(seen.claims, classes),
        *_space(seen, claims, summaries),
        *_objects(seen, bodies),
    ]


async def namespace_seen(reads: DoctorReads, namespace: str, cluster: str | None) -> NamespaceSeen:
    of_cluster = CLUSTER_LABEL + (f"={cluster}" if cluster is not None else "")
    own, (pods, policies, claims, registrations, *kinds) = await asyncio.gather(
        reads.get(NAMESPACE, None, namespace), _listed(reads, namespace, of_cluster)
    )
    labels = None if own is None or isinstance(own, Unread) else own["metadata"].get("labels") or {}
    nodes = pods if isinstance(pods, Unread) else [pod for pod in pods if is_node(pod)]
    volumes = claims if isinstance(claims, Unread) else [claim for claim in claims if is_claim_of_node(claim)]
    return NamespaceSeen(
        namespace, labels, nodes, policies, volumes, registrations, dict(zip(USER_KINDS, kinds, strict=True))
    )


async def _listed(reads: DoctorReads, namespace: str, of_cluster: str) -> Sequence[Listed]:
    return await asyncio.gather(
        reads.list(POD, namespace, f"{of_cluster},{MANAGED_BY_LABEL}={MANAGER}"),
        reads.list(NETWORK_POLICY, namespace),
        reads.list(PERSISTENT_VOLUME_CLAIM, namespace, of_cluster),
        reads.list(BROKER_REGISTRATION, namespace),
        *(reads.list(kind, namespace) for kind in USER_KINDS),
    )


def _shown(seen: NamespaceSeen, clusters: Sequence[ShownCluster] | Unread) -> Iterator[CheckResult]:
    if isinstance(clusters, Unread):
        yield NODES.skipped(f"the clusters of namespace {seen.name} cannot be read: {clusters.why}")
    elif not clusters:
        yield NODES.skipped(f"namespace {seen.name} has no BrokerCluster; -n NAMESPACE names another one")
    else:
        registrations = () if isinstance(seen.registrations, Unread) else seen.registrations
        pods = () if isinstance(seen.pods, Unread) else seen.pods
        ready = {pod["metadata"]["name"] for pod in pods if node_view(pod, {}).problem is None}
        yield from cluster_results([with_registrations(one, registrations) for one in clusters], ready)


def _releases(registrations: Listed, cluster: str) -> Mapping[int, str] | Unread:
    if isinstance(registrations, Unread):
        return registrations
    return {
        body["spec"]["brokerId"]: version
        for body in registrations
        if body["spec"]["clusterRef"]["name"] == cluster and (version := (body.get("status") or {}).get("version"))
    }


def _network(
    seen: NamespaceSeen, clusters: Sequence[str], listeners: Sequence[Json], operator: OperatorSeen | None
) -> Iterator[CheckResult]:
    for what in (seen.policies, seen.pods):
        if isinstance(what, Unread):
            yield NETWORK_POLICIES.skipped(f"policies or pods of namespace {seen.name} cannot be listed: {what.why}")
            return
    assert not isinstance(seen.policies, Unread)
    for cluster in clusters:
        yield from network_results(seen.policies, _cluster_pods(seen, cluster, listeners, operator))


def _cluster_pods(
    seen: NamespaceSeen, cluster: str, listeners: Sequence[Json], operator: OperatorSeen | None
) -> ClusterPods:
    assert not isinstance(seen.pods, Unread)
    pods = [pod for pod in seen.pods if pod["metadata"]["labels"][CLUSTER_LABEL] == cluster]
    return ClusterPods(
        cluster,
        [_pod(seen, pod) for pod in pods if role_of(pod) is Role.BROKER],
        [_pod(seen, pod) for pod in pods if role_of(pod) is Role.CONTROLLER],
        {
            body["spec"]["name"]: body["spec"]["port"]
            for body in listeners
            if body["spec"]["clusterRef"]["name"] == cluster
        },
        None
        if operator is None
        else PodSeen(
            operator.name,
            operator.namespace,
            operator.pod_labels,
            seen.labels if operator.namespace == seen.name else None,
        ),
    )


def _pod(seen: NamespaceSeen, pod: Json) -> PodSeen:
    containers = (pod.get("spec") or {}).get("containers") or ()
    ports = {
        port["name"]: port["containerPort"]
        for container in containers
        for port in container.get("ports") or ()
        if "name" in port
    }
    return PodSeen(pod["metadata"]["name"], seen.name, pod["metadata"]["labels"], seen.labels, ports)


async def _summaries(reads: DoctorReads, seen: NamespaceSeen, claims: Sequence[Json]) -> Mapping[str, Json | Unread]:
    """Return the statistics of the kubelets that run the nodes' pods, by Kubernetes node."""
    if not claims or isinstance(seen.pods, Unread):
        return {}
    names = sorted({name for pod in seen.pods if (name := (pod.get("spec") or {}).get("nodeName"))})[:SUMMARIES_MAX]

    async def one(name: str) -> Json | Unread:
        path = f"{NODE.path(None, name)}/proxy/stats/summary"
        found = await reads.read(lambda: reads.kube.read(path))
        return Unread(f"{name} has no statistics") if found is None else found

    return dict(zip(names, await asyncio.gather(*map(one, names)), strict=True))


def _space(
    seen: NamespaceSeen, claims: Sequence[Json], summaries: Mapping[str, Json | Unread]
) -> Iterator[CheckResult]:
    names = {claim["metadata"]["name"] for claim in claims}
    yield from space_results(claims_space(list(summaries.values()), seen.name, names))
    if why := unread_nodes(summaries):
        yield FREE_SPACE.skipped(f"free space of volumes on {why}")


def _objects(seen: NamespaceSeen, bodies: Sequence[Json]) -> Iterator[CheckResult]:
    yield from object_results(bodies)
    for kind, ones in seen.kinds.items():
        if isinstance(ones, Unread):
            yield OBJECTS.skipped(f"{kind.plural} cannot be listed: {ones.why}")
