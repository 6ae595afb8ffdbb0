"""The controller role of a process: the metadata journal, the single writer, and the listener that brokers use."""

import asyncio
import logging
import socket
from collections.abc import Callable
from dataclasses import replace

from broker_runtime.apis.context import ProducerIds, Timer
from broker_runtime.apis.dispatch import Dispatcher
from broker_runtime.apis.table import CONTROLLER_APIS
from broker_runtime.clock import Clock
from broker_runtime.config import BrokerSettings, TopicConfig
from broker_runtime.config.effective import effective_config
from broker_runtime.controller.image import MetadataImage
from broker_runtime.controller.records import METADATA_TOPIC, METADATA_TOPIC_ID
from broker_runtime.controller.service import ControllerService
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.limits import network_limits, quota_settings
from broker_runtime.network.server import SocketServer
from broker_runtime.network.settings import QuotaSettings
from broker_runtime.replication.leader import LeaderReplica
from broker_runtime.storage.log import Log
from broker_runtime.storage.manager import LogManager
from broker_runtime.wire.messages import Entity, Fields

log = logging.getLogger(__name__)

JOURNAL_CONFIG = TopicConfig(retention_ms=-1, retention_bytes=-1)
"""Metadata is never deleted by age: brokers start from its beginning until snapshots exist."""


class ControllerNode:
    def __init__(self, settings: BrokerSettings, clock: Clock, logs: LogManager, cluster_id: str) -> None:
        self.settings = settings
        self.clock = clock
        self.logs = logs
        self.cluster_id = cluster_id
        self._loop = asyncio.get_running_loop()
        self._journal = logs.create(METADATA_TOPIC, 0, METADATA_TOPIC_ID, JOURNAL_CONFIG)
        self.controller: ControllerService = ControllerService(self._journal, settings, clock, cluster_id)
        self.dispatcher = Dispatcher(self, CONTROLLER_APIS, None)
        # The connection limits of clients are not for brokers: here only the limits of frames and idleness hold.
        static = network_limits(settings, quota_settings(settings, effective_config(settings, {}, {}), {}))
        limits = replace(static, quotas=QuotaSettings())
        self.server = SocketServer(self.dispatcher.handle, limits, clock, self._loop)
        self.ready = False

    async def start(self) -> None:
        """Replay the journal, then open the controller's listeners; raises ListenerBindError."""
        await self.controller.start()
        for endpoint in self.settings.listeners:
            if endpoint.listener in self.settings.controller_listeners:
                host, port = self.server.add_listener(endpoint.listener, endpoint.host, endpoint.port)
                log.info("controller %d listens on %s:%d", self.settings.node_id, host, port)
        self.server.start()
        self.ready = True

    async def stop(self) -> None:
        self.ready = False
        await self.server.shutdown(drain_s=0.5)
        await self.dispatcher.close()
        await self.controller.stop()

    # What handlers use

    @property
    def image(self) -> MetadataImage:
        return self.controller.image

    @property
    def producer_ids(self) -> ProducerIds:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "a controller hands out blocks of producer ids, not single ones")

    def led_log(self, topic: str, partition: int) -> tuple[Log, int]:
        """Brokers fetch metadata; the controller leads nothing else."""
        if topic != METADATA_TOPIC or partition != 0:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "a controller serves its metadata log only")
        return self._journal, 0

    def led(self, topic: str, partition: int) -> LeaderReplica:
        raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "a controller has no replicas of topics")

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> Timer:
        return self._loop.call_later(delay_s, callback)

    def topic_config(self, topic: str) -> TopicConfig:
        return TopicConfig.of(self.image.topic_configs(topic))

    async def wait_until(self, seen: Callable[[MetadataImage], bool]) -> bool:
        return seen(self.image)

    async def resolve_host(self, name: str) -> str | None:
        try:
            found = await self._loop.run_in_executor(None, socket.getaddrinfo, name, None)
        except (OSError, ValueError):
            # ValueError: a name that cannot be one (too long a label, a null character).
            return None
        return str(found[0][4][0])

    async def send_to_controller(self, api_key: int, version: int, request: Fields) -> Entity:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "this is the controller")
