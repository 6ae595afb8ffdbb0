"""The environment of reconcilers: it stores objects and statuses, knows the brokers, and records Events.

The operator has a Kubernetes API server for that, `sluicegate up` has files and processes.
"""

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal, Protocol, TypeVar

from sluicegate_operator.api.models.broker_cluster import BrokerCluster
from sluicegate_operator.api.queues import Queue
from sluicegate_operator.api.schema.metadata import Resource, Status
from sluicegate_operator.engine.context.first_seen import FirstSeen
from sluicegate_operator.engine.context.progress import ClusterProgress
from sluicegate_operator.engine.context.snapshot import ClusterKey, Snapshot, Unreadable
from sluicegate_operator.fleet.base import BrokerAddress
from sluicegate_operator.fleet.external.external_fleet import ExternalFleet
from sluicegate_operator.fleet.kafka.asking import BrokerPool
from sluicegate_operator.fleet.pods.by_cluster import ByCluster
from sluicegate_operator.fleet.protocol import Fleet
from sluicegate_operator.kube.client.one_by_one import Refusals
from sluicegate_operator.kube.http.kinds import Kind
from sluicegate_operator.planning.rolls.roll import RollStep

REMEMBERED_FIELDS = ("dynamicConfigKeys", "configKeys", "limitsSet", "aclsSet", "quotasSet", "credentialSet")
"""Fields of a status that `ReconcileContext.remember` writes separately, before a change is made."""

STATUS_WRITERS_MAX = 4
"""Most concurrent status writes, over all clusters: half of the client's threads stay free for changes."""

RESYNCS_A_LOOK = 5
"""Number of resyncs between two reads of everything that events report.

Limits, configuration and topics are read at each resync, because no event reports their changes.
"""

EventType = Literal["Normal", "Warning"]
Found = TypeVar("Found", bound=Resource)


class Events(Protocol):
    """Records Kubernetes Events."""

    async def record(self, body: Mapping[str, Any], type_: EventType, reason: str, message: str) -> None:
        """Record an Event on the object that `body` names, see `reference`."""


@dataclass(frozen=True, slots=True)
class StoredSecret:
    """A Secret with its decoded data.

    `version` changes with each write. `owner` is the uid of its controller.
    """

    data: Mapping[str, bytes] = field(repr=False)
    version: str
    annotations: Mapping[str, str] = field(default_factory=dict)
    owner: str = ""


class SecretStore(Protocol):
    """The Secrets of the objects' namespaces. Methods raise KubeError if the API server fails or refuses."""

    async def find_secret(self, child: Mapping[str, Any]) -> StoredSecret | None:
        """Return the operator's Secret with the name of the manifest `child`; None if it does not exist.

        Raises NameTakenError if another client owns that name: its data must not become the operator's.
        """

    async def read_secret(self, namespace: str, name: str) -> Mapping[str, bytes] | None:
        """Return the decoded data of a Secret; None if it does not exist."""

    async def apply_secret(self, manifest: Mapping[str, Any]) -> StoredSecret:
        """Create or change a Secret of the operator. Raises NameTakenError if another client owns that name."""


