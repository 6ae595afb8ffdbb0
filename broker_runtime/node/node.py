"""The composition root: build the parts of one process, start and stop them in order.

A process is a controller, a broker or both. Start: data folder and logs, HTTP, controller, its listener, then the
broker. Its listeners are bound (a taken port is detected, port 0 gets its number), metadata is followed, the broker
registers, and clients are admitted once it is unfenced. Stop begins with a controlled shutdown, during which clients
are still served. Then it reverses the start: listeners, requests in progress, controller, HTTP, logs with the clean
marker.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib import import_module
from pathlib import Path

from broker_runtime.clock import Clock, SystemClock
from broker_runtime.cluster.data_folder import make_data_folder
from broker_runtime.cluster.follower import MetadataFollower
from broker_runtime.cluster.identity import boot_id, claim_folder, new_incarnation
from broker_runtime.cluster.links.link import ControllerClient, ControllerLink
from broker_runtime.cluster.links.loopback_link import LoopbackLink
from broker_runtime.cluster.links.socket_link import SocketLink
from broker_runtime.cluster.membership import Membership, Timing
from broker_runtime.cluster.registration import BrokerIdentity, MembershipError
from broker_runtime.cluster.self_description import self_description
from broker_runtime.config import BrokerSettings
from broker_runtime.controller.history import ReplayError
from broker_runtime.errors import ConfigError, KafkaError
from broker_runtime.http_listener import HttpListener
from broker_runtime.metadata.areas.brokers import BrokerInfo
from broker_runtime.metadata.image import MetadataImage
from broker_runtime.metadata.topic_names import METADATA_TOPIC
from broker_runtime.network.connection.outgoing.client_connection import ClientConnector
from broker_runtime.network.sockets.dialling import SocketDialler
from broker_runtime.network.sockets.listening import ListenerBindError
from broker_runtime.node.broker_node import BrokerNode
from broker_runtime.node.clients.sasl_listeners import login_to_controllers
from broker_runtime.node.controller_node import JOURNAL_CONFIG, ControllerNode, has_file_journal
from broker_runtime.node.http_routes import HttpRoutes
from broker_runtime.node.limits import limits_to_controllers
from broker_runtime.node.node_metrics import NodeMetrics
from broker_runtime.node.node_parts import NodeParts
from broker_runtime.node.node_readiness import readiness
from broker_runtime.node.process.loop_watch import LoopWatch
from broker_runtime.storage.disk.disk import ThreadedDisk
from broker_runtime.storage.disk.filesystem import OsFileSystem
from broker_runtime.storage.disk.waiters import SlicedCallbacks
from broker_runtime.storage.log_dir.log_dir_health import RESERVE_BYTES
from broker_runtime.storage.log_dir.manager import LogManager

log = logging.getLogger(__name__)


CONNECTION_SHARES = "broker_runtime.cluster.connection_shares"
"""Imported when the broker has its first rate of the cluster (decision 45)."""


class StartError(Exception):
    """Error of a node that could not start or continue: a taken port, a refused registration, a part that failed."""


_SHUTDOWN_LOOK_S = 60.0
"""Timeout of one wait for a shutdown; the wait is then repeated."""


def _shutdown_since(told: int, image: MetadataImage) -> bool:
    return _newest_shutdown(image) > told


def _newest_shutdown(image: MetadataImage) -> int:
    """Return the offset of the record that began the newest controlled shutdown; -1 while no broker stops."""
    return max((b.stopping_offset for b in image.brokers.values() if b.stopping_offset is not None), default=-1)


class _ClientDoor:
    """Admits and rejects clients as the membership requires, and reports to it when they may be admitted."""

    def __init__(self, node: BrokerNode, follower: MetadataFollower) -> None:
        self._node = node
        self._follower = follower
        self._served = False
        self._fetches_when_fenced = 0

    def on_unfenced(self) -> None:
        if self._served:
            self._node.listeners.resume()
        else:
            self._served = True
            self._node.serve()

    def progress(self) -> tuple[int, bool]:
        """Return the offset up to which metadata is in force here, and whether it is recent enough to serve clients.

        Metadata from before this broker was fenced may be old, and so may a response that has waited in the socket. The
        record that fenced it is recent, and so is the response to the fetch after the one in flight. At the start the
        observers that the metadata names must be loaded, or have failed: observers must see every client.
        """
        follower, me = self._follower, self._registration
        fresh = (
            not self._served
            or (me is not None and me.fenced)
            or follower.fetches_answered >= self._fetches_when_fenced + 2
        )
        observed = self._served or not self._node.observers.loading
        return follower.applied_offset, follower.caught_up and fresh and observed

    def knows_unfenced(self, epoch: int) -> bool:
        me = self._registration
        return me is not None and me.epoch == epoch and not me.fenced

    @property
    def _registration(self) -> BrokerInfo | None:
        """This broker's own registration in the metadata in force here."""
        return self._node.image.brokers.get(self._node.settings.node_id)

    def on_fenced(self, reason: str) -> None:
        self._fetches_when_fenced = self._follower.fetches_answered
        self._node.listeners.pause(reason)


