"""The single writer of a log as a runtime: one queue, decisions in order, group commit, answers after durability.

Queued requests are decided in order, each against the state that the previous ones left. The records of a request are
adjacent in the log, which may write all records of an iteration of the event loop as one batch.

One commit covers all requests that were queued (group commit); only then are they answered. Refusals wait for the
commit too, because they may result from changes by other requests of the group. While a commit runs, nothing is
appended. A group also ends after a time, so that its first requests get their answers however long the queue is.

Urgent requests are decided before the others. The heartbeats of brokers are urgent: a broker without answers fences
itself, and neither the number nor the cost of other requests may cause that.

A decision about very many things is made in steps, over several iterations of the event loop. Nothing else is decided
in the meantime, and its records are encoded and applied in steps, too.

If a commit fails, or the task that runs it is cancelled, the runtime does not know which records are durable. The
group's requests get an error that reports this (`Refusal.LOST`), and the state becomes invalid. The next process that
runs the coordinator loads the log again.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Hashable, Iterator, Sequence
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Any, Generic

from broker_runtime.coordination.backoff import Backoff
from broker_runtime.coordination.decider import Decider, Waiting
from broker_runtime.coordination.deciding_slices import DecidingSlices
from broker_runtime.coordination.record_writer import RecordWriter
from broker_runtime.coordination.seam import (
    Deciding,
    Decision,
    DurableLog,
    R,
    Refusal,
    S,
    Shard,
    T,
)
from broker_runtime.coordination.timer_service import TimerService
from broker_runtime.errors import ErrorCode, KafkaError, detached
from broker_runtime.slicing.steps import Steps

if TYPE_CHECKING:
    from broker_runtime.coordination.postponed import PostponedDecisions

log = logging.getLogger(__name__)

_GROUP_MAX = 1_000
_GROUP_S = 0.1
"""Time after which no further queued request joins a group."""
_TIMER_RETRY_S = 0.5
"""The value of Apache Kafka's coordinators."""
_NEVER_TAKEN = (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE)
"""Errors for records that the log will not accept later either."""
_GROUP_TIMERS_MIN = 100
"""Due timers that are decided in each group, however many requests are queued, so that no timer waits forever."""
_STEPS_PER_SLICE = 500
"""A time slice also ends after this many steps, because a simulation's clock does not advance within a slice."""
_ANSWERS_PER_SLICE = 50
"""Requests answered in one iteration of the event loop: each answer causes further work in its receiver."""


class TermPhase(Enum):
    """The phase of a term, in which this process decides for a log and is its only writer.

    `load` moves from UNLOADED through LOADING to ACTIVE, and each end back to UNLOADED.
    """

    UNLOADED = "unloaded"
    """The state before the first load and after each end. All requests are refused."""
    LOADING = "loading"
    """The state from the first read of the log until the opening records are durable. All requests are refused."""
    ACTIVE = "active"
    """The state until the log fails, or until the owner of the runtime ends the term. Requests are decided."""


