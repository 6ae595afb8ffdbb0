"""Delete the ConfigMaps of a cluster that neither an existing nor a future pod uses."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from sluicegate_operator.api.models.broker_cluster import BrokerCluster
from sluicegate_operator.kube.client.client import KubeClient
from sluicegate_operator.kube.client.one_by_one import Refusals
from sluicegate_operator.kube.http.errors import refusal
from sluicegate_operator.kube.http.kinds import CONFIG_MAP, POD, STATEFUL_SET
from sluicegate_operator.planning.layout.cluster_layout import Role
from sluicegate_operator.resources.config_map import is_config_map_name
from sluicegate_operator.resources.labels import CLUSTER_LABEL, MANAGED_BY_LABEL, MANAGER, labels, node_set_name
from sluicegate_operator.resources.observer_code import observer_code_name
from sluicegate_operator.resources.owner import child_metadata, is_controlled_by, why_not_ours

Json = Mapping[str, Any]


async def collect_config_maps(kube: KubeClient, cluster: BrokerCluster, refusals: Refusals) -> tuple[str, ...]:
    """Delete the ConfigMaps of the cluster that no pod uses. ConfigMaps from the cache are read again before.

    Returns a sentence for each ConfigMap that the API server refuses to delete: it does no harm, and the rest of the
    cluster does not wait for it. `refusals` keeps refusals to delete one that may pass.
    """
    refused = []
    if await _unused(_Cached(kube, cluster)):
        for meta in await _unused(_Fresh(kube, cluster)):
            with refusals.kept():
                seen = {"uid": meta["uid"], "resource_version": meta["resourceVersion"]}
                if why := await refusal(kube.delete(CONFIG_MAP, cluster.namespace, meta["name"], **seen)):
                    refused.append(f"unused ConfigMap {meta['name']} cannot be deleted: {why}")
    return tuple(refused)


class _Looking(Protocol):
    @property
    def cluster(self) -> BrokerCluster: ...

    async def config_maps(self) -> Sequence[Json]: ...

    async def node_set(self, role: Role) -> Json | None: ...

    async def pods(self) -> Sequence[Json]: ...


@dataclass(frozen=True, slots=True)
class _Cached:
    kube: KubeClient
    cluster: BrokerCluster

    async def config_maps(self) -> Sequence[Json]:
        managed = {MANAGED_BY_LABEL: MANAGER}
        return await self.kube.cache.list(CONFIG_MAP, self.cluster.namespace, self.cluster.name, **managed)

    async def node_set(self, role: Role) -> Json | None:
        name = node_set_name(self.cluster.name, role)
        return await self.kube.cache.get(STATEFUL_SET, self.cluster.namespace, name)

    async def pods(self) -> Sequence[Json]:
        return await self.kube.cache.list(POD, self.cluster.namespace, self.cluster.name)


@dataclass(frozen=True, slots=True)
class _Fresh:
    kube: KubeClient
    cluster: BrokerCluster

    async def config_maps(self) -> Sequence[Json]:
        ours = f"{CLUSTER_LABEL}={self.cluster.name},{MANAGED_BY_LABEL}={MANAGER}"
        return await self.kube.list(CONFIG_MAP, self.cluster.namespace, ours)

    async def node_set(self, role: Role) -> Json | None:
        return await self.kube.get(STATEFUL_SET, self.cluster.namespace, node_set_name(self.cluster.name, role))

    async def pods(self) -> Sequence[Json]:
        return await self.kube.list(POD, self.cluster.namespace, f"{CLUSTER_LABEL}={self.cluster.name}")


async def _unused(looking: _Looking) -> list[Json]:
    """Return metadata of the ConfigMaps that no pod uses or will use.

    The order of reads matters: once both StatefulSets' templates are observed, every pod that is not in the list yet is
    created from them.
    """
    cluster = looking.cluster
    config_maps = [found for found in await looking.config_maps() if _is_ours(cluster, found)]
    if len(config_maps) <= len(Role):
        return []
    templates, expected = [], set()
    for role in Role:
        node_set = await looking.node_set(role)
        if node_set is None or not taken_up(node_set):
            return []
        templates.append(node_set["spec"]["template"])
        name = node_set_name(cluster.name, role)
        expected |= {f"{name}-{ordinal}" for ordinal in range(node_set["spec"]["replicas"])}
    pods = await looking.pods()
    if expected - {pod["metadata"]["name"] for pod in pods}:
        # A pod that has lost its label may still run.
        return []
    used = set(config_maps_of([*templates, *pods]))
    return [found["metadata"] for found in config_maps if found["metadata"]["name"] not in used]


def _is_ours(cluster: BrokerCluster, found: Json) -> bool:
    """Return whether the ConfigMap belongs to the cluster.

    The cluster controls it, or an earlier cluster of the name has left it without a controller, as `kubectl delete
    --cascade=orphan` does. The latter is recognized by its labels and its name.
    """
    if is_controlled_by(found, cluster.metadata.uid):
        return True
    name = found["metadata"]["name"]
    of_nodes = any(is_config_map_name(name, cluster.name, role) for role in Role)
    ours = {"metadata": child_metadata(cluster, name, labels(cluster.name))}
    return (of_nodes or name == observer_code_name(cluster.name)) and not why_not_ours(found, ours)


def taken_up(node_set: Json) -> bool:
    """Return whether the StatefulSet's controller creates pods from its newest template only."""
    return bool((node_set.get("status") or {}).get("observedGeneration", 0) >= node_set["metadata"]["generation"])


def config_maps_of(pods: Iterable[Json]) -> Iterator[str]:
    """Yield the names of the ConfigMaps that pods or pod templates use."""
    for pod in pods:
        for volume in pod["spec"].get("volumes") or ():
            if "configMap" in volume:
                yield volume["configMap"]["name"]
