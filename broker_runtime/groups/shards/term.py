"""One leader epoch of a partition of __consumer_offsets on this broker: its shard, its runtime and pending requests."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from broker_runtime.coordination.patience import Patience
from broker_runtime.coordination.replicated_log import LedPartition, ReplicatedLog
from broker_runtime.coordination.runtime import CoordinatorRuntime, TermPhase
from broker_runtime.coordination.seam import Decided, Deciding, Refusal
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.groups.answers import DeferredAnswer
from broker_runtime.groups.environment import GroupEnvironment
from broker_runtime.groups.push.state.calls import PushEnvironment
from broker_runtime.groups.records import GroupRecord
from broker_runtime.groups.shards.shard import GroupShard, empty_state
from broker_runtime.groups.shards.shard_environment import ShardDependencies
from broker_runtime.groups.state import GroupsState
from broker_runtime.slicing.steps import Steps

T = TypeVar("T")

GroupDecision = Callable[[GroupsState, PushEnvironment], Deciding[GroupRecord, T]]
"""A `coordination.seam.Decision` that also gets the environment."""

GroupLook = Callable[[GroupsState, GroupEnvironment], T | None]
"""A decision that would write no record, see `CoordinatorRuntime.at_once`."""

_TOLD: Mapping[ErrorCode, ErrorCode] = {
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
}
"""Error codes of the log, and the codes that members get instead: clients know how to handle coordinator errors
only."""

_QUEUED_S = 25.0
"""Longest time that a request is queued, in seconds: less than clients wait for an answer."""


def client_error(error: KafkaError) -> KafkaError:
    """Return the error as members get it."""
    return KafkaError(_TOLD.get(error.code, error.code), error.message or error.code.name)


class Term:
    """Owns the groups of its partition while this broker leads it in one epoch. Call `load`, then `run`."""

    def __init__(self, surroundings: ShardDependencies, leader: LedPartition) -> None:
        config = surroundings.config()
        self.shard = GroupShard(surroundings, leader)
        self._clock = surroundings.clock
        self._tally = surroundings.tally
        commit_timeout_s = config.offsets_commit_timeout_ms / 1000
        self._queued = Patience(_QUEUED_S, _too_late)
        self._queued_while_stuck = Patience(commit_timeout_s, _too_late)
        self._committing = Patience(commit_timeout_s, self._replicas_took_too_long)
        self._runtime: CoordinatorRuntime[GroupsState, GroupRecord] = CoordinatorRuntime(
            self.shard,
            ReplicatedLog(leader, surroundings.clock),
            self.shard.environment.timers,
            empty_state(),
            config.sluicegate_group_coordinator_queue_max,
            surroundings.slices,
        )
        self._stuck = False
        """Replicas took too long for the last decision: until the next decision, requests wait no longer than that
        limit."""
        self._unanswered: set[asyncio.Future[Any]] = set()
        """Answers of decided requests that wait for other members; at most one for each connection."""

    @property
    def phase(self) -> TermPhase:
        return self._runtime.phase

    @property
    def state(self) -> GroupsState:
        """The state after the last decision, durable or not: for figures."""
        return self._runtime.state

    async def load(self) -> None:
        began_s = self._clock.monotonic()
        await self._runtime.load()
        self._tally.loaded(self._clock.monotonic() - began_s)

    async def run(self) -> None:
        """Decide requests until the task is cancelled. Raises the error of the log if the log fails."""
        await self._runtime.run()

    def end(self) -> None:
        """End the term: every pending request gets an error. A second call does nothing."""
        self._runtime.unload()
        for patience in (self._queued, self._queued_while_stuck, self._committing):
            patience.close()
        self.shard.close(self.state)
        for answer in self._unanswered:
            if not answer.done():
                answer.set_result(self.shard.refuse(Refusal.UNLOADED))
        self._unanswered.clear()

    async def submit(self, decide: GroupDecision[T]) -> T:
        """Decide a request and return the answer once its records are durable.

        Raises KafkaError with a code that members understand.

        As in Apache Kafka, the time limit of the replicas starts with the decision. Otherwise thousands of requests
        that arrive together would wait for each other, time out, and all be sent again. A request that was already
        refused as too late is not decided any more. A request whose client has disconnected is decided, because a
        client that leaves closes its connection.
        """
        try:
            return await self.enqueue(decide)
        except KafkaError as error:
            raise client_error(error) from error

    def enqueue(self, decide: GroupDecision[T]) -> asyncio.Future[T]:
        """Return a future of the answer, for a caller without a task of its own.

        The caller translates its KafkaErrors with `client_error`.
        """

        def decide_in_time(state: GroupsState) -> Deciding[GroupRecord, T]:
            self._stuck = False
            queued.met = True
            if not answer.done():
                self._committing.add(answer)
            elif not answer.cancelled():
                raise _too_late()
            return decide(state, self.shard.environment)

        answer = self._runtime.enqueue(decide_in_time)
        queued = (self._queued_while_stuck if self._stuck else self._queued).add(answer)
        return answer

    def post(self, decide: GroupDecision[None]) -> None:
        """Queue a decision that has no answer.

        Neither a time limit nor the queue's limit applies. Raises KafkaError.
        """
        environment = self.shard.environment
        self._runtime.post(lambda state: decide(state, environment))

    def _replicas_took_too_long(self) -> KafkaError:
        self._stuck = True
        return _too_late()

    def at_once(self, look: GroupLook[T]) -> T | None:
        """Return the result of `look` if the whole state is durable and nothing is queued, otherwise None."""
        environment = self.shard.environment
        return self._runtime.at_once(lambda state: look(state, environment))

    async def submit_later(self, decide: GroupDecision[DeferredAnswer[T]]) -> T:
        """Decide a request, and return its answer, which may wait for other members without a time limit.

        If the caller is cancelled meanwhile, because its client has disconnected, the answer is marked as abandoned.
        """
        decided: list[DeferredAnswer[T]] = []

        def note(made: Decided[GroupRecord, DeferredAnswer[T]]) -> Decided[GroupRecord, DeferredAnswer[T]]:
            decided.append(made[1])
            return made

        def note_in_steps(
            steps: Steps[Decided[GroupRecord, DeferredAnswer[T]]],
        ) -> Steps[Decided[GroupRecord, DeferredAnswer[T]]]:
            return note((yield from steps))

        def noted(state: GroupsState, environment: PushEnvironment) -> Deciding[GroupRecord, DeferredAnswer[T]]:
            made = decide(state, environment)
            return note(made) if isinstance(made, tuple) else note_in_steps(made)

        try:
            result = await self._given(await self.submit(noted))
        except BaseException:
            for each in decided:
                each.abandoned = True
            raise
        if isinstance(result, KafkaError):
            # A new error, because the stored one would keep the frames of its traceback alive.
            raise KafkaError(result.code, result.message or "")
        return result

    async def _given(self, later: DeferredAnswer[T]) -> T | KafkaError:
        answer: asyncio.Future[T | KafkaError] = asyncio.get_running_loop().create_future()

        def give(result: T | KafkaError) -> None:
            if not answer.done():
                answer.set_result(result)

        later.then(give)
        self._unanswered.add(answer)
        try:
            return await answer
        finally:
            self._unanswered.discard(answer)


def _too_late() -> KafkaError:
    return KafkaError(
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        "the coordinator, or the replicas of __consumer_offsets, took longer than offsets.commit.timeout.ms; try again",
    )
