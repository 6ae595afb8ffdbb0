"""Makes one decision of a coordinator: the decision, its records, the records that follow from them, or its refusal."""

import asyncio
import logging
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Generic

from broker_runtime.coordination.record_writer import RecordWriter
from broker_runtime.coordination.seam import Decision, PostponedError, Postponement, R, Refusal, S, Shard
from broker_runtime.coordination.timer_service import TimerService
from broker_runtime.errors import KafkaError, detached
from broker_runtime.slicing.steps import Steps

log = logging.getLogger(__name__)

_RECORDS_AT_ONCE_MAX = 50
"""If a decision has more records than this, they are written and applied in steps."""


@dataclass(slots=True)
class Waiting:
    """A decision in the queue of a runtime, and its outcome. The outcome is sent once it is durable."""

    decide: Decision[Any, Any, Any]
    answer: asyncio.Future[Any] | None = None
    """The answer that the caller waits for; None for posted decisions and timers, for which no caller waits."""
    decided: Any = None
    refused: Exception | None = None
    timer: Hashable = None
    """The key of the timer whose decision this is."""
    again: Decision[Any, Any, None] | None = None
    """The decision of a timer, to retry if the log refuses it temporarily."""
    postponed: Postponement | None = None
    """What the decision waits for; None if it was made."""


class Decider(Generic[S, R]):
    """Executes the decisions of a runtime one by one, and keeps each outcome in its `Waiting`.

    The runtime owns the state, commits the records and sends the answers. `timers` collects the timers of a decision:
    they are set, or dropped if the log refuses the decision, before the next decision begins.
    """

    def __init__(
        self, shard: Shard[S, R], writer: RecordWriter[S, R], timers: TimerService[Decision[S, R, None]]
    ) -> None:
        self._shard = shard
        self._writer = writer
        self._timers = timers

    def decide(self, waiting: Waiting, state: S) -> Steps[None] | None:
        """Make the decision of one request to a coordinator. Returns the remaining steps if they take long.

        A request refused with its own error has written nothing; Refusal.LOST means that the log has accepted some of
        its records. An exception from here or from a step would mean that state and log differ.
        """
        waiting.postponed = None
        try:
            decided = waiting.decide(state)
        except PostponedError as error:
            waiting.postponed = error.why
            self._timers.was_refused()
            return None
        except Exception as error:  # noqa: BLE001 - it is raised where the answer is awaited
            self._refuse(waiting, error)
            return None
        if not isinstance(decided, tuple):
            return self._decide_in_steps(waiting, state, decided)
        records, waiting.decided = decided
        if len(records) > _RECORDS_AT_ONCE_MAX:
            return self._take_in_steps(waiting, state, records)
        before = state.next_offset
        try:
            self._writer.append(records, state)
        except KafkaError as error:
            self._not_taken(waiting, state, error, before)
            return None
        following = self._shard.consequences(records, state)
        return None if following is None else self._take_following(waiting, state, following, before)

    def _decide_in_steps(self, waiting: Waiting, state: S, deciding: Steps[tuple[Sequence[R], Any]]) -> Steps[None]:
        try:
            records, waiting.decided = yield from deciding
        except Exception as error:  # noqa: BLE001 - as in `decide`
            self._refuse(waiting, error)
            return
        yield from self._take_in_steps(waiting, state, records)

    def _take_in_steps(self, waiting: Waiting, state: S, records: Sequence[R]) -> Steps[None]:
        before = state.next_offset
        try:
            yield from self._writer.append_in_steps(records, state)
        except KafkaError as error:
            self._not_taken(waiting, state, error, before)
            return
        following = self._shard.consequences(records, state)
        if following is not None:
            yield from self._take_following(waiting, state, following, before)

    def _take_following(self, waiting: Waiting, state: S, following: Steps[Sequence[R]], before: int) -> Steps[None]:
        """Append the records that follow from those of the request, whose first record has the offset `before`."""
        records = yield from following
        try:
            yield from self._writer.append_in_steps(records, state)
        except KafkaError as error:
            self._not_taken(waiting, state, error, before)

    def _refuse(self, waiting: Waiting, error: Exception) -> None:
        if not isinstance(error, KafkaError):
            log.error("a request to a coordinator failed", exc_info=error)
        waiting.refused = detached(error)
        self._timers.was_refused()

    def _not_taken(self, waiting: Waiting, state: S, error: KafkaError, before: int) -> None:
        """Refuse a request whose records the log has refused; those already applied begin at offset `before`."""
        if state.next_offset == before:
            self._refuse(waiting, error)
        else:
            waiting.refused = self._shard.refuse(Refusal.LOST)
        if waiting.timer is not None:
            # The timer has scheduled its next step, which relies on the refused records. The same decision is retried
            # instead.
            self._timers.cancel(waiting.timer)
