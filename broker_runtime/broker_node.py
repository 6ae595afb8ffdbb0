"""The broker role of a process: listeners for clients, the partitions it leads, configuration as it comes by metadata.

Reacts to metadata changes; nothing else changes what is served. Kubernetes, HTTP and start order are not its concern.
"""

import asyncio
import logging
import socket
from collections.abc import Callable, Coroutine, Mapping, Sequence
from ipaddress import ip_address

from broker_runtime.apis.context import Timer
from broker_runtime.apis.dispatch import Dispatcher
from broker_runtime.apis.init_producer_id import ProducerIdBlocks
from broker_runtime.apis.table import BROKER_APIS
from broker_runtime.clock import Clock
from broker_runtime.cluster.follower import MetadataFollower
from broker_runtime.cluster.link import ControllerClient
from broker_runtime.cluster.peers import BrokerPeers
from broker_runtime.config import BrokerSettings, Endpoint, TopicConfig
from broker_runtime.config.effective import EffectiveConfig, effective_config, topic_defaults
from broker_runtime.controller.image import Changes, MetadataImage
from broker_runtime.controller.service import ControllerService
from broker_runtime.errors import ConfigError
from broker_runtime.limits import is_address, network_limits, per_ip_overrides, quota_settings
from broker_runtime.network.server import SocketServer
from broker_runtime.replication.leader import LeaderReplica
from broker_runtime.replication.manager import ReplicaManager
from broker_runtime.replication.peer import Peers
from broker_runtime.storage.log import Log
from broker_runtime.storage.manager import LogManager
from broker_runtime.wire.messages import Entity, Fields

log = logging.getLogger(__name__)

_ANSWER_OVERHEAD_BYTES = 16 * 1024 * 1024
"""Of an answer to a follower beyond the records: a line for each of very many partitions."""


