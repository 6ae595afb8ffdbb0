"""Keeps this broker's replicas of the partitions that one other broker leads up to date.

Each leader has one task, one connection and one fetch session. Partitions are added and removed between two requests. A
partition may be added while a request waits at the leader for new records. That request is then cancelled, so that the
new partition need not wait for it. This happens once for a whole burst: while partitions keep being added, no request
waits long.
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from uuid import UUID

from broker_runtime.clock import Clock
from broker_runtime.coordination.backoff import Backoff
from broker_runtime.errors import ErrorCode, KafkaError, ProtocolError
from broker_runtime.replication.following.fetch_failures import FetchFailures
from broker_runtime.replication.following.fetch_messages import (
    FETCH_VERSION,
    Fetched,
    FetchLimits,
    pack_fetch,
    read_answer,
)
from broker_runtime.replication.following.follower import FollowerReplica
from broker_runtime.replication.following.follower_session import FollowerSession
from broker_runtime.replication.following.truncation import Truncation
from broker_runtime.replication.peer import PeerLink
from broker_runtime.storage.log.follower_log import FollowerLog
from broker_runtime.storage.log_dir.manager import LogManager
from broker_runtime.wire.versions import FETCH

log = logging.getLogger(__name__)

_MORE_TO_COME_S = 0.5
"""How long further partitions are expected after one was added, in seconds.

They mostly arrive together, over many iterations of the event loop. Closing the connection for each few of them would
cost more, because each time all partitions have to be named again.
"""
_SYNC_LOOK_S = 0.05
"""How long other partitions wait for one that is being synced, in seconds.

