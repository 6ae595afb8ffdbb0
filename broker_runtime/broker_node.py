"""The broker role of a process: listeners for clients, the partitions it leads, configuration as it comes by metadata.

Reacts to metadata changes; nothing else changes what is served. Kubernetes, HTTP and start order are not its concern.
"""

import asyncio
import socket
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from broker_runtime.apis.context import Timer
from broker_runtime.apis.dispatch import Dispatcher
from broker_runtime.apis.init_producer_id import ProducerIdBlocks
from broker_runtime.apis.table import BROKER_APIS
from broker_runtime.clock import Clock
from broker_runtime.cluster.follower import MetadataFollower
from broker_runtime.cluster.link import ControllerClient
from broker_runtime.cluster.peers import BrokerPeers
from broker_runtime.cluster.reactions import Reactions
from broker_runtime.config import BrokerSettings, Endpoint, TopicConfig
from broker_runtime.config.effective import EffectiveConfig, effective_config
from broker_runtime.controller.service import ControllerService
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.limits import host_names, network_limits, quota_settings
from broker_runtime.limits_in_force import LimitsInForce
from broker_runtime.metadata.changes import Changes
from broker_runtime.metadata.image import MetadataImage
from broker_runtime.network.server import SocketServer
from broker_runtime.replication.backoff import Backoff
from broker_runtime.replication.leader import LeaderReplica
from broker_runtime.replication.manager import ReplicaManager
from broker_runtime.replication.peer import Peers
from broker_runtime.storage.log import Log
from broker_runtime.storage.manager import LogManager
from broker_runtime.wire.messages import Entity, Fields

_ASIDE_THREADS = 2
_ANSWER_OVERHEAD_BYTES = 16 * 1024 * 1024
"""Of an answer to a follower beyond the records: a line for each of very many partitions."""
_OFFLINE_RETRY_S_MAX = 60.0


