"""The broker role of a process: listeners for clients, the partitions it leads, configuration as it comes by metadata.

Reacts to metadata changes; nothing else changes what is served. Kubernetes, HTTP and start order are not its concern.
"""

import asyncio
import logging
import socket
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from random import Random

from broker_runtime.apis.context import Timer
from broker_runtime.apis.dispatch import Dispatcher
from broker_runtime.apis.fetch_sessions import FetchSessionCache
from broker_runtime.apis.init_producer_id import ProducerIdBlocks
from broker_runtime.apis.table import BROKER_APIS
from broker_runtime.clock import Clock
from broker_runtime.cluster.follower import MetadataFollower
from broker_runtime.cluster.link import ControllerClient
from broker_runtime.cluster.metadata_publisher import MetadataPublisher
from broker_runtime.cluster.peers import BrokerPeers
from broker_runtime.config import BrokerSettings, Endpoint, TopicConfig
from broker_runtime.config.effective import effective_config
from broker_runtime.controller.service import ControllerService
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.limits import host_names, network_limits, quota_settings
from broker_runtime.limits_in_force import LimitsInForce
from broker_runtime.metadata.image import MetadataImage
from broker_runtime.network.server import SocketServer
from broker_runtime.replication.leader import LeaderReplica
from broker_runtime.replication.manager import ReplicaManager
from broker_runtime.replication.peer import Peers
from broker_runtime.storage.log import Log
from broker_runtime.storage.manager import LogManager
from broker_runtime.wire.messages import Entity, Fields

log = logging.getLogger(__name__)

_ASIDE_THREADS = 2
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
        slots = settings.config.max_incremental_fetch_session_cache_slots
        self.fetch_sessions = FetchSessionCache(slots, Random(clock.wall_ms()))
        self.image = MetadataImage()
        self.controller: ControllerService | None = None
        self.producer_ids = ProducerIdBlocks(self)
        self._client = client
        self._clients = (client,) if slow_client is None else (client, slow_client)
        self._loop = asyncio.get_running_loop()
        self._follower: MetadataFollower | None = None
        if peers is None:
            peers = BrokerPeers(self.image, settings.inter_broker_listener, _answer_bytes_max(settings))
        self.replicas = ReplicaManager(settings, clock, logs, self.image, peers)
        effective = effective_config(settings, {}, {})
        self._host_names = host_names(settings)
        self.dispatcher = Dispatcher(self, BROKER_APIS, client, slow_client)
        self._aside = ThreadPoolExecutor(_ASIDE_THREADS, "aside")
        self._waiting_aside = 0
        limits = network_limits(settings, quota_settings(settings, effective, {}))
        self.server = server or SocketServer(self.dispatcher.handle, limits, clock, self._loop)
        self.limits = LimitsInForce(settings, effective, self.image, self.server, self._host_names)
        self.metadata = MetadataPublisher(settings, clock, self.image, logs, self.replicas, self.limits)
        self.open = False
        """Whether the listeners accept clients."""

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
        self._follower = MetadataFollower(client, self.image, self.metadata.publish, self._clients)
        return self._follower

    def serve(self) -> None:
        """Take up the replicas that complete metadata gives to this broker, then let clients in."""
        self.metadata.take_up_replicas(self._let_clients_in)

    def _let_clients_in(self) -> None:
        self.replicas.start(self._client)
        self.server.start()
        self.open = True
        log.info("clients are served on %s", ", ".join(map(str, self.advertised())))

    async def stop(self, drain_s: float = 2.0) -> None:
        await self.metadata.stop(drain_s)
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
        return self.metadata.topic_config(topic)

    async def wait_until(self, seen: Callable[[MetadataImage], bool]) -> bool:
        assert self._follower is not None
        return await self._follower.wait_until(seen, self.settings.config.request_timeout_ms / 1000)

    async def resolve_hosts(self, names: Iterable[str]) -> Mapping[str, Sequence[str]]:
        return await self._host_names.addresses(names)

    async def send_to_controller(self, api_key: int, version: int, request: Fields) -> Entity:
        return await self._client.request(api_key, version, request)


def _answer_bytes_max(settings: BrokerSettings) -> int:
    """The first batch of an answer may be larger than every limit (KIP-74)."""
    largest = max(settings.config.replica_fetch_response_max_bytes, settings.config.socket_request_max_bytes)
    return largest + _ANSWER_OVERHEAD_BYTES
