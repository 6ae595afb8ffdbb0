"""The active controller: the single writer of metadata (KIP-500, KIP-631).

Requests wait in one bounded queue. Whatever waits is decided in order, each request against the metadata that the ones
before it made; its records are one journal batch. One fsync, off the event loop, covers all of them (group commit);
then brokers may read the records and the answers are given. While an fsync runs nothing is appended.
What is decided is pure and lives in the other modules; this one owns queue, journal, timer and replay.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from broker_runtime.clock import Clock
from broker_runtime.config import BrokerSettings
from broker_runtime.controller import registration
from broker_runtime.controller.image import MetadataImage
from broker_runtime.controller.records import (
    ClusterRecord,
    Record,
    RecordFormatError,
    decode_record,
    encode_record,
)
from broker_runtime.controller.registration import Heartbeat, HeartbeatAnswer, Registration, Sessions
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.storage.batch import encode_batch, iter_batches, iter_records
from broker_runtime.storage.log import Log

log = logging.getLogger(__name__)

T = TypeVar("T")
Decision = Callable[[MetadataImage], tuple[Sequence[Record], T]]
"""Decides one request: the records to write, and the answer once they are on disk. Raises KafkaError to refuse."""

_GROUP_MAX = 1_000
_BATCH_BYTES_MAX = 512 * 1024
_REPLAY_READ_BYTES = 4 * 1024 * 1024
_SESSION_CHECKS = 8
"""How often in a session timeout the sessions are looked at, as in Kafka."""


class ReplayError(Exception):
    """The journal cannot be this cluster's metadata; the process must not go on with it."""


@dataclass(slots=True)
class _Waiting:
    decide: Decision[Any]
    answer: asyncio.Future[Any]
    decided: Any = None


