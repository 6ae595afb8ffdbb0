"""Brokers of external clusters: an Apache Kafka cluster, found by its bootstrap servers.

DescribeCluster reports which brokers exist and where, so that limits reach each of them. A cluster is identified by its
id. If the bootstrap servers answer with another id, no addresses are returned. A single broker that does is barred. So
nothing of another cluster is changed. The module has only soft state: the id that counts is in the BrokerCluster.
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from sluicegate_operator.api.models.broker_cluster import BrokerCluster
from sluicegate_operator.fleet.base import BrokerAddress
from sluicegate_operator.fleet.external.external_security import (
    ExternalSecurity,
    ReadSecret,
    SecretUnusableError,
    no_secrets,
)
from sluicegate_operator.fleet.kafka.asking import BrokerPool, Unreachable
from sluicegate_operator.kafka_admin.client import AdminClient, BrokerHandle
from sluicegate_operator.kafka_admin.errors import Address, AuthenticationError, KafkaAdminError, NoBrokerAnswersError
from sluicegate_operator.kafka_admin.security.client_security import PLAINTEXT, ClientSecurity
from sluicegate_operator.kafka_admin.views import ClusterView, QuorumView, TopicView
from sluicegate_operator.planning.external.external_status import (
    ExternalBroker,
    ExternalSeen,
    Quorum,
    ReplicaCounts,
    Sibling,
    Voter,
    governed_id,
    why_another,
    why_governed,
)

FRESH_S = 1.0
"""Seconds for which several callers get the same answer about a cluster."""
REQUEST_TIMEOUT_S = 3.0
METADATA_VERSION = "metadata.version"

Key = tuple[str, str]
"""The namespace and name of a BrokerCluster."""


def server_address(server: str) -> Address:
    """Parse an address host:port, with an IPv6 address in brackets."""
    host, _, port = server.rpartition(":")
    return host.strip("[]"), int(port)


@dataclass(slots=True)
class _Known:
    """The state of one cluster that is kept between reads."""

    servers: tuple[str, ...] = ()
    security: ClientSecurity = PLAINTEXT
    client: AdminClient | None = None
    seen: ExternalSeen = field(default_factory=ExternalSeen)
    looked_s: float = float("-inf")
    asking: asyncio.Lock = field(default_factory=asyncio.Lock)


class ExternalFleet:
    """The brokers of external clusters. Belongs to one event loop.

    `may_write` is called before anything is changed, `siblings` returns all known BrokerClusters, and `read_secret`
    reads the Secrets that specs name.
    """

    def __init__(
        self,
        may_write: Callable[[], bool] = lambda: True,
        siblings: Callable[[], Iterable[Sibling]] = tuple,
        read_secret: ReadSecret = no_secrets,
    ) -> None:
        self._may_write = may_write
        self._siblings = siblings
        self._security = ExternalSecurity(read_secret)
        self._known: defaultdict[Key, _Known] = defaultdict(_Known)

    async def observe(self, cluster: BrokerCluster) -> ExternalSeen:
        """Return the state of the cluster, and which of its brokers answer at their own addresses.

        An observation that is younger than FRESH_S is returned again. Errors of brokers and Secrets are in the result.
        """
        known = self._known[cluster.namespace, cluster.name]
        async with known.asking:
            now_s = asyncio.get_running_loop().time()
            servers = cluster.spec.bootstrap_servers or ()
            try:
                security = await self._security.of(cluster)
            except SecretUnusableError as error:
                return ExternalSeen(unseen=str(error), denied="SecretUnusable")
            if (servers, security) != (known.servers, known.security) or now_s - known.looked_s > FRESH_S:
                client = await self._client(known, servers, security)
                known.seen = await _observe(client, cluster, self._siblings)
                known.looked_s = asyncio.get_running_loop().time()
            return known.seen

    async def broker_addresses(self, cluster: BrokerCluster) -> tuple[BrokerAddress, ...]:
        """Return the addresses of the cluster's brokers; empty if the cluster must not be used.

        A cluster must not be used while it does not answer, while its id is not yet in the status, if it is another
        cluster, or if another BrokerCluster governs it.
        """
        seen = await self.observe(cluster)
        if seen.unseen or seen.governed or seen.cluster_id != governed_id(cluster):
            return ()
        return tuple(_address(broker) for broker in seen.brokers)

    async def count_replicas(self, cluster: BrokerCluster) -> Mapping[int, ReplicaCounts]:
        """Return the counts of replicas by broker, without brokers that have no replica. Raises KafkaAdminError."""
        known = self._known[cluster.namespace, cluster.name]
        try:
            security = await self._security.of(cluster)
        except SecretUnusableError as error:
            raise KafkaAdminError(str(error)) from None
        client = await self._client(known, cluster.spec.bootstrap_servers or (), security)
        return _count((await client.describe_topics()).values())

    async def security(self, cluster: BrokerCluster) -> ClientSecurity:
        """Return the TLS and SASL settings for connections to the cluster's brokers. Raises SecretUnusableError."""
        return await self._security.of(cluster)

    async def _client(self, known: _Known, servers: tuple[str, ...], security: ClientSecurity) -> AdminClient:
        if known.client is None or (servers, security) != (known.servers, known.security):
            if known.client is not None:
                await known.client.aclose()
            known.servers, known.security = servers, security
            known.client = AdminClient(
                [server_address(server) for server in servers],
                request_timeout_s=REQUEST_TIMEOUT_S,
                may_write=self._may_write,
                security=security,
            )
        return known.client

    async def forget(self, key: Key) -> None:
        self._security.forget(key)
        known = self._known.pop(key, None)
        if known is not None and known.client is not None:
            await known.client.aclose()

    async def aclose(self) -> None:
        for key in list(self._known):
            await self.forget(key)


