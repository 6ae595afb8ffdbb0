"""The coordinator of one partition of __consumer_offsets: loading, refusals, and periodic work.

`classic`, `consumer` and `push` decide the requests of members; `offsets` decides commits.
"""

import logging
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any
from uuid import UUID

from broker_runtime.coordination.replay import Applied, replay
from broker_runtime.coordination.replicated_log import LedPartition
from broker_runtime.coordination.seam import Decision, Refusal
from broker_runtime.coordination.term import refused
from broker_runtime.errors import KafkaError
from broker_runtime.groups import record_codec
from broker_runtime.groups.classic import loading as classic
from broker_runtime.groups.classic.group import APPLIERS as CLASSIC_APPLIERS
from broker_runtime.groups.classic.group import ClassicGroup
from broker_runtime.groups.consumer import upkeep as consumer
from broker_runtime.groups.consumer.state.group import APPLIERS as CONSUMER_APPLIERS
from broker_runtime.groups.offsets.sweep import Sweep, expired, topics_deleted
from broker_runtime.groups.push import upkeep as push
from broker_runtime.groups.push.state.group import APPLIERS as PUSH_APPLIERS
from broker_runtime.groups.records import (
    GroupRecord,
    Key,
    OffsetCommitValue,
    PendingOffsetValue,
    TransactionEndKey,
    TransactionEndValue,
)
from broker_runtime.groups.shards.ended import group_ended, member_left
from broker_runtime.groups.shards.shard_environment import ShardDependencies, ShardEnvironment
from broker_runtime.groups.shards.tallied import add_to
from broker_runtime.groups.state import GroupsState
from broker_runtime.slicing.steps import Steps
from broker_runtime.storage.records.batch import Record
from broker_runtime.storage.records.batching import KeyValue
from kafka_bytes.batches import CONTROL, NO_PRODUCER_ID, Header
from kafka_bytes.control import parse_marker

log = logging.getLogger(__name__)

_EXPIRY, _TOPICS = "expiry of offsets", "changed topics"
_MS = 1000


def empty_state() -> GroupsState:
    """Return the state of an empty partition."""
    return GroupsState({**CLASSIC_APPLIERS, **CONSUMER_APPLIERS, **PUSH_APPLIERS}, ClassicGroup)


