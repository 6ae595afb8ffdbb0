"""An admin client without sockets, over a cluster that a test plays.

cluster = PlayedCluster()
cluster.lead("orders", 0, leader=1, end=100)
cluster.commit("billing", {("orders", 0): 40}, coordinator=1)
cluster.away.add(1)                     # its requests fail
async with cluster.admin([], PLAINTEXT) as admin: ...
"""

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self, cast

from sluicegate_operator.kafka_admin.client import AdminClient
from sluicegate_operator.kafka_admin.errors import Address, AdminConnectionError, KafkaAdminError
from sluicegate_operator.kafka_admin.groups.group_views import CONSUMER, GroupListing, GroupView
from sluicegate_operator.kafka_admin.security.client_security import ClientSecurity
from sluicegate_operator.kafka_admin.views import BrokerView, ClusterView, Partition, PartitionView, TopicView

BROKERS = (0, 1, 2)
PORT = 9092


@dataclass(slots=True)
class PlayedCluster:
    """The state of the cluster, which a test changes between requests.

    - `away`: brokers whose requests fail; `fenced`: brokers that the controller has fenced.
    - `failure`: the error of every request to the bootstrap server.
    - `silent`: requests that are never answered, by method.
    - `before`: a function that receives the method of each request before its answer.
    - `clients`: number of open clients. `at_once`: peak number of groups that are described at the same time.
    """

    partitions: dict[Partition, PartitionView] = field(default_factory=dict)
    ends: dict[Partition, int] = field(default_factory=dict)
    groups: dict[str, dict[Partition, int]] = field(default_factory=dict)
    coordinators: dict[str, int] = field(default_factory=dict)
    away: set[int] = field(default_factory=set)
    fenced: set[int] = field(default_factory=set)
    failure: KafkaAdminError | None = None
    silent: set[str] = field(default_factory=set)
    before: Callable[[str], None] = lambda method: None
    clients: int = 0
    at_once: int = 0
    under_way: int = 0

    def lead(self, topic: str, index: int, leader: int | None, end: int, isr: tuple[int, ...] = BROKERS) -> None:
        self.partitions[topic, index] = PartitionView(index, leader, BROKERS, isr)
        self.ends[topic, index] = end

    def commit(self, group: str, offsets: dict[Partition, int], coordinator: int) -> None:
        self.groups[group], self.coordinators[group] = offsets, coordinator

    def admin(self, addresses: Sequence[Address], security: ClientSecurity) -> AdminClient:
        """Return a client; its type is a promise, because it has only the methods that the console uses."""
        return cast("AdminClient", PlayedAdmin(self))

    async def receive(self, method: str) -> None:
        self.before(method)
        if method in self.silent:
            await asyncio.get_running_loop().create_future()
        if self.failure is not None:
            raise self.failure

    def brokers(self) -> tuple[BrokerView, ...]:
        return tuple(BrokerView(one, f"b{one}", PORT) for one in BROKERS if one not in self.fenced)


class PlayedAdmin:
    """The client of a played cluster. Requests to the bootstrap server are answered by any broker."""

    def __init__(self, cluster: PlayedCluster) -> None:
        self._cluster = cluster

    async def __aenter__(self) -> Self:
        self._cluster.clients += 1
        return self

    async def __aexit__(self, *error: object) -> None:
        self._cluster.clients -= 1

    def broker(self, host: str, port: int) -> "PlayedBroker":
        return PlayedBroker(self._cluster, int(host[1:]))

    async def describe_topics(self, names: Collection[str] | None = None) -> dict[str, TopicView]:
        await self._cluster.receive("describe_topics")
        found: dict[str, list[PartitionView]] = {}
        for (topic, _), view in sorted(self._cluster.partitions.items()):
            if names is None or topic in names:
                found.setdefault(topic, []).append(view)
        return {name: TopicView(name, None, tuple(views)) for name, views in found.items()}

    async def describe_cluster(self) -> ClusterView:
        await self._cluster.receive("describe_cluster")
        return ClusterView("id", 1000, self._cluster.brokers())

    async def describe_cluster_with_fenced(self) -> ClusterView:
        await self._cluster.receive("describe_cluster_with_fenced")
        fenced = tuple(BrokerView(one, f"b{one}", PORT, fenced=True) for one in sorted(self._cluster.fenced))
        return ClusterView("id", 1000, (*self._cluster.brokers(), *fenced))

    async def describe_ip_quotas(self) -> dict[str | None, float]:
        await self._cluster.receive("describe_ip_quotas")
        return {"10.0.0.1": 5.0}

    async def find_coordinators(self, group_ids: Collection[str]) -> dict[str, BrokerView]:
        await self._cluster.receive("find_coordinators")
        found = {name: self._cluster.coordinators[name] for name in group_ids}
        return {name: BrokerView(one, f"b{one}", PORT) for name, one in found.items()}


class PlayedBroker:
    """The handle of one broker."""

    def __init__(self, cluster: PlayedCluster, broker_id: int) -> None:
        self._cluster = cluster
        self._id = broker_id

    async def _receive(self, method: str) -> None:
        await self._cluster.receive(method)
        if self._id in self._cluster.away:
            raise AdminConnectionError((f"b{self._id}", PORT), "cannot connect: Connection refused")

    async def list_groups(self) -> list[GroupListing]:
        await self._receive("list_groups")
        own = [name for name, one in self._cluster.coordinators.items() if one == self._id]
        return [GroupListing(name, "Stable", CONSUMER, CONSUMER) for name in own]

    async def describe_consumer_group(self, group_id: str) -> GroupView:
        self._cluster.under_way += 1
        self._cluster.at_once = max(self._cluster.at_once, self._cluster.under_way)
        try:
            await asyncio.sleep(0)
            await self._receive("describe_consumer_group")
        finally:
            self._cluster.under_way -= 1
        return GroupView(group_id, "Stable", CONSUMER, CONSUMER, "uniform", ())

    async def fetch_offsets(self, group_id: str) -> dict[Partition, int]:
        await self._receive("fetch_offsets")
        return dict(self._cluster.groups[group_id])

    async def list_offsets(self, partitions: Collection[Partition], time_ms: int) -> dict[Partition, int]:
        await self._receive("list_offsets")
        return {one: self._cluster.ends[one] for one in partitions}

    async def describe_broker_configs(self, broker_id: int, keys: Collection[str]) -> Mapping[str, Any]:
        await self._receive("describe_broker_configs")
        return {}
