"""The single writer of a log as a runtime: one queue, decisions in order, group commit, answers after durability.

Whatever waits is decided in order, each request against the state that the ones before it made; its records stand
together in the log, which may make one batch of all those of a turn. One commit covers all requests that waited (group
commit); then they are answered, with refusals too, as these may come of what others of the group have changed. While a
commit runs nothing is appended.

A decision about very many things is made in steps, over several turns: nothing else is decided meanwhile, and its
records are encoded and applied in steps, too.

When a commit fails, or the task that runs it is cancelled, nobody knows here what is durable: everybody who waits is
told so, and the state counts no more. Whoever runs the coordinator next loads the log anew.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Generic

from broker_runtime.coordination.backoff import Backoff
from broker_runtime.coordination.deciding_turns import DecidingTurns
from broker_runtime.coordination.seam import Deciding, Decision, DurableLog, R, Refusal, S, Shard, T, Whole, in_one_go
from broker_runtime.coordination.timer_service import TimerService
from broker_runtime.errors import ErrorCode, KafkaError, detached
from broker_runtime.steps import Steps
from broker_runtime.storage.batching import Batches, KeyValue, in_batches

log = logging.getLogger(__name__)

_GROUP_MAX = 1_000
_TIMER_RETRY_S = 0.5
"""As Apache Kafka's coordinators."""
_NEVER_TAKEN = (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE)
"""What the log says to records that it will not take later either."""
_GROUP_TIMERS_MIN = 100
"""Of those that are due so many are decided with whatever many requests: nothing waits for ever."""
_RECORDS_AT_ONCE_MAX = 50
"""More records than these are written and applied in steps."""
_RECORDS_OF_A_STEP = 8
_STEPS_OF_A_TURN = 500
"""A turn also ends after so many steps: the clock of a simulation stands still."""
_TURN_ANSWERS = 50
"""As many are answered in one turn: who was answered has work of its own to do then."""


class TermPhase(Enum):
    """Of a term: `load` goes from UNLOADED over LOADING to ACTIVE, every end back to UNLOADED."""

    UNLOADED = "unloaded"
    """Before the first load, and after each end: refuses everything."""
    LOADING = "loading"
    """From the first look at the log until the opening records are durable: refuses everything."""
    ACTIVE = "active"
    """Until the log fails, or whoever runs it ends it."""


@dataclass(slots=True)
class _Waiting:
    decide: Decision[Any, Any, Any]
    answer: asyncio.Future[Any] | None = None
    """None where nobody waits for one: what was posted, and timers."""
    decided: Any = None
    refused: Exception | None = None
    timer: Hashable = None
    """The key of a timer."""
    again: Decision[Any, Any, None] | None = None
    """Of a timer: what is tried again where the log refuses it for now."""


