"""The state that all reconcilers of one operator share, and how they write statuses and Events."""

import asyncio
import base64
import logging
import random
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from sluicegate_operator.api.models.broker_cluster import BrokerCluster
from sluicegate_operator.api.queues import Queue
from sluicegate_operator.api.schema.metadata import Resource, Status
from sluicegate_operator.engine.context.context import (
    REMEMBERED_FIELDS,
    STATUS_WRITERS_MAX,
    EventType,
    Found,
    StoredSecret,
    now,
    reference,
)
from sluicegate_operator.engine.context.shared_context import SharedContext
from sluicegate_operator.engine.context.snapshot import ClusterKey, Snapshot, Unreadable
from sluicegate_operator.fleet.kubernetes.kubernetes import KubernetesFleet
from sluicegate_operator.handlers.following import Followers
from sluicegate_operator.handlers.process.term_metrics import TermMetrics
from sluicegate_operator.handlers.snapshot import gather_snapshot
from sluicegate_operator.kube.cache.cached_object import UnreadableObject
from sluicegate_operator.kube.cache.undeclared import without_fields
from sluicegate_operator.kube.client.children import name_taken
from sluicegate_operator.kube.client.client import CONFIG_STATUS_MANAGER, LIMITS_STATUS_MANAGER, KubeClient
from sluicegate_operator.kube.client.events import EventRecorder
from sluicegate_operator.kube.client.one_by_one import Refusals
from sluicegate_operator.kube.http.errors import KubeError
from sluicegate_operator.kube.http.kinds import BROKER_CLUSTER, SECRET, Kind, kind_of
from sluicegate_operator.planning.external.external_status import Sibling
from sluicegate_operator.planning.status.conditions import STALLED
from sluicegate_operator.planning.status.unreadable import conditions_of, unreadable_status
from sluicegate_operator.quotas.external_limits import LIMITS_SET
from sluicegate_operator.resources.owner import why_not_ours
from sluicegate_operator.settings import Settings

log = logging.getLogger(__name__)

Departed = dict[ClusterKey, dict[str, BrokerCluster | UnreadableObject]]
"""The last versions of deleted BrokerClusters by key and uid, until their deleteClaims is carried out."""


