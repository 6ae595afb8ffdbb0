"""The places in object stores where BrokerClusters land and AuditPipelines build, as the API server shows them now."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from http import HTTPStatus

from sluicegate_operator.api.models.audit_pipeline import AuditPipeline
from sluicegate_operator.api.models.broker_cluster import BrokerCluster
from sluicegate_operator.kube.cache.cached_object import Json, UnreadableObject
from sluicegate_operator.kube.client.client import KubeClient
from sluicegate_operator.kube.http.errors import NOT_SERVED, KubeError, LandingTakenError
from sluicegate_operator.kube.http.kinds import AUDIT_PIPELINE, BROKER_CLUSTER, POD, STATEFUL_SET
from sluicegate_operator.planning.layout.audit_places import Lander, Results, why_landing_taken
from sluicegate_operator.planning.layout.cluster_layout import Role
from sluicegate_operator.resources.labels import CLUSTER_LABEL, labels, node_set_name
from sluicegate_operator.resources.nodes.lander import landing_uri_of_pod
from sluicegate_operator.resources.owner import controller_of, why_not_ours


@dataclass(slots=True)
class LandingPlaces:
    """Prevents a cluster from landing its audit log where pods of another cluster land theirs."""

    _kube: KubeClient
    _coming: dict[tuple[str, str], Lander] = field(default_factory=dict)
    """Landers of clusters whose children are being applied, which the cache does not show yet."""

    @asynccontextmanager
    async def held_for(self, cluster: BrokerCluster) -> AsyncIterator[None]:
        """Keep the place of the cluster's landing until its children are applied.

        Raises LandingTakenError if the cluster must not land there, and KubeError if that is not known.
        """
        if cluster.spec.landing is None or (uri := cluster.spec.landing.uri) is None:
            yield
            return
        clusters = await self._kube.cache.everywhere(BROKER_CLUSTER, BrokerCluster)
        results = await results_of_all(self._kube)
        landers = {*await landers_of_all(self._kube), *self._coming.values()}
        if why := why_landing_taken(cluster, clusters, results, sorted(landers, key=repr)):
            raise LandingTakenError(why)
        key = (cluster.namespace, cluster.name)
        self._coming[key] = Lander(*key, uri)
        try:
            yield
        finally:
            del self._coming[key]


async def landers_of_all(kube: KubeClient) -> set[Lander]:
    """Return the landers of all clusters: those of pods, and those of StatefulSets for the next pods.

    Only StatefulSets that the operator made and their pods count: any user may create a pod that has the label of a
    cluster and a container with the lander's name. Raises KubeError.
    """
    found = set()
    for body in await kube.cache.of_kind(STATEFUL_SET):
        assert isinstance(body, dict), "a document"
        template = (body.get("spec") or {}).get("template") or {}
        uri = landing_uri_of_pod(template.get("spec") or {})
        if uri is not None and _is_of_operator(body, _cluster(body)):
            found.add(Lander(body["metadata"]["namespace"], _cluster(body), uri))
    for body in await kube.cache.of_kind(POD):
        assert isinstance(body, dict), "a document"
        uri = landing_uri_of_pod(body.get("spec") or {})
        if uri is not None and not _has_ended(body) and await _is_broker(kube, body):
            found.add(Lander(body["metadata"]["namespace"], _cluster(body), uri))
    return found


def _cluster(body: Json) -> str:
    """Return the name of the cluster; the cache has only objects with its label."""
    return str(body["metadata"]["labels"][CLUSTER_LABEL])


async def _is_broker(kube: KubeClient, pod: Json) -> bool:
    """Return whether the pod belongs to a StatefulSet of brokers that the operator made.

    A StatefulSet is deleted before its pods, which land until they end. Kubernetes deletes any pod whose StatefulSet is
    gone, so such pods count too. Raises KubeError.
    """
    name = node_set_name(_cluster(pod), Role.BROKER)
    if controller_of(pod) != ("apps", STATEFUL_SET.kind, name):
        return False
    namespace = pod["metadata"]["namespace"]
    # The cache lacks StatefulSets without the label, and those of a moment ago.
    node_set = await kube.cache.get(STATEFUL_SET, namespace, name) or await kube.get(STATEFUL_SET, namespace, name)
    return node_set is None or _is_of_operator(node_set, _cluster(pod))


def _is_of_operator(node_set: Json, cluster: str) -> bool:
    """Return whether the operator made the StatefulSet for a BrokerCluster of that name, which may be gone."""
    owner = {"apiVersion": BROKER_CLUSTER.api_version, "kind": BROKER_CLUSTER.kind, "name": cluster, "uid": ""}
    wanted = {"labels": labels(cluster, Role.BROKER), "ownerReferences": [{**owner, "controller": True}]}
    is_named = node_set["metadata"]["name"] == node_set_name(cluster, Role.BROKER)
    return is_named and not why_not_ours(node_set, {"metadata": wanted})


async def results_of_all(kube: KubeClient) -> list[Results]:
    """Return the places for results of all AuditPipelines. Raises KubeError.

    There are none if the API server does not serve the kind, or does not let the operator list objects of the kind.
    """
    try:
        values = await kube.cache.of_kind(AUDIT_PIPELINE)
    except KubeError as error:
        if error.retriable or error.status not in (NOT_SERVED, HTTPStatus.FORBIDDEN):
            raise
        return []
    return [results for value in values if (results := results_at(value)) is not None]


def results_at(value: object) -> Results | None:
    """Return the place for results of an AuditPipeline in the cache, readable or not.

    None for any other object, and for results on a claim.
    """
    if isinstance(value, AuditPipeline):
        return Results.of(value)
    return Results.of_unreadable(value.body) if isinstance(value, UnreadableObject) else None


def _has_ended(body: Json) -> bool:
    return (body.get("status") or {}).get("phase") in ("Succeeded", "Failed")