def _address(broker: ExternalBroker) -> BrokerAddress:
    barred = broker.silent if broker.stranger else ""
    return BrokerAddress(broker.id, broker.host, broker.port, not broker.fenced, barred)


async def _observe(
    client: AdminClient, cluster: BrokerCluster, siblings: Callable[[], Iterable[Sibling]]
) -> ExternalSeen:
    try:
        view = await client.describe_cluster_with_fenced()
    except KafkaAdminError as error:
        return ExternalSeen(unseen=str(error), denied="AuthenticationFailed" if _is_denial(error) else "")
    if why_another(cluster, view.cluster_id):
        return ExternalSeen(view.cluster_id)
    if governed := why_governed(cluster, view.cluster_id, siblings()):
        return ExternalSeen(view.cluster_id, governed=governed)
    brokers = await _brokers(client, view)
    level = await _metadata_version(client)
    try:
        quorum = _quorum(await client.describe_quorum())
    except KafkaAdminError as error:
        return ExternalSeen(view.cluster_id, brokers, no_quorum=str(error), metadata_version=level)
    return ExternalSeen(view.cluster_id, brokers, quorum, metadata_version=level)


def _is_denial(error: KafkaAdminError) -> bool:
    """Return whether a broker was reached and the connection was not accepted by one of both sides."""
    if isinstance(error, NoBrokerAnswersError):
        return any(_is_denial(failure) for failure in error.failures)
    return isinstance(error, AuthenticationError)


async def _metadata_version(client: AdminClient) -> int | None:
    try:
        return (await client.describe_features()).get(METADATA_VERSION)
    except KafkaAdminError:
        return None


async def _brokers(client: AdminClient, view: ClusterView) -> tuple[ExternalBroker, ...]:
    """Query each broker that is not fenced, at the address that the cluster reports."""
    found = [ExternalBroker(one.id, one.host, one.port, one.rack, one.fenced) for one in view.brokers]

    async def ask(_: BrokerAddress, handle: BrokerHandle) -> str:
        return (await handle.describe_cluster()).cluster_id

    pool = BrokerPool(client, tuple(_address(broker) for broker in found if not broker.fenced))
    answers = await pool.ask_each(ask)

    def judged(broker: ExternalBroker) -> ExternalBroker:
        answer = answers.get(broker.id, view.cluster_id)
        if isinstance(answer, Unreachable):
            return replace(broker, silent=answer.reason)
        if answer != view.cluster_id:
            there = f"a broker of the cluster with cluster.id {answer} answers at this address"
            return replace(broker, silent=there, stranger=True)
        return broker

    return tuple(map(judged, found))


def _quorum(view: QuorumView) -> Quorum:
    """Return the quorum with times relative to the active controller's clock, which is in its own entry."""
    leader = next((voter for voter in view.voters if voter.id == view.leader_id), None)
    voters = []
    for voter in view.voters:
        known = leader is not None and voter.log_end_offset >= 0
        lag = max(0, leader.log_end_offset - voter.log_end_offset) if leader is not None and known else None
        heard = leader is not None and leader.fetched_ms >= 0 and voter.fetched_ms >= 0
        silent_s = max(0, leader.fetched_ms - voter.fetched_ms) / 1000 if leader is not None and heard else None
        voters.append(Voter(voter.id, lag, 0.0 if voter is leader else silent_s))
    return Quorum(view.leader_id, view.leader_epoch, tuple(voters))


def _count(topics: Iterable[TopicView]) -> dict[int, ReplicaCounts]:
    counts: dict[int, list[int]] = {}
    for partition in (partition for topic in topics for partition in topic.partitions):
        for broker_id in partition.replicas:
            count = counts.setdefault(broker_id, [0, 0, 0])
            count[0] += broker_id == partition.leader
            count[1] += 1
            count[2] += broker_id not in partition.isr
    return {broker_id: ReplicaCounts(*count) for broker_id, count in counts.items()}
