"""What a reconciler needs of where it runs: where objects are and their statuses are kept, which brokers there are, and
whom it tells. The operator has a Kubernetes API server for that, `sluicegate up` has files and processes.
"""

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Literal, Protocol, TypeVar

from sluicegate_operator.api.broker_cluster import BrokerCluster
from sluicegate_operator.api.metadata import Resource, Status
from sluicegate_operator.engine.first_seen import FirstSeen
from sluicegate_operator.engine.progress import ClusterProgress
from sluicegate_operator.engine.snapshot import ClusterKey, Snapshot, Unreadable
from sluicegate_operator.fleet.asking import BrokerPool
from sluicegate_operator.fleet.base import BrokerAddress
from sluicegate_operator.fleet.by_cluster import ByCluster
from sluicegate_operator.fleet.external import ExternalFleet
from sluicegate_operator.fleet.protocol import Fleet
from sluicegate_operator.kube.kinds import Kind
from sluicegate_operator.planning.roll import RollStep

REMEMBERED_FIELDS = ("dynamicConfigKeys", "configKeys", "limitsSet")
"""Of a status, and written on their own before something is done: see ReconcileContext.remember."""

STATUS_WRITERS_MAX = 4
"""At a time, over all clusters: half of the client's threads stay free for what is not told but done."""

RESYNCS_A_LOOK = 5
"""Limits, configuration and topics are read at each resync, because no event reports their changes. Everything else is
read once in so many resyncs."""

EventType = Literal["Normal", "Warning"]
Found = TypeVar("Found", bound=Resource)


class Events(Protocol):
    """Tells people."""

    async def record(self, body: Mapping[str, Any], type_: EventType, reason: str, message: str) -> None:
        """An Event of the object that `body` names, see `reference`."""


class ReconcileContext(Protocol):
    """Everything here raises KubeError where an API server is asked and does not do it."""

    @property
    def events(self) -> Events: ...

    @property
    def progress(self) -> ByCluster[ClusterProgress]: ...

    @property
    def mark(self) -> Callable[[str, ClusterKey], None]:
        """Puts a cluster into another queue, by the queue's name."""

    async def gather(self, key: ClusterKey, kinds: Collection[Kind], *, fresh: bool = False) -> Snapshot:
        """All objects of these kinds that name the cluster, and the cluster. With `fresh` no cache is read: for
        decisions that cannot be taken back. Raises UnreadableClusterError."""

    async def pool(self, cluster: BrokerCluster) -> BrokerPool | None:
        """The brokers that have an address now; None while there is none."""

    async def write_status(self, resource: Found, status: Status, *, without: Collection[str] = ()) -> Found | None:
        """Write it where it differs from what is there: the object as it is known since, None where it did not differ.
        Fields in `without` are somebody else's."""

    async def remember(self, resource: Resource, fields: Mapping[str, Any]) -> None:
        """Keeps these fields of its status for good: it has returned before what they speak of is done."""

    async def set_finalizers(self, body: Mapping[str, Any], finalizers: Sequence[str]) -> None:
        """Of this object as it was seen, whose apiVersion, kind and metadata `body` has. One that is gone is left."""

    async def say_unreadable(self, unreadable: Iterable[Unreadable]) -> None:
        """In their statuses. Raises only what may pass."""

    async def post(self, resource: Resource, type_: EventType, reason: str, message: str) -> None:
        """An Event of it."""

    def is_news(self, sentence: str, *subject: Hashable) -> bool:
        """Whether something else was said of the subject before."""

    def resync_s(self, cluster: BrokerCluster) -> float:
        """After which everything is looked at again, though nothing is known to have changed."""


class ExternalContext(ReconcileContext, Protocol):
    """Where there may be clusters that others run."""

    @property
    def external(self) -> ExternalFleet: ...


class RollFigures(Protocol):
    """Counts rolls and restarts for metrics. The methods do nothing unless a class overrides them."""

    def note_roll(self, key: ClusterKey, step: RollStep | None) -> None:
        return

    def note_restart(self, reason: str) -> None:
        return


class FleetContext(ReconcileContext, Protocol):
    """The context of reconcilers that change nodes."""

    @property
    def fleet(self) -> Fleet: ...

    @property
    def figures(self) -> RollFigures: ...

    async def pool_of(self, key: ClusterKey, brokers: tuple[BrokerAddress, ...]) -> BrokerPool | None:
        """Connections to these brokers; None for no brokers."""


class QuotaFigures(Protocol):
    """Counts quotas for metrics. The methods do nothing unless a class overrides them."""

    def note_quotas(self, key: ClusterKey, states: Mapping[str, str] | None) -> None:
        """The reasons of condition Enforced by ConnectionQuota; None if the cluster has no quotas."""
        return

    def note_drift(self, changes: int) -> None:
        return

    def note_enforced_after(self, seconds: float) -> None:
        return


class QuotaContext(ReconcileContext, Protocol):
    """What the quota path needs besides: it is measured, and gives way to what is newer."""

    @property
    def first_seen(self) -> FirstSeen: ...

    @property
    def figures(self) -> QuotaFigures: ...

    @property
    def is_due(self) -> Callable[[str, ClusterKey], bool]:
        """Whether a cluster is to be looked at again by that queue, for something that has happened meanwhile."""


def look_again_s(context: ReconcileContext, cluster: BrokerCluster) -> float:
    """For what watches and controllers report: another look finds only what they have missed, and what brokers say of
    themselves, for example a tag that a user sets on one by hand."""
    return RESYNCS_A_LOOK * context.resync_s(cluster)


def reference(resource: Resource) -> dict[str, Any]:
    """What names an object, as it was seen."""
    meta = resource.metadata
    named = {"name": meta.name, "namespace": meta.namespace, "uid": meta.uid, "resourceVersion": meta.resource_version}
    return {"apiVersion": resource.api_version, "kind": type(resource).__name__, "metadata": named}


def now() -> datetime:
    return datetime.now(UTC).replace(microsecond=0)
