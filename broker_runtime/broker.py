"""The composition root: builds the parts of one process, starts and stops them in order.

A process is a controller, a broker or both. Start: data folder and logs, HTTP, controller, its listener, then the
broker: its listeners are bound (a taken port is noticed, port 0 gets its number), metadata is followed, the broker
registers, and clients are let in once it is unfenced. Stop is the reverse, beginning with a controlled shutdown.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from prometheus_client.metrics_core import Metric

from broker_runtime.broker_node import BrokerNode
from broker_runtime.clock import Clock, SystemClock
from broker_runtime.cluster.identity import claim_folder, new_incarnation
from broker_runtime.cluster.link import ControllerClient, ControllerLink, LoopbackLink, SocketLink
from broker_runtime.cluster.membership import Identity, Membership, RegistrationTimeoutError, Timing
from broker_runtime.config import BrokerSettings, TopicConfig
from broker_runtime.controller.records import METADATA_TOPIC
from broker_runtime.controller.service import ReplayError
from broker_runtime.controller_node import JOURNAL_CONFIG, ControllerNode
from broker_runtime.errors import ConfigError
from broker_runtime.http_listener import HttpListener
from broker_runtime.metrics import families, membership_families, metadata_families, process_families, request_families
from broker_runtime.network.acceptor import ListenerBindError
from broker_runtime.storage.filesystem import OsFileSystem
from broker_runtime.storage.manager import LogManager

log = logging.getLogger(__name__)

_SHUTDOWN_DEADLINE_S = 20.0
"""For the controller's word that the broker may go; Kubernetes' default grace period is 30 s."""


class StartError(Exception):
    """The node could not start or cannot go on: a taken port, a refused registration, a part that failed."""


class Broker:
    def __init__(self, settings: BrokerSettings, clock: Clock | None = None) -> None:
        self.settings = settings
        self._clock = clock or SystemClock()
        self._undo: list[Callable[[], Awaitable[None]]] = []
        self._background: set[asyncio.Task[None]] = set()
        self._failed: asyncio.Future[None] | None = None
        self._stopping = False
        self.controller: ControllerNode | None = None
        self.broker: BrokerNode | None = None
        self.membership: Membership | None = None

    async def run_until(self, stop: asyncio.Event) -> None:
        """Start, serve until `stop` is set, stop. Raises ConfigError or StartError."""
        failed = self._failed = asyncio.get_running_loop().create_future()
        try:
            await self._start()
            stopped = asyncio.create_task(stop.wait())
            stopped.add_done_callback(lambda _: None if failed.done() else failed.set_result(None))
            await failed
        except (ListenerBindError, ReplayError) as error:
            raise StartError(str(error)) from error
        finally:
            await self._stop()

    async def _start(self) -> None:
        settings = self.settings
        log_dir = _made(Path(settings.log_dir))
        disk = ThreadPoolExecutor(1, "log-flush")
        logs = LogManager(log_dir, fs=OsFileSystem(), clock=self._clock, background=disk)
        logs.producer_expiration_ms = settings.integer("producer.id.expiration.ms")
        log.info("%s", logs.open(lambda topic: JOURNAL_CONFIG if topic == METADATA_TOPIC else TopicConfig()))
        self._undo.append(_as_async(disk.shutdown))
        self._undo.append(_as_async(logs.close))
        cluster_id = claim_folder(log_dir, settings.node_id, self._wanted_cluster_id())
        await self._start_http()
        if settings.is_controller:
            self.controller = ControllerNode(settings, self._clock, logs, cluster_id)
            await self.controller.start()
            self._undo.append(self.controller.stop)
        if settings.is_broker:
            await self._start_broker(logs, cluster_id)
        self._spawn(self._tick(logs), "housekeeping")

    def _wanted_cluster_id(self) -> str | None:
        value = self.settings.values["cluster.id"]
        if value is None and not self.settings.is_controller:
            raise ConfigError("cluster.id is missing; a broker without the controller role must be told its cluster")
        return None if value is None else str(value)

    async def _start_broker(self, logs: LogManager, cluster_id: str) -> None:
        settings = self.settings
        link: ControllerLink
        metadata_link: ControllerLink
        if self.controller is not None:
            link = LoopbackLink(self.controller.dispatcher)
            metadata_link = LoopbackLink(self.controller.dispatcher)
        else:
            in_flight = settings.integer("controller.request.queue.max")
            link, metadata_link = SocketLink(settings.quorum, in_flight), SocketLink(settings.quorum, in_flight)
        timeout_s = settings.integer("request.timeout.ms") / 1000
        client = ControllerClient(link, timeout_s)
        broker = self.broker = BrokerNode(settings, self._clock, logs, cluster_id, client)
        broker.bind()
        self._undo.append(broker.stop)
        self._undo.append(_as_async(client.close))
        follower = broker.follow(ControllerClient(metadata_link, timeout_s))
        self._undo.append(_as_async(metadata_link.close))
        self._spawn(follower.run(), "metadata")
        membership = self.membership = Membership(
            Identity(
                settings.node_id,
                cluster_id,
                new_incarnation(),
                None if settings.values["broker.rack"] is None else settings.text("broker.rack"),
                broker.advertised(),
            ),
            client,
            Timing(
                settings.integer("broker.heartbeat.interval.ms") / 1000,
                settings.integer("broker.session.timeout.ms") / 1000,
                settings.integer("initial.broker.registration.timeout.ms") / 1000,
            ),
            self._clock,
            lambda: (follower.next_offset - 1, follower.caught_up),
        )
        self._spawn(membership.run(), "membership")
        self._spawn(self._serve_when_running(), "start")

    async def _serve_when_running(self) -> None:
        assert self.broker is not None
        assert self.membership is not None
        await self.membership.running.wait()
        self.broker.serve()
        log.info("broker %d serves clients on %s", self.settings.node_id, ", ".join(map(str, self.broker.advertised())))

    async def _leave(self, membership: Membership) -> None:
        if not await membership.leave(_SHUTDOWN_DEADLINE_S if self.controller is None else 1.0):
            log.warning("the controller has not released this broker in time; it stops all the same")

    async def _start_http(self) -> None:
        if self.settings.http is None:
            return
        listener = HttpListener(self._why_not_ready, self._metrics)
        try:
            host, port = await listener.start(*self.settings.http)
        except OSError as error:
            raise StartError(f"sluicegate.http.listener: {self.settings.http} cannot be opened: {error}") from error
        self._undo.append(listener.close)
        log.info("metrics and health on http://%s:%d", host, port)

    def _why_not_ready(self) -> str | None:
        if self._stopping:
            return "stopping"
        if self.settings.is_controller and (self.controller is None or not self.controller.ready):
            return "the controller is starting"
        if self.settings.is_broker:
            if self.membership is None or not self.membership.running.is_set():
                return "not registered and caught up yet"
            if self.membership.fenced:
                return "fenced by the controller"
        return None

    def _metrics(self) -> Iterator[Metric]:
        yield from process_families()
        serving = self.broker or self.controller
        if serving is not None:
            yield from families(serving.server.collect())
            yield from request_families(serving.dispatcher.collect())
            yield from metadata_families(serving.image.offset)
        if self.membership is not None:
            yield from membership_families(self.membership.state, self.membership.epoch, self.membership.fenced)

    async def _tick(self, logs: LogManager) -> None:
        """Retention, rolls by time, flush.ms; a second is fine-grained enough for all of them."""
        while True:
            await asyncio.sleep(1.0)
            logs.tick()

    def _spawn(self, work: Coroutine[None, None, None], name: str) -> None:
        """A background task whose failure ends the process: none may die unnoticed."""
        task = asyncio.create_task(work, name=name)
        self._background.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._background.discard(task)
        if task.cancelled() or task.exception() is None or self._failed is None or self._failed.done():
            return
        error = task.exception()
        if not isinstance(error, RegistrationTimeoutError):
            log.error("the %s task failed", task.get_name(), exc_info=error)
        self._failed.set_exception(StartError(f"{task.get_name()}: {error}"))

    async def _stop(self) -> None:
        self._stopping = True
        if self.membership is not None:
            await self._leave(self.membership)
        for task in list(self._background):
            task.cancel()
        await asyncio.gather(*self._background, return_exceptions=True)
        for undo in reversed(self._undo):
            await undo()
        log.info("node %d has stopped", self.settings.node_id)


def _made(log_dir: Path) -> Path:
    try:
        log_dir.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"log.dirs: {log_dir} cannot be made: {error}") from error
    return log_dir


def _as_async(act: Callable[[], None]) -> Callable[[], Awaitable[None]]:
    async def run() -> None:
        act()

    return run
