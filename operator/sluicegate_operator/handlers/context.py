"""What all reconcilers of one operator share, and how they write down what they found."""

import asyncio
import logging
import random
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from typing import Any

from sluicegate_operator.api.broker_cluster import BrokerCluster
from sluicegate_operator.api.metadata import Resource, Status
from sluicegate_operator.engine.context import (
    REMEMBERED_FIELDS,
    STATUS_WRITERS_MAX,
    EventType,
    Found,
    now,
    reference,
)
from sluicegate_operator.engine.external_limits import LIMITS_SET
from sluicegate_operator.engine.first_seen import FirstSeen
from sluicegate_operator.engine.pools import Pools
from sluicegate_operator.engine.progress import Progresses
from sluicegate_operator.engine.said import Said
from sluicegate_operator.engine.snapshot import ClusterKey, Snapshot, Unreadable
from sluicegate_operator.fleet.asking import BrokerPool
from sluicegate_operator.fleet.base import BrokerAddress
from sluicegate_operator.fleet.external import ExternalFleet
from sluicegate_operator.fleet.kubernetes import AppliedNodes, KubernetesFleet
from sluicegate_operator.fleet.pods import NodePod
from sluicegate_operator.handlers.following import Followers
from sluicegate_operator.handlers.snapshot import gather_snapshot
from sluicegate_operator.handlers.term_figures import TermFigures
from sluicegate_operator.kube.client import CONFIG_STATUS_MANAGER, LIMITS_STATUS_MANAGER, KubeClient
from sluicegate_operator.kube.errors import KubeError
from sluicegate_operator.kube.events import EventRecorder
from sluicegate_operator.kube.held import Misread
from sluicegate_operator.kube.kinds import BROKER_CLUSTER, Kind, kind_of
from sluicegate_operator.planning.conditions import STALLED
from sluicegate_operator.planning.racks import RackPod
from sluicegate_operator.planning.unreadable import UNREADABLE, unreadable_status
from sluicegate_operator.settings import Settings

log = logging.getLogger(__name__)

RESYNCS_A_LOOK = 5
"""Limits, configuration and topics are looked at at each resync, for nobody tells of them; the rest this much less
often."""