class CoordinatorRuntime(Generic[S, R]):
    """The queue and state of one shard, both in memory: only the log is durable.

    `load` and then `run` are one term. A runtime may have many terms in succession, and a process many runtimes.
    """

    def __init__(
        self,
        shard: Shard[S, R],
        durable: DurableLog,
        timers: TimerService[Decision[S, R, None]],
        state: S,
        queue_max: int,
        slices: DecidingSlices,
        postponed: "PostponedDecisions | None" = None,
    ) -> None:
        """`state` is the state of an empty log, used until the first load. No other runtime may use `timers`.

        `postponed` keeps the decisions that wait for others; a runtime without it has no such decisions.
        """
        self.state = state
        """The state after the last decision, durable or not yet. It remains unchanged after a term's end."""
        self.phase = TermPhase.UNLOADED
        self._shard = shard
        self._durable = durable
        self._queue: deque[Waiting] = deque()
        self._urgent: deque[Waiting] = deque()
        """Requests that are decided before those of `_queue`."""
        self._due: deque[Waiting] = deque()
        """Due timers that wait to be decided."""
        self._queue_max = queue_max
        self._postponed = postponed
        self._slices = slices
        self._writer = RecordWriter(shard, durable)
        self._decider = Decider(shard, self._writer, timers)
        self._wake = asyncio.Event()
        if postponed is not None:
            postponed.on_late = partial(_put, self._queue, self._wake)
        self._deciding = False
        """Whether there are decisions that are not known to be durable."""
        self._timers = timers
        timers.on_due = self._timer_is_due
        self._timer_trouble = Backoff(_TIMER_RETRY_S)

    @property
    def active(self) -> bool:
        """Return whether this process may decide.

        This also checks the log, because another process may have taken over while this one slept.
        """
        return self.phase is TermPhase.ACTIVE and self._durable.held

    async def submit(self, decide: Decision[S, R, T], *, urgent: bool = False) -> T:
        """Return the decision's answer, once its records are durable. Raises what the decision raised, or KafkaError.

        A caller that stops waiting may cancel this call. A decision that was made remains in effect.
        """
        return await self.enqueue(decide, urgent=urgent)

    def enqueue(self, decide: Decision[S, R, T], *, urgent: bool = False) -> asyncio.Future[T]:
        """Queue a decision, and return a future of its answer, for a caller without its own task.

        Raises KafkaError if the decision is refused at once.
        """
        self._check_active()
        queue = self._urgent if urgent else self._queue
        if len(queue) + (0 if self._postponed is None else len(self._postponed)) >= self._queue_max:
            raise self._shard.refuse(Refusal.QUEUE_FULL)
        answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        _put(queue, self._wake, Waiting(decide, answer))
        return answer

    def post(self, decide: Decision[S, R, None]) -> None:
        """Queue a decision that has no answer. The queue's limit does not apply: the caller bounds the number.

        A posted decision is dropped if the log refuses its records, or when the term ends.
        """
        self._check_active()
        _put(self._queue, self._wake, Waiting(decide))

    def _check_active(self) -> None:
        if not self.active:
            raise self._shard.refuse(Refusal.LOADING if self.phase is TermPhase.LOADING else Refusal.UNLOADED)

    def at_once(self, look: Callable[[S], T | None]) -> T | None:
        """Return the result of `look` if the whole state is durable and nothing is queued. If None, submit the request.

        For frequent requests that would write no records: they bypass the queue. `look` must not raise, and returns
        None for an answer that it cannot determine.
        """
        return look(self.state) if not self._deciding and not self._has_work and self.active else None

    @property
    def _has_work(self) -> bool:
        return bool(self._queue or self._due or self._urgent)

    def _timer_is_due(self, key: Hashable, decide: Decision[S, R, None]) -> None:
        """Queue a due timer behind the requests. The queue's limit does not apply.

        A request ahead of it may postpone the timer, as a member's heartbeat that waited for the same commit does. If
        the log refuses its records temporarily, the timer is retried: only it ends the session of an absent member.
        """
        _put(self._due, self._wake, self._of_timer(key, decide))

    def _of_timer(self, key: Hashable, decide: Decision[S, R, None]) -> Waiting:
        return Waiting(partial(_decide_due, self._timers, key, decide), timer=key, again=decide)

    def _timer_was_decided(self, key: Hashable, decide: Decision[S, R, None], error: Exception | None) -> None:
        if error is None:
            self._timer_trouble.succeeded()
        elif isinstance(error, KafkaError):
            again = error.code not in _NEVER_TAKEN
            if self._timer_trouble.is_news(error.code.name):
                log.warning("the timer %s failed%s: %s", key, " and is retried" if again else "", error)
            if again and self.phase is TermPhase.ACTIVE and key not in self._timers:
                self._timers.schedule(key, _TIMER_RETRY_S, decide)

    async def load(self) -> None:
        """Read the log and write the opening records. Raises what loading and committing raise.

        Call `run` next.
        """
        self.phase = TermPhase.LOADING
        try:
            self.state = await self._shard.load()
            stop_s = await self._slices.begin()
            for decide in self._shard.opening(self.state):
                stop_s = await self._over_slices(self._open(decide), stop_s)
            self._slices.end()
            self._durable.flush()
            await self._durable.commit()
        except BaseException:
            self.unload()
            raise
        self.phase = TermPhase.ACTIVE
        self._shard.loaded(self.state)

    def _open(self, decide: Decision[S, R, None]) -> Steps[None]:
        decided = decide(self.state)
        records, _ = decided if isinstance(decided, tuple) else (yield from decided)
        yield from self._writer.append_in_steps(records, self.state)

    async def run(self) -> None:
        """Decide submitted requests until cancelled, or until the log fails. Raises the log's exception."""
        try:
            while True:
                await self._wake.wait()
                self._wake.clear()
                while self._has_work:
                    self._deciding = True
                    await self._decide_some()
                    self._deciding = False
                    self._shard.committed(self.state)
                    await asyncio.sleep(0)
        finally:
            self.unload()

    def unload(self) -> None:
        """End the term: refuse new requests, and fail those in the queue. A second call does nothing."""
        self.phase = TermPhase.UNLOADED
        self._deciding = False
        self._timers.clear()
        for waiting in (*self._urgent, *self._queue, *(() if self._postponed is None else self._postponed.clear())):
            self._fail(waiting, Refusal.UNLOADED)
        self._urgent.clear()
        self._queue.clear()
        self._due.clear()

    def _waiting_now(self) -> Iterator[Waiting]:
        """Queued requests up to a limit, then due timers, so that a queued heartbeat is decided before its timer.

        Urgent requests that arrive meanwhile go before the next of the others.
        """
        now = asyncio.get_running_loop().time
        end_s = now() + _GROUP_S
        requests = min(len(self._queue), _GROUP_MAX)
        for _ in range(requests):
            yield from _taken(self._urgent)
            if now() >= end_s:
                break
            yield self._queue.popleft()
        yield from _taken(self._urgent)
        for _ in range(min(len(self._due), max(_GROUP_MAX - requests, _GROUP_TIMERS_MIN))):
            yield self._due.popleft()

    async def _decide_some(self) -> None:
        """Decide what is queued now, up to a limit, with one commit. Other tasks run between the time slices."""
        now, group = asyncio.get_running_loop().time, list[Waiting]()
        try:
            stop_s = await self._slices.begin()
            for waiting in self._waiting_now():
                next_ones = deque((waiting,))
                while next_ones:
                    if now() >= stop_s:
                        self._durable.flush()
                        self._slices.end()
                        stop_s = await self._slices.begin()
                    group.append(next_ones.popleft())
                    steps = self._decider.decide(group[-1], self.state)
                    if steps is not None:
                        stop_s = await self._over_slices(steps, stop_s)
                    if self._postponed is not None:
                        _postpone(self._postponed, group, next_ones)
                    self._timers.was_taken()
                    for key, goes_on in self._timers.take_next():
                        if group[-1].refused is None:
                            next_ones.appendleft(self._of_timer(key, goes_on))
            self._slices.end()
            self._durable.flush()
            await self._durable.commit()
            await self._answer_all(group)
        except BaseException:
            # It is not known whether the records are durable: the next load of the log may find them.
            for waiting in group:
                self._fail(waiting, Refusal.LOST)
            raise

    async def _answer_all(self, group: Sequence[Waiting]) -> None:
        answered = 0
        for waiting in group:
            if waiting.again is not None:
                self._timer_was_decided(waiting.timer, waiting.again, waiting.refused)
            elif waiting.answer is not None:
                _answer(waiting, waiting.answer)
                answered += 1
                if answered % _ANSWERS_PER_SLICE == 0:
                    await asyncio.sleep(0)

    def _fail(self, waiting: Waiting, why: Refusal) -> None:
        if waiting.answer is not None and not waiting.answer.done():
            waiting.answer.set_exception(self._shard.refuse(why))

    async def _over_slices(self, steps: Steps[None], stop_s: float) -> float:
        """Run all steps. Returns the end of the last step's time slice, in seconds of the loop's clock."""
        now = asyncio.get_running_loop().time
        for number, _ in enumerate(steps, 1):
            if now() >= stop_s or number % _STEPS_PER_SLICE == 0:
                self._durable.flush()
                self._slices.end()
                stop_s = await self._slices.begin()
        return stop_s


def _taken(queue: deque[Waiting]) -> Iterator[Waiting]:
    while queue:
        yield queue.popleft()


def _decide_due(
    timers: TimerService[Decision[S, R, None]], key: Hashable, decide: Decision[S, R, None], state: S
) -> Deciding[R, None]:
    """Make the decision of a due timer, unless the timer was set again meanwhile."""
    timers.begin(key)
    return ((), None) if key in timers else decide(state)


def _put(queue: deque[Waiting], wake: asyncio.Event, waiting: Waiting) -> None:
    queue.append(waiting)
    wake.set()


def _postpone(postponed: "PostponedDecisions", group: list[Waiting], next_ones: deque[Waiting]) -> None:
    """Keep the last decision of the group if it waits for another one. Continue with the decisions released."""
    why = group[-1].postponed
    if why is not None:
        postponed.add(group.pop(), why)
    released = None if next_ones else postponed.next_released()
    if released is not None:
        next_ones.append(released)


def _answer(waiting: Waiting, answer: asyncio.Future[Any]) -> None:
    if answer.done():
        return
    if waiting.refused is not None:
        answer.set_exception(detached(waiting.refused))
    else:
        answer.set_result(waiting.decided)