class ControllerService:
    def __init__(self, journal: Log, settings: BrokerSettings, clock: Clock, cluster_id: str) -> None:
        self.image = MetadataImage()
        self.cluster_id = cluster_id
        self._journal = journal
        self._settings = settings
        self._clock = clock
        self._sessions = Sessions(settings.integer("broker.session.timeout.ms") / 1000)
        self._queue: deque[_Waiting] = deque()
        self._queue_max = settings.integer("controller.request.queue.max")
        self._stopped = False
        self._wake = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._disk = ThreadPoolExecutor(1, "controller-journal")
        # Brokers see a record only when it is on disk, so the high watermark is moved here, not by each append.
        journal.sole_replica = False

    @property
    def sessions(self) -> Sessions:
        return self._sessions

    # Life

    async def start(self) -> None:
        """Replay the journal, then serve; raises ReplayError."""
        self._replay()
        own = self._settings.node_id if self._settings.is_broker else None
        self._sessions.renew_all(self.image, self._clock.monotonic(), but=own)
        self._tasks = [asyncio.ensure_future(self._write()), asyncio.ensure_future(self._watch_sessions())]
        for task in self._tasks:
            task.add_done_callback(_report_end)
        if self.image.cluster_id is None:
            await self.submit(lambda image: ([ClusterRecord(self.cluster_id)], None))
        log.info("the controller is active at metadata offset %d", self.image.offset)

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._stopped = True
        for waiting in self._queue:
            _fail(waiting.answer, _stopping())
        self._queue.clear()
        self._disk.shutdown()

    def _replay(self) -> None:
        offset, end = self._journal.log_start_offset, self._journal.log_end_offset
        while offset < end:
            region = self._journal.read(offset, _REPLAY_READ_BYTES, min_one=True, up_to=end)
            if region is None:
                raise ReplayError(f"the metadata journal cannot be read at offset {offset}")
            for header, batch in iter_batches(region.read()):
                for item in iter_records(batch):
                    self._replay_one(item.value, item.offset)
                offset = header.last_offset + 1
        if self.image.cluster_id not in (None, self.cluster_id):
            raise ReplayError(f"the metadata journal belongs to cluster {self.image.cluster_id}, not {self.cluster_id}")

    def _replay_one(self, value: bytes | None, offset: int) -> None:
        try:
            self.image.apply(decode_record(value), offset)
        except (RecordFormatError, ValueError) as error:
            raise ReplayError(f"the metadata journal is damaged at offset {offset}: {error}") from error

    # Requests

    async def submit(self, decide: Decision[T]) -> T:
        """The decision's answer, once its records are on disk. Raises what the decision raised, or KafkaError."""
        if self._stopped:
            raise _stopping()
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
        return await self.submit(lambda image: registration.register(wanted, image, self._sessions, now_s))

    async def heartbeat(self, beat: Heartbeat) -> HeartbeatAnswer:
        now_s = self._clock.monotonic()
        registration.registered(beat.broker_id, beat.epoch, self.image)
        self._sessions.touch(beat.broker_id, beat.epoch, now_s)
        return await self.submit(lambda image: registration.heartbeat(beat, image, self._sessions, now_s))

    # The writer

    async def _write(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._queue:
                await self._commit([self._queue.popleft() for _ in range(min(len(self._queue), _GROUP_MAX))])

    async def _commit(self, group: list[_Waiting]) -> None:
        decided = [waiting for waiting in group if self._decide(waiting)]
        end = self._journal.log_end_offset
        if end > self._journal.high_watermark:
            try:
                await asyncio.get_running_loop().run_in_executor(self._disk, self._journal.flush)
            except KafkaError as error:
                log.error("metadata cannot be made durable: %s", error)
                for waiting in decided:
                    _fail(waiting.answer, error)
                return
            except asyncio.CancelledError:
                # Whether the records are on disk is not known: they may be there at the next start.
                for waiting in decided:
                    _fail(waiting.answer, _stopping())
                raise
            self._journal.advance_high_watermark(end)
        for waiting in decided:
            if not waiting.answer.done():
                waiting.answer.set_result(waiting.decided)

    def _decide(self, waiting: _Waiting) -> bool:
        """False when the request was refused; then nothing of it is written."""
        try:
            records, waiting.decided = waiting.decide(self.image)
            self._append(records)
        except KafkaError as error:
            _fail(waiting.answer, error)
            return False
        except Exception as error:
            log.exception("a controller request failed")
            _fail(waiting.answer, error)
            return False
        return True

    def _append(self, records: Sequence[Record]) -> None:
        """Write, then apply. A request of very many records takes several batches, each of them a valid state."""
        now_ms = self._clock.wall_ms()
        for part in _batches(records):
            batch = encode_batch([(None, encoded) for _, encoded in part], now_ms)
            base = self._journal.append(memoryview(batch)).base_offset
            for position, (record, _) in enumerate(part):
                self.image.apply(record, base + position)

    # Sessions

    async def _watch_sessions(self) -> None:
        while True:
            await asyncio.sleep(self._sessions.timeout_s / _SESSION_CHECKS)
            try:
                await self.fence_silent_brokers()
            except KafkaError as error:
                log.warning("silent brokers cannot be fenced now, it is tried again: %s", error)

    async def fence_silent_brokers(self) -> None:
        for broker_id in self._sessions.expired(self.image, self._clock.monotonic()):
            await self.submit(partial(self._expire, broker_id))

    def _expire(self, broker_id: int, image: MetadataImage) -> tuple[Sequence[Record], None]:
        if broker_id not in self._sessions.expired(image, self._clock.monotonic()):
            return (), None
        log.warning("broker %d is fenced: no heartbeat for %g s", broker_id, self._sessions.timeout_s)
        self._sessions.end(broker_id)
        return registration.fence(image.brokers[broker_id], image), None


def _batches(records: Sequence[Record]) -> Sequence[Sequence[tuple[Record, bytes]]]:
    found: list[list[tuple[Record, bytes]]] = []
    size = 0
    for record in records:
        encoded = encode_record(record)
        if not found or size + len(encoded) > _BATCH_BYTES_MAX:
            found.append([])
            size = 0
        found[-1].append((record, encoded))
        size += len(encoded)
    return found


def _stopping() -> KafkaError:
    return KafkaError(ErrorCode.NOT_CONTROLLER, "the controller is stopping")


def _fail(answer: asyncio.Future[Any], error: Exception) -> None:
    if not answer.done():
        answer.set_exception(error)


def _report_end(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and task.exception() is not None:
        log.critical("a task of the controller has ended", exc_info=task.exception())