class Context:
    """Lives as long as this operator leads."""

    def __init__(self, kube: KubeClient, settings: Settings, may_write: Callable[[], bool] = lambda: True) -> None:
        """`may_write`: whether the Lease is held in this moment; `kube` asks it as well."""
        self.kube = kube
        self.may_write = may_write
        self.settings = settings
        self.fleet = KubernetesFleet(kube, settings.own_namespace, settings.images)
        self.external = ExternalFleet(may_write, self._clusters)
        self.events = EventRecorder(kube)
        self.first_seen = FirstSeen()
        self.figures = TermFigures()
        self.departed: dict[ClusterKey, BrokerCluster | Misread] = {}
        """The last word of BrokerClusters that were deleted, until what it says of their claims is done."""
        self.ending: dict[ClusterKey, str] = {}
        """Clusters whose namespace is being deleted, with their uids; see handlers.ending_namespaces."""
        self.progress = Progresses()
        self._said: Said[tuple[Hashable, ...]] = Said()
        self.mark: Callable[[str, ClusterKey], None] = _nobody_to_tell
        """Puts a cluster into another queue, by the queue's name; set where the queues are made."""
        self.is_due: Callable[[str, ClusterKey], bool] = _nobody_waits
        """Whether a cluster is to be looked at again by that queue, for something that has happened meanwhile."""
        self.followers = Followers(lambda key: self.mark("registrations", key), settings.view_every_s)
        self._status_slots = asyncio.Semaphore(STATUS_WRITERS_MAX)
        self._pools = Pools(self.may_write)

    def _clusters(self) -> Iterable[BrokerCluster]:
        known = self.kube.cache.informers()[BROKER_CLUSTER].store.values()
        return [held.value for held in known if isinstance(held.value, BrokerCluster)]

    async def gather(self, key: ClusterKey, kinds: Collection[Kind]) -> Snapshot:
        return await gather_snapshot(self.kube, key, kinds)

    async def pool(self, cluster: BrokerCluster) -> BrokerPool | None:
        """The brokers that have an address now; None while there is none. Connections are kept from call to call."""
        fleet = self.external if cluster.spec.is_external else self.fleet
        return await self.pool_of((cluster.namespace, cluster.name), await fleet.broker_addresses(cluster))

    async def pool_of(self, key: ClusterKey, brokers: tuple[BrokerAddress, ...]) -> BrokerPool | None:
        return await self._pools.of(key, brokers)

    def is_news(self, sentence: str, *subject: Hashable) -> bool:
        """Whether something else was said of the subject before: for a log that is not to fill with what does not
        change."""
        return self._said.note(subject, sentence, asyncio.get_running_loop().time()) is None

    async def forget_cluster(self, key: ClusterKey) -> None:
        self.progress.pop(key, None)
        await self.external.forget(key)
        await self._pools.forget(key)

    async def write_status(self, resource: Found, status: Status, *, without: Collection[str] = ()) -> Found | None:
        old: Status = resource.status
        manifest, before = ({k: v for k, v in s.manifest().items() if k not in without} for s in (status, old))
        if manifest == before:
            return None
        async with self._status_slots:
            kind, uid = api_kind(resource), resource.metadata.uid
            held = await self.kube.apply_status(kind, resource.namespace, resource.name, manifest, uid=uid)
        written = resource.model_copy(update={"status": status})
        known = held.value if held is not None else None
        if not isinstance(known, type(resource)) or known.spec_version != resource.spec_version:
            return written
        # Thousands that are told at once would be in memory twice. What another hand has changed meanwhile is not ours.
        return known if known.status == written.status else written

    async def say_unreadable(self, unreadable: Iterable[Unreadable]) -> None:
        """Stalled, with a Warning when that begins; what the object's status says besides stays. Raises only what may
        pass: others of its cluster do not wait for a status that is refused."""
        for found in unreadable:
            await self._say_unreadable(found)

    async def _say_unreadable(self, found: Unreadable) -> None:
        old: Mapping[str, Any] = found.body.get("status") or {}
        status = unreadable_status(found.body, found.why, now())
        if status == old:
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
                log.warning("the status of %s is refused: %s", found.name, error)
        message = next(one["message"] for one in status["conditions"] if one["type"] == STALLED)
        if message not in [one["message"] for one in old.get("conditions") or ()]:
            await self.events.record(found.body, "Warning", UNREADABLE, message)

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
        """Spread out, so that many clusters are not looked at in one burst."""
        seconds = self.settings.resync_s or cluster.spec.resync_seconds
        return seconds * random.uniform(0.9, 1.1)

    async def close(self) -> None:
        await self.followers.close()
        await self.external.aclose()
        await self._pools.aclose()


def pass_over(context: Context, pod: NodePod | RackPod, error: KubeError, what: str) -> None:
    """Log that `what` was not done to this pod, once if it is refused. Raises `error` if all pods may have to wait.

    One pod that has gone, or that a policy protects, keeps no other pod waiting.
    """
    if error.status in (404, 409):
        log.info("pod %s has gone or changed: %s: %s", pod.name, what, error)
    elif error.retriable:
        raise error
    elif context.is_news(str(error), what, pod.uid):
        log.warning("pod %s: %s: %s", pod.name, what, error)


def look_again_s(context: Context, cluster: BrokerCluster) -> float:
    """For what watches and controllers tell of: looking finds nothing but what they have missed. And for what brokers
    say of themselves: a tag that somebody sets on one by hand is shown then."""
    return RESYNCS_A_LOOK * context.resync_s(cluster)


async def say_scaled_by_others(context: Context, cluster: BrokerCluster, nodes: AppliedNodes) -> None:
    for said in nodes.scaled_by_others:
        await context.post(cluster, "Warning", "ScaledByOthers", said)


def _nobody_to_tell(queue: str, key: ClusterKey) -> None:
    raise RuntimeError(f"there are no queues yet to put {key} into {queue}")


def _nobody_waits(queue: str, key: ClusterKey) -> bool:
    raise RuntimeError(f"there are no queues yet where {key} may wait for {queue}")


def api_kind(resource: Resource) -> Kind:
    return kind_of({"apiVersion": resource.api_version, "kind": type(resource).__name__})
