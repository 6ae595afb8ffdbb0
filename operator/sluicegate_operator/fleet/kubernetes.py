"""Brokers as pods: applies a cluster's children and finds its brokers by their pods' addresses.

Brokers are reached by pod address, so neither DNS nor endpoints stand between the operator and a limit.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from sluicegate_operator.api.broker_cluster import BrokerCluster
from sluicegate_operator.api.broker_listener import BrokerListener
from sluicegate_operator.fleet.base import BrokerAddress
from sluicegate_operator.fleet.controllers import ControllerPlace, ControllerView, controller_view
from sluicegate_operator.fleet.pods import NodePod, node_pod
from sluicegate_operator.kube.client import KubeClient
from sluicegate_operator.kube.kinds import POD
from sluicegate_operator.planning.children import cluster_children, listener_children
from sluicegate_operator.planning.cluster_layout import Role
from sluicegate_operator.resources.labels import CLUSTER_LABEL


@dataclass(frozen=True, slots=True)
class Sighting:
    """What was seen in one look, `view` before `pods`: see planning.fencing for why."""

    view: ControllerView
    pods: tuple[NodePod, ...]

    def of(self, role: Role) -> tuple[NodePod, ...]:
        return tuple(pod for pod in self.pods if pod.role is role)


@dataclass(slots=True)
class KubernetesFleet:
    _kube: KubeClient
    _controllers: dict[tuple[str, str], tuple[ControllerPlace, ...]] = field(default_factory=dict)
    """Where the controllers were at the last look, so that one look lists the pods once."""

    async def apply(self, cluster: BrokerCluster, listeners: Sequence[BrokerListener]) -> None:
        """Raises KubeError; what was applied before it stays."""
        for child in (*cluster_children(cluster, listeners), *listener_children(cluster, listeners)):
            await self._kube.apply(child)

    async def pods(self, cluster: BrokerCluster) -> list[NodePod]:
        """Also those that are going."""
        selector = f"{CLUSTER_LABEL}={cluster.name}"
        found = await self._kube.list(POD, cluster.namespace, selector)
        return [node for pod in found if (node := node_pod(pod)) is not None]

    async def look(self, cluster: BrokerCluster) -> Sighting:
        """Raises KubeError; what controllers do not say is in the view."""
        key = (cluster.namespace, cluster.name)
        places = self._controllers.get(key) or _controllers(await self.pods(cluster))
        view = await controller_view(places)
        pods = await self.pods(cluster)
        now = self._controllers[key] = _controllers(pods)
        if view.overview is None and now != places:
            view = await controller_view(now)
            pods = await self.pods(cluster)
        return Sighting(view, tuple(pods))

    def forget(self, namespace: str, name: str) -> None:
        self._controllers.pop((namespace, name), None)

    async def restart(self, namespace: str, pod: NodePod) -> None:
        """Its StatefulSet makes the next one. Raises KubeConflictError when the pod is not as it was seen."""
        await self._kube.delete(POD, namespace, pod.name, uid=pod.uid, resource_version=pod.resource_version)

    async def broker_addresses(self, cluster: BrokerCluster) -> tuple[BrokerAddress, ...]:
        """Of the brokers that have an address now, in order of id."""
        addresses = [address for pod in await self.pods(cluster) if (address := pod.address) is not None]
        return tuple(sorted(addresses, key=lambda address: address.broker_id))


def _controllers(pods: Sequence[NodePod]) -> tuple[ControllerPlace, ...]:
    return tuple(ControllerPlace(pod.node_id, pod.host) for pod in pods if pod.role is Role.CONTROLLER and pod.host)
