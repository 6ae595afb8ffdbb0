"""One leader epoch of a coordinator's partition on this broker: its shard, its runtime and its pending requests."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from broker_runtime.clock import Clock
from broker_runtime.coordination.deciding_slices import DecidingSlices
from broker_runtime.coordination.patience import Deadline, Patience
from broker_runtime.coordination.replicated_log import LedPartition, ReplicatedLog
from broker_runtime.coordination.runtime import CoordinatorRuntime, TermPhase
from broker_runtime.coordination.seam import Deciding, Decision, R, Refusal, S, Shard
from broker_runtime.coordination.timer_service import TimerService
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.slicing.letting_go import freed
from broker_runtime.slicing.steps import Steps

if TYPE_CHECKING:
    from broker_runtime.coordination.postponed import PostponedDecisions

T = TypeVar("T")
E = TypeVar("E")

_TOLD: Mapping[ErrorCode, ErrorCode] = {
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
}
"""Error codes of the log, and the codes that clients get instead: clients know how to handle coordinator errors
only."""

_REFUSALS: Mapping[Refusal, tuple[ErrorCode, str]] = {
    Refusal.LOADING: (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "this broker is still loading the {}; try again"),
    Refusal.UNLOADED: (ErrorCode.NOT_COORDINATOR, "this broker does not coordinate the {}"),
    Refusal.QUEUE_FULL: (ErrorCode.COORDINATOR_NOT_AVAILABLE, "too many requests wait for the coordinator; try again"),
    Refusal.LOST: (
        ErrorCode.NOT_COORDINATOR,
        "this broker lost the {} before it knew whether the result is durable; ask the next coordinator",
    ),
}

_QUEUED_S = 25.0
"""Longest time that a request is queued, in seconds: less than clients wait for an answer."""


def client_error(error: KafkaError) -> KafkaError:
    """Return the error that clients of a coordinator receive in place of `error`."""
    return KafkaError(_TOLD.get(error.code, error.code), error.message or error.code.name)


def refused(why: Refusal, coordinated: str) -> KafkaError:
    """Return the error for a client whose request is refused. `coordinated` is the kind of its object, as "group"."""
    code, text = _REFUSALS[why]
    return KafkaError(code, text.format(coordinated))


class HostedShard(Shard[S, R], Protocol):
    """A shard that a term runs: it also ends with the term."""

    def close(self, state: S) -> None:
        """End this broker's term as the coordinator of the shard, whose last state is `state`."""
        ...

    def released(self, state: S) -> list[Any]:
        """Take the large containers out of the state of an ended term, and return them, to be freed in steps."""
        ...


@dataclass(frozen=True, slots=True)
class TermSettings:
    """The limits of a term, and what the terms of a broker share."""

    clock: Clock
    slices: DecidingSlices
    queue_max: int
    """Limit of the requests in the term's queue."""
    commit_timeout_s: float
    """Seconds from a decision until its records must be durable."""
    commit_timeout_key: str
    """The configuration key of `commit_timeout_s`, for messages."""
    loaded: Callable[[float], None]
    """Counts a load, which took this many seconds."""


@dataclass(slots=True)
class _Request(Generic[S, R, E, T]):
    """A submitted request, and the deadline of its decision, which is known once the request is queued."""

    decide: Callable[[S, E], Deciding[R, T]]
    queued: Deadline | None = None


