"""The parts of one process that exist so far. Shell."""

from broker_runtime.clock import Clock
from broker_runtime.cluster.follower import MetadataFollower
from broker_runtime.cluster.membership import Membership
from broker_runtime.config import BrokerSettings
from broker_runtime.node.broker_node import BrokerNode
from broker_runtime.node.controller_node import ControllerNode
from broker_runtime.storage.disk.waiters import SlicedCallbacks
from broker_runtime.storage.log_dir.log_dir_health import LogDirHealth


class NodeParts:
    """What `Node` has built: it sets each part once. Metrics, readiness and HTTP routes read them."""

    __slots__ = (
        "broker",
        "clock",
        "controller",
        "follower",
        "log_dir_health",
        "membership",
        "settings",
        "stopping",
        "wakes",
    )

    def __init__(self, settings: BrokerSettings, clock: Clock) -> None:
        self.settings = settings
        self.clock = clock
        self.controller: ControllerNode | None = None
        self.broker: BrokerNode | None = None
        self.membership: Membership | None = None
        self.follower: MetadataFollower | None = None
        self.log_dir_health: LogDirHealth | None = None
        self.wakes: SlicedCallbacks | None = None
        self.stopping = False