class Node:
    """The node of a broker, of a controller, or of both: one process with its logs, listeners and background tasks.

    The node starts its parts in order and stops them in reverse order. Raises ConfigError and StartError while it
    starts.
    """

    def __init__(self, settings: BrokerSettings, clock: Clock | None = None, *, watch: LoopWatch | None = None) -> None:
        """`watch` observes this process's event loop, if it is a real one; the metrics show it."""
        self.settings = settings
        self._clock = clock or SystemClock()
        self.parts = NodeParts(settings, self._clock)
        self._metrics = NodeMetrics(self.parts, watch)
        self._undo: list[Callable[[], Awaitable[None]]] = []
        self._background: set[asyncio.Task[None]] = set()
        self._failed: asyncio.Future[None] | None = None
        self._at_once = False

    async def run_until(self, stop: asyncio.Event) -> None:
        """Start the node, serve until `stop` is set, and stop. Raises ConfigError or StartError."""
        failed = self._failed = asyncio.get_running_loop().create_future()
        try:
            await self._start()
            stopped = asyncio.create_task(stop.wait())
            stopped.add_done_callback(lambda _: None if failed.done() else failed.set_result(None))
            await failed
        except (ListenerBindError, ReplayError, KafkaError) as error:
            raise StartError(str(error)) from error
        finally:
            await self._stop()

    def stop_at_once(self) -> None:
        """Stop waiting, both for the controller and for requests in progress."""
        self._at_once = True
        if self.parts.membership is not None:
            self.parts.membership.wait_no_longer()

    async def _start(self) -> None:
        settings = self.settings
        for warning in settings.warnings:
            log.warning("%s", warning)
        log_dir = make_data_folder(Path(settings.log_dir))
        threads = ThreadPoolExecutor(settings.config.background_threads, "disk")
        disk = ThreadedDisk(threads)
        slice_s = settings.config.sluicegate_network_turn_max_us / 1_000_000
        wakes = self.parts.wakes = SlicedCallbacks(asyncio.get_running_loop().call_soon, self._clock.monotonic, slice_s)
        logs = LogManager(
            log_dir,
            fs=OsFileSystem(),
            clock=self._clock,
            disk=disk,
            wakes=wakes,
            boot_id=boot_id(),
            reserve_bytes=RESERVE_BYTES,
        )
        self.parts.log_dir_health = logs.dir_health
        logs.upkeep.configure(settings.config)
        logs.cleaner.config = settings.config
        # Nothing is deleted until the metadata defines how long each topic keeps its records.
        journal, copy = (METADATA_TOPIC, None) if has_file_journal(settings) else (None, METADATA_TOPIC)
        log.info("%s", logs.open(lambda _topic: JOURNAL_CONFIG, journal=journal, copy=copy))
        self._undo.append(_as_async(threads.shutdown))
        self._undo.append(_as_async(logs.close))
        self._undo.append(disk.settle)
        self._undo.append(_as_async(logs.begin_close))
        self._undo.append(disk.settle)
        cluster_id = claim_folder(log_dir, settings.node_id, self._wanted_cluster_id())
        await self._start_http()
        if settings.is_controller:
            controller = self.parts.controller = ControllerNode(settings, self._clock, logs, cluster_id)
            self._undo.append(controller.stop)
            await controller.start()
            controller.controller.failed.add_done_callback(self._controller_failed)
        if settings.is_broker:
            await self._start_broker(logs, cluster_id)
            if settings.config.log_cleaner_enable:
                self._spawn(logs.cleaner.run(), "log cleaner")
        self._spawn(self._tick(logs), "housekeeping")
        for tls in self.parts.tls:
            self._spawn(tls.watch(), "files of TLS")

    def _wanted_cluster_id(self) -> str | None:
        wanted = self.settings.config.cluster_id
        if wanted is None and not self.settings.is_controller:
            raise ConfigError("cluster.id is missing; a broker without the controller role needs it")
        return wanted

    async def _start_broker(self, logs: LogManager, cluster_id: str) -> None:
        settings = self.settings
        timeout_s = settings.config.request_timeout_ms / 1000
        client, slow_client = (ControllerClient(self._link_to_controller(), timeout_s) for _ in range(2))
        broker = self.parts.broker = BrokerNode(settings, self._clock, logs, cluster_id, (client, slow_client))
        follower_client = ControllerClient(self._link_to_controller(), timeout_s)
        broker.server.on_cluster_rate = partial(self._share_rates, follower_client)
        await broker.limits.start()
        await broker.observers.start(broker.metadata.effective)
        broker.listeners.bind()
        self._undo.append(lambda: broker.stop(0) if self._at_once else broker.stop())
        follower = self.parts.follower = broker.follow(follower_client)
        self._spawn(follower.run(), "metadata")
        timing, door = _timing(settings), _ClientDoor(broker, follower)
        identity = BrokerIdentity(
            settings.node_id,
            cluster_id,
            new_incarnation(self._clock.wall_ms()),
            settings.config.broker_rack,
            broker.listeners.advertised(),
            description=self_description(settings),
        )
        membership = self.parts.membership = Membership(
            identity,
            # Short enough that a second request fits into the session if the first is not answered.
            ControllerClient(self._link_to_controller(), min(timeout_s, timing.session_timeout_s / 3)),
            timing,
            self._clock,
            door,
            logs.run_record,
        )
        broker.listeners.changed = lambda: membership.reregister(broker.listeners.advertised())
        broker.replicas.tasks.failed = lambda error: self._fail("replication", error)
        self._spawn(membership.run(), "membership")
        self._spawn(broker.group_lag.run(), "lag of groups")
        self._spawn(broker.groups.census.run(), "census of groups")
        self._spawn(self._report_shutdowns(membership, follower), "shutdown reports")

    def _share_rates(self, leader: ControllerClient) -> None:
        """Begin to report demands under rates of the cluster, or notify that one has changed.

        `leader` is a client that follows the active controller.
        """
        parts = self.parts
        if parts.connection_shares is not None:
            parts.connection_shares.wake()
            return
        assert parts.broker is not None
        sharing = import_module(CONNECTION_SHARES)
        config = self.settings.config
        lease_ms = config.sluicegate_connection_shares_lease_ms
        # An answer that takes longer leaves too little of its lease.
        client = ControllerClient(self._link_to_controller(), lease_ms / 2000)
        shares = parts.connection_shares = sharing.ConnectionShares(
            sharing.Reporting(config.sluicegate_connection_shares_report_ms, lease_ms),
            self._clock,
            (client, leader),
            lambda: None if parts.membership is None else parts.membership.status,
            parts.broker.image,
            parts.broker.server,
        )
        self._spawn(shares.run(), "shares of connection rates")

    async def _report_shutdowns(self, membership: Membership, follower: MetadataFollower) -> None:
        """Report metadata progress when another broker begins a controlled shutdown.

        Otherwise that shutdown would take up to a heartbeat interval of this broker.
        """
        told = -1
        while True:
            if await follower.wait_until(partial(_shutdown_since, told), _SHUTDOWN_LOOK_S):
                assert self.parts.broker is not None
                told = _newest_shutdown(self.parts.broker.image)
                membership.beat_soon()

    def _link_to_controller(self) -> ControllerLink:
        """Create a link to the controller.

        Registration, metadata and forwarded requests have a connection each. Forwarded requests that wait for name
        servers have another one, so that no request waits behind another kind.

        If there may be several controllers, the one in this process may be on standby, and the link finds the active
        one.
        """
        link: ControllerLink
        controller = self.parts.controller
        if controller is not None and self._is_only_controller:
            link = LoopbackLink(controller.dispatcher)
        else:
            listener = self.settings.controller_listener
            dialler = SocketDialler(asyncio.get_running_loop(), self.parts.tls_to_controllers.dialling(listener))
            login = login_to_controllers(self.settings)
            connector = ClientConnector(dialler, limits_to_controllers(self.settings), login)
            link = SocketLink(self.settings.quorum, connector)
        self._undo.append(_as_async(link.close))
        return link

    @property
    def _is_only_controller(self) -> bool:
        return self.settings.is_controller and self.settings.config.sluicegate_controller_journal == "file"

    async def _leave(self, membership: Membership) -> bool:
        """Run a controlled shutdown, in which clients are still served; return whether the controller released it."""
        if not self.settings.config.controlled_shutdown_enable:
            return True
        deadline_s = self.settings.config.sluicegate_controlled_shutdown_timeout_ms / 1000
        return await membership.leave(0 if self._at_once else deadline_s)

    async def _start_http(self) -> None:
        if self.settings.http is None:
            return
        routes = HttpRoutes(self.parts, self._leave).by_path()
        listener = HttpListener(partial(readiness, self.parts), self._metrics.collect, routes)
        try:
            host, port = await listener.start(*self.settings.http)
        except OSError as error:
            raise StartError(f"sluicegate.http.listener: {self.settings.http} cannot be opened: {error}") from error
        self._undo.append(listener.close)
        log.info("metrics and health on http://%s:%d", host, port)

    async def _tick(self, logs: LogManager) -> None:
        """Run retention, rolls by time and flush.ms once a second, which is precise enough for all of them."""
        while True:
            await asyncio.sleep(1.0)
            for _ in logs.tick():
                await asyncio.sleep(0)

    def _spawn(self, work: Coroutine[None, None, None], name: str) -> None:
        """Start a background task whose failure ends the process: no task may die unnoticed."""
        task = asyncio.create_task(work, name=name)
        self._background.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._background.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self._fail(task.get_name(), error)

    def _controller_failed(self, failed: asyncio.Future[None]) -> None:
        error = None if failed.cancelled() else failed.exception()
        if error is not None:
            if self._is_only_controller:
                self.stop_at_once()
            self._fail("controller", error)

    def _fail(self, part: str, error: BaseException) -> None:
        """End the process with the first failure; later ones are consequences, and are only logged."""
        if not isinstance(error, MembershipError):
            log.error("%s failed", part, exc_info=error)
        if self._failed is not None and not self._failed.done():
            self._failed.set_exception(StartError(f"{part}: {error}"))

    async def _stop(self) -> None:
        self.parts.stopping = True
        membership = self.parts.membership
        if membership is not None and not await self._leave(membership):
            log.warning("the controller has not released this broker; it stops anyway")
        for task in list(self._background):
            task.cancel()
        await asyncio.gather(*self._background, return_exceptions=True)
        for undo in reversed(self._undo):
            await undo()
        log.info("node %d has stopped", self.settings.node_id)


def _timing(settings: BrokerSettings) -> Timing:
    return Timing(
        settings.config.broker_heartbeat_interval_ms / 1000,
        settings.config.broker_session_timeout_ms / 1000,
        settings.config.initial_broker_registration_timeout_ms / 1000,
    )


def _as_async(act: Callable[[], None]) -> Callable[[], Awaitable[None]]:
    async def run() -> None:
        act()

    return run
