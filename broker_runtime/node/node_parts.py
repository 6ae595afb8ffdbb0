"""The parts of one process that exist so far. Shell."""

from typing import TYPE_CHECKING

from broker_runtime.clock import Clock
from broker_runtime.cluster.follower import MetadataFollower
from broker_runtime.cluster.membership import Membership
from broker_runtime.config import BrokerSettings
from broker_runtime.node.broker_node import BrokerNode
from broker_runtime.node.controller_node import ControllerNode
from broker_runtime.node.tls.tls_on_demand import TlsOnDemand
from broker_runtime.storage.disk.waiters import SlicedCallbacks
from broker_runtime.storage.log_dir.log_dir_health import LogDirHealth

if TYPE_CHECKING:
    from broker_runtime.cluster.connection_shares import ConnectionShares


class NodeParts:
    """The parts of a running `Node`, which sets each of them once.

    Metrics, readiness and HTTP routes read them.
    """

    __slots__ = (
        "broker",
        "clock",
        "connection_shares",
        "controller",
        "follower",
        "log_dir_health",
        "membership",
        "settings",
        "stopping",
        "tls_to_controllers",
        "wakes",
    )

    def __init__(self, settings: BrokerSettings, clock: Clock) -> None:
        self.settings = settings
        self.clock = clock
        self.controller: ControllerNode | None = None
        self.broker: BrokerNode | None = None
        self.membership: Membership | None = None
        self.follower: MetadataFollower | None = None
        self.connection_shares: ConnectionShares | None = None
        """The shares in rates of the cluster; None until the broker has such a rate."""
        self.log_dir_health: LogDirHealth | None = None
        self.wakes: SlicedCallbacks | None = None
        self.stopping = False
        self.tls_to_controllers = TlsOnDemand(settings)

    @property
    def tls(self) -> list[TlsOnDemand]:
        """Return the TLS of this node's listeners and connections."""
        return [self.tls_to_controllers, *(node.tls for node in (self.broker, self.controller) if node is not None)]
