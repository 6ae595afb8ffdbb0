"""Where reconcilers run under `sluicegate up`: over objects from files and brokers that are processes."""

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from typing import Any

from sluicegate_operator.api import BrokerCluster, ObserverPlugin, Resource
from sluicegate_operator.api.broker_cluster import Brokers
from sluicegate_operator.api.metadata import Status
from sluicegate_operator.engine.context import EventType, Found, QuotaFigures, reference
from sluicegate_operator.engine.first_seen import FirstSeen
from sluicegate_operator.engine.pools import Pools
from sluicegate_operator.engine.progress import Progresses
from sluicegate_operator.engine.said import Said
from sluicegate_operator.engine.snapshot import ClusterKey, Snapshot, Unreadable
from sluicegate_operator.fleet.asking import BrokerPool
from sluicegate_operator.fleet.base import BrokerAddress
from sluicegate_operator.fleet.external import ExternalFleet
from sluicegate_operator.fleet.local import LocalFleet
from sluicegate_operator.kube.kinds import Kind
from sluicegate_operator.local.objects import LocalObjects
from sluicegate_operator.planning.broker_config import OwnTags
from sluicegate_operator.planning.observer_code import ModulesFound
from sluicegate_operator.planning.observers import ObserverPlan

TOLD_OTHERWISE = ("Enforced",)
"""Reasons of Events that people are told of by a line for all quotas together."""


class LocalContext:
    """Owns connections to brokers, and what a person was told last."""

    def __init__(
        self, objects: LocalObjects, fleet: LocalFleet, say: Callable[[str], None], changed: Callable[[], None]
    ) -> None:
        """`changed` is called when a status did."""
        self._objects = objects
        self._fleet = fleet
        self._changed = changed
        self._pools = Pools()
        self.external = ExternalFleet(siblings=self._clusters)
        self._said: Said[tuple[Hashable, ...]] = Said()
        self.events = SaidEvents(say)
        self.first_seen = FirstSeen()
        self.figures: QuotaFigures = NoFigures()
        self.progress = Progresses()
        self.mark: Callable[[str, ClusterKey], None] = _nowhere
        self.is_due: Callable[[str, ClusterKey], bool] = _never
        self.running: set[ClusterKey] = set()
        """Clusters whose brokers may be asked: their processes have been started, or others run them."""

    def _clusters(self) -> Iterable[BrokerCluster]:
        return (found for found in self._objects.resources if isinstance(found, BrokerCluster))

    async def gather(self, key: ClusterKey, kinds: Collection[Kind]) -> Snapshot:
        return self._objects.snapshot(key, kinds)

    async def pool(self, cluster: BrokerCluster) -> BrokerPool | None:
        key = (cluster.namespace, cluster.name)
        if key not in self.running:
            return None
        return await self._pools.of(key, await self.broker_addresses(cluster))

    async def broker_addresses(self, cluster: BrokerCluster) -> tuple[BrokerAddress, ...]:
        """Of processes here, or of a cluster that others run."""
        if cluster.spec.is_external:
            return await self.external.broker_addresses(cluster)
        return await self._fleet.broker_addresses(cluster.name)

    async def forget_cluster(self, key: ClusterKey) -> None:
        self.progress.pop(key, None)
        await self.external.forget(key)
        await self._pools.forget(key)

    async def write_status(self, resource: Found, status: Status, *, without: Collection[str] = ()) -> Found | None:
        if not self._objects.write_status(resource, status, without):
            return None
        self._changed()
        return resource.model_copy(update={"status": status})

    async def remember(self, resource: Resource, fields: Mapping[str, Any]) -> None:
        self._objects.remember(resource, fields)

    async def set_finalizers(self, body: Mapping[str, Any], finalizers: Sequence[str]) -> None:
        self._objects.set_finalizers(body, finalizers)

    async def say_unreadable(self, unreadable: Iterable[Unreadable]) -> None:
        """Files that cannot be read are not applied."""

    async def post(self, resource: Resource, type_: EventType, reason: str, message: str) -> None:
        await self.events.record(reference(resource), type_, reason, message)

    def is_news(self, sentence: str, *subject: Hashable) -> bool:
        return self._said.note(subject, sentence, 0.0) is None

    def resync_s(self, cluster: BrokerCluster) -> float:
        return float(cluster.spec.resync_seconds)

    async def aclose(self) -> None:
        await self.external.aclose()
        await self._pools.aclose()


class SaidEvents:
    """Events are lines of the terminal."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say

    async def record(self, body: Mapping[str, Any], type_: EventType, reason: str, message: str) -> None:
        kind, name = body["kind"], body["metadata"]["name"]
        if type_ == "Warning" or reason not in TOLD_OTHERWISE:
            self._say(f"{name}: {message}" if kind == BrokerCluster.__name__ else f"{kind} {name}: {message}")


class NoFigures:
    """Nobody scrapes `sluicegate up`."""

    def note_quotas(self, key: ClusterKey, states: Mapping[str, str] | None) -> None:
        pass

    def note_drift(self, changes: int) -> None:
        pass

    def note_enforced_after(self, seconds: float) -> None:
        pass


class NoConfigMaps:
    """Observers are imported from where Python finds them, and their audit logs are landed by `up`."""

    async def find(self, key: ClusterKey, plugins: Sequence[ObserverPlugin]) -> ModulesFound:
        return ModulesFound()

    async def give(self, cluster: BrokerCluster, plan: ObserverPlan, *, hold: bool) -> None:
        pass

    def note(self, cluster: BrokerCluster, plugin: ObserverPlugin) -> str:
        return ""


async def no_node_labels(
    cluster: BrokerCluster, brokers: Brokers, everybody: frozenset[int]
) -> tuple[OwnTags, dict[int, str]]:
    """One machine has no nodes whose labels would be tags."""
    return OwnTags(brokers=everybody), {}


def _nowhere(queue: str, key: ClusterKey) -> None:
    raise RuntimeError(f"there are no queues yet to put {key} into {queue}")


def _never(queue: str, key: ClusterKey) -> bool:
    raise RuntimeError(f"there are no queues yet where {key} may wait for {queue}")