class BrokerNode:
    def __init__(
        self,
        settings: BrokerSettings,
        clock: Clock,
        logs: LogManager,
        cluster_id: str,
        client: ControllerClient,
        slow_client: ControllerClient | None = None,
        *,
        peers: Peers | None = None,
        server: SocketServer | None = None,
    ) -> None:
        """`slow_client` forwards what would hold up others; `peers` and `server` are a simulation's."""
        self.settings = settings
        self.clock = clock
        self.logs = logs
        self.cluster_id = cluster_id
        self.image = MetadataImage()
        self.controller: ControllerService | None = None
        self.producer_ids = ProducerIdBlocks(self)
        self._client = client
        self._clients = (client,) if slow_client is None else (client, slow_client)
        self._loop = asyncio.get_running_loop()
        self._reactions = Reactions(self._loop.call_later)
        self._follower: MetadataFollower | None = None
        if peers is None:
            peers = BrokerPeers(self.image, settings.inter_broker_listener, _answer_bytes_max(settings))
        self.replicas = ReplicaManager(settings, clock, logs, self.image, peers)
        self._active = False
        self._offline_backoff = Backoff(_OFFLINE_RETRY_S_MAX)
        self._offline_retry: Timer | None = None
        self.effective: EffectiveConfig = effective_config(settings, {}, {})
        self._host_names = host_names(settings)
        self.dispatcher = Dispatcher(self, BROKER_APIS, client, slow_client)
        self._aside = ThreadPoolExecutor(_ASIDE_THREADS, "aside")
        self._waiting_aside = 0
        limits = network_limits(settings, quota_settings(settings, self.effective, {}))
        self.server = server or SocketServer(self.dispatcher.handle, limits, clock, self._loop)
        self.limits = LimitsInForce(settings, self.effective, self.image, self.server, self._host_names)

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
        self._follower = MetadataFollower(client, self.image, self._on_changes, self._clients)
        return self._follower

    def serve(self) -> None:
        """Take up the replicas that complete metadata gives to this broker, and let clients in."""
        self._active = True
        self.replicas.remove_strays()
        for name in self.image.topics:
            self._reactions.run(f"applying topic {name}", partial(self._apply_topic, name))
        self._retry_offline_later()
        self.replicas.start(self._client)
        self.server.start()

    async def stop(self, drain_s: float = 2.0) -> None:
        self._reactions.close()
        if self._offline_retry is not None:
            self._offline_retry.cancel()
        await self.limits.close()
        await self.replicas.stop()
        await self.server.shutdown(drain_s)
        await self.dispatcher.close()
        self._aside.shutdown(wait=False, cancel_futures=True)

    # What handlers use

    def led_log(self, topic: str, partition: int) -> tuple[Log, int]:
        leader = self.replicas.led(topic, partition)
        return leader.log, leader.leader_epoch

    def led(self, topic: str, partition: int) -> LeaderReplica:
        return self.replicas.led(topic, partition)

    def run_aside(self, work: Callable[[], None]) -> asyncio.Future[None]:
        if self._waiting_aside >= self.settings.config.sluicegate_record_validation_queue_max:
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, "too much waits for a look at records; try again")
        self._waiting_aside += 1
        done = self._loop.run_in_executor(self._aside, work)
        done.add_done_callback(self._one_less_aside)
        return done

    def _one_less_aside(self, done: asyncio.Future[None]) -> None:
        del done
        self._waiting_aside -= 1

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> Timer:
        return self._loop.call_later(delay_s, callback)

    def topic_config(self, topic: str) -> TopicConfig:
        return TopicConfig.of(self.image.configs.of_topic(topic), self.effective.values)

    async def wait_until(self, seen: Callable[[MetadataImage], bool]) -> bool:
        assert self._follower is not None
        return await self._follower.wait_until(seen, self.settings.config.request_timeout_ms / 1000)

    async def resolve_hosts(self, names: Iterable[str]) -> Mapping[str, Sequence[str]]:
        return await self._host_names.addresses(names)

    async def send_to_controller(self, api_key: int, version: int, request: Fields) -> Entity:
        return await self._client.request(api_key, version, request)

    # Reaction to metadata

    def _on_changes(self, changes: Changes) -> None:
        """The image has all of them; a step that fails keeps the others from nothing."""
        run = self._reactions.run
        run("noting which logs are deleted", partial(self.replicas.note_removals, changes.removals))
        if None in changes.broker_configs or self.settings.node_id in changes.broker_configs:
            run("applying the broker's configuration", self._reconfigure)
        if self._active:
            self._apply_to_replicas(changes)
        if changes.ip_quotas:
            run("applying quotas of addresses", partial(self.limits.on_ip_quotas, changes.ip_quotas))

    def _apply_to_replicas(self, changes: Changes) -> None:
        run = self._reactions.run
        if changes.brokers:
            run("applying which brokers there are", self.replicas.apply_brokers)
        for name in changes.topics_removed:
            run(f"removing topic {name}", partial(self._remove_topic, name))
        for name in changes.topics | changes.topic_configs:
            run(f"applying topic {name}", partial(self._apply_topic, name))
        self._retry_offline_later()

    def _retry_offline_later(self) -> None:
        """What could not be opened is tried again, less and less often: a disk or descriptors may be free by then."""
        if not self.replicas.offline:
            self._offline_backoff.succeeded()
        elif self._offline_retry is None:
            self._offline_retry = self.call_later(self._offline_backoff.failed(), self._retry_offline)

    def _retry_offline(self) -> None:
        self._offline_retry = None
        for name in sorted({topic for topic, _ in self.replicas.offline}):
            self._reactions.run(f"opening topic {name} again", partial(self._apply_topic, name))
        self._retry_offline_later()

    def _remove_topic(self, name: str) -> None:
        """Or what was there under this name before: a log of another topic's id goes."""
        topic = self.image.topics.get(name)
        self.replicas.remove_topic(name, None if topic is None else topic.id)

    def _apply_topic(self, name: str) -> None:
        topic = self.image.topics.get(name)
        if topic is not None:
            self.replicas.apply_topic(topic, self.topic_config(name))

    def _reconfigure(self) -> None:
        self.effective = effective_config(
            self.settings, self.image.configs.of_broker(None), self.image.configs.of_broker(self.settings.node_id)
        )
        self.limits.configure(self.effective)
        self.logs.producer_expiration_ms = self.effective.config.producer_id_expiration_ms
        if self._active:
            for topic in self.image.topics:
                self.replicas.configure(topic, self.topic_config(topic))


def _answer_bytes_max(settings: BrokerSettings) -> int:
    """The first batch of an answer may be larger than every limit (KIP-74)."""
    largest = max(settings.config.replica_fetch_response_max_bytes, settings.config.socket_request_max_bytes)
    return largest + _ANSWER_OVERHEAD_BYTES
