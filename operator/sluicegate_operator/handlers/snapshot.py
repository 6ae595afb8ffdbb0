"""The input of planning for one cluster, read from the cache or from the API server."""

import asyncio
from collections.abc import Collection, Iterable, Sequence
from typing import TypeVar

from sluicegate_operator.api.kinds import KINDS
from sluicegate_operator.api.models.broker_cluster import BrokerCluster
from sluicegate_operator.api.models.kafka_user import FINALIZER as USER_FINALIZER
from sluicegate_operator.api.models.kafka_user import KafkaUser
from sluicegate_operator.api.models.topic import FINALIZER, Topic
from sluicegate_operator.api.schema.metadata import Resource
from sluicegate_operator.engine.context.snapshot import (
    ClusterKey,
    LeavingTopic,
    LeavingUser,
    Snapshot,
    Unreadable,
    UnreadableClusterError,
)
from sluicegate_operator.kube.cache.cached_object import UnreadableObject, cluster_of, read_object
from sluicegate_operator.kube.client.client import KubeClient
from sluicegate_operator.kube.http.kinds import (
    BROKER_CLUSTER,
    BROKER_LISTENER,
    CONNECTION_QUOTA,
    KAFKA_USER,
    TOPIC,
    Kind,
)

OF_CLUSTERS = (BROKER_LISTENER, CONNECTION_QUOTA, TOPIC)
READ_PER_SLICE = 50
"""Number of objects that are parsed before other tasks run: their parsing takes a few milliseconds."""

_KEPT_OF_LEAVING = {"name", "namespace", "uid", "resource_version", "finalizers"}

T = TypeVar("T", bound=Resource)


async def gather_snapshot(
    kube: KubeClient, key: ClusterKey, kinds: Collection[Kind] = OF_CLUSTERS, *, fresh: bool = False
) -> Snapshot:
    """Return the cluster and its objects of `kinds`, from the cache, or with `fresh` from the API server.

    Use `fresh` for decisions that cannot be undone. Raises KubeError if some objects are not known, and
    UnreadableClusterError: a snapshot is never partial.
    """
    found = {kind: await _of_kind(kube, key, kind, fresh=fresh) for kind in (BROKER_CLUSTER, *kinds)}
    leaving = tuple(one for value in found.get(TOPIC, ()) if (one := _leaving(value)) is not None)
    users = tuple(user for value in found.get(KAFKA_USER, ()) if (user := _leaving_user(value)) is not None)
    if (leaving or users) and not fresh:
        # Actions for these objects delete records and credentials, so they need fresh objects.
        return await gather_snapshot(kube, key, kinds, fresh=True)
    unreadable: list[Unreadable] = []
    cluster = _cluster(found[BROKER_CLUSTER])
    resources: dict[type[Resource], tuple[Resource, ...]] = {}
    for kind in kinds:
        model = KINDS[kind.kind].model
        resources[model] = readable(model, kind, found[kind], unreadable)
    return Snapshot(cluster, resources, tuple(unreadable), leaving, users)


async def _of_kind(kube: KubeClient, key: ClusterKey, kind: Kind, *, fresh: bool) -> list[Resource | UnreadableObject]:
    if not fresh:
        return await kube.cache.resources(kind, *key)
    if kind == BROKER_CLUSTER:
        one = await kube.get(kind, *key)
        bodies = [] if one is None else [one]
    else:
        bodies = [item for item in await kube.list(kind, key[0]) if cluster_of(kind, item) == key[1]]
    read: list[Resource | UnreadableObject] = []
    for number, body in enumerate(bodies):
        read.append(read_object(body))
        if number % READ_PER_SLICE == READ_PER_SLICE - 1:
            await asyncio.sleep(0)
    return read


async def gather_cluster(kube: KubeClient, key: ClusterKey) -> BrokerCluster | None:
    """Return the cluster from the cache. Raises KubeError and UnreadableClusterError."""
    return _cluster(await _of_kind(kube, key, BROKER_CLUSTER, fresh=False))


def _cluster(found: Sequence[Resource | UnreadableObject]) -> BrokerCluster | None:
    unreadable: list[Unreadable] = []
    clusters = readable(BrokerCluster, BROKER_CLUSTER, found, unreadable)
    if unreadable:
        raise UnreadableClusterError(unreadable[0])
    return clusters[0] if clusters else None


def readable(
    model: type[T], kind: Kind, found: Iterable[Resource | UnreadableObject], unreadable: list[Unreadable]
) -> tuple[T, ...]:
    """Return the objects that are not being deleted. Objects that cannot be read are added to `unreadable`."""
    resources: list[T] = []
    for value in found:
        if isinstance(value, UnreadableObject):
            if not value.body["metadata"].get("deletionTimestamp"):
                unreadable.append(Unreadable(kind, value.body, value.why, value.reason))
        elif isinstance(value, model) and value.metadata.deletion_timestamp is None:
            resources.append(value)
    return tuple(resources)


def _leaving(value: Resource | UnreadableObject) -> LeavingTopic | None:
    if isinstance(value, UnreadableObject):
        meta = value.body["metadata"]
        leaves = meta.get("deletionTimestamp") and FINALIZER in (meta.get("finalizers") or ())
        return LeavingTopic(value.body, None, value.why) if leaves else None
    own = value.metadata
    if not isinstance(value, Topic) or own.deletion_timestamp is None or FINALIZER not in own.finalizers:
        return None
    kept = own.model_dump(mode="json", by_alias=True, include=_KEPT_OF_LEAVING)
    return LeavingTopic({"apiVersion": value.api_version, "kind": TOPIC.kind, "metadata": kept}, value)


def _leaving_user(value: Resource | UnreadableObject) -> LeavingUser | None:
    if isinstance(value, UnreadableObject):
        meta = value.body["metadata"]
        leaves = meta.get("deletionTimestamp") and USER_FINALIZER in (meta.get("finalizers") or ())
        return LeavingUser(value.body, None, value.why) if leaves else None
    own = value.metadata
    if not isinstance(value, KafkaUser) or own.deletion_timestamp is None or USER_FINALIZER not in own.finalizers:
        return None
    kept = own.model_dump(mode="json", by_alias=True, include=_KEPT_OF_LEAVING)
    return LeavingUser({"apiVersion": value.api_version, "kind": KAFKA_USER.kind, "metadata": kept}, value)
