"""The controller role of a process: the metadata journal, the single writer, and the listener that brokers use.

A controller on standby listens, too. It answers NOT_CONTROLLER if the response can carry it. Every other request ends
its connection, so that its sender tries the next controller at once.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from random import Random
from typing import Protocol

from broker_runtime.apis.fetch_sessions.fetch_sessions import FetchSessionCache
from broker_runtime.apis.request.context import ControllerContext
from broker_runtime.apis.request.dispatching.dispatch import Dispatcher
from broker_runtime.apis.request.request_metrics import RequestMetrics
from broker_runtime.apis.table import CONTROLLER_APIS
from broker_runtime.clock import Clock, Timer
from broker_runtime.cluster.identity import new_incarnation
from broker_runtime.config import BrokerSettings, SecurityProtocol, TopicConfig
from broker_runtime.config.in_force.effective import effective_config
from broker_runtime.controller.history import ReplayError
from broker_runtime.controller.journal.choice import JournalParts, backing
from broker_runtime.controller.service import ControllerService
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.metadata.image import MetadataImage
from broker_runtime.metadata.topic_names import METADATA_TOPIC, METADATA_TOPIC_ID
from broker_runtime.network.quotas.metrics import Sample
from broker_runtime.network.server import SocketServer
from broker_runtime.node.clients.authorization import authorization, gate_of
from broker_runtime.node.clients.client_quotas_on_demand import MutationsOnDemand
from broker_runtime.node.clients.first_scram import first_scram_records
from broker_runtime.node.clients.sasl_listeners import authentication_of
from broker_runtime.node.limits import host_names, network_limits, quota_settings, request_limits
from broker_runtime.node.tls.tls_on_demand import TlsOnDemand
from broker_runtime.slicing.slice_lengths import SliceLengths
from broker_runtime.slicing.slices import Slices
from broker_runtime.storage.log.log import Log
from broker_runtime.storage.log_dir.manager import LogManager
from broker_runtime.wire.handler import ServedConnection
from broker_runtime.wire.reply import PendingReply, Reply
from connection_limits.settings import QuotaSettings

log = logging.getLogger(__name__)

JOURNAL_CONFIG = TopicConfig(retention_ms=-1, retention_bytes=-1)
"""The configuration of the metadata log, which is never deleted by age.

