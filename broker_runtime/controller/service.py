"""The controller: on standby until it is elected, then the single writer of metadata (KIP-500, KIP-631).

Requests wait in one bounded queue. Whatever waits is decided in order, each request against the metadata that the ones
before it made; its records are one batch of the metadata log. One commit of the journal covers all of them (group
commit); then brokers may read the records and the answers are given, refusals too, as they may come of what others of
the group have changed. While a commit runs nothing is appended.

An active controller begins by writing its own epoch, which deposes the one before. When it is deposed or cannot tell
what is durable, it forgets what it has decided, goes back to standby and loads everything anew.
What is decided is pure and lives in the other modules, `history` reads the journal and keeps it short; this one owns
queue, timers and the two states.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import Any, TypeVar

from broker_runtime.clock import Clock
from broker_runtime.config import BrokerSettings
from broker_runtime.controller import elections, registration
from broker_runtime.controller.history import History, ReplayError
from broker_runtime.controller.journal.seam import (
    DeposedError,
    Election,
    Journal,
    JournalDamagedError,
    JournalError,
    JournalUnavailableError,
)
from broker_runtime.controller.registration import Heartbeat, HeartbeatAnswer, Registration, Sessions
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.metadata.cluster import ClusterRecord, ControllerChange
from broker_runtime.metadata.image import ElectionDefaults, MetadataImage
from broker_runtime.metadata.record import Record
from broker_runtime.metadata.snapshots import in_batches
from broker_runtime.storage.batch import encode_batch
from broker_runtime.storage.log import Log

log = logging.getLogger(__name__)

T = TypeVar("T")
Decision = Callable[[MetadataImage], tuple[Sequence[Record], T]]
"""Decides one request: the records to write, and the answer once they are durable. Raises KafkaError to refuse."""

_GROUP_MAX = 1_000
_SESSION_CHECKS = 64
"""How often in a session timeout the sessions are looked at; Kafka looks 8 times."""
_RETRY_DELAY_S = 0.5
_TROUBLE_SHOWN_S = 60.0
"""How long a journal that could not be used is told of: on standby nobody tries it again."""


class Role(Enum):
    STANDBY = "standby"
    """From the start until elected and loaded, and again after it was deposed: refuses everything."""
    ACTIVE = "active"
    """From the commit of its own epoch until it is deposed, loses its lease or stops."""


@dataclass(frozen=True, slots=True)
class Backing:
    """What a controller is built on: the log that brokers fetch, what makes it durable, and who may write."""

    log: Log
    journal: Journal
    election: Election


@dataclass(slots=True)
class _Waiting:
    decide: Decision[Any]
    answer: asyncio.Future[Any]
    decided: Any = None
    refused: Exception | None = None


class ControllerService:
    def __init__(self, backing: Backing, settings: BrokerSettings, clock: Clock, cluster_id: str) -> None:
        self.image = MetadataImage()
        self.cluster_id = cluster_id
        self.failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Gets the exception that ends the controller: the process must end with it."""
        self.role = Role.STANDBY
        self._log = backing.log
        self._journal = backing.journal
        self._election = backing.election
        self._settings = settings
        self._clock = clock
        self.sessions = self._new_sessions()
        self._queue: deque[_Waiting] = deque()
        self._queue_max = settings.config.controller_request_queue_max
        self._wake = asyncio.Event()
        self._activated = asyncio.Event()
        self._leaders_wait = asyncio.Event()
        """Preferred replicas could lead and do not."""
        self._running: asyncio.Task[None] | None = None
        self._unavailable: tuple[float, str] | None = None
        """(when, why) the journal could not be used last, unless this controller was active since."""
        self.history = History(
            backing.log, backing.journal, settings.config.metadata_log_max_record_bytes_between_snapshots, clock
        )
        # Brokers see a record only when it is durable, so the high watermark is moved here, not by each append.
        self._log.sole_replica = False

    def _new_sessions(self) -> Sessions:
        return Sessions(self._settings.config.broker_session_timeout_ms / 1000)

    # What others may know

    @property
    def active(self) -> bool:
        """Looks at the clock too: a process that slept through its lease is not active when it wakes up."""
        return self.role is Role.ACTIVE and self._election.held

    @property
    def controller_epoch(self) -> int:
        """Of the newest active controller that this one knows of."""
        return self.image.cluster.controller_epoch

    @property
    def committed_end_offset(self) -> int:
        """The offset after the last record that is durable."""
        return self._log.high_watermark

    @property
    def active_controller_id(self) -> int | None:
        return self._settings.node_id if self.active else self._election.holder_id

    def why_not_ready(self) -> str | None:
        """None for one that is active, or that could take over."""
        if self.active:
            return None
        unavailable = self._unavailable
        if unavailable is not None and self._clock.monotonic() - unavailable[0] < _TROUBLE_SHOWN_S:
            return unavailable[1]
        return self._election.trouble

    # Life

    async def start(self) -> None:
        """The only controller is active when this returns, one of several is on its way. Raises ReplayError."""
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
            # Whoever watches raises it; for who does not it has been said.
            self.failed.exception()

    async def _run(self) -> None:
        while True:
            await self._election.acquire()
            try:
                await _until_one_ends(self._election.keep(), self._govern())
            except DeposedError as error:
                log.error("this controller is deposed: %s", error)
            except JournalUnavailableError as error:
                log.error("this controller gives up being the active one: %s", error)
                self._unavailable = self._clock.monotonic(), str(error)
            except JournalDamagedError as error:
                raise ReplayError(str(error)) from error
            finally:
                self._step_down()
            await self._election.release()
            await asyncio.sleep(_RETRY_DELAY_S)

    async def _govern(self) -> None:
        await self._activate()
        work = [self._write(), self._watch_sessions(), self.history.write_snapshots()]
        if self._settings.config.auto_leader_rebalance_enable:
            work.append(self._tend_leaders())
        await _until_one_ends(*work)

    def _step_down(self) -> None:
        self.role = Role.STANDBY
        self._activated.clear()
        for waiting in self._queue:
            _fail(waiting.answer, _not_active())
        self._queue.clear()

    # Becoming active

    async def _activate(self) -> None:
        image = self.image = await self.history.load()
        config = self._settings.config
        image.defaults = ElectionDefaults(
            config.unclean_leader_election_enable, config.min_insync_replicas, config.sluicegate_broker_replicas_max
        )
        if image.cluster.id not in (None, self.cluster_id):
            raise ReplayError(f"the metadata journal belongs to cluster {image.cluster.id}, not {self.cluster_id}")
        # Until this is committed nothing is decided: it is what keeps the controller before from committing anything.
        first: list[Record] = [] if image.cluster.id is not None else [ClusterRecord(self.cluster_id)]
        self._append([*first, ControllerChange(self._settings.node_id, image.cluster.controller_epoch + 1)])
        # The properties file may say something else than when the controller before was started.
        self._append(elections.reviewed(image))
        await self._make_durable()
        self.sessions = self._new_sessions()
        own = self._settings.node_id if self._settings.is_broker and self._election.certain else None
        self.sessions.renew_all(image, self._clock.monotonic(), but=own)
        self.role = Role.ACTIVE
        self._unavailable = None
        self._activated.set()
        log.info(
            "controller %d is active with epoch %d at metadata offset %d",
            self._settings.node_id,
            image.cluster.controller_epoch,
            image.offset,
        )

    # Requests

    async def submit(self, decide: Decision[T]) -> T:
        """The decision's answer, once its records are durable. Raises what the decision raised, or KafkaError."""
        if not self.active:
            raise _not_active()
        if len(self._queue) >= self._queue_max:
            raise KafkaError(
                ErrorCode.REQUEST_TIMED_OUT, "controller.request.queue.max requests wait for the controller; try again"
            )
        answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._queue.append(_Waiting(decide, answer))
        self._wake.set()
        return await answer

    async def register(self, wanted: Registration) -> int:
        """The broker's epoch."""
        now_s = self._clock.monotonic()
        return await self.submit(lambda image: registration.register(wanted, image, self.sessions, now_s))

    async def heartbeat(self, beat: Heartbeat) -> HeartbeatAnswer:
        if not self.active:
            raise _not_active()
        now_s = self._clock.monotonic()
        registration.registered(beat.broker_id, beat.epoch, self.image)
        self.sessions.touch(beat.broker_id, beat.epoch, now_s)
        return await self.submit(lambda image: registration.heartbeat(beat, image, self.sessions, now_s))

    # The writer

    async def _write(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._queue:
                await self._commit([self._queue.popleft() for _ in range(min(len(self._queue), _GROUP_MAX))])
                self.history.take_snapshot_when_due(self.image)

    async def _commit(self, group: list[_Waiting]) -> None:
        try:
            for waiting in group:
                self._decide(waiting)
            if self._log.log_end_offset > self._log.high_watermark:
                await self._make_durable()
            elif not self.active:
                raise DeposedError("the lease has run out")
        except BaseException:
            # Whether the records are durable is not known: the next active controller may have them.
            for waiting in group:
                _fail(waiting.answer, _not_active())
            raise
        for waiting in group:
            if waiting.refused is not None:
                _fail(waiting.answer, waiting.refused)
            elif not waiting.answer.done():
                waiting.answer.set_result(waiting.decided)

    async def _make_durable(self) -> None:
        end = self._log.log_end_offset
        await self._journal.commit()
        self._log.advance_high_watermark(end)
        self.history.committed()

    def _decide(self, waiting: _Waiting) -> None:
        """Of what is refused nothing is written. An exception from here would be that image and journal differ."""
        try:
            records, waiting.decided = waiting.decide(self.image)
        except KafkaError as error:
            waiting.refused = error
            return
        except Exception as error:
            log.exception("a controller request failed")
            waiting.refused = error
            return
        try:
            self._append(records)
            self._append(elections.consequences(records, self.image))
        except KafkaError as error:
            waiting.refused = error

    def _append(self, records: Sequence[Record]) -> None:
        """Write, then apply. A request of very many records takes several batches, each of them a valid state."""
        parts = list(in_batches(records))
        now_ms = self._clock.wall_ms()
        epochs = [record.epoch for record in records if isinstance(record, ControllerChange)]
        epoch = max([self.image.cluster.controller_epoch, *epochs])
        for part in parts:
            batch = encode_batch([(None, encoded) for _, encoded in part], now_ms)
            base = self._log.append(memoryview(batch), leader_epoch=epoch).base_offset
            self.history.appended(len(batch))
            for position, (record, _) in enumerate(part):
                self.image.apply(record, base + position)
                if elections.preferred_waits(record, self.image):
                    self._leaders_wait.set()

    # Timers

    async def _watch_sessions(self) -> None:
        pause_s = self.sessions.timeout_s / _SESSION_CHECKS
        while True:
            began_s = self._clock.monotonic()
            await asyncio.sleep(pause_s)
            now_s = self._clock.monotonic()
            late_s = now_s - began_s - pause_s
            if late_s > self.sessions.timeout_s / 2:
                # This process stood still; what brokers sent meanwhile is still to be read.
                log.warning("the controller stood still for %.1f s; brokers' sessions last so much longer", late_s)
                self.sessions.extend(late_s, now_s)
            await self._attempt("silent brokers cannot be fenced now", self.fence_silent_brokers)

    async def fence_silent_brokers(self) -> None:
        for broker_id in self.sessions.expired(self.image, self._clock.monotonic()):
            await self.submit(partial(self._expire, broker_id))

    def _expire(self, broker_id: int, image: MetadataImage) -> tuple[Sequence[Record], None]:
        if broker_id not in self.sessions.expired(image, self._clock.monotonic()):
            return (), None
        log.warning("broker %d is fenced: no heartbeat for %g s", broker_id, self.sessions.timeout_s)
        self.sessions.end(broker_id)
        return registration.fence(image.brokers[broker_id], image), None

    async def _tend_leaders(self) -> None:
        """At Kafka's interval, and soon after a broker is back: whoever was back first leads everything until then."""
        interval_s = self._settings.config.leader_imbalance_check_interval_seconds
        delay_s = self._settings.config.sluicegate_leader_rebalance_delay_ms / 1000
        # Who was active before may have left leaders that wait.
        self._leaders_wait.set()
        while True:
            await self._leaders_are_due(interval_s, delay_s)
            self._leaders_wait.clear()
            await self._attempt("leaders cannot be moved now", self.rebalance_leaders)

    async def _leaders_are_due(self, interval_s: float, delay_s: float) -> None:
        if delay_s >= interval_s:
            await asyncio.sleep(interval_s)
            return
        try:
            async with asyncio.timeout(interval_s):
                await self._leaders_wait.wait()
        except TimeoutError:
            return
        # The others that come back with it are waited for, too.
        await asyncio.sleep(delay_s)

    async def rebalance_leaders(self) -> None:
        moved = await self.submit(lambda image: (found := elections.rebalance(image), len(found)))
        if moved == elections.REBALANCED_MAX:
            self._leaders_wait.set()

    async def _attempt(self, problem: str, act: Callable[[], Awaitable[None]]) -> None:
        try:
            await act()
        except KafkaError as error:
            log.warning("%s, it is tried again: %s", problem, error)


async def _until_one_ends(*work: Coroutine[Any, Any, None]) -> None:
    """Run them together until the first ends, which may be by an exception; the others are cancelled."""
    tasks = [asyncio.ensure_future(each) for each in work]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    for task in tasks:
        if task in done:
            task.result()


def _not_active() -> KafkaError:
    return KafkaError(ErrorCode.NOT_CONTROLLER, "this controller is not the active one")


def _fail(answer: asyncio.Future[Any], error: Exception) -> None:
    if not answer.done():
        answer.set_exception(error)
