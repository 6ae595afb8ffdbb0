"""A fleet, as the engine's reconcilers see it: the nodes of clusters, wherever they run.

There are two implementations: pods (`kubernetes`) and processes on this machine (`local`). Neither decides anything:
planning says which node may be restarted, and how many brokers there should be. tests/contract/test_fleets.py checks
both.
"""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from sluicegate_operator.api.broker_cluster import BrokerCluster
from sluicegate_operator.api.broker_listener import BrokerListener
from sluicegate_operator.fleet.asking import BrokerPool
from sluicegate_operator.fleet.base import BrokerAddress
from sluicegate_operator.fleet.controllers import ControllerView
from sluicegate_operator.fleet.listeners import Told
from sluicegate_operator.kube.errors import KubeError
from sluicegate_operator.planning.cluster_layout import ClusterLayout
from sluicegate_operator.planning.fencing import FenceOrder
from sluicegate_operator.planning.listener_status import ServicesSeen
from sluicegate_operator.planning.listeners import BrokerSeen
from sluicegate_operator.planning.racks import RacksPlan, Telling
from sluicegate_operator.planning.roll import NodeView

PoolOf = Callable[[tuple[BrokerAddress, ...]], Awaitable[BrokerPool | None]]
"""Returns connections to these brokers, and None for no brokers."""


Lasts = Callable[[KubeError], bool]
"""Notes a refusal that may pass. Returns whether refusals have lasted for long."""


@dataclass(frozen=True, slots=True)
class Incarnation:
    """One of the pods or processes that have the same name one after the other. `id` is a pod's uid or a process's pid,
    `version` a pod's resourceVersion."""

    id: str
    version: str = ""
    ready: bool = True
    deleting: bool = False


@dataclass(frozen=True, slots=True)
class NodesSeen:
    """The nodes of one cluster. `view` is older than the rest; planning.fencing says why."""

    view: ControllerView
    nodes: Sequence[NodeView]
    """Every node that should be there."""
    incarnations: Mapping[str, Incarnation]
    """What runs, by the node's name, also what should not be there."""
    addresses: tuple[BrokerAddress, ...]
    broker_count: int
    """How many brokers the fleet keeps running."""
    broker_ids: Collection[int]
    """The brokers that run, also those that are to go."""
    fences: tuple[FenceOrder, ...] = ()
    template_observed: bool = True
    """Whether a node that is restarted now gets the wanted configuration."""
    respelled: Mapping[str, str] = field(default_factory=dict)
    """Nodes that run the wanted configuration and state it in an older spelling: their names and the new spelling."""


@dataclass(frozen=True, slots=True)
class ListenersSeen:
    """The listeners of one cluster. `layout` is the wanted state, `told` what this look has changed on brokers."""

    layout: ClusterLayout
    brokers: Sequence[BrokerSeen]
    fronts: Mapping[str, ServicesSeen]
    """By the BrokerListener's name."""
    told: Mapping[int, Told] = field(default_factory=dict)
    not_applied: KubeError | None = None
    """A refusal that may pass. Once it has lasted, one of `fronts` reports it."""


class ListenerFleet(Protocol):
    """What clients connect to."""

    async def look(
        self, cluster: BrokerCluster, listeners: Sequence[BrokerListener], pool_of: PoolOf, lasts: Lasts, *, held: bool
    ) -> ListenersSeen:
        """Brings the listeners of running brokers, and what is in front of them, to the wanted state, where the fleet
        can do that without a restart. Changes nothing if `held`. Raises KubeError, but not for a refusal of which
        `lasts` is true."""


class RackFleet(Protocol):
    """The racks of brokers."""

    async def plan(self, cluster: BrokerCluster, topology_key: str) -> RacksPlan:
        """Which brokers wait for their rack. Raises KubeError."""

    async def tell(self, cluster: BrokerCluster, telling: Telling) -> None:
        """Tells a broker its rack. Raises KubeError, also if the broker has gone."""


class Fleet(Protocol):
    """All methods raise KubeError if an API server is asked and does not do it."""

    @property
    def listeners(self) -> ListenerFleet: ...

    @property
    def racks(self) -> RackFleet: ...

    @property
    def look_every_s(self) -> float:
        """Seconds until nodes that change are read again."""

    async def nodes(self, cluster: BrokerCluster, listeners: Sequence[BrokerListener]) -> NodesSeen | None:
        """Compares the nodes with what the manifests want. None before the fleet has any node of the cluster."""

    async def broker_addresses(self, cluster: BrokerCluster) -> tuple[BrokerAddress, ...]:
        """The brokers that have an address, in order of id."""

    async def check(self, cluster: BrokerCluster, seen: NodesSeen) -> None:
        """Raises KubeConflictError if a node is not as it was seen: another node may be down by now."""

    async def restart(self, cluster: BrokerCluster, seen: NodesSeen, name: str) -> None:
        """Restarts one node with the wanted configuration, and does not wait until it is ready. Raises
        KubeConflictError if the node is not as it was seen."""

    async def respell(self, cluster: BrokerCluster, seen: NodesSeen, name: str, revision: str) -> None:
        """Writes a revision of `seen.respelled` to its node."""

    async def scale(
        self,
        cluster: BrokerCluster,
        listeners: Sequence[BrokerListener],
        seen: NodesSeen,
        brokers: int,
        check: Callable[[], Awaitable[None]],
    ) -> Sequence[str]:
        """Sets the number of brokers. Returns a sentence for each set of nodes that another hand had scaled.

        `check` raises KubeConflictError if the decision is outdated. So does this method if the number of brokers is
        not `seen.broker_count` any more. No other call scales the cluster in between."""