class ReconcileContext(Protocol):
    """The environment of a reconciler. Methods raise KubeError if the API server fails or refuses."""

    @property
    def events(self) -> Events: ...

    @property
    def progress(self) -> ByCluster[ClusterProgress]: ...

    @property
    def mark(self) -> Callable[[Queue, ClusterKey], None]:
        """Return the function that puts a cluster into another queue, by the queue's name."""

    async def gather(self, key: ClusterKey, kinds: Collection[Kind], *, fresh: bool = False) -> Snapshot:
        """Return the cluster, and all objects of these kinds that name it.

        With `fresh` no cache is read: for decisions that cannot be undone. Raises UnreadableClusterError.
        """

    async def pool(self, cluster: BrokerCluster) -> BrokerPool | None:
        """Return the brokers that have an address now; None without such brokers."""

    async def write_status(self, resource: Found, status: Status, *, without: Collection[str] = ()) -> Found | None:
        """Write the status if it differs from the present one, without the fields in `without`.

        Returns the object as known afterwards, or None if the status did not differ. Fields in `without` belong to
        another writer.
        """

    async def remember(self, resource: Resource, fields: Mapping[str, Any]) -> None:
        """Store these fields of the resource's status durably.

        The call returns before the caller makes the change that they describe.
        """

    async def set_finalizers(self, body: Mapping[str, Any], finalizers: Sequence[str]) -> None:
        """Set the finalizers of a custom resource. An object that is gone is ignored.

        `body` has the object's apiVersion, kind and metadata, in the version that was read.
        """

    async def report_unreadable(self, unreadable: Iterable[Unreadable], refusals: Refusals) -> None:
        """Report in the statuses of these objects that they cannot be read.

        `refusals` keeps refusals that may pass. Raises KubeError only for an error that concerns all objects.
        """

    async def post(self, resource: Resource, type_: EventType, reason: str, message: str) -> None:
        """Record an Event on the resource."""

    def is_news(self, sentence: str, *subject: Hashable) -> bool:
        """Return whether the last sentence about the subject differs from `sentence`."""

    def resync_s(self, cluster: BrokerCluster) -> float:
        """Return the seconds after which the cluster is reconciled again, also without a known change."""


class UserContext(ReconcileContext, SecretStore, Protocol):
    """The environment in which reconcilers of KafkaUsers run."""


class ExternalContext(ReconcileContext, Protocol):
    """The environment of reconcilers that may govern external clusters."""

    @property
    def external(self) -> ExternalFleet: ...


class RollMetrics(Protocol):
    """Counts rolls and restarts for metrics. The methods do nothing unless a class overrides them."""

    def note_roll(self, key: ClusterKey, step: RollStep | None) -> None:
        return

    def note_restart(self, reason: str) -> None:
        return


class FleetContext(ReconcileContext, SecretStore, Protocol):
    """The environment in which reconcilers that change nodes run."""

    @property
    def fleet(self) -> Fleet: ...

    @property
    def figures(self) -> RollMetrics: ...

    async def pool_of(self, cluster: BrokerCluster, brokers: tuple[BrokerAddress, ...]) -> BrokerPool | None:
        """Return a pool of connections to these brokers; None for no brokers."""


class QuotaMetrics(Protocol):
    """Counts events of ConnectionQuotas for metrics. The methods do nothing unless a class overrides them."""

    def note_quotas(self, key: ClusterKey, states: Mapping[str, str] | None) -> None:
        """Record the reason of condition Enforced of each ConnectionQuota; None if the cluster has no quotas."""
        return

    def note_drift(self, changes: int) -> None:
        return

    def note_enforced_after(self, seconds: float) -> None:
        return


class QuotaContext(ReconcileContext, Protocol):
    """The environment of the quota path, which measures its latency and yields to newer changes."""

    @property
    def first_seen(self) -> FirstSeen: ...

    @property
    def figures(self) -> QuotaMetrics: ...

    @property
    def is_due(self) -> Callable[[Queue, ClusterKey], bool]:
        """Return a function that returns whether a queue must reconcile a cluster again.

        It must if the cluster has changed since the queue began with it.
        """


def recheck_s(context: ReconcileContext, cluster: BrokerCluster) -> float:
    """Return the seconds until the next reconcile of something that watches and controllers report.

    This reconcile finds only what they have missed, and what only brokers report, for example a tag that a user sets on
    a broker.
    """
    return RESYNCS_A_LOOK * context.resync_s(cluster)


def reference(resource: Resource) -> dict[str, Any]:
    """Return the fields that identify an object, in the version that was read."""
    meta = resource.metadata
    named = {"name": meta.name, "namespace": meta.namespace, "uid": meta.uid, "resourceVersion": meta.resource_version}
    return {"apiVersion": resource.api_version, "kind": type(resource).__name__, "metadata": named}


def now() -> datetime:
    return datetime.now(UTC).replace(microsecond=0)
