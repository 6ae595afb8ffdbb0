"""Listeners and racks of processes on this machine."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sluicegate_operator.api.models.broker_cluster import BrokerCluster
from sluicegate_operator.api.models.broker_listener import BrokerListener
from sluicegate_operator.fleet.local.local_data import LOOPBACK
from sluicegate_operator.fleet.local.local_nodes import LocalNode, RunningNode
from sluicegate_operator.fleet.protocol import Lasts, ListenersSeen, PoolOf
from sluicegate_operator.planning.layout.cluster_layout import plan_cluster
from sluicegate_operator.planning.listeners.exposure import Address
from sluicegate_operator.planning.listeners.listener_status import ServicesSeen
from sluicegate_operator.planning.listeners.listeners import BrokerSeen, OpenListener
from sluicegate_operator.planning.registrations.racks import RackAssignment, RacksPlan


@dataclass(frozen=True, slots=True)
class LocalListeners:
    """The listeners of local processes, which `restart` alone opens and closes.

    They are in the configuration of the process. See fleet.protocol.ListenerFleet.
    """

    _brokers: Callable[[BrokerCluster], Sequence[RunningNode]]

    async def reconcile(
        self,
        cluster: BrokerCluster,
        listeners: Sequence[BrokerListener],
        pool_of: PoolOf,
        lasts: Lasts,
        *,
        read_only: bool,
    ) -> ListenersSeen:
        running = self._brokers(cluster)
        asked = cluster.spec.broker_count
        layout = plan_cluster(cluster, listeners, max(asked, len(running)))
        brokers = [
            BrokerSeen(one.node.key[1], _open(one.node), _open(one.wanted))
            for one in running
            if one.child.pid is not None
        ]
        return ListenersSeen(layout, brokers, {listener.name: ServicesSeen() for listener in listeners})


def _open(node: LocalNode) -> dict[str, OpenListener]:
    return {name: OpenListener(port, Address(LOOPBACK, port)) for name, port in node.ports.items()}


class NoRacks:
    """Stands in for the racks of nodes on one machine, which has none. See fleet.protocol.RackFleet."""

    async def plan(self, cluster: BrokerCluster, topology_key: str) -> RacksPlan:
        return RacksPlan()

    async def assign(self, cluster: BrokerCluster, assignment: RackAssignment) -> None:
        return