class BrokerNode:
    def __init__(
        self,
        settings: BrokerSettings,
        clock: Clock,
        logs: LogManager,
        cluster_id: str,
        client: ControllerClient,
        *,
        peers: Peers | None = None,
        server: SocketServer | None = None,
    ) -> None:
        """`peers` and `server` stand in for sockets in simulations."""
        self.settings = settings
        self.clock = clock
        self.logs = logs
        self.cluster_id = cluster_id
        self.image = MetadataImage()
        self.controller: ControllerService | None = None
        self.producer_ids = ProducerIdBlocks(self)
        self._client = client
        self._loop = asyncio.get_running_loop()
        self._follower: MetadataFollower | None = None
        if peers is None:
            peers = BrokerPeers(self.image, settings.inter_broker_listener, _answer_bytes_max(settings))
        self.replicas = ReplicaManager(settings, clock, logs, self.image, peers)
        self._active = False
        self._hosts: Mapping[str, str] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self.effective: EffectiveConfig = effective_config(settings, {}, {})
        self.dispatcher = Dispatcher(self, BROKER_APIS, client)
        limits = network_limits(settings, quota_settings(settings, self.effective, {}))
        self.server = server or SocketServer(self.dispatcher.handle, limits, clock, self._loop)

    # Life

    def bind(self) -> None:
        """Open the listeners without accepting yet; raises ListenerBindError."""
        for endpoint in self.settings.client_listeners:
            self.server.add_listener(endpoint.listener, endpoint.host, endpoint.port)

    def advertised(self) -> Sequence[Endpoint]:
        """What clients are told; a port 0 is replaced by the one that was bound."""
        return [
            Endpoint(e.listener, e.host or socket.gethostname(), e.port or self.server.address(e.listener)[1])
            for e in self.settings.advertised
        ]

    def follow(self, client: ControllerClient) -> MetadataFollower:
        self._follower = MetadataFollower(client, self.image, self._on_changes, (self._client,))
        return self._follower

    def serve(self) -> None:
        """Take up the replicas that complete metadata gives to this broker, and let clients in."""
        self._active = True
        self.replicas.remove_strays()
        for topic in self.image.topics.values():
            self.replicas.apply_topic(topic, self.topic_config(topic.name))
        self.replicas.start(self._client)
        self.server.start()

    async def stop(self, drain_s: float = 2.0) -> None:
        await self.replicas.stop()
        await self.server.shutdown(drain_s)
        await self.dispatcher.close()

    # What handlers use

    def led_log(self, topic: str, partition: int) -> tuple[Log, int]:
        leader = self.replicas.led(topic, partition)
        return leader.log, leader.leader_epoch

    def led(self, topic: str, partition: int) -> LeaderReplica:
        return self.replicas.led(topic, partition)

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> Timer:
        return self._loop.call_later(delay_s, callback)

    def topic_config(self, topic: str) -> TopicConfig:
        return TopicConfig.of(self.image.topic_configs(topic), topic_defaults(self.effective))

    async def wait_until(self, seen: Callable[[MetadataImage], bool]) -> bool:
        assert self._follower is not None
        return await self._follower.wait_until(seen, self.settings.integer("request.timeout.ms") / 1000)

    async def resolve_host(self, name: str) -> str | None:
        try:
            found = await self._loop.run_in_executor(None, socket.getaddrinfo, name, None)
        except (OSError, ValueError):
            # ValueError: a name that cannot be one (too long a label, a null character).
            return None
        return str(found[0][4][0])

    async def send_to_controller(self, api_key: int, version: int, request: Fields) -> Entity:
        return await self._client.request(api_key, version, request)

    # Reaction to metadata

    def _on_changes(self, changes: Changes) -> None:
        self.replicas.note_removals(changes.removals)
        if None in changes.broker_configs or self.settings.node_id in changes.broker_configs:
            self._reconfigure()
        if self._active:
            self._apply_to_replicas(changes)
        for name in changes.ip_quotas:
            if name is None or is_address(name):
                self._set_ip_rate(name, name)
            else:
                self._spawn(self._set_host_rate(name))

    def _set_ip_rate(self, name: str | None, address: str | None) -> None:
        """`name` is the entity's; the address is spelled as the network layer spells a client's."""
        rate = self.image.ip_rate(name)
        canonical = None if address is None else ip_address(address).compressed
        self.server.update_ip_rate(canonical, None if rate is None else int(rate))

    async def _set_host_rate(self, name: str) -> None:
        """A host name is resolved when its quota is applied, as in Kafka."""
        address = await self.resolve_host(name)
        if address is None:
            log.error("the quota of %s is not enforced: the name cannot be resolved", name)
        else:
            self._set_ip_rate(name, address)

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            log.error("a change of configuration could not be applied", exc_info=task.exception())

    def _apply_to_replicas(self, changes: Changes) -> None:
        if changes.brokers:
            self.replicas.apply_brokers()
        for name in changes.topics_removed:
            self.replicas.remove_topic(name)
        for name in changes.topics:
            topic = self.image.topics.get(name)
            if topic is not None:
                self.replicas.apply_topic(topic, self.topic_config(name))
        for name in changes.topic_configs:
            self.replicas.configure(name, self.topic_config(name))

    def _reconfigure(self) -> None:
        self.effective = effective_config(
            self.settings, self.image.broker_configs(None), self.image.broker_configs(self.settings.node_id)
        )
        for problem in self.effective.ignored:
            log.warning("a stored configuration value is not used: %s", problem)
        self.logs.producer_expiration_ms = self.effective.integer("producer.id.expiration.ms")
        if self._active:
            for topic in self.image.topics:
                self.replicas.configure(topic, self.topic_config(topic))
        names = [h for h in self._override_hosts() if not is_address(h)]
        if set(names) - set(self._hosts):
            self._spawn(self._resolve_overrides(names))
        self._update_limits()

    def _override_hosts(self) -> Sequence[str]:
        try:
            return list(per_ip_overrides(self.effective.values["max.connections.per.ip.overrides"]))
        except ConfigError as error:
            log.warning("%s", error)
            return []

    async def _resolve_overrides(self, names: Sequence[str]) -> None:
        """Host names are resolved once, when the value is applied, as in Kafka."""
        found = {name: await self.resolve_host(name) for name in names}
        for name, address in found.items():
            if address is None:
                log.error("max.connections.per.ip.overrides: %s cannot be resolved; its override is not enforced", name)
        self._hosts = {name: address for name, address in found.items() if address is not None}
        self._update_limits()

    def _update_limits(self) -> None:
        try:
            self.server.update_limits(quota_settings(self.settings, self.effective, self._hosts))
        except ConfigError as error:
            log.error("the limits stay as they are: %s", error)


def _answer_bytes_max(settings: BrokerSettings) -> int:
    """The first batch of an answer may be larger than every limit (KIP-74)."""
    largest = max(settings.integer("replica.fetch.response.max.bytes"), settings.integer("socket.request.max.bytes"))
    return largest + _ANSWER_OVERHEAD_BYTES
