"""Takes away the ConfigMaps of a cluster that no pod uses any more, nor will one that is yet to be made."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from sluicegate_operator.api.broker_cluster import BrokerCluster
from sluicegate_operator.kube.client import KubeClient
from sluicegate_operator.kube.kinds import CONFIG_MAP, POD, STATEFUL_SET
from sluicegate_operator.planning.cluster_layout import Role
from sluicegate_operator.resources.labels import CLUSTER_LABEL, MANAGED_BY_LABEL, MANAGER, node_set_name

Json = Mapping[str, Any]


async def collect_config_maps(kube: KubeClient, cluster: BrokerCluster) -> None:
    """Raises KubeError. The order matters: once both StatefulSets' templates are taken up, every pod that is not in the
    list yet is made of them."""
    ours = f"{CLUSTER_LABEL}={cluster.name}"
    config_maps = [
        found
        for found in await kube.list(CONFIG_MAP, cluster.namespace, f"{ours},{MANAGED_BY_LABEL}={MANAGER}")
        if cluster.metadata.uid in (owner["uid"] for owner in found["metadata"].get("ownerReferences") or ())
    ]
    if len(config_maps) <= len(Role):
        return
    templates, expected = [], set()
    for role in Role:
        node_set = await kube.get(STATEFUL_SET, cluster.namespace, node_set_name(cluster.name, role))
        if node_set is None or not taken_up(node_set):
            return
        templates.append(node_set["spec"]["template"])
        name = node_set_name(cluster.name, role)
        expected |= {f"{name}-{ordinal}" for ordinal in range(node_set["spec"]["replicas"])}
    pods = await kube.list(POD, cluster.namespace, ours)
    if expected - {pod["metadata"]["name"] for pod in pods}:
        # One that has lost its label may run all the same.
        return
    used = set(config_maps_of([*templates, *pods]))
    for found in config_maps:
        meta = found["metadata"]
        if meta["name"] not in used:
            await kube.delete(CONFIG_MAP, cluster.namespace, meta["name"], uid=meta["uid"])


def taken_up(node_set: Json) -> bool:
    """The StatefulSet's controller makes pods of its newest template only."""
    return bool((node_set.get("status") or {}).get("observedGeneration", 0) >= node_set["metadata"]["generation"])


def config_maps_of(pods: Iterable[Json]) -> Iterator[str]:
    """Of pods or of templates of pods."""
    for pod in pods:
        for volume in pod["spec"].get("volumes") or ():
            if "configMap" in volume:
                yield volume["configMap"]["name"]
