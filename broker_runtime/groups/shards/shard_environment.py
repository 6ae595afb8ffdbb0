"""The environment of decisions of one shard for one term: time, timers, threads."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial
from typing import TypeVar
from uuid import uuid4

from broker_runtime.clock import Clock
from broker_runtime.config.keys.broker import BrokerConfig
from broker_runtime.coordination.deciding_slices import DecidingSlices
from broker_runtime.coordination.seam import Decision
from broker_runtime.coordination.timer_service import TimerService
from broker_runtime.groups.answers import Outbox
from broker_runtime.groups.environment import GroupTimer
from broker_runtime.groups.epoch_ends import EpochEnds
from broker_runtime.groups.members_room import MembersRoom
from broker_runtime.groups.push.state.calls import Call, Callers, HangUp
from broker_runtime.groups.push.state.log_ends import Asked, Ends
from broker_runtime.groups.records import GroupRecord
from broker_runtime.groups.state import GroupsState
from broker_runtime.groups.tally import PushTally, Tally
from broker_runtime.metadata.image import MetadataImage

T = TypeVar("T")

_ASIDE, _ENDS = "aside", "ends"


@dataclass(frozen=True, slots=True)
class ShardDependencies:
    """Objects that all shards of a broker's group coordinator share. `config` returns the current configuration."""

    config: Callable[[], BrokerConfig]
    image: MetadataImage
    clock: Clock
    threads: Executor
    loads: asyncio.Semaphore
    """The semaphore that limits how many logs are read at the same time."""
    tally: Tally
    callers: Callers
    slices: DecidingSlices
    ends: EpochEnds
    members_room: MembersRoom


class ShardEnds:
    """The ends of logs for push groups: implements `push.state.log_ends.LogEnds`.

    Answers of other leaders are queued like timers.
    """

    def __init__(self, ends: EpochEnds, timers: "TimerService[Decision[GroupsState, GroupRecord, None]]") -> None:
        self.known_ends = ends.known_ends
        self._ends = ends
        self._timers = timers
        self.closed = False
        """The term has ended: answers are ignored."""

    def ask_ends(self, asked: Asked, then: Callable[[Ends], GroupTimer]) -> None:
        self._ends.ask_ends(asked, partial(self._answered, then))

    def _answered(self, then: Callable[[Ends], GroupTimer], ends: Ends) -> None:
        if not self.closed:
            # Each answer has its own key, as in `ShardEnvironment.run_aside`.
            self._timers.on_due((_ENDS, object()), then(ends))


class ShardEnvironment:
    """The environment of a shard: implements `push.state.calls.PushEnvironment`, and is its own `calls`.

    `close` ends it with the term: timers are removed and pending answers are dropped.
    """

    def __init__(self, surroundings: ShardDependencies) -> None:
        self.timers: TimerService[Decision[GroupsState, GroupRecord, None]] = TimerService()
        self.outbox = Outbox()
        self.image = surroundings.image
        self.ends = ShardEnds(surroundings.ends, self.timers)
        self.members_room = surroundings.members_room
        self._surroundings = surroundings
        self._closed = False

    @property
    def config(self) -> BrokerConfig:
        return self._surroundings.config()

    @property
    def calls(self) -> "ShardEnvironment":
        return self

    def send(self, connection: int, call: Call) -> None:
        """Put the call into the outbox, which sends it once earlier decisions are durable."""
        self.outbox.then(partial(self._surroundings.callers.send, connection, call))

    def is_behind(self, connection: int) -> bool:
        """Return whether the coordinator, and not the consumer, is late.

        The calls of earlier decisions must have left the outbox.
        """
        return self._surroundings.callers.is_behind(connection)

    @property
    def tally(self) -> PushTally:
        return self._surroundings.tally.push

    def monotonic_s(self) -> float:
        return self._surroundings.clock.monotonic()

    def now_ms(self) -> int:
        return self._surroundings.clock.wall_ms()

    def new_id(self) -> str:
        return str(uuid4())

    def offload(self, work: Callable[[], T], then: Callable[[T | Exception], GroupTimer]) -> None:
        done = asyncio.get_running_loop().run_in_executor(self._surroundings.threads, work)
        done.add_done_callback(partial(self._offload_done, then))

    def _offload_done(self, then: Callable[[T | Exception], GroupTimer], done: asyncio.Future[T]) -> None:
        if done.cancelled():
            return
        error = done.exception()
        if self._closed:
            return
        if error is not None and not isinstance(error, Exception):
            error = RuntimeError(repr(error))
        # Each result has its own key. A decision that the log refuses is tried again under it and delays no other one.
        self.timers.on_due((_ASIDE, done), then(done.result() if error is None else error))

    def hang_up(self, connection: int, why: str) -> None:
        """Close the connection immediately, without waiting for a commit.

        Does nothing after the end of the term.
        """
        if not self._closed:
            self._surroundings.callers.send(connection, HangUp(why))

    def close(self) -> None:
        self._closed = self.ends.closed = True
        self.timers.clear()
        self.outbox.drop()
