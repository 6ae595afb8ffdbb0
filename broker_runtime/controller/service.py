"""The controller: on standby until it is elected, then the single writer of metadata (KIP-500, KIP-631).

An active controller first writes its own epoch, which deposes the previous one. If it is deposed, or cannot tell what
is durable, it discards what it has decided, returns to standby and loads everything again.

This module owns the terms: election, load, the tasks of a term, and the return to standby. `coordination.runtime` runs
the decisions and answers requests. The decisions are pure, and in the other modules. `history` compacts the journal.
"""

import asyncio
import logging
from collections.abc import Coroutine, Sequence
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar

from broker_runtime.clock import Clock
from broker_runtime.config import BrokerSettings
from broker_runtime.controller import registration
from broker_runtime.controller.history import History, ReplayError
from broker_runtime.controller.journal.seam import (
    Backing,
    DeposedError,
    JournalDamagedError,
    JournalError,
    JournalUnavailableError,
)
from broker_runtime.controller.journal_log import JournalLog
from broker_runtime.controller.metadata_shard import MetadataShard
from broker_runtime.controller.partitions.rebalancing import ControllerTimers, LeaderRebalancing
from broker_runtime.controller.registration import Heartbeat, HeartbeatAnswer, Registration
from broker_runtime.controller.sessions import Sessions
from broker_runtime.coordination.deciding_slices import DecidingSlices
from broker_runtime.coordination.runtime import CoordinatorRuntime, TermPhase
from broker_runtime.coordination.seam import Decision, Refusal
from broker_runtime.errors import KafkaError
from broker_runtime.metadata.image import MetadataImage
from broker_runtime.metadata.record import MetadataRecord
from broker_runtime.slicing.steps import Steps

if TYPE_CHECKING:
    from broker_runtime.controller.connection_shares import SharesOfTerm
    from connection_limits.cluster.reports import Answer, Report

log = logging.getLogger(__name__)

CONNECTION_SHARES = "broker_runtime.controller.connection_shares"
"""Imported when the first broker reports about a rate of the cluster (decision 45)."""
T = TypeVar("T")

_SESSION_CHECKS = 64
"""Session checks per session timeout; Kafka has 8."""
_RETRY_DELAY_S = 0.5
_TROUBLE_SHOWN_S = 60.0
"""How long a journal error is reported: a controller on standby does not retry the journal."""