class CoordinatorRuntime(Generic[S, R]):
    """One shard's queue and state. Nothing of them is durable: all that is lies in the log.

    `load` and then `run` are one term; there may be many after each other, and many runtimes in one process.
    """

    def __init__(
        self,
        shard: Shard[S, R],
        durable: DurableLog,
        timers: TimerService[Decision[S, R, None]],
        state: S,
        queue_max: int,
        turns: DecidingTurns,
    ) -> None:
        """`state` is that of an empty log, until the first load; `timers` are this runtime's alone."""
        self.state = state
        """What was decided last, durable or not yet. After a term's end it is what it was then."""
        self.phase = TermPhase.UNLOADED
        self._shard = shard
        self._durable = durable
        self._queue: deque[_Waiting] = deque()
        self._due: deque[_Waiting] = deque()
        """Timers that wait."""
        self._queue_max = queue_max
        self._turns = turns
        self._wake = asyncio.Event()
        self._deciding = False
        """Whether something is decided that is not known to be durable."""
        self._timers = timers
        timers.on_due = self._timer_is_due
        self._timer_trouble = Backoff(_TIMER_RETRY_S)

    @property
    def active(self) -> bool:
        """Asks the log too: a process that slept may have been succeeded and not know it yet."""
        return self.phase is TermPhase.ACTIVE and self._durable.held

    async def submit(self, decide: Decision[S, R, T]) -> T:
        """The decision's answer, once its records are durable. Raises what the decision raised, or KafkaError.

        Who gives up waiting may cancel it: what was decided stays decided.
        """
        return await self.enqueue(decide)

    def enqueue(self, decide: Decision[S, R, T]) -> asyncio.Future[T]:
        """The same for who has no task of its own. Raises KafkaError where it is refused at once."""
        self._check_active()
        if len(self._queue) >= self._queue_max:
            raise self._shard.refuse(Refusal.QUEUE_FULL)
        answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._queue.append(_Waiting(decide, answer))
        self._wake.set()
        return answer

    def post(self, decide: Decision[S, R, None]) -> None:
        """The same for what nobody waits for, in its turn whatever the queue's limit: whoever posts bounds how many.

        What the log refuses of it is forgotten, and so is all of it at the end of a term.
        """
        self._check_active()
        self._queue.append(_Waiting(decide))
        self._wake.set()

    def _check_active(self) -> None:
        if not self.active:
            raise self._shard.refuse(Refusal.LOADING if self.phase is TermPhase.LOADING else Refusal.UNLOADED)

    def at_once(self, look: Callable[[S], T | None]) -> T | None:
        """What `look` finds in the state, where all of that is durable and nobody waits. None: it is to be submitted.

        For what would write nothing, and which many ask for: it saves them the way through the queue. `look` raises
        nothing, and gives None for what it does not know to be so.
        """
        return look(self.state) if not self._deciding and not self._queue and not self._due and self.active else None

    def _timer_is_due(self, key: Hashable, decide: Decision[S, R, None]) -> None:
        """It waits behind the requests, whatever the queue's limit. What the log refuses for now is tried again: nobody
        else ends the session of a member that is gone.

        Whoever was before it in the queue may have put it off: a member's heartbeat that waited for the same commit.
        """
        self._due.append(self._of_timer(key, decide))
        self._wake.set()

    def _of_timer(self, key: Hashable, decide: Decision[S, R, None]) -> _Waiting:
        def decide_in_turn(state: S) -> Deciding[R, None]:
            self._timers.begin(key)
            return ((), None) if key in self._timers else decide(state)

        return _Waiting(decide_in_turn, timer=key, again=decide)

    def _timer_was_decided(self, key: Hashable, decide: Decision[S, R, None], error: Exception | None) -> None:
        if error is None:
            self._timer_trouble.succeeded()
        elif isinstance(error, KafkaError):
            again = error.code not in _NEVER_TAKEN
            if self._timer_trouble.is_news(error.code.name):
                log.warning("the timer %s came to nothing%s: %s", key, " and is tried again" if again else "", error)
            if again and self.phase is TermPhase.ACTIVE and key not in self._timers:
                self._timers.schedule(key, _TIMER_RETRY_S, decide)

    async def load(self) -> None:
        """Read the log and write the opening records. Raises what loading and committing raise; call `run` then."""
        self.phase = TermPhase.LOADING
        try:
            self.state = await self._shard.load()
            stop_s = await self._turns.begin()
            for decide in self._shard.opening(self.state):
                stop_s = await self._over_turns(self._open(decide), stop_s)
            self._turns.end()
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
        yield from self._append_in_steps(records)

    async def run(self) -> None:
        """Decide what is submitted until it is cancelled, or the log fails, which it raises."""
        try:
            while True:
                await self._wake.wait()
                self._wake.clear()
                while self._queue or self._due:
                    self._deciding = True
                    await self._decide_some()
                    self._deciding = False
                    self._shard.committed(self.state)
                    await asyncio.sleep(0)
        finally:
            self.unload()

    def unload(self) -> None:
        """Refuse everything from here on, and tell everybody who waits. Twice is once."""
        self.phase = TermPhase.UNLOADED
        self._deciding = False
        self._timers.clear()
        for waiting in self._queue:
            self._fail(waiting, Refusal.UNLOADED)
        self._queue.clear()
        self._due.clear()

    def _waiting_now(self) -> Iterator[_Waiting]:
        """Requests up to a limit, then timers: who has sent a heartbeat in time may have had to wait for its turn."""
        requests = min(len(self._queue), _GROUP_MAX)
        for _ in range(requests):
            yield self._queue.popleft()
        for _ in range(min(len(self._due), max(_GROUP_MAX - requests, _GROUP_TIMERS_MIN))):
            yield self._due.popleft()

    async def _decide_some(self) -> None:
        """All that wait now, up to a limit, and one commit for them; others have their turns in between."""
        now, group = asyncio.get_running_loop().time, list[_Waiting]()
        try:
            stop_s = await self._turns.begin()
            for waiting in self._waiting_now():
                next_ones = deque((waiting,))
                while next_ones:
                    if now() >= stop_s:
                        self._durable.flush()
                        self._turns.end()
                        stop_s = await self._turns.begin()
                    group.append(next_ones.popleft())
                    steps = self._decide(group[-1])
                    if steps is not None:
                        stop_s = await self._over_turns(steps, stop_s)
                    self._timers.was_taken()
                    for key, goes_on in self._timers.take_next():
                        if group[-1].refused is None:
                            next_ones.appendleft(self._of_timer(key, goes_on))
            self._turns.end()
            self._durable.flush()
            await self._durable.commit()
            await self._answer_all(group)
        except BaseException:
            # Whether the records are durable is not known: whoever loads the log next may find them.
            for waiting in group:
                self._fail(waiting, Refusal.LOST)
            raise

    async def _answer_all(self, group: Sequence[_Waiting]) -> None:
        answered = 0
        for waiting in group:
            if waiting.again is not None:
                self._timer_was_decided(waiting.timer, waiting.again, waiting.refused)
            elif waiting.answer is not None:
                _answer(waiting, waiting.answer)
                answered += 1
                if answered % _TURN_ANSWERS == 0:
                    await asyncio.sleep(0)

    def _fail(self, waiting: _Waiting, why: Refusal) -> None:
        if waiting.answer is not None and not waiting.answer.done():
            waiting.answer.set_exception(self._shard.refuse(why))

    async def _over_turns(self, steps: Steps[None], stop_s: float) -> float:
        """Make all steps. Returns when the turn of the last one ends, in seconds of the loop's clock."""
        now = asyncio.get_running_loop().time
        for number, _ in enumerate(steps, 1):
            if now() >= stop_s or number % _STEPS_OF_A_TURN == 0:
                self._durable.flush()
                self._turns.end()
                stop_s = await self._turns.begin()
        return stop_s

    def _decide(self, waiting: _Waiting) -> Steps[None] | None:
        """Of what is refused by its own error nothing is written; Refusal.LOST where the log has taken a part of it.

        What takes long is left to the steps that are returned. An exception from here, or from a step, would be that
        state and log differ.
        """
        try:
            decided = waiting.decide(self.state)
        except Exception as error:  # noqa: BLE001 - it is raised where the answer is awaited
            self._refuse(waiting, error)
            return None
        if not isinstance(decided, tuple):
            return self._decide_in_steps(waiting, decided)
        records, waiting.decided = decided
        if len(records) > _RECORDS_AT_ONCE_MAX:
            return self._take_in_steps(waiting, records)
        before = self.state.next_offset
        try:
            self._append(records)
        except KafkaError as error:
            self._not_taken(waiting, error, before)
            return None
        following = self._shard.consequences(records, self.state)
        return None if following is None else self._take_following(waiting, following, before)

    def _decide_in_steps(self, waiting: _Waiting, deciding: Steps[tuple[Sequence[R], Any]]) -> Steps[None]:
        try:
            records, waiting.decided = yield from deciding
        except Exception as error:  # noqa: BLE001 - as in `_decide`
            self._refuse(waiting, error)
            return
        yield from self._take_in_steps(waiting, records)

    def _take_in_steps(self, waiting: _Waiting, records: Sequence[R]) -> Steps[None]:
        before = self.state.next_offset
        try:
            yield from self._append_in_steps(records)
        except KafkaError as error:
            self._not_taken(waiting, error, before)
            return
        following = self._shard.consequences(records, self.state)
        if following is not None:
            yield from self._take_following(waiting, following, before)

    def _take_following(self, waiting: _Waiting, following: Steps[Sequence[R]], before: int) -> Steps[None]:
        """Append the records that follow of the waiting request's, the first of which has the offset `before`."""
        records = yield from following
        try:
            yield from self._append_in_steps(records)
        except KafkaError as error:
            self._not_taken(waiting, error, before)

    def _refuse(self, waiting: _Waiting, error: Exception) -> None:
        if not isinstance(error, KafkaError):
            log.error("a request to a coordinator failed", exc_info=error)
        waiting.refused = detached(error)
        self._timers.was_refused()

    def _not_taken(self, waiting: _Waiting, error: KafkaError, before: int) -> None:
        """The log has refused the records, of which those from `before` on are applied."""
        if self.state.next_offset == before:
            self._refuse(waiting, error)
        else:
            waiting.refused = self._shard.refuse(Refusal.LOST)
        if waiting.timer is not None:
            # It has set its own next step, which counts on what was refused: the same is tried again instead.
            self._timers.cancel(waiting.timer)

    def _append(self, records: Sequence[R]) -> None:
        """Into the log, then apply. A request of very many records takes several batches, each of them a valid state,
        but for those that are `Whole`.

        Where a record is too large for the log nothing is written: a group's end, say, without what it becomes.
        """
        batches: Sequence[list[tuple[R, KeyValue]]]
        encode = self._shard.encode
        batches = list(in_batches(records, lambda one: in_one_go(encode(one)), self._durable.batch_bytes_max))
        for batch in self._checked(records, batches):
            base = self._durable.append([encoded for _, encoded in batch])
            for offset, (record, _) in enumerate(batch, base):
                self.state.apply(record, offset)
                self._shard.applied(record, self.state)

    def _append_in_steps(self, records: Sequence[R]) -> Steps[None]:
        """The same, with breaks."""
        batches: Batches[R] = Batches(self._durable.batch_bytes_max)
        for number, record in enumerate(records):
            encoded = self._shard.encode(record)
            batches.add(record, encoded if isinstance(encoded, tuple) else (yield from encoded))
            if number % _RECORDS_OF_A_STEP == 0:
                yield
        for batch in self._checked(records, batches.all):
            base = yield from self._durable.append_in_steps([encoded for _, encoded in batch])
            for offset, (record, _) in enumerate(batch, base):
                self.state.apply(record, offset)
                self._shard.applied(record, self.state)
                if offset % _RECORDS_OF_A_STEP == 0:
                    yield

    def _checked(
        self, records: Sequence[R], batches: Sequence[list[tuple[R, KeyValue]]]
    ) -> Sequence[list[tuple[R, KeyValue]]]:
        """`batches` of these records, as they are written. Raises KafkaError."""
        if len(batches) > 1:
            self._check_sizes(batches)
            if isinstance(records, Whole):
                return [self._as_one(batches)]
        return batches

    def _as_one(self, batches: Sequence[Sequence[tuple[R, KeyValue]]]) -> list[tuple[R, KeyValue]]:
        """Raises KafkaError. The log says by itself where their headers make them too many."""
        one = [item for batch in batches for item in batch]
        size = sum(len(part or b"") for _, encoded in one for part in encoded)
        if size > self._durable.record_bytes_max:
            raise KafkaError(ErrorCode.RECORD_LIST_TOO_LARGE, f"{len(one)} records of {size} bytes, which go together")
        return one

    def _check_sizes(self, batches: Sequence[Sequence[tuple[R, KeyValue]]]) -> None:
        """Raises KafkaError. One that holds several records is small enough."""
        for batch in batches:
            size = sum(len(part or b"") for part in batch[0][1])
            if size > self._durable.record_bytes_max:
                raise KafkaError(ErrorCode.MESSAGE_TOO_LARGE, f"a record of {size} bytes, of several that go together")


def _answer(waiting: _Waiting, answer: asyncio.Future[Any]) -> None:
    if answer.done():
        return
    if waiting.refused is not None:
        answer.set_exception(detached(waiting.refused))
    else:
        answer.set_result(waiting.decided)