Records that snapshots cover are removed by advancing the log start.
"""


class Server(Protocol):
    """The part of SocketServer that a controller uses."""

    def add_listener(self, name: str, host: str, port: int, security_protocol: SecurityProtocol) -> tuple[str, int]: ...

    def start(self) -> None: ...

    def collect(self) -> Iterable[Sample]: ...

    @property
    def slice_lengths(self) -> Iterable[SliceLengths]: ...

    async def shutdown(self, drain_s: float) -> None: ...


class ControllerNode:
    """The controller's role in a node: its listener, the dispatcher of requests, and `controller`, the single writer.

    The controller is active or on standby. Handlers use this class as their ControllerContext. Only the journal is
    durable.
    """

    def __init__(
        self,
        settings: BrokerSettings,
        clock: Clock,
        logs: LogManager,
        cluster_id: str,
        *,
        parts: JournalParts | None = None,
        server: Server | None = None,
    ) -> None:
        """Create the node. Raises ConfigError, ReplayError.

        Simulations pass `parts` and `server`; a process creates its own.
        """
        self.settings = settings
        self.clock = clock
        self.logs = logs
        self.cluster_id = cluster_id
        self.tls = TlsOnDemand(settings)
        self.slices = slices = Slices(
            clock.monotonic,
            settings.config.sluicegate_network_turn_max_us / 1_000_000,
            settings.config.sluicegate_requests_long_max_bytes,
            "long requests to the controller",
        )
        self.fetch_sessions = FetchSessionCache(settings.config, Random(clock.wall_ms()), slices.do)
        self._loop = asyncio.get_running_loop()
        self._disk = ThreadPoolExecutor(1, "controller-journal") if parts is None else None
        if parts is None:
            assert self._disk is not None
            parts = JournalParts(self._disk, str(new_incarnation(clock.wall_ms())))
        self._journal = _metadata_log(settings, logs)
        self.controller: ControllerService = ControllerService(
            backing(settings, self._journal, clock, parts), settings, clock, cluster_id, first_scram_records(settings)
        )
        self.mutations = MutationsOnDemand(settings.config, lambda: self.image, clock)
        self.charge = self.mutations.charge
        self._host_names = host_names(settings)
        self.request_metrics = RequestMetrics(CONTROLLER_APIS)
        self.authorization = authorization(settings, clock, lambda: self.image)
        self.dispatcher: Dispatcher[ControllerContext] = Dispatcher(
            self,
            CONTROLLER_APIS,
            self.request_metrics.on_call,
            gate_of(self.authorization, lambda: self.controller.active),
            long_requests=(slices, request_limits(settings)),
        )
        self.dispatcher.completion.authorization = self.authorization
        self._authentication = authentication_of(
            settings, settings.controller_endpoints, lambda: self.image, cluster_id, clock
        )
        self.server: Server = server if server is not None else self._own_server()
        self.ready = False

    def _own_server(self) -> SocketServer:
        # The connection limits are for clients, not for brokers: only the limits of frames and idleness apply here.
        effective = effective_config(self.settings, {}, {})
        static = network_limits(self.settings, quota_settings(self.settings, effective, {}))
        limits = replace(static, quotas=QuotaSettings())
        server = SocketServer(
            self.dispatcher.handle, limits, self.clock, self._loop, answers=self.dispatcher.completion.answers
        )
        server.encrypted = self.tls.accepting
        if self._authentication is not None:
            self._authentication.of(server, self.dispatcher.handle)
        return server

    async def start(self) -> None:
        """Replay the journal or enter standby, then open the controller's listeners.

        Raises ReplayError, ListenerBindError. `controller.failed` gets later errors that end the controller.
        """
        await self.controller.start()
        if has_file_journal(self.settings):
            # Brokers rely on the log from now on: this record of its existence must outlive the loss of the log itself.
            self.logs.note_recovery_points()
        for endpoint in self.settings.controller_endpoints:
            host, port = self.server.add_listener(
                endpoint.listener, endpoint.host, endpoint.port, endpoint.security_protocol
            )
            log.info("controller %d listens on %s:%d", self.settings.node_id, host, port)
        self.server.start()
        self.ready = True

    async def stop(self) -> None:
        self.ready = False
        await self.server.shutdown(drain_s=0.5)
        if self._authentication is not None:
            self._authentication.close()
        await self.dispatcher.close()
        await self.controller.stop()
        if self._disk is not None:
            self._disk.shutdown()

    @property
    def image(self) -> MetadataImage:
        return self.controller.image

    def led_log(self, topic: str, partition: int) -> tuple[Log, int]:
        if topic != METADATA_TOPIC or partition != 0:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "a controller serves only its metadata log")
        if not self.controller.active:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "this controller is not the active one")
        return self._journal, self.image.cluster.controller_epoch

    def note_on_config(self, key: str) -> None:
        """Return no note about a key's value on this node.

        The configuration here is in force, or the controller has not started.
        """
        del key

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> Timer:
        return self._loop.call_later(delay_s, callback)

    def serve(self, frame: memoryview, connection: ServedConnection) -> Reply | PendingReply:
        return self.dispatcher.handle(frame, connection)

    async def resolve_hosts(self, names: Iterable[str]) -> Mapping[str, Sequence[str]]:
        return await self._host_names.addresses(names)


def has_file_journal(settings: BrokerSettings) -> bool:
    """Return whether the metadata log of this node, if there is one, is the only copy."""
    return settings.config.sluicegate_controller_journal == "file"


def _metadata_log(settings: BrokerSettings, logs: LogManager) -> Log:
    """Open the metadata log. Raises ReplayError if metadata is lost; with another journal this log is only a copy."""
    is_the_journal = has_file_journal(settings)
    folder = f"{settings.log_dir}/{METADATA_TOPIC}-0"
    damaged = logs.damaged.get((METADATA_TOPIC, 0))
    if damaged is not None and is_the_journal:
        raise ReplayError(f"the controller cannot start without its metadata ({folder}): {damaged}")
    if damaged is not None:
        logs.delete(METADATA_TOPIC, 0)
    others = [f"{topic}-{partition}" for (topic, partition), _ in logs.holdings() if topic != METADATA_TOPIC]
    metadata = logs.create(METADATA_TOPIC, 0, METADATA_TOPIC_ID, JOURNAL_CONFIG)
    if is_the_journal and others and metadata.log_end_offset == 0:
        raise ReplayError(
            f"{folder} has no metadata, but {settings.log_dir} has {len(others)} partitions (for example "
            f"{others[0]}). The controller does not start, because it would not know their topics. Restore that "
            "folder, or move the partitions away to start a new cluster"
        )
    return metadata