The synced one then waits as long for their request, and so do added partitions.
"""
_SESSION_IS_OVER = frozenset(
    (
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
    )
)
_NOT_WHOLE = frozenset((ErrorCode.CORRUPT_MESSAGE, ErrorCode.OFFSET_OUT_OF_RANGE))
"""Errors of an append: a batch is damaged, or only its offset or epoch, which are outside of the checksum."""


@dataclass(frozen=True, slots=True)
class FetcherSettings:
    """Settings that all fetchers of one broker share."""

    broker_id: int
    limits: FetchLimits
    request_timeout_s: float
    backoff_max_s: float


class LeaderFetcher:
    """Fetches the followed partitions of one leader in one session, and appends their records."""

    def __init__(
        self,
        leader: int,
        link: PeerLink,
        settings: FetcherSettings,
        clock: Clock,
        broker_epoch: Callable[[], int],
        logs: LogManager,
        on_corrupt: Callable[[FollowerReplica], None],
    ) -> None:
        """`on_corrupt` is called when the leader sends a damaged batch."""
        self.leader = leader
        self._link = link
        self._settings = settings
        self._clock = clock
        self._broker_epoch = broker_epoch
        self._logs = logs
        self._on_corrupt = on_corrupt
        self._session = FollowerSession()
        self._failures = FetchFailures(leader, clock)
        self._truncation = Truncation(leader, settings.broker_id, self._exchange, self._session, self._failures, clock)
        self._impatient = replace(
            settings.limits, wait_max_ms=min(settings.limits.wait_max_ms, round(_SYNC_LOOK_S * 1000))
        )
        self._no_wait = replace(settings.limits, wait_max_ms=0)
        self._changed = asyncio.Event()
        self._woken = asyncio.Event()
        self._syncing: list[FollowerReplica] = []
        """Replicas with records of the last response that are being synced."""
        self._new_starts: list[tuple[FollowerReplica, int]] = []
        """New start offsets of the leader's logs, from the last response."""
        self._backoff = Backoff(settings.backoff_max_s)
        self._waits_for_records = False
        self._more_come_until_s = float("-inf")

    def follow(self, replica: FollowerReplica) -> None:
        self._session.follow(replica)
        self._changed.set()
        self._woken.set()
        self._more_come_until_s = self._clock.monotonic() + _MORE_TO_COME_S
        if self._waits_for_records:
            self._waits_for_records = False
            self._link.close()

    def forget(self, topic_id: UUID, index: int) -> None:
        """Stop following a partition; its records are ignored from now on. The next request informs the leader."""
        self._session.forget(topic_id, index)

    def __bool__(self) -> bool:
        return len(self._session) > 0

    def close(self) -> None:
        self._link.close()

    async def run(self) -> None:
        """Fetch the followed partitions from their leader until cancelled."""
        while True:
            self._changed.clear()
            self._woken.clear()
            try:
                busy = await self._truncation.run() or await self._fetch()
            except KafkaError as error:
                await self._back_off(error)
                continue
            except ProtocolError as error:
                self._link.close()
                await self._back_off(error)
                continue
            if not busy:
                await self._sleep(self._idle_s())

    async def _back_off(self, error: Exception) -> None:
        if self._backoff.is_news(str(error)):
            log.warning("fetching from broker %d fails; retrying: %s", self.leader, error)
        await asyncio.sleep(self._backoff.failed())

    async def _sleep(self, delay_s: float) -> None:
        """Sleep; ends early when partitions were added or a sync has ended."""
        try:
            async with asyncio.timeout(delay_s):
                await self._woken.wait()
        except TimeoutError:
            pass

    def _idle_s(self) -> float:
        """Seconds until a paused partition is due again, or one that is being synced may be ready."""
        now_s = self._clock.monotonic()
        due_s = now_s + 1.0
        for replica in self._session.to_look:
            if replica.truncated and replica.waits_for_repair:
                continue
            if replica.is_counted:
                due_s = min(due_s, replica.not_before_s)
            elif replica.log.waits_for_sync:
                due_s = min(due_s, max(replica.not_before_s, now_s + _SYNC_LOOK_S))
        return max(due_s - now_s, 0.01)

    async def _exchange(self, api_key: int, version: int, body: bytes) -> memoryview:
        try:
            async with asyncio.timeout(self._settings.request_timeout_s):
                return await self._link.exchange(api_key, version, body)
        except TimeoutError:
            # Responses come in order: a late one must not be read as the response to the next request.
            self._link.close()
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, f"broker {self.leader} did not answer in time") from None

    async def _fetch(self) -> bool:
        """Send one request for all partitions that are ready; False when there are none.

        Its offsets inform the leader of what this broker has, so a partition whose records are being synced waits.
        """
        session, settings = self._session, self._settings
        now_s = self._clock.monotonic()
        request = session.next_request(now_s)
        if request is None:
            return False
        limits = settings.limits
        if request.has_more:
            limits = self._no_wait
        elif now_s < self._more_come_until_s or any(r.truncated and r.log.waits_for_sync for r in session.to_look):
            limits = self._impatient
        epoch = self._broker_epoch()
        body = pack_fetch(settings.broker_id, epoch, request.session, request.wanted, request.forgotten, limits)
        exchange = self._long_poll if limits is settings.limits else self._short_poll
        answer = await exchange(body)
        if answer is None:
            return True
        try:
            session_id, parts = read_answer(answer)
        except KafkaError as error:
            if error.code in _SESSION_IS_OVER and request.is_incremental:
                return True
            raise
        for fetched in parts:
            await self._take(fetched)
        if self._new_starts:
            await self._take_starts()
        session.answered(session_id)
        if self._backoff.succeeded():
            log.info("fetching from broker %d works again", self.leader)
        if self._syncing:
            await self._let_syncs_end()
        return True

    async def _let_syncs_end(self) -> None:
        """Wait a bounded time for syncs: most take a few ms, and then the next request has all partitions."""
        syncing, self._syncing = self._syncing, []
        try:
            async with asyncio.timeout(_SYNC_LOOK_S):
                for replica in syncing:
                    while replica.log.waits_for_sync:
                        self._woken.clear()
                        await self._woken.wait()
        except TimeoutError:
            pass

    async def _long_poll(self, body: bytes) -> memoryview | None:
        """Return the response; None if partitions were added meanwhile, which closes the connection."""
        self._waits_for_records = True
        try:
            return await self._exchange(FETCH, FETCH_VERSION, body)
        except KafkaError:
            if self._changed.is_set():
                return None
            raise
        finally:
            self._waits_for_records = False

    async def _short_poll(self, body: bytes) -> memoryview:
        return await self._exchange(FETCH, FETCH_VERSION, body)

    async def _take(self, fetched: Fetched) -> None:
        replica = self._session.get(fetched.topic_id, fetched.partition)
        if replica is None or not replica.truncated:
            return
        self._session.check(replica)
        if fetched.code == ErrorCode.OFFSET_OUT_OF_RANGE:
            await self._truncation.begin_at_leaders_start(replica)
        elif fetched.code:
            self._failures.reported_by_leader(replica, ErrorCode(fetched.code))
        else:
            try:
                if fetched.records:
                    end = FollowerLog(replica.log).append(fetched.records)
                    if replica.log.waits_for_sync:
                        self._syncing.append(replica)
                        replica.log.add_sync_waiter(end - 1, self._woken.set)
                if fetched.log_start_offset > replica.log.log_start_offset:
                    self._new_starts.append((replica, fetched.log_start_offset))
            except (OSError, KafkaError) as error:
                self._failures.of_storage(replica, error)
                if isinstance(error, KafkaError) and error.code in _NOT_WHOLE:
                    self._on_corrupt(replica)
                return
            replica.log.advance_high_watermark(fetched.high_watermark)
            if replica.backoff.succeeded():
                log.info("%s follows its leader again", replica)

    async def _take_starts(self) -> None:
        """Persist new log starts with one write in a thread, before the next request reports them to the leader."""
        moved, self._new_starts = [(r, start) for r, start in self._new_starts if self._session.holds(r)], []
        with self._logs.log_starts.gathered():
            for replica, start in moved:
                FollowerLog(replica.log).move_start(start)
        noted: asyncio.Future[Exception | None] = asyncio.get_running_loop().create_future()
        self._logs.log_starts.write_soon(lambda error: None if noted.done() else noted.set_result(error))
        error = await noted
        for replica, _ in moved if error is not None else ():
            self._failures.of_storage(
                replica, KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"storing log start offsets failed: {error}")
            )
