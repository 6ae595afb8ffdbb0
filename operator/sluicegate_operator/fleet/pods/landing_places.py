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
from sluicegate_operator.resources.labels import CLUSTER_LABEL
from sluicegate_operator.resources.lander import landing_uri_of_pod


@dataclass(slots=True)
class LandingPlaces:
    """Lets no cluster land where pods of another cluster land."""

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

    Raises KubeError.
    """
    found = set()
    for kind in (POD, STATEFUL_SET):
        for body in await kube.cache.of_kind(kind):
            assert isinstance(body, dict), "a document"
            spec = body.get("spec") or {}
            if kind is STATEFUL_SET:
                spec = (spec.get("template") or {}).get("spec") or {}
            uri = landing_uri_of_pod(spec)
            if uri is not None and not _has_ended(body):
                meta = body["metadata"]
                found.add(Lander(meta["namespace"], meta["labels"][CLUSTER_LABEL], uri))
    return found


async def results_of_all(kube: KubeClient) -> list[Results]:
    """Return the places for results of all AuditPipelines. Raises KubeError.

    There are none if the API server does not serve the kind, or does not let the operator list it.
    """
    try:
        values = await kube.cache.of_kind(AUDIT_PIPELINE)
    except KubeError as error:
        if error.retriable or error.status not in (NOT_SERVED, HTTPStatus.FORBIDDEN):
            raise
        return []
    return [results for value in values if (results := results_at(value)) is not None]


def results_at(value: object) -> Results | None:
    """Return the place for results of an AuditPipeline as the cache has it, readable or not.

    None for any other object, and for results on a claim.
    """
    if isinstance(value, AuditPipeline):
        return Results.of(value)
    return Results.of_unreadable(value.body) if isinstance(value, UnreadableObject) else None


def _has_ended(body: Json) -> bool:
    return (body.get("status") or {}).get("phase") in ("Succeeded", "Failed")
