"""Which certificates the processes of a cluster on this machine use."""

from collections.abc import Callable, Iterable, Sequence

from sluicegate_operator.api.models.broker_cluster import BrokerCluster
from sluicegate_operator.fleet.kafka.tls_reports import NodePlaced, ask_in_force
from sluicegate_operator.fleet.local.local_data import LOOPBACK
from sluicegate_operator.fleet.local.local_nodes import RunningNode
from sluicegate_operator.planning.certificates.renewal import NodeInForce


async def in_force(
    nodes_of: Callable[[BrokerCluster], Iterable[RunningNode]], cluster: BrokerCluster
) -> Sequence[NodeInForce]:
    """Return the nodes' reports about their certificates.

    A node without a process reads the newest certificates at its start.
    """
    running = (one for one in nodes_of(cluster) if one.child.pid is not None)
    return await ask_in_force(NodePlaced(one.node.name, (LOOPBACK, one.node.http_port)) for one in running)