class GroupShard:
    """The group coordinator of one partition of `__consumer_offsets` in one leader epoch.

    Implements `coordination.seam.Shard` over GroupsState and GroupRecord.
    """

    def __init__(self, surroundings: ShardDependencies, leader: LedPartition) -> None:
        self.environment = ShardEnvironment(surroundings)
        self._surroundings = surroundings
        self._leader = leader
        self._expiring: set[Key] = set()
        """Keys of the offsets that the last slice of a sweep expires. They are counted once the log has taken the
        tombstones."""

    async def load(self) -> GroupsState:
        """Read the state of the shard's groups from the log.

        Raises KafkaError if the log cannot be read, ValueError if its records are invalid.
        """
        state, durable = empty_state(), self._leader.log
        async with self._surroundings.loads:
            end = durable.log_end_offset
            unknown: Counter[int] = Counter()
            await replay(
                durable,
                durable.log_start_offset,
                end,
                lambda item: _take_over(state, item, unknown),
                cleaned=True,
                of_transaction=partial(_take_over_transaction, state, unknown),
            )
        if unknown:
            told = ", ".join(f"{count} of type {number}" for number, count in sorted(unknown.items()))
            log.info("%s has records of groups that this broker does not serve; they are kept: %s", durable.place, told)
        state.next_offset = end
        return state

    def opening(self, state: GroupsState) -> Sequence[Decision[GroupsState, GroupRecord, None]]:
        return ()

    def loaded(self, state: GroupsState) -> None:
        state.on_end = partial(group_ended, environment=self.environment)
        classic.loaded(state, self.environment)
        consumer.loaded(state, self.environment)
        push.loaded(state, self.environment)
        self._expire_later()

    def close(self, state: GroupsState) -> None:
        """End this broker's term as the coordinator of these groups.

        Push consumers are disconnected, so that they look for the next coordinator immediately.
        """
        for connection in push.connections(state):
            self.environment.hang_up(connection, "this broker no longer coordinates the group")
        self.environment.close()

    def released(self, state: GroupsState) -> list[Any]:
        return state.take_apart()

    def topics_changed(self, changed: Collection[str], removed: Mapping[str, UUID]) -> None:
        """Let groups that read topics which were created, resized or deleted check them again.

        Offsets of a removed topic are deleted; `removed` has the topics' ids by name. All of this is decided in order
        with other requests, like timers.
        """
        timers = self.environment.timers

        def check_topics(state: GroupsState) -> Steps[tuple[Sequence[GroupRecord], None]]:
            yield from consumer.on_topics_changed(state, changed)
            yield from push.on_topics_changed(state, self.environment, changed)
            return (), None

        timers.on_due((_TOPICS, check_topics), check_topics)
        if removed:
            self._sweep_slices(_TOPICS, topics_deleted(removed), lambda: None)

    def _expire_later(self) -> None:
        environment = self.environment

        def begin(state: GroupsState) -> tuple[Sequence[GroupRecord], None]:
            retention_ms = environment.config.offsets_retention_minutes * 60 * _MS
            self._sweep_slices(_EXPIRY, expired(retention_ms, environment.now_ms()), self._expire_later)
            return (), None

        environment.timers.schedule(_EXPIRY, environment.config.offsets_retention_check_interval_ms / _MS, begin)

    def _sweep_slices(self, key: str, sweep: Sweep, afterwards: Callable[[], None]) -> None:
        """Decide the sweep slice by slice, with other decisions in between.

        A slice that is decided a second time was refused by the log.
        """
        was_refused = False

        def decide(state: GroupsState) -> tuple[Sequence[GroupRecord], None]:
            nonlocal was_refused
            if was_refused:
                sweep.begin_anew()
            was_refused = True
            records, goes_on = sweep.decide(state)
            if key == _EXPIRY:
                self._expiring = {record.key for record in records}
            if goes_on:
                self._sweep_slices(key, sweep, afterwards)
            else:
                afterwards()
            return records, None

        # The sweep is part of the key, so that the next sweep does not replace one that is under way.
        self.environment.timers.schedule((key, sweep), 0.0, decide)

    def encode(self, record: GroupRecord) -> KeyValue | Steps[KeyValue]:
        return record_codec.encoding(record)

    def applied(self, record: GroupRecord, state: GroupsState) -> None:
        if record.value is None:
            member_left(record, self.environment)
        # The lookup takes longer than everything else here, so it is left out while no offset expires.
        expired = bool(self._expiring) and record.key in self._expiring
        if expired:
            self._expiring.remove(record.key)
        add_to(self._surroundings.tally, record, expired=expired)

    def consequences(self, records: Sequence[GroupRecord], state: GroupsState) -> Steps[Sequence[GroupRecord]] | None:
        """Return the steps that finish counting long records; None if nothing is left to count.

        The steps return no records, because records of groups cause no further ones.
        """
        return state.count_the_rest() if state.uncounted else None

    def committed(self, state: GroupsState) -> None:
        self.environment.outbox.flush()

    def refuse(self, why: Refusal) -> KafkaError:
        return refused(why, "group")


def _take_over_transaction(
    state: GroupsState, unknown: Counter[int], item: Record, header: Header, batch: memoryview
) -> Applied:
    """Apply a record of a transaction, or the marker that ends one. Control records of other kinds are skipped.

    Returns the steps that remain for a long record, or the end of a large transaction.
    """
    if header.attributes & CONTROL:
        marker = parse_marker(batch, header)
        if marker is None:
            state.next_offset = item.offset + 1
            return None
        end = GroupRecord(TransactionEndKey(marker.producer_id), TransactionEndValue(marker.is_commit))
        state.apply(end, item.offset)
        return state.count_the_rest() if state.uncounted else None
    return _take_over(state, item, unknown, header.producer_id)


def _take_over(state: GroupsState, item: Record, unknown: Counter[int], producer_id: int = NO_PRODUCER_ID) -> Applied:
    """Apply a record of the log. `unknown` counts records of types that this broker does not know, by type.

    An offset that `producer_id` commits in a transaction is pending. Returns the steps that remain for a long record.
    """
    record = record_codec.decode(item.key, item.value)
    if producer_id >= 0 and record is not None and isinstance(record.value, OffsetCommitValue):
        record = GroupRecord(record.key, PendingOffsetValue(producer_id, record.value))
    if record is None:
        unknown[int.from_bytes((item.key or b"")[:2])] += 1
        state.next_offset = item.offset + 1
        return None
    state.apply(record, item.offset)
    return state.count_the_rest() if state.uncounted else None