class HostedTerm(Generic[S, R, E]):
    """The coordinator of one partition while this broker leads the partition in one epoch.

    Call `load`, then `run`. Its decisions get the state and the shard's environment, of type `E`.
    """

    def __init__(
        self,
        shard: HostedShard[S, R],
        environment: E,
        timers: TimerService[Decision[S, R, None]],
        state: S,
        leader: LedPartition,
        settings: TermSettings,
        postponed: "PostponedDecisions | None" = None,
    ) -> None:
        """`state` is the state of an empty partition. `postponed` has the decisions that wait for others."""
        self._hosted = shard
        self._environment = environment
        self._settings = settings
        self._topic = leader.topic
        self._queued = Patience(_QUEUED_S, self._too_late)
        self._queued_while_stuck = Patience(settings.commit_timeout_s, self._too_late)
        self._committing = Patience(settings.commit_timeout_s, self._replicas_took_too_long)
        self._runtime: CoordinatorRuntime[S, R] = CoordinatorRuntime(
            shard, ReplicatedLog(leader, settings.clock), timers, state, settings.queue_max, settings.slices, postponed
        )
        self._stuck = False
        """Replicas took too long for the last decision: until the next decision, requests wait no longer than that
        limit."""

    @property
    def phase(self) -> TermPhase:
        return self._runtime.phase

    @property
    def state(self) -> S:
        """Return the state after the last decision, durable or not: for metrics."""
        return self._runtime.state

    async def load(self) -> None:
        began_s = self._settings.clock.monotonic()
        await self._runtime.load()
        self._settings.loaded(self._settings.clock.monotonic() - began_s)

    async def run(self) -> None:
        """Decide requests until the task is cancelled. Raises the error of the log if the log fails."""
        await self._runtime.run()

    def end(self) -> None:
        """End the term: every pending request gets an error. A second call does nothing."""
        self._runtime.unload()
        for patience in (self._queued, self._queued_while_stuck, self._committing):
            patience.close()
        self._hosted.close(self.state)

    def free(self) -> Steps[None]:
        """Free the state of the ended term in steps: a hundred thousand objects at once would block the event loop."""
        return freed(self._hosted.released(self.state))

    async def submit(self, decide: Callable[[S, E], Deciding[R, T]]) -> T:
        """Decide a request and return the answer once its records are durable.

        Raises KafkaError with a code that clients understand.

        As in Apache Kafka, the time limit of the replicas starts with the decision. Otherwise thousands of requests
        that arrive together would wait for each other, time out, and all be sent again. A request that was already
        refused as too late is not decided any more. A request whose client has disconnected is decided, because a
        client that leaves closes its connection.
        """
        try:
            return await self.enqueue(decide)
        except KafkaError as error:
            raise client_error(error) from error

    def enqueue(self, decide: Callable[[S, E], Deciding[R, T]]) -> asyncio.Future[T]:
        """Return a future of the answer, for a caller without a task of its own.

        The caller translates its KafkaErrors with `client_error`.
        """
        request = _Request(decide)
        answer = self._runtime.enqueue(partial(self._decide_in_time, request))
        request.queued = (self._queued_while_stuck if self._stuck else self._queued).add(answer)
        return answer

    def _decide_in_time(self, request: "_Request[S, R, E, T]", state: S) -> Deciding[R, T]:
        self._stuck = False
        queued = request.queued
        assert queued is not None
        queued.met = True
        answer = queued.answer
        if not answer.done():
            self._committing.add(answer)
        elif not answer.cancelled():
            raise self._too_late()
        return request.decide(state, self._environment)

    def post(self, decide: Callable[[S, E], Deciding[R, None]]) -> None:
        """Queue a decision that has no answer.

        Neither a time limit nor the queue's limit applies. Raises KafkaError.
        """
        self._runtime.post(lambda state: decide(state, self._environment))

    def at_once(self, look: Callable[[S, E], T | None]) -> T | None:
        """Return the result of `look` if the whole state is durable and nothing is queued, otherwise None."""
        return self._runtime.at_once(lambda state: look(state, self._environment))

    def _replicas_took_too_long(self) -> KafkaError:
        self._stuck = True
        return self._too_late()

    def _too_late(self) -> KafkaError:
        return KafkaError(
            ErrorCode.COORDINATOR_NOT_AVAILABLE,
            f"the coordinator, or the replicas of {self._topic}, took longer than "
            f"{self._settings.commit_timeout_key}; try again",
        )