class Context(SharedContext[KubernetesFleet]):
    """The shared state of one term of leadership."""

    def __init__(self, kube: KubeClient, settings: Settings, may_write: Callable[[], bool] = lambda: True) -> None:
        """`may_write` returns whether the Lease is held at this moment; `kube` checks it too."""
        super().__init__(
            KubernetesFleet(kube, settings.own_namespace, settings.images),
            self._clusters,
            may_write,
            self.read_secret,
        )
        self.kube = kube
        self.may_write = may_write
        self.settings = settings
        self.events = EventRecorder(kube)
        self.figures = TermMetrics()
        self.departed: Departed = {}
        self.ending: dict[ClusterKey, str] = {}
        """Clusters whose namespace is being deleted, with their uids; see handlers.reconcilers.ending_namespaces."""
        self.followers = Followers(lambda key: self.mark(Queue.REGISTRATIONS, key), settings.view_every_s)
        self._status_slots = asyncio.Semaphore(STATUS_WRITERS_MAX)

    def _clusters(self) -> Iterable[Sibling]:
        for cached in self.kube.cache.informers()[BROKER_CLUSTER].store.values():
            if isinstance(cached.value, BrokerCluster):
                yield cached.value
            elif isinstance(cached.value, UnreadableObject):
                yield cached.value.body

    async def read_secret(self, namespace: str, name: str) -> Mapping[str, bytes] | None:
        found = await self.kube.get(SECRET, namespace, name)
        return None if found is None else stored_secret(found).data

    async def find_secret(self, child: Mapping[str, Any]) -> StoredSecret | None:
        found = await self.kube.get(SECRET, child["metadata"]["namespace"], child["metadata"]["name"])
        if found is None:
            return None
        if why := why_not_ours(found, child):
            raise name_taken(child, found, why)
        return stored_secret(found)

    async def apply_secret(self, manifest: Mapping[str, Any]) -> StoredSecret:
        return stored_secret(await self.kube.apply(manifest))

    async def gather(self, key: ClusterKey, kinds: Collection[Kind], *, fresh: bool = False) -> Snapshot:
        return await gather_snapshot(self.kube, key, kinds, fresh=fresh)

    async def write_status(self, resource: Found, status: Status, *, without: Collection[str] = ()) -> Found | None:
        old: Status = resource.status
        manifest, before = ({k: v for k, v in s.manifest().items() if k not in without} for s in (status, old))
        if manifest == before:
            return None
        kind, uid = api_kind(resource), resource.metadata.uid
        undeclared = self.kube.undeclared.of(kind.crd)
        if undeclared and without_fields(manifest, undeclared) == without_fields(before, undeclared):
            return None
        async with self._status_slots:
            cached = await self.kube.apply_status(kind, resource.namespace, resource.name, manifest, uid=uid)
        written = resource.model_copy(update={"status": status})
        known = cached.value if cached is not None else None
        if not isinstance(known, type(resource)) or known.spec_version != resource.spec_version:
            return written
        # A cached object saves memory when thousands are written at once. Status changes of another client are ignored.
        return known if known.status == written.status else written

    async def report_unreadable(self, unreadable: Iterable[Unreadable], refusals: Refusals) -> None:
        """Report unreadable objects as Stalled in their statuses, with a Warning when that begins.

        Other fields of a status stay. `refusals` keeps refusals that may pass, so that no object waits for another's
        status.
        """
        for found in unreadable:
            with refusals.kept():
                await self._report_unreadable(found)

    async def _report_unreadable(self, found: Unreadable) -> None:
        status = unreadable_status(found.body, found.why, now(), found.reason)
        if status == found.body.get("status"):
            return
        meta = found.body["metadata"]
        if self.is_news(str(found), "unreadable", meta["uid"]):
            log.error("%s", found)
        own = {key: value for key, value in status.items() if key not in REMEMBERED_FIELDS}
        try:
            await self.kube.apply_status(found.kind, meta["namespace"], meta["name"], own, uid=meta["uid"])
        except KubeError as error:
            if error.retriable:
                raise
            if self.is_news(str(error), "status of unreadable", meta["uid"]):
                log.warning("the API server refused the status of %s: %s", found.name, error)
        message = next(one["message"] for one in status["conditions"] if one["type"] == STALLED)
        if message not in [one.get("message") for one in conditions_of(found.body)]:
            await self.events.record(found.body, "Warning", found.reason, message)

    async def post(self, resource: Resource, type_: EventType, reason: str, message: str) -> None:
        if resource.namespace not in {namespace for namespace, _ in self.ending}:
            await self.events.record(reference(resource), type_, reason, message)

    async def remember(self, resource: Resource, fields: Mapping[str, Any]) -> None:
        kind, namespace, name = api_kind(resource), resource.namespace, resource.name
        manager = LIMITS_STATUS_MANAGER if LIMITS_SET in fields else CONFIG_STATUS_MANAGER
        await self.kube.apply_status(kind, namespace, name, fields, manager=manager, uid=resource.metadata.uid)

    async def set_finalizers(self, body: Mapping[str, Any], finalizers: Sequence[str]) -> None:
        meta = body["metadata"]
        seen = {"uid": meta["uid"], "resourceVersion": meta["resourceVersion"]}
        fields = {"finalizers": list(finalizers)}
        await self.kube.patch_metadata(kind_of(body), meta["namespace"], meta["name"], fields, seen)

    def resync_s(self, cluster: BrokerCluster) -> float:
        """Return the seconds until the next resync, randomized so that many clusters do not resync at once."""
        seconds = self.settings.resync_s or cluster.spec.resync_seconds
        return seconds * random.uniform(0.9, 1.1)

    async def aclose(self) -> None:
        await self.followers.close()
        await super().aclose()


def stored_secret(body: Mapping[str, Any]) -> StoredSecret:
    meta = body["metadata"]
    data = {key: base64.b64decode(value) for key, value in (body.get("data") or {}).items()}
    version = f"{meta.get('uid', '')}/{meta.get('resourceVersion', '')}"
    owner = next((str(one["uid"]) for one in meta.get("ownerReferences") or () if one.get("controller")), "")
    return StoredSecret(data, version, meta.get("annotations") or {}, owner)


def api_kind(resource: Resource) -> Kind:
    return kind_of({"apiVersion": resource.api_version, "kind": type(resource).__name__})
