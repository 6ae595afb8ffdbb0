"""Takes away the ConfigMaps of a cluster that no pod uses any more, nor will one that is yet to be made."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from sluicegate_operator.api.broker_cluster import BrokerCluster
from sluicegate_operator.kube.client import KubeClient
from sluicegate_operator.kube.kinds import CONFIG_MAP, POD, STATEFUL_SET
from sluicegate_operator.planning.cluster_layout import Role
from sluicegate_operator.resources.labels import CLUSTER_LABEL, MANAGED_BY_LABEL, MANAGER, node_set_name
from sluicegate_operator.resources.owner import is_controlled_by

Json = Mapping[str, Any]


async def collect_config_maps(kube: KubeClient, cluster: BrokerCluster) -> None:
    """Raises KubeError. What the cache shows to be unused is looked at again where it is."""
    if await _unused(_Cached(kube, cluster)):
        for meta in await _unused(_Fresh(kube, cluster)):
            await kube.delete(CONFIG_MAP, cluster.namespace, meta["name"], uid=meta["uid"])


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
    """Metadata of those that no pod uses, nor will. The order matters: once both StatefulSets' templates are taken up,
    every pod that is not in the list yet is made of them."""
    cluster = looking.cluster
    config_maps = [found for found in await looking.config_maps() if is_controlled_by(found, cluster.metadata.uid)]
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
        # One that has lost its label may run all the same.
        return []
    used = set(config_maps_of([*templates, *pods]))
    return [found["metadata"] for found in config_maps if found["metadata"]["name"] not in used]


def taken_up(node_set: Json) -> bool:
    """The StatefulSet's controller makes pods of its newest template only."""
    return bool((node_set.get("status") or {}).get("observedGeneration", 0) >= node_set["metadata"]["generation"])


def config_maps_of(pods: Iterable[Json]) -> Iterator[str]:
    """Of pods or of templates of pods."""
    for pod in pods:
        for volume in pod["spec"].get("volumes") or ():
            if "configMap" in volume:
                yield volume["configMap"]["name"]
