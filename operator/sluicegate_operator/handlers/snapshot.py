"""Everything that planning may look at of one cluster, read from the API server in one go.

Read anew for each reconcile: a watch says when to look, never what is there, so a missed or late event does no harm.
"""

import asyncio
import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from sluicegate_operator.api.broker_cluster import BrokerCluster
from sluicegate_operator.api.broker_listener import BrokerListener
from sluicegate_operator.api.connection_quota import ConnectionQuota
from sluicegate_operator.api.manifests import InvalidManifest, parse_resource
from sluicegate_operator.api.topic import Topic
from sluicegate_operator.kube.client import KubeClient
from sluicegate_operator.kube.kinds import BROKER_CLUSTER, BROKER_LISTENER, CONNECTION_QUOTA, TOPIC, Kind

log = logging.getLogger(__name__)

ClusterKey = tuple[str, str]
"""Namespace and name of a BrokerCluster, whether or not it exists."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Snapshot:
    """`listeners`, `quotas` and `topics` are those that name this cluster."""

    cluster: BrokerCluster | None
    listeners: tuple[BrokerListener, ...]
    quotas: tuple[ConnectionQuota, ...]
    topics: tuple[Topic, ...]


async def gather_snapshot(kube: KubeClient, key: ClusterKey) -> Snapshot:
    """Raises KubeError when any of it cannot be read: a part is never taken for the whole."""
    namespace, name = key
    found, listeners, quotas, topics = await asyncio.gather(
        kube.get(BROKER_CLUSTER, namespace, name),
        kube.list(BROKER_LISTENER, namespace),
        kube.list(CONNECTION_QUOTA, namespace),
        kube.list(TOPIC, namespace),
    )
    cluster = parsed(BrokerCluster, [found] if found else [])
    return Snapshot(
        cluster[0] if cluster else None,
        tuple(parsed(BrokerListener, _of_cluster(name, listeners))),
        tuple(parsed(ConnectionQuota, _of_cluster(name, quotas))),
        tuple(parsed(Topic, _of_cluster(name, topics))),
    )


def _of_cluster(name: str, objects: Iterable[Mapping[str, Any]]) -> Iterable[Mapping[str, Any]]:
    """Those that name this cluster, told before they are parsed: a namespace may have many clusters' quotas."""
    return (item for item in objects if cluster_name(item) == name)


async def gather_cluster(kube: KubeClient, key: ClusterKey) -> BrokerCluster | None:
    found = await kube.get(BROKER_CLUSTER, *key)
    clusters = parsed(BrokerCluster, [found] if found else [])
    return clusters[0] if clusters else None


def parsed(kind: type[T], objects: Iterable[Mapping[str, Any]]) -> list[T]:
    """Objects that no longer fit their schema (stored before a CRD was tightened) are left out, and said."""
    resources: list[T] = []
    for item in objects:
        if item["metadata"].get("deletionTimestamp"):
            continue
        try:
            resource = parse_resource(item)
        except InvalidManifest as error:
            log.error("%s %s is left out: %s", kind.__name__, item["metadata"]["name"], error)
            continue
        if isinstance(resource, kind):
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
