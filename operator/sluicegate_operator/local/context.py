"""The environment of reconcilers under `sluicegate up`: objects from files, and brokers that are processes."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from sluicegate_operator.api import BrokerCluster, BrokerListener, ObserverPlugin, Resource
from sluicegate_operator.api.models.broker_cluster import Brokers
from sluicegate_operator.api.schema.metadata import Status
from sluicegate_operator.engine.context.context import (
    EventType,
    Found,
    QuotaMetrics,
    RollMetrics,
    StoredSecret,
    reference,
)
from sluicegate_operator.engine.context.shared_context import SharedContext
from sluicegate_operator.engine.context.snapshot import ClusterKey, Snapshot, Unreadable
from sluicegate_operator.fleet.kafka.asking import BrokerPool
from sluicegate_operator.fleet.local.local import LocalFleet
from sluicegate_operator.kube.client.one_by_one import Refusals
from sluicegate_operator.kube.http.errors import KubeError
from sluicegate_operator.kube.http.kinds import Kind
from sluicegate_operator.local.certificates import LocalCertificates
from sluicegate_operator.local.objects import LocalObjects
from sluicegate_operator.local.secrets import LocalSecrets
from sluicegate_operator.planning.layout.broker_config import OwnTags
from sluicegate_operator.planning.observers.observer_code import ModulesFound
from sluicegate_operator.planning.observers.observers import ObserverPlan

ROLL_BLOCKED = "RollBlocked"
TOLD_OTHERWISE = ("Enforced",)
"""Reasons of Events that are not printed: one line reports all quotas together."""


class LocalContext(SharedContext[LocalFleet]):
    """The environment of reconcilers in `sluicegate up`: objects from files, brokers as processes, printed Events."""

    def __init__(
        self,
        objects: LocalObjects,
        fleet: LocalFleet,
        secrets: LocalSecrets,
        say: Callable[[str], None],
        changed: Callable[[], None],
    ) -> None:
        """Create the context. `changed` is called after a status has changed."""
        super().__init__(fleet, self._clusters, read_secret=self.read_secret)
        fleet.security = self.node_security.of
        self._objects = objects
        self._secrets = secrets
        self._certificates = LocalCertificates(secrets)
        self._changed = changed
        self.events = PrintedEvents(say)
        self.figures = NoMetrics()
        self.running: set[ClusterKey] = set()
        """Clusters whose brokers may be queried: their processes have been started, or they are external."""

    def _clusters(self) -> Iterable[BrokerCluster]:
        return (found for found in self._objects.resources if isinstance(found, BrokerCluster))

    async def gather(self, key: ClusterKey, kinds: Collection[Kind], *, fresh: bool = False) -> Snapshot:
        return self._objects.snapshot(key, kinds)

    async def pool(self, cluster: BrokerCluster) -> BrokerPool | None:
        return await super().pool(cluster) if (cluster.namespace, cluster.name) in self.running else None

    async def write_status(self, resource: Found, status: Status, *, without: Collection[str] = ()) -> Found | None:
        if not self._objects.write_status(resource, status, without):
            return None
        self._changed()
        return resource.model_copy(update={"status": status})

    async def remember(self, resource: Resource, fields: Mapping[str, Any]) -> None:
        self._objects.remember(resource, fields)

    async def read_secret(self, namespace: str, name: str) -> Mapping[str, bytes] | None:
        """Return the data of a Secret; None without it.

        A certificate that a listener names is made. Raises KubeError.
        """
        if any(_is_certificate(found, namespace, name) for found in self._objects.resources):
            return (await self._certificates.keep(namespace, name)).data
        found = self._secrets.find(namespace, name)
        if found is None:
            where = self._secrets.path(namespace, name)
            raise KubeError(f"`sluicegate up` reads Secret {name} from files: write each key into a file of {where}")
        return found.data

    async def find_secret(self, child: Mapping[str, Any]) -> StoredSecret | None:
        return self._secrets.find_own(child)

    async def apply_secret(self, manifest: Mapping[str, Any]) -> StoredSecret:
        return self._secrets.apply(manifest)

    async def set_finalizers(self, body: Mapping[str, Any], finalizers: Sequence[str]) -> None:
        self._objects.set_finalizers(body, finalizers)

    async def report_unreadable(self, unreadable: Iterable[Unreadable], refusals: Refusals) -> None:
        """Do nothing: files that cannot be read are not applied."""

    async def post(self, resource: Resource, type_: EventType, reason: str, message: str) -> None:
        await self.events.record(reference(resource), type_, reason, message)

    def resync_s(self, cluster: BrokerCluster) -> float:
        return float(cluster.spec.resync_seconds)


def _is_certificate(resource: Resource, namespace: str, name: str) -> bool:
    if not isinstance(resource, BrokerListener) or resource.spec.tls is None:
        return False
    return (resource.namespace, resource.spec.tls.secret_name) == (namespace, name)


class PrintedEvents:
    """Prints Events on the terminal. A lasting Warning is printed once until something else happens to its object."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._warnings: dict[str, dict[str, str]] = {}
        """Messages by the subject that begins a line, and by the Event's reason."""

    async def record(self, body: Mapping[str, Any], type_: EventType, reason: str, message: str) -> None:
        kind, name = body["kind"], body["metadata"]["name"]
        subject = name if kind == BrokerCluster.__name__ else f"{kind} {name}"
        lasting = self._warnings.setdefault(subject, {})
        if type_ == "Normal":
            lasting.clear()
        elif lasting.get(reason) == message:
            return
        else:
            lasting[reason] = message
        if type_ == "Warning" or reason not in TOLD_OTHERWISE:
            what = "the roll is blocked: " if reason.startswith(ROLL_BLOCKED) else ""
            self._say(f"{subject}: {what}{message}")


class NoMetrics(QuotaMetrics, RollMetrics):
    """Metrics of quotas and rolls that do nothing: `sluicegate up` has none."""


class NoConfigMaps:
    """Stands in for the ConfigMaps with observers' code, of which `sluicegate up` has none.

    Python finds observers on its path, and `up` lands their audit logs.
    """

    async def find(self, key: ClusterKey, plugins: Sequence[ObserverPlugin], refusals: Refusals) -> ModulesFound:
        return ModulesFound()

    async def give(self, cluster: BrokerCluster, plan: ObserverPlan, *, keeps: bool) -> None:
        pass

    def note(self, cluster: BrokerCluster, plugin: ObserverPlugin) -> str:
        return ""


async def no_node_labels(
    cluster: BrokerCluster, brokers: Brokers, everybody: frozenset[int]
) -> tuple[OwnTags, dict[int, str]]:
    """Return no tags of nodes: one machine has no Kubernetes nodes with labels."""
    return OwnTags(brokers=everybody), {}
