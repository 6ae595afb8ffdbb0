"""The composition root: build the parts of one process, start and stop them in order.

A process is a controller, a broker or both. Start: data folder and logs, HTTP, controller, its listener, then the
broker. Its listeners are bound (a taken port is detected, port 0 gets its number), metadata is followed, the broker
registers, and clients are admitted once it is unfenced. Stop begins with a controlled shutdown, during which clients
are still served. Then it reverses the start: listeners, requests in progress, controller, HTTP, logs with the clean
marker.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path

from broker_runtime.clock import Clock, SystemClock
from broker_runtime.cluster.data_folder import make_data_folder
from broker_runtime.cluster.follower import MetadataFollower
from broker_runtime.cluster.identity import boot_id, claim_folder, new_incarnation
from broker_runtime.cluster.link import ControllerClient, ControllerLink
from broker_runtime.cluster.loopback_link import LoopbackLink
from broker_runtime.cluster.membership import Membership, Timing
from broker_runtime.cluster.registration import BrokerIdentity, MembershipError
from broker_runtime.cluster.self_description import self_description
from broker_runtime.cluster.socket_link import SocketLink
from broker_runtime.config import BrokerSettings
from broker_runtime.config.declaring.addresses import canonical_address
from broker_runtime.controller.history import ReplayError
from broker_runtime.controller.overview import not_active, overview, view_version
from broker_runtime.errors import ConfigError, KafkaError
from broker_runtime.exposition import MetricFamily
from broker_runtime.http_listener import (
    WAIT_MAX_S,
    HttpAnswer,
    HttpListener,
    HttpRequest,
    LongPolls,
    Readiness,
    Route,
    json_answer,
    text_answer,
    wanted_wait_s,
)
from broker_runtime.metadata.brokers import BrokerInfo
from broker_runtime.metadata.image import MetadataImage
from broker_runtime.metadata.metrics import (
    ControllerMetrics,
    OncePerState,
    ReplicationMetrics,
    controller_figures,
    replication_figures,
)
from broker_runtime.metadata.topic_names import METADATA_TOPIC
from broker_runtime.network.connection.client_connection import ClientConnector
from broker_runtime.network.quotas.limits_held import LimitsHeld
from broker_runtime.network.quotas.why_held import WhyHeld
from broker_runtime.network.sockets.dialling import SocketDialler
from broker_runtime.network.sockets.listening import ListenerBindError
from broker_runtime.node.broker_node import BrokerNode
from broker_runtime.node.controller_node import JOURNAL_CONFIG, ControllerNode, has_file_journal
from broker_runtime.node.limits import limits_to_controllers
from broker_runtime.node.loop_watch import LoopWatch
from broker_runtime.node.metrics import (
    cleaner_families,
    controller_families,
    coordinator_families,
    damage_families,
    families,
    garbage_family,
    group_lag_families,
    group_tally_families,
    log_dir_families,
    membership_families,
    metadata_families,
    push_families,
    replication_families,
    request_families,
    storage_families,
    turn_families,
    unused_configs_family,
)
from broker_runtime.node.process_metrics import process_families
from broker_runtime.storage.disk.disk import ThreadedDisk
from broker_runtime.storage.disk.filesystem import OsFileSystem
from broker_runtime.storage.disk.waiters import SlicedCallbacks
from broker_runtime.storage.log_dir.log_dir_health import RESERVE_BYTES, LogDirHealth
from broker_runtime.storage.log_dir.manager import LogManager

log = logging.getLogger(__name__)


class StartError(Exception):
    """The node could not start or continue: a taken port, a refused registration, a part that failed."""


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
    """One process: the node of a broker, of a controller, or both, with their logs, listeners and background tasks.

    It starts the parts in order and stops them in reverse order. Raises ConfigError and StartError while it starts.
    """

    def __init__(self, settings: BrokerSettings, clock: Clock | None = None, *, watch: LoopWatch | None = None) -> None:
        """`watch` observes this process's event loop, if it is a real one; the metrics show it."""
        self.settings = settings
        self._clock = clock or SystemClock()
        self._views_waited_for = LongPolls()
        self._watch = watch
        self._wakes: SlicedCallbacks | None = None
        self._replication: OncePerState[ReplicationMetrics] = OncePerState()
        self._control: OncePerState[ControllerMetrics] = OncePerState()
        self._undo: list[Callable[[], Awaitable[None]]] = []
        self._background: set[asyncio.Task[None]] = set()
        self._failed: asyncio.Future[None] | None = None
        self._stopping = False
        self._at_once = False
        self.controller: ControllerNode | None = None
        self.broker: BrokerNode | None = None
        self.membership: Membership | None = None
        self._follower: MetadataFollower | None = None
        self._log_dir_health: LogDirHealth | None = None

    async def run_until(self, stop: asyncio.Event) -> None:
        """Start, serve until `stop` is set, stop. Raises ConfigError or StartError."""
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
        if self.membership is not None:
            self.membership.wait_no_longer()

    async def _start(self) -> None:
        settings = self.settings
        for warning in settings.warnings:
            log.warning("%s", warning)
        log_dir = make_data_folder(Path(settings.log_dir))
        threads = ThreadPoolExecutor(settings.config.background_threads, "disk")
        disk = ThreadedDisk(threads)
        turn_s = settings.config.sluicegate_network_turn_max_us / 1_000_000
        wakes = self._wakes = SlicedCallbacks(asyncio.get_running_loop().call_soon, self._clock.monotonic, turn_s)
        logs = LogManager(
            log_dir,
            fs=OsFileSystem(),
            clock=self._clock,
            disk=disk,
            wakes=wakes,
            boot_id=boot_id(),
            reserve_bytes=RESERVE_BYTES,
        )
        self._log_dir_health = logs.dir_health
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
            self.controller = ControllerNode(settings, self._clock, logs, cluster_id)
            self._undo.append(self.controller.stop)
            await self.controller.start()
            self.controller.controller.failed.add_done_callback(self._controller_failed)
        if settings.is_broker:
            await self._start_broker(logs, cluster_id)
            if settings.config.log_cleaner_enable:
                self._spawn(logs.cleaner.run(), "log cleaner")
        self._spawn(self._tick(logs), "housekeeping")

    def _wanted_cluster_id(self) -> str | None:
        wanted = self.settings.config.cluster_id
        if wanted is None and not self.settings.is_controller:
            raise ConfigError("cluster.id is missing; a broker without the controller role needs it")
        return wanted

    async def _start_broker(self, logs: LogManager, cluster_id: str) -> None:
        settings = self.settings
        timeout_s = settings.config.request_timeout_ms / 1000
        client, slow_client = (ControllerClient(self._link_to_controller(), timeout_s) for _ in range(2))
        broker = self.broker = BrokerNode(settings, self._clock, logs, cluster_id, (client, slow_client))
        await broker.limits.start()
        await broker.observers.start(broker.metadata.effective)
        broker.listeners.bind()
        self._undo.append(lambda: broker.stop(0) if self._at_once else broker.stop())
        follower = self._follower = broker.follow(ControllerClient(self._link_to_controller(), timeout_s))
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
        self.membership = Membership(
            identity,
            # Short enough that a second request fits into the session if the first is not answered.
            ControllerClient(self._link_to_controller(), min(timeout_s, timing.session_timeout_s / 3)),
            timing,
            self._clock,
            door,
            logs.run_record,
        )
        membership = self.membership
        broker.listeners.changed = lambda: membership.reregister(broker.listeners.advertised())
        broker.replicas.failed = lambda error: self._fail("replication", error)
        self._spawn(self.membership.run(), "membership")
        self._spawn(broker.group_lag.run(), "lag of groups")
        self._spawn(broker.groups.census.run(), "census of groups")
        self._spawn(self._report_shutdowns(self.membership, follower), "shutdown reports")

    async def _report_shutdowns(self, membership: Membership, follower: MetadataFollower) -> None:
        """Report metadata progress when another broker begins a controlled shutdown.

        Otherwise that shutdown would take up to a heartbeat interval of this broker.
        """
        told = -1
        while True:
            if await follower.wait_until(partial(_shutdown_since, told), _SHUTDOWN_LOOK_S):
                assert self.broker is not None
                told = _newest_shutdown(self.broker.image)
                membership.beat_soon()

    def _link_to_controller(self) -> ControllerLink:
        """Create a link to the controller.

        Registration, metadata and forwarded requests have a connection each. Forwarded requests that wait for name
        servers have another one, so that no request waits behind another kind.

        If there may be several controllers, the one in this process may be on standby, and the link finds the active
        one.
        """
        link: ControllerLink
        if self.controller is not None and self._is_only_controller:
            link = LoopbackLink(self.controller.dispatcher)
        else:
            dialler = SocketDialler(asyncio.get_running_loop())
            link = SocketLink(self.settings.quorum, ClientConnector(dialler, limits_to_controllers(self.settings)))
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
        listener = HttpListener(self._readiness, self._metrics, self._routes())
        try:
            host, port = await listener.start(*self.settings.http)
        except OSError as error:
            raise StartError(f"sluicegate.http.listener: {self.settings.http} cannot be opened: {error}") from error
        self._undo.append(listener.close)
        log.info("metrics and health on http://%s:%d", host, port)

    def _routes(self) -> dict[tuple[str, str], Route]:
        routes: dict[tuple[str, str], Route] = {}
        if self.settings.is_controller:
            routes["GET", "/brokers"] = self._show_brokers
        if self.settings.is_broker:
            routes["POST", "/controlled-shutdown"] = self._leave_by_request
            routes["GET", "/connection-quotas"] = self._show_quotas
            routes["GET", "/connection-limits"] = self._show_limits
        return routes

    async def _show_brokers(self, request: HttpRequest) -> HttpAnswer:
        """Show the brokers. With `after`, a version of the view, wait for a newer one, at most `wait` seconds."""
        if self.controller is None:
            return json_answer(503, not_active(None))
        service = self.controller.controller
        wait_s = wanted_wait_s(request)
        if wait_s is None:
            return text_answer(400, f"wait must be a number of seconds, at most {WAIT_MAX_S}")

        def nothing_new() -> bool:
            version = view_version(service.image, service.sessions, self._clock.monotonic())
            return service.active and version == request.query.get("after")

        await self._views_waited_for.wait_while(nothing_new, wait_s)
        if not service.active:
            return json_answer(503, not_active(service.active_controller_id))
        shown = overview(service.image, service.sessions, self._clock.monotonic(), self.settings.inter_broker_listener)
        return json_answer(200, shown)

    async def _show_quotas(self, request: HttpRequest) -> HttpAnswer:
        """Show the quotas of one address, of one connection group, or of all groups after a name."""
        if self.broker is None:
            return text_answer(503, "this broker is starting")
        address, group = request.query.get("address"), request.query.get("group")
        why = WhyHeld(self.broker.server.quotas, int(self._clock.monotonic() * 1000), self._clock.wall_ms())
        if address is not None:
            known = canonical_address(address)
            if known is None:
                return text_answer(400, "address must be one IPv4 or IPv6 address, such as 10.0.0.1")
            return json_answer(200, why.address(known))
        if group is not None:
            found = why.group(group)
            return text_answer(404, "this broker enforces no such group") if found is None else json_answer(200, found)
        return json_answer(200, why.groups(request.query.get("after", "")))

    async def _show_limits(self, request: HttpRequest) -> HttpAnswer:
        """Show the limits of this broker, its listeners and addresses; with `held=true` of those that refused any."""
        if self.broker is None:
            return text_answer(503, "this broker is starting")
        limits = LimitsHeld(self.broker.server.quotas, int(self._clock.monotonic() * 1000))
        if request.query.get("held") == "true":
            return json_answer(200, limits.held())
        return json_answer(200, limits.page(request.query.get("after", "")))

    async def _leave_by_request(self, request: HttpRequest) -> HttpAnswer:
        """Run a controlled shutdown for a pod's preStop hook: a later SIGTERM finds it done."""
        if not request.same_host:
            return text_answer(403, "a controlled shutdown may only be requested from this host")
        if self.membership is None:
            return text_answer(200, "not a member of the cluster yet")
        if await self._leave(self.membership):
            return text_answer(200, "the controller has released this broker")
        return text_answer(504, "the controller has not released this broker; it may stop anyway")

    def _readiness(self) -> Readiness:
        broker = self.broker
        notes = (
            []
            if broker is None
            else [
                *broker.limits.problems,
                *broker.listeners.problems,
                *broker.replicas.offline_notes(),
                *broker.replicas.repairs.notes(),
                *broker.groups.notes(),
            ]
        )
        log_dir = self._log_dir_health
        if log_dir is not None and log_dir.failure is not None:
            notes.insert(0, log_dir.failure)
        return Readiness(self._why_not_ready(), tuple(notes))

    def _why_not_ready(self) -> str | None:
        if self._stopping:
            return "stopping"
        if self.settings.is_controller and (self.controller is None or not self.controller.ready):
            return "the controller is starting"
        if self.settings.is_broker:
            # The broker's clients do not depend on whether the controller beside it could take over.
            return self._why_not_serving()
        return None if self.controller is None else self.controller.controller.why_not_ready()

    def _why_not_serving(self) -> str | None:
        if self.membership is None or self.broker is None:
            return "starting"
        if not self.broker.open and self.broker.observers.loading:
            return "its observers are being loaded"
        reason = self.membership.why_not_ready()
        return "opening its replicas" if reason is None and not self.broker.open else reason

    def _metrics(self) -> Iterator[MetricFamily]:
        yield from process_families()
        serving = self.broker or self.controller
        if serving is not None:
            yield from families(serving.server.collect())
            yield from request_families(serving.request_metrics.collect())
            yield from self._turn_families()
            if (log_dir := self._log_dir_health) is not None:
                yield from log_dir_families(log_dir.failed_writes, failing=log_dir.failure is not None)
            lag = 0 if self._follower is None else self._follower.lag
            yield from metadata_families(serving.image.offset, lag)
        if self.controller is not None:
            yield from controller_families(self._controller_figures(self.controller))
        member = self.membership
        if self.broker is not None and member is not None:
            yield from membership_families(
                member.state, member.epoch, fenced=not member.serving, self_fenced=member.self_fenced
            )
            yield from replication_families(self._replication_figures(self.broker))
            yield from cleaner_families(self.broker.logs.cleaner.figures, self._clock.monotonic())
            yield from storage_families(len(self.broker.logs.strays), len(self.broker.replicas.offline))
            damage = self.broker.logs.damage
            yield from damage_families(damage.count, damage.mended_ranges, damage.accepted_ranges)
            yield from coordinator_families(self.broker.groups.figures())
            groups = self.broker.groups
            yield from group_tally_families(groups.tally, groups.census.groups)
            yield from push_families(groups.push_consumers, groups.tally.push)
            if self.settings.config.sluicegate_group_lag_groups_max > 0:
                behind = self.broker.group_lag
                yield from group_lag_families(behind.shown.figures, behind.age_s())
            yield unused_configs_family(len(self.broker.limits.problems) + len(self.broker.listeners.problems))
            yield from self.broker.observers.collect()

    def _turn_families(self) -> Iterator[MetricFamily]:
        if self._watch is None:
            return
        turns = [self._watch.tasks, self._watch.garbage.lengths]
        if self._wakes is not None:
            turns.append(self._wakes.lengths)
        turns.extend(node.slices.lengths for node in (self.broker, self.controller) if node is not None)
        if self.broker is not None:
            turns.extend((self.broker.metadata.reactions.lengths, *self.broker.server.turn_lengths))
        elif self.controller is not None:
            turns.extend(self.controller.server.turn_lengths)
        yield from turn_families(turns, self._watch.delays, self._clock.monotonic())
        yield garbage_family(self._watch.garbage.found)

    def _replication_figures(self, node: BrokerNode) -> ReplicationMetrics:
        me, changes = self.settings.node_id, node.replicas.in_sync_sets.counts
        figures = self._replication.get(
            node.image,
            lambda: replication_figures(
                node.image, me, lambda topic: node.topic_config(topic).min_insync_replicas, (0, 0)
            ),
        )
        return replace(figures, isr_shrinks=changes.shrinks, isr_expands=changes.expands)

    def _controller_figures(self, node: ControllerNode) -> ControllerMetrics:
        if not node.controller.active:
            return controller_figures(node.image, active=False)
        return self._control.get(node.image, lambda: controller_figures(node.image, active=True))

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
        self._stopping = True
        if self.membership is not None and not await self._leave(self.membership):
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
