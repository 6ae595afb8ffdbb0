"""The broker role of a process: client listeners, the partitions it leads, and configuration from metadata.

It reacts to metadata changes; nothing else changes what is served. It knows neither Kubernetes nor HTTP nor the start
order.
"""

import asyncio
import logging
from collections.abc import Iterator
from importlib import import_module
from typing import TYPE_CHECKING
from uuid import UUID

from broker_runtime.apis.push.push_on_demand import PushOnDemand
from broker_runtime.apis.request.context import BrokerContext
from broker_runtime.apis.request.dispatching.dispatch import Dispatcher
from broker_runtime.apis.request.dispatching.on_demand import FirstRequests
from broker_runtime.apis.request.request_metrics import RequestMetrics
from broker_runtime.apis.table import BROKER_APIS, COUNTED_APIS
from broker_runtime.clock import Clock
from broker_runtime.cluster.follower import MetadataFollower
from broker_runtime.cluster.links.link import ControllerClient
from broker_runtime.cluster.links.peers import BrokerPeers
from broker_runtime.cluster.metadata_publisher import MetadataPublisher
from broker_runtime.config import BrokerSettings
from broker_runtime.config.in_force.effective import EffectiveConfig, effective_config
from broker_runtime.errors import KafkaError
from broker_runtime.groups.lag.log_ends import LogEndReader
from broker_runtime.groups.lag.watch import LagWatch
from broker_runtime.groups.on_demand import GroupsOnDemand
from broker_runtime.groups.partition_leaders import PartitionLeaders
from broker_runtime.metadata.image import MetadataImage
from broker_runtime.metadata.topic_names import GROUPS_TOPIC, TRANSACTIONS_TOPIC
from broker_runtime.network.connection.outgoing.client_connection import ClientConnector
from broker_runtime.network.server import SocketServer
from broker_runtime.network.sockets.dialling import SocketDialler
from broker_runtime.node.broker_services import BrokerServices
from broker_runtime.node.clients.authorization import authorization, gate_of
from broker_runtime.node.clients.client_quotas_on_demand import ClientQuotasOnDemand
from broker_runtime.node.clients.sasl_listeners import authentication_of, login_to_brokers
from broker_runtime.node.limits import host_names, limits_to_brokers, network_limits, quota_settings, request_limits
from broker_runtime.node.limits_in_force import LimitsInForce
from broker_runtime.node.listeners_in_force import ListenersInForce
from broker_runtime.node.tls.tls_on_demand import TlsOnDemand
from broker_runtime.observers.running.on_demand import ObserversOnDemand
from broker_runtime.observers.surroundings import BrokerFacts, HostedPartition, MetadataBefore
from broker_runtime.on_demand import Importer
from broker_runtime.replication.manager import ReplicaManager
from broker_runtime.replication.peer import Peers
from broker_runtime.storage.log_dir.manager import LogManager
from broker_runtime.transactions.on_demand import CoordinatorParts, TransactionsOnDemand
from broker_runtime.wire.handler import FrameHandler
from broker_runtime.wire.protocol_versions import transaction_version

if TYPE_CHECKING:
    from broker_runtime.apis.sasl.authentication import Authentication

log = logging.getLogger(__name__)

_METADATA_BEFORE = "broker_runtime.node.metadata_before"
"""Imported when an audit log is configured."""


class _Observed:
    """The part of a broker that observers can access."""

    def __init__(self, dispatcher: Dispatcher[BrokerContext], server: SocketServer) -> None:
        self.observe_requests = dispatcher.observe
        self.observe_connections = server.connection_notices.observe


