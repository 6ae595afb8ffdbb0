"""The interface of a fleet for the engine's reconcilers: the nodes of clusters, wherever they run.

There are two implementations: pods (`kubernetes`) and processes on this machine (`local`). Neither makes decisions:
planning decides which node may be restarted, and how many brokers there should be. tests/contract/test_fleets.py checks
both.
"""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from sluicegate_operator.api.models.broker_cluster import BrokerCluster
from sluicegate_operator.api.models.broker_listener import BrokerListener
from sluicegate_operator.fleet.base import BrokerAddress
from sluicegate_operator.fleet.kafka.asking import BrokerPool
from sluicegate_operator.fleet.kafka.controllers import ControllerView
from sluicegate_operator.fleet.kafka.listeners import ListenerOutcome
from sluicegate_operator.kube.http.errors import KubeError
from sluicegate_operator.planning.layout.cluster_layout import ClusterLayout
from sluicegate_operator.planning.listeners.listener_status import ServicesSeen
from sluicegate_operator.planning.listeners.listeners import BrokerSeen
from sluicegate_operator.planning.registrations.fencing import FenceOrder
from sluicegate_operator.planning.registrations.racks import RackAssignment, RacksPlan
from sluicegate_operator.planning.rolls.roll import NodeView

PoolOf = Callable[[tuple[BrokerAddress, ...]], Awaitable[BrokerPool | None]]
"""Function that returns connections to these brokers, and None for no brokers."""


Lasts = Callable[[KubeError], bool]
"""Function that records a refusal that may pass. It returns whether refusals have lasted for long."""


@dataclass(frozen=True, slots=True)
class Incarnation:
    """One of the pods or processes that have the same name one after the other.

    `id` is a pod's uid or a process's pid, `version` a pod's resourceVersion.
    """

    id: str
    version: str = ""
    ready: bool = True
    deleting: bool = False


@dataclass(frozen=True, slots=True)
class NodesSeen:
    """The nodes of one cluster. `view` is older than the other fields, see planning.registrations.fencing."""

    view: ControllerView
    nodes: Sequence[NodeView]
    """Every node that should exist."""
    incarnations: Mapping[str, Incarnation]
    """The running pods or processes, by the node's name, also those that should not exist."""
    addresses: tuple[BrokerAddress, ...]
    broker_count: int
    """Number of brokers that the fleet keeps running."""
    broker_ids: Collection[int]
    """The running brokers, also those that are to be removed."""
    fences: tuple[FenceOrder, ...] = ()
    template_observed: bool = True
    """Whether a node that is restarted now gets the wanted configuration."""
    respelled: Mapping[str, str] = field(default_factory=dict)
    """The new spelling of nodes with the wanted configuration in an older spelling, by the node's name."""


@dataclass(frozen=True, slots=True)
class ListenersSeen:
    """The listeners of one cluster. `layout` is the wanted state; `told` has the changes just made on brokers."""

    layout: ClusterLayout
    brokers: Sequence[BrokerSeen]
    fronts: Mapping[str, ServicesSeen]
    """The Services in front of the brokers, by the BrokerListener's name.

    A listener is left out while a refusal may pass and has not lasted: its status stays unchanged.
    """
    told: Mapping[int, ListenerOutcome] = field(default_factory=dict)
    not_applied: KubeError | None = None
    """A refusal that may pass. Once it has lasted, one of `fronts` reports it."""


class ListenerFleet(Protocol):
    """The part of a fleet for the listeners that clients connect to."""

    async def reconcile(
        self,
        cluster: BrokerCluster,
        listeners: Sequence[BrokerListener],
        pool_of: PoolOf,
        lasts: Lasts,
        *,
        read_only: bool,
    ) -> ListenersSeen:
        """Bring the listeners of running brokers, and the Services in front of them, to the wanted state.

        Makes only changes that need no restart, and none if `read_only`. `lasts` returns whether a refusal is reported.
        Raises KubeError for an error that concerns all listeners.
        """


class RackFleet(Protocol):
    """The part of a fleet for the racks of brokers."""

    async def plan(self, cluster: BrokerCluster, topology_key: str) -> RacksPlan:
        """Return the racks to assign, and the brokers that wait for their rack. Raises KubeError."""

    async def assign(self, cluster: BrokerCluster, assignment: RackAssignment) -> None:
        """Give a broker its rack. Raises KubeError, also if the broker is gone."""


class Fleet(Protocol):
    """The nodes of clusters. All methods raise KubeError if the API server fails or refuses."""

    @property
    def listeners(self) -> ListenerFleet: ...

    @property
    def racks(self) -> RackFleet: ...

    @property
    def poll_every_s(self) -> float:
        """Return the seconds until changing nodes are read again."""

    async def nodes(self, cluster: BrokerCluster, listeners: Sequence[BrokerListener]) -> NodesSeen | None:
        """Compare the nodes with the manifests; None before the fleet has any node of the cluster."""

    async def broker_addresses(self, cluster: BrokerCluster) -> tuple[BrokerAddress, ...]:
        """Return the addresses of brokers that have one, in order of id."""

    async def check(self, cluster: BrokerCluster, seen: NodesSeen) -> None:
        """Raise KubeConflictError if a node has changed since it was observed: another node may be down now."""

    async def restart(self, cluster: BrokerCluster, seen: NodesSeen, name: str) -> None:
        """Restart one node with the wanted configuration, without waiting until it is ready.

        Raises KubeConflictError if the node has changed since it was observed.
        """

    async def respell(self, cluster: BrokerCluster, seen: NodesSeen, name: str, revision: str) -> None:
        """Write `revision`, one of `seen.respelled`, to the node `name`, in the spelling of this operator."""

    async def scale(
        self,
        cluster: BrokerCluster,
        listeners: Sequence[BrokerListener],
        seen: NodesSeen,
        brokers: int,
        check: Callable[[], Awaitable[None]],
    ) -> Sequence[str]:
        """Set the number of a cluster's brokers.

        Return a sentence for each set of nodes that another client had scaled.

        `check` raises KubeConflictError if the decision is outdated. This method also raises it if the number of
        brokers is not `seen.broker_count` any more. No other call scales the cluster in between.
        """
