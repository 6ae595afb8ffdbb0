"""The coordinator of one partition of __consumer_offsets: how its groups are loaded, refused, and kept in time.

What members of groups ask for is decided by `classic` and `consumer`, what is committed by `offsets`.
"""

import logging
from collections.abc import Mapping, Sequence

from broker_runtime.coordination.replay import replay
from broker_runtime.coordination.replicated_log import LedPartition
from broker_runtime.coordination.seam import Decision, Refusal
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.groups import record_codec
from broker_runtime.groups.classic.group import APPLIERS as CLASSIC_APPLIERS
from broker_runtime.groups.classic.group import ClassicGroup
from broker_runtime.groups.classic.loading import loaded as classic_loaded
from broker_runtime.groups.offsets.sweep import Sweep, expired
from broker_runtime.groups.records import GroupRecord
from broker_runtime.groups.shard_environment import ShardEnvironment, Surroundings
from broker_runtime.groups.state import GroupsState
from broker_runtime.storage.batch import Record
from broker_runtime.storage.batching import KeyValue

log = logging.getLogger(__name__)

_EXPIRY = "expiry of offsets"
_MS = 1000

_REFUSALS: Mapping[Refusal, tuple[ErrorCode, str]] = {
    Refusal.LOADING: (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "this broker is still loading the group; ask again"),
    Refusal.UNLOADED: (ErrorCode.NOT_COORDINATOR, "this broker does not coordinate the group"),
    Refusal.QUEUE_FULL: (ErrorCode.COORDINATOR_NOT_AVAILABLE, "too many requests wait for the coordinator; ask again"),
    Refusal.LOST: (
        ErrorCode.NOT_COORDINATOR,
        "this broker lost the group before it knew that what was decided is kept; ask the next coordinator",
    ),
}


def empty_state() -> GroupsState:
    """That of an empty partition."""
    return GroupsState(CLASSIC_APPLIERS, ClassicGroup)


class GroupShard:
    """Implements `coordination.seam.Shard` of GroupsState and GroupRecord, for one term."""

    def __init__(self, surroundings: Surroundings, leader: LedPartition) -> None:
        self.environment = ShardEnvironment(surroundings)
        self._surroundings = surroundings
        self._leader = leader

    async def load(self) -> GroupsState:
        """Raises KafkaError where the log cannot be read, ValueError where it holds what cannot be."""
        state, durable = empty_state(), self._leader.log
        async with self._surroundings.loads:
            end = durable.log_end_offset
            await replay(durable, durable.log_start_offset, end, lambda item: _take_over(state, item), cleaned=True)
        state.next_offset = end
        return state

    def opening(self, state: GroupsState) -> Sequence[Decision[GroupsState, GroupRecord, None]]:
        return ()

    def loaded(self, state: GroupsState) -> None:
        classic_loaded(state, self.environment)
        self._expire_later(expired_now=None)

    def _expire_later(self, expired_now: Sweep | None) -> None:
        """The sweep goes on, or another begins after the interval."""
        environment = self.environment
        interval_s = environment.config.offsets_retention_check_interval_ms / _MS

        def decide(state: GroupsState) -> tuple[Sequence[GroupRecord], None]:
            sweep = expired_now
            if sweep is None:
                sweep = expired(environment.config.offsets_retention_minutes * 60 * _MS, environment.now_ms())
            records, goes_on = sweep.decide(state)
            self._expire_later(sweep if goes_on else None)
            return records, None

        environment.timers.schedule(_EXPIRY, interval_s if expired_now is None else 0.0, decide)

    def encode(self, record: GroupRecord) -> KeyValue:
        return record_codec.encode(record)

    def applied(self, record: GroupRecord, state: GroupsState) -> None:
        pass

    def consequences(self, records: Sequence[GroupRecord], state: GroupsState) -> Sequence[GroupRecord]:
        return ()

    def committed(self, state: GroupsState) -> None:
        self.environment.outbox.flush()

    def refuse(self, why: Refusal) -> KafkaError:
        return KafkaError(*_REFUSALS[why])


def _take_over(state: GroupsState, item: Record) -> None:
    record = record_codec.decode(item.key, item.value)
    if record is None:
        state.next_offset = item.offset + 1
    else:
        state.apply(record, item.offset)