class BrokerNode:
    """The broker's role in a node: its client listeners, the dispatcher of their requests, and the replicas.

    `metadata` reacts to changes of the metadata; BrokerServices is what handlers use. Only the logs are durable. The
    second of `clients` forwards requests that would block others.
    """

    def __init__(
        self,
        settings: BrokerSettings,
        clock: Clock,
        logs: LogManager,
        cluster_id: str,
        clients: tuple[ControllerClient, ControllerClient],
        *,
        peers: Peers | None = None,
        server: SocketServer | None = None,
    ) -> None:
        """Create the node without starting it. Simulations pass `peers` and `server`. Raises ConfigError."""
        self.settings = settings
        self.clock = clock
        self.tls = TlsOnDemand(settings)
        self.logs = logs
        self.cluster_id = cluster_id
        self.image = MetadataImage()
        self._clients = clients
        self._loop = asyncio.get_running_loop()
        self._follower: MetadataFollower | None = None
        if peers is None:
            dialler = SocketDialler(self._loop, self.tls.dialling(settings.inter_broker_listener))
            connector = ClientConnector(dialler, limits_to_brokers(settings), login_to_brokers(settings))
            peers = BrokerPeers(self.image, settings.inter_broker_listener, connector)
        self.replicas = ReplicaManager(settings, clock, logs, self.image, peers)
        effective = effective_config(settings, {}, {})
        self._host_names = host_names(settings)
        self._services = BrokerServices(settings, clock, cluster_id, self.image, logs, self.replicas, clients)
        self.slices = self._services.slices
        self.request_metrics = RequestMetrics(COUNTED_APIS)
        self.authorization = authorization(settings, clock, lambda: self.image)
        importer = Importer()
        self._first_requests = FirstRequests(importer)
        self.dispatcher = self._new_dispatcher()
        handler = PushOnDemand(
            self._services, self.dispatcher.handle, self.dispatcher.completion, self._first_requests
        ).handle
        self.server = server or self._own_server(handler, effective)
        self._authentication = self._authenticate(handler)
        self.limits = LimitsInForce(settings, effective, self.image, self.server, self._host_names)
        self.observers = self._no_observers_yet()
        self._services.note_on_config = self.observers.note_on
        self.listeners = self._services.listeners = ListenersInForce(settings, self.server, self.tls)
        self.metadata = MetadataPublisher(
            settings, clock, self.image, logs, self.replicas, (self.limits, self.listeners, self.observers)
        )
        self.client_quotas = ClientQuotasOnDemand(settings.config, self.image, self.dispatcher, clock)
        self.metadata.on_client_quotas = self.client_quotas.apply
        check_s = settings.config.sluicegate_group_push_offsets_check_timeout_ms / 1000
        epochs = (settings.node_id, self._own_epoch_end, PartitionLeaders(self.image, peers.link_to, check_s))
        led = self.replicas.led_replicas
        self.groups = GroupsOnDemand(
            lambda: self.metadata.effective.config, self.image, clock, importer, epochs, led.is_to_lead
        )
        self._services.groups_on_demand = self.groups
        led.observers[GROUPS_TOPIC] = self.groups
        self.transactions = self._services.transactions_on_demand = self._new_transactions(importer, peers)
        led.observers[TRANSACTIONS_TOPIC] = self.transactions
        self.metadata.replica_publisher.on_topics = self.groups.topics_changed
        self.group_lag = self._new_lag_watch(peers)
        self.open = False
        """Whether the listeners accept clients."""

    def _new_dispatcher(self) -> Dispatcher[BrokerContext]:
        made: Dispatcher[BrokerContext] = Dispatcher(
            self._services,
            BROKER_APIS,
            self.request_metrics.on_call,
            gate_of(self.authorization),
            replies_empty=self._replies_empty,
            first_requests=self._first_requests,
            long_requests=(self.slices, request_limits(self.settings)),
        )
        made.completion.authorization = self.authorization
        return made

    def _own_server(self, handler: FrameHandler, effective: EffectiveConfig) -> SocketServer:
        limits = network_limits(self.settings, quota_settings(self.settings, effective, {}))
        server = SocketServer(handler, limits, self.clock, self._loop, answers=self.dispatcher.completion.answers)
        server.encrypted = self.tls.accepting
        return server

    def _new_lag_watch(self, peers: Peers) -> LagWatch:
        config = self.settings.config
        timeout_s = config.request_timeout_ms / 1000
        ends = LogEndReader(self.settings.node_id, self.image, self._own_end, peers.link_to, timeout_s)
        return LagWatch(config, self.clock, self.groups.committed, ends)

    def _new_transactions(self, importer: Importer, peers: Peers) -> TransactionsOnDemand:
        services = self._services
        parts = CoordinatorParts(
            self.settings.node_id,
            self.replicas.led_replicas.is_to_lead,
            lambda: self.metadata.effective.config,
            self.image,
            self.clock,
            self.slices,
            services.call_later,
            services.producer_ids,
            lambda: services.local_markers,
            peers.link_to,
            transaction_version,
        )
        return TransactionsOnDemand(parts, importer)

    def _no_observers_yet(self) -> ObserversOnDemand:
        surroundings = BrokerFacts(
            self.settings.node_id,
            self.cluster_id,
            self.settings.log_dir,
            self.clock,
            self._loop.call_soon_threadsafe,
            self._loop.call_later,
            self._held_partitions,
            lambda: list(self.image.brokers),
            self._metadata_before,
            self.server.limit_changes,
        )
        return ObserversOnDemand(surroundings, self._topic_name, _Observed(self.dispatcher, self.server))

    def _metadata_before(self) -> MetadataBefore:
        """Return the metadata for an audit log, which few brokers have."""
        found: MetadataBefore = import_module(_METADATA_BEFORE).MetadataNow(self.image)
        return found

    def _authenticate(self, handler: FrameHandler) -> "Authentication | None":
        """Let clients of SASL listeners authenticate before `handler` gets their requests. Raises ConfigError."""
        settings = self.settings
        found = authentication_of(settings, settings.client_listeners, lambda: self.image, self.cluster_id, self.clock)
        if found is not None:
            found.of(self.server, handler)
        return found

    def _replies_empty(self) -> bool:
        return self.metadata.effective.config.unsupported_request_reply == "empty"

    def follow(self, client: ControllerClient) -> MetadataFollower:
        self._follower = MetadataFollower(client, self.image, self.metadata.publish, self._clients)
        return self._follower

    def serve(self) -> None:
        """Start the replicas that complete metadata assigns to this broker, then admit clients."""
        self.metadata.take_up_replicas(self._let_clients_in)

    def _let_clients_in(self) -> None:
        self.replicas.start(self._clients[0])
        self.listeners.serve()
        self.open = True
        log.info("serving clients on %s", ", ".join(map(str, self.listeners.advertised())))

    async def stop(self, drain_s: float = 2.0) -> None:
        await self.metadata.stop(drain_s)
        await self.limits.close()
        await self.replicas.stop()
        self.group_lag.close()
        await self.transactions.close()
        await self.groups.close()
        await self.server.shutdown(drain_s)
        if self._authentication is not None:
            self._authentication.close()
        await self._first_requests.close()
        await self.dispatcher.close()
        await self.observers.close()
        await self._services.close()

    def _own_end(self, topic: str, index: int) -> int | None:
        """Return the end of a partition as clients can read it.

        None if this broker does not lead it, or has just become its leader and does not know the end yet (KIP-207).
        """
        try:
            leader = self.replicas.led_replicas.led(topic, index)
        except KafkaError:
            return None
        return leader.log.high_watermark if leader.log.high_watermark >= leader.start_offset else None

    def _own_epoch_end(self, topic: str, index: int, epoch: int) -> int | None:
        """Return the offset where a leader epoch ends in a partition's log; None if this broker does not lead it."""
        try:
            leader = self.replicas.led_replicas.led(topic, index)
            if epoch == leader.leader_epoch:
                return leader.log.log_end_offset
            _, end = leader.log.end_offset_for_epoch(epoch)
        except KafkaError:
            return None
        return end if end >= 0 else None

    def _topic_name(self, topic_id: UUID) -> str | None:
        known = self.image.topics.by_id(topic_id)
        return None if known is None else known.name

    def _held_partitions(self) -> Iterator[HostedPartition]:
        """Yield this broker's partitions for the audit log's inventory."""
        for held in self.logs.logs():
            topic = self.image.topics.get(held.topic)
            if topic is not None and held.partition in topic.partitions:
                is_leader = topic.partitions[held.partition].leader == self.settings.node_id
                yield HostedPartition(
                    held.topic, held.partition, held.size, held.log_start_offset, held.log_end_offset, is_leader
                )
