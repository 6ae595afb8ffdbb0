"""Everything that planning may look at of one cluster, read from the API server in one go.

Read anew for each reconcile: a watch says when to look, never what is there, so a missed or late event does no harm.
"""

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from sluicegate_operator.api.broker_cluster import BrokerCluster
from sluicegate_operator.api.kinds import KINDS
from sluicegate_operator.api.manifests import InvalidManifest, read_stored
from sluicegate_operator.api.metadata import Resource
from sluicegate_operator.api.topic import FINALIZER, Topic
from sluicegate_operator.engine.snapshot import (
    ClusterKey,
    LeavingTopic,
    Snapshot,
    Unreadable,
    UnreadableClusterError,
)
from sluicegate_operator.kube.client import KubeClient
from sluicegate_operator.kube.kinds import (
    BROKER_CLUSTER,
    BROKER_LISTENER,
    CONNECTION_QUOTA,
    TOPIC,
    Kind,
)

OF_CLUSTERS = (BROKER_LISTENER, CONNECTION_QUOTA, TOPIC)
READ_A_TURN = 50
"""So many objects are parsed before others have the event loop: a few milliseconds."""

T = TypeVar("T")


async def gather_snapshot(kube: KubeClient, key: ClusterKey, kinds: Collection[Kind] = OF_CLUSTERS) -> Snapshot:
    """What is of another kind than `kinds` is not asked for. Raises KubeError when the API server does not give all of
    it, and UnreadableClusterError: a part is never taken for the whole."""
    namespace, name = key

    found, listed = await asyncio.gather(
        kube.get(BROKER_CLUSTER, namespace, name), asyncio.gather(*(kube.list(kind, namespace) for kind in kinds))
    )
    objects = {kind: _of_cluster(name, items) for kind, items in zip(kinds, listed, strict=True)}
    unreadable: list[Unreadable] = []
    cluster = _cluster(found)
    resources: dict[type[Resource], tuple[Resource, ...]] = {}
    for kind, items in objects.items():
        model = KINDS[kind.kind].model
        resources[model] = await _read_in_turns(model, kind, items, unreadable)
    leaving = tuple(_leaving(topic) for topic in objects.get(TOPIC, ()) if _is_leaving(topic))
    return Snapshot(cluster, resources, tuple(unreadable), leaving)


async def _read_in_turns(
    model: type[T], kind: Kind, objects: Sequence[Mapping[str, Any]], unreadable: list[Unreadable]
) -> tuple[T, ...]:
    """As read_all; others have the event loop in between."""
    resources: list[T] = []
    for first in range(0, len(objects), READ_A_TURN):
        resources += read_all(model, kind, objects[first : first + READ_A_TURN], unreadable)
        await asyncio.sleep(0)
    return tuple(resources)


def _of_cluster(name: str, objects: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Those that name this cluster, told before they are parsed: a namespace may have many clusters' quotas."""
    return [item for item in objects if cluster_name(item) == name]


def _is_leaving(topic: Mapping[str, Any]) -> bool:
    meta = topic["metadata"]
    return bool(meta.get("deletionTimestamp")) and FINALIZER in (meta.get("finalizers") or ())


def _leaving(body: Mapping[str, Any]) -> LeavingTopic:
    try:
        topic = read_stored(body)
    except InvalidManifest as error:
        return LeavingTopic(body, None, str(error))
    return LeavingTopic(body, topic if isinstance(topic, Topic) else None)


async def gather_cluster(kube: KubeClient, key: ClusterKey) -> BrokerCluster | None:
    """Raises KubeError and UnreadableClusterError."""
    return _cluster(await kube.get(BROKER_CLUSTER, *key))


def _cluster(found: Mapping[str, Any] | None) -> BrokerCluster | None:
    unreadable: list[Unreadable] = []
    clusters = read_all(BrokerCluster, BROKER_CLUSTER, [found] if found else [], unreadable)
    if unreadable:
        raise UnreadableClusterError(unreadable[0])
    return clusters[0] if clusters else None


def read_all(model: type[T], kind: Kind, objects: Iterable[Mapping[str, Any]], unreadable: list[Unreadable]) -> list[T]:
    """Those that are not on their way out; what cannot be read is added to `unreadable`."""
    resources: list[T] = []
    for item in objects:
        if item["metadata"].get("deletionTimestamp"):
            continue
        try:
            resource = read_stored(item)
        except InvalidManifest as error:
            unreadable.append(Unreadable(kind, item, str(error)))
            continue
        if isinstance(resource, model):
            resources.append(resource)
    return resources


def cluster_keys(kind: Kind, body: Mapping[str, Any]) -> list[ClusterKey]:
    """The cluster that an object of ours belongs to."""
    meta = body["metadata"]
    if kind is BROKER_CLUSTER:
        return [(meta["namespace"], meta["name"])]
    reference = cluster_name(body)
    return [(meta["namespace"], reference)] if reference else []


def cluster_name(body: Mapping[str, Any]) -> str:
    """The cluster that an object refers to, read without parsing the rest; empty where it names none."""
    name = ((body.get("spec") or {}).get("clusterRef") or {}).get("name")
    return name if isinstance(name, str) else ""