class SharesOnDemand:
    """The shares of rates of the cluster, which few clusters have."""

    def __init__(self, settings: BrokerSettings, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self._shares: SharesOfTerm | None = None

    def report(self, report: "Report", image: MetadataImage) -> "Steps[Answer]":
        """Read a broker's report over several steps, and return the answer."""
        if self._shares is None:
            self._shares = import_module(CONNECTION_SHARES).SharesOfTerm(self._settings.config, self._clock)
        shares: SharesOfTerm = self._shares
        return shares.report(report, image)

    def end_term(self) -> None:
        """Discard what brokers have reported: this controller is no longer active."""
        if self._shares is not None:
            self._shares.end_term()


class ControllerService:
    """A controller. Owns its journal, its election and the runtime of the metadata.

    Only the journal is durable: image, brokers' sessions and timers are created again by each term.
    """

    def __init__(
        self,
        backing: Backing,
        settings: BrokerSettings,
        clock: Clock,
        cluster_id: str,
        first_records: Sequence[MetadataRecord] = (),
    ) -> None:
        """`first_records` are those of a new cluster."""
        self.cluster_id = cluster_id
        self.failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Gets the exception that ends the controller: the process must end with it."""
        self.history = History(
            backing.log, backing.journal, settings.config.metadata_log_max_record_bytes_between_snapshots, clock
        )
        self._journal = backing.journal
        self._election = backing.election
        self._settings = settings
        self._clock = clock
        self._log = JournalLog(backing, self.history, clock)
        timers = ControllerTimers()
        rebalancing = LeaderRebalancing(settings, timers)
        own_broker = settings.node_id if settings.is_broker and backing.election.certain else None
        self._shard = MetadataShard(self.history, self._log, rebalancing, settings, clock, cluster_id, own_broker)
        self._shard.first_records = first_records
        self.sessions: Sessions = self._shard.sessions
        """Sessions of this term, or of the last one."""
        self._runtime: CoordinatorRuntime[MetadataImage, MetadataRecord] = CoordinatorRuntime(
            self._shard,
            self._log,
            timers,
            MetadataImage(),
            settings.config.controller_request_queue_max,
            DecidingSlices(),
        )
        self.connection_shares = SharesOnDemand(settings, clock)
        self._activated = asyncio.Event()
        self._running: asyncio.Task[None] | None = None
        self._unavailable: tuple[float, str] | None = None
        """(time, reason) of the last journal failure, unless this controller was active since."""

    @property
    def image(self) -> MetadataImage:
        """Return the cluster's metadata as last decided here.

        In an active controller the image may be ahead of what is durable.
        """
        return self._runtime.state

    @property
    def active(self) -> bool:
        """Return whether this controller is active.

        This checks the clock too: a controller suspended beyond its lease is not active.
        """
        return self._runtime.active

    @property
    def committed_end_offset(self) -> int:
        """Return the offset after the last durable record."""
        return self._log.committed_end_offset

    @property
    def phase(self) -> TermPhase:
        """Return the phase of the term; UNLOADED on standby, also for a formerly active controller."""
        return self._runtime.phase

    @property
    def active_controller_id(self) -> int | None:
        return self._settings.node_id if self.active else self._election.holder_id

    def why_not_ready(self) -> str | None:
        """Return why this controller could not become active; None for a controller that is active or could be."""
        if self.active:
            return None
        unavailable = self._unavailable
        if unavailable is not None and self._clock.monotonic() - unavailable[0] < _TROUBLE_SHOWN_S:
            return unavailable[1]
        return self._election.trouble

    async def start(self) -> None:
        """Start the controller. Raises ReplayError.

        When this returns, the only controller of a cluster is active. One of several controllers may still be on
        standby.
        """
        running = self._running = asyncio.ensure_future(self._run())
        running.add_done_callback(self._ended)
        if not self._election.certain:
            return
        activated = asyncio.ensure_future(self._activated.wait())
        await asyncio.wait({running, activated}, return_when=asyncio.FIRST_COMPLETED)
        activated.cancel()
        if running.done():
            running.result()

    async def stop(self) -> None:
        if self._running is not None:
            self._running.cancel()
            await asyncio.gather(self._running, return_exceptions=True)
        self._step_down()
        await self._election.release()
        await self._journal.close()

    def _ended(self, task: asyncio.Task[None]) -> None:
        if task.cancelled() or task.exception() is None:
            return
        error = task.exception()
        assert error is not None
        if not isinstance(error, ReplayError | JournalError):
            log.critical("the controller has failed", exc_info=error)
        if not self.failed.done():
            self.failed.set_exception(error)
            # The task that awaits `failed` raises it; if there is none, the error was already logged.
            self.failed.exception()

    async def _run(self) -> None:
        while True:
            await self._election.acquire()
            try:
                await _until_one_ends(self._election.keep(), self._govern())
            except DeposedError as error:
                log.error("this controller was deposed: %s", error)
            except JournalUnavailableError as error:
                log.error("this controller stops being the active one: %s", error)
                self._unavailable = self._clock.monotonic(), str(error)
            except JournalDamagedError as error:
                raise ReplayError(str(error)) from error
            finally:
                self._step_down()
            await self._election.release()
            await asyncio.sleep(_RETRY_DELAY_S)

    async def _govern(self) -> None:
        """Run one term."""
        await self._runtime.load()
        self._unavailable = None
        self._activated.set()
        await _until_one_ends(self._runtime.run(), self._watch_sessions(), self.history.write_snapshots())

    def _step_down(self) -> None:
        self._activated.clear()
        self._runtime.unload()
        self.connection_shares.end_term()

    async def submit(self, decide: Decision[MetadataImage, MetadataRecord, T]) -> T:
        """Return the answer of a decision once its records are durable. Raises the decision's errors, or KafkaError."""
        return await self._runtime.submit(decide)

    async def register(self, wanted: Registration) -> int:
        """Register a broker, and return the broker epoch."""
        now_s = self._clock.monotonic()
        return await self.submit(lambda image: registration.register(wanted, image, self.sessions, now_s))

    async def heartbeat(self, beat: Heartbeat) -> HeartbeatAnswer:
        if not self.active:
            raise self._shard.refuse(Refusal.UNLOADED)
        now_s = self._clock.monotonic()
        registration.registered(beat.broker_id, beat.epoch, self.image)
        self.sessions.touch(beat.broker_id, beat.epoch, now_s)
        return await self._runtime.submit(
            lambda image: registration.heartbeat(beat, image, self.sessions, now_s), urgent=True
        )

    async def _watch_sessions(self) -> None:
        pause_s = self.sessions.timeout_s / _SESSION_CHECKS
        while True:
            began_s = self._clock.monotonic()
            await asyncio.sleep(pause_s)
            now_s = self._clock.monotonic()
            late_s = now_s - began_s - pause_s
            if late_s > self.sessions.timeout_s / 2:
                # This process was suspended; heartbeats that brokers sent meanwhile are still unread.
                log.warning(
                    "the controller was suspended for %.1f s; brokers' sessions are extended by that time", late_s
                )
                self.sessions.extend(late_s, now_s)
            try:
                await self.fence_silent_brokers()
            except KafkaError as error:
                log.warning("brokers without heartbeats could not be fenced; retrying: %s", error)

    async def fence_silent_brokers(self) -> None:
        for broker_id in self.sessions.expired(self.image, self._clock.monotonic()):
            await self.submit(partial(self._expire, broker_id))

    def _expire(self, broker_id: int, image: MetadataImage) -> Steps[tuple[Sequence[MetadataRecord], None]]:
        if broker_id not in self.sessions.expired(image, self._clock.monotonic()):
            return (), None
        log.warning("broker %d is fenced: no heartbeat for %g s", broker_id, self.sessions.timeout_s)
        self.sessions.end(broker_id)
        return (yield from registration.fence(image.brokers[broker_id], image)), None


async def _until_one_ends(*work: Coroutine[Any, Any, None]) -> None:
    """Run the coroutines until the first ends or raises; then cancel the others."""
    tasks = [asyncio.ensure_future(each) for each in work]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    ended = [task for task in tasks if task in done]
    # The error of a task refers to this frame, which must not refer to the task (see `detached`).
    tasks.clear()
    done.clear()
    del task
    while ended:
        ended.pop(0).result()
