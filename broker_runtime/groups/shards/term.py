"""One leader epoch of a partition of __consumer_offsets on this broker, and the answers that wait."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from broker_runtime.coordination.replicated_log import LedPartition
from broker_runtime.coordination.seam import Decided, Deciding, Refusal
from broker_runtime.coordination.term import HostedTerm, TermSettings
from broker_runtime.errors import KafkaError
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
"""A `coordination.seam.Decision` that also gets the shard's environment."""

GroupLook = Callable[[GroupsState, GroupEnvironment], T | None]
"""A decision that would write no record: see `CoordinatorRuntime.at_once`."""


class Term(HostedTerm[GroupsState, GroupRecord, PushEnvironment]):
    """The groups of one partition while this broker leads the partition in one epoch."""

    def __init__(self, surroundings: ShardDependencies, leader: LedPartition) -> None:
        config = surroundings.config()
        self.shard = GroupShard(surroundings, leader)
        self.log = leader.log
        """The log of the partition, in which transactions are verified before they commit offsets."""
        environment = self.shard.environment
        settings = TermSettings(
            surroundings.clock,
            surroundings.slices,
            config.sluicegate_group_coordinator_queue_max,
            config.offsets_commit_timeout_ms / 1000,
            "offsets.commit.timeout.ms",
            surroundings.tally.loaded,
        )
        super().__init__(self.shard, environment, environment.timers, empty_state(), leader, settings)
        self._unanswered: set[asyncio.Future[Any]] = set()
        """Answers of decided requests that wait for other members; at most one for each connection."""

    def end(self) -> None:
        """End the term: every pending request gets an error. A second call does nothing."""
        super().end()
        for answer in self._unanswered:
            if not answer.done():
                answer.set_result(self.shard.refuse(Refusal.UNLOADED))
        self._unanswered.clear()

    async def submit_later(self, decide: GroupDecision[DeferredAnswer[T]]) -> T:
        """Decide a request, and return its answer, which may wait for other members without a time limit.

        If the caller is cancelled meanwhile, because its client has disconnected, the answer is marked as abandoned.
        """
        decided: list[DeferredAnswer[T]] = []
        try:
            result = await self._given(await self.submit(partial(_noted, decide, decided)))
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
        later.then(partial(_give, answer))
        self._unanswered.add(answer)
        try:
            return await answer
        finally:
            self._unanswered.discard(answer)


def _noted(
    decide: GroupDecision[DeferredAnswer[T]],
    decided: list[DeferredAnswer[T]],
    state: GroupsState,
    environment: PushEnvironment,
) -> Deciding[GroupRecord, DeferredAnswer[T]]:
    """Make the decision, and add its answer to `decided`."""
    made = decide(state, environment)
    if not isinstance(made, tuple):
        return _noted_in_steps(made, decided)
    decided.append(made[1])
    return made


def _noted_in_steps(
    steps: Steps[Decided[GroupRecord, DeferredAnswer[T]]], decided: list[DeferredAnswer[T]]
) -> Steps[Decided[GroupRecord, DeferredAnswer[T]]]:
    made = yield from steps
    decided.append(made[1])
    return made


def _give(answer: "asyncio.Future[T | KafkaError]", result: T | KafkaError) -> None:
    if not answer.done():
        answer.set_result(result)
