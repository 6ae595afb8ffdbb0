"""Offsets committed in transactions: when they count, which one wins, and what deletes them."""

import random
from collections.abc import Sequence
from typing import NamedTuple
from uuid import UUID

import pytest

from broker_runtime.errors import ErrorCode
from broker_runtime.groups.classic.group import APPLIERS, ClassicGroup
from broker_runtime.groups.group import Committer
from broker_runtime.groups.offsets.delete import CHUNK, delete, delete_group
from broker_runtime.groups.offsets.fetch import FetchedOffset, fetch, fetch_all
from broker_runtime.groups.offsets.sweep import Sweep, expired, topics_deleted
from broker_runtime.groups.records import (
    GroupMetadataKey,
    GroupMetadataValue,
    GroupRecord,
    OffsetCommitKey,
    OffsetCommitValue,
    PendingOffsetValue,
    TransactionEndKey,
    TransactionEndValue,
)
from broker_runtime.groups.state import GroupsState
from broker_runtime.slicing.steps import at_once
from tests.support.coordination.calls import calls_of
from tests.support.requests.step_sizes import objects_of_a_step

GROUP = "g"
NOBODY = Committer()
ONE, TWO = 1_000, 1_001
"""Producer ids."""
OLD, NEW = UUID(int=1), UUID(int=2)
AT = ("orders", 0)


class Offsets:
    """The state of one partition, changed by records as in the log."""

    def __init__(self) -> None:
        self.state = GroupsState(APPLIERS, ClassicGroup)

    def apply(self, *records: GroupRecord) -> None:
        for record in records:
            self.state.apply(record, self.state.next_offset)
            at_once(self.state.count_the_rest())

    def commit(self, offset: int, partition: int = 0, topic_id: UUID | None = None, at_ms: int = 1) -> None:
        self.apply(GroupRecord(key(partition), value(offset, topic_id, at_ms)))

    def pend(self, producer: int, offset: int, partition: int = 0, topic_id: UUID | None = None) -> None:
        self.apply(GroupRecord(key(partition), PendingOffsetValue(producer, value(offset, topic_id))))

    def end(self, producer: int, *, is_commit: bool) -> None:
        self.apply(GroupRecord(TransactionEndKey(producer), TransactionEndValue(is_commit)))

    def delete(self, partition: int = 0) -> None:
        self.apply(GroupRecord(key(partition), None))

    def sweep(self, sweep: Sweep) -> list[GroupRecord]:
        found, more = list[GroupRecord](), True
        while more:
            records, more = sweep.decide(self.state)
            self.apply(*records)
            found += records
        return found

    @property
    def committed(self) -> dict[int, int]:
        return {partition: each.offset for (_, partition), each in self.state.offsets.of(GROUP).items()}

    def fetched(self, *, require_stable: bool) -> Sequence[FetchedOffset]:
        return fetch(self.state, NOBODY, GROUP, [AT], require_stable=require_stable)


def key(partition: int = 0) -> OffsetCommitKey:
    return OffsetCommitKey(GROUP, "orders", partition)


def value(offset: int, topic_id: UUID | None = None, at_ms: int = 1) -> OffsetCommitValue:
    return OffsetCommitValue(offset, -1, "", at_ms, None, topic_id)


def test_a_pending_offset_counts_once_its_transaction_is_committed() -> None:
    on = Offsets()
    on.commit(5)
    on.pend(ONE, 7)
    on.pend(ONE, 8, partition=1)
    assert on.committed == {0: 5}
    assert on.fetched(require_stable=False) == [FetchedOffset(0, 5)]
    on.end(ONE, is_commit=True)
    assert on.committed == {0: 7, 1: 8}
    assert not on.state.pending


@pytest.mark.parametrize("is_commit", [True, False])
def test_no_step_of_the_end_of_a_large_transaction_takes_long(is_commit: bool) -> None:
    on, count = Offsets(), 10_000
    for partition in range(count):
        on.pend(ONE, 7, partition)
    on.state.apply(GroupRecord(TransactionEndKey(ONE), TransactionEndValue(is_commit)), on.state.next_offset)
    assert objects_of_a_step(on.state.count_the_rest()) < count / 4
    assert len(on.committed) == (count if is_commit else 0)
    assert not on.state.pending


def test_an_aborted_transaction_leaves_the_committed_offset() -> None:
    on = Offsets()
    on.commit(5)
    on.pend(ONE, 7)
    on.end(ONE, is_commit=False)
    assert on.committed == {0: 5}
    assert on.fetched(require_stable=True) == [FetchedOffset(0, 5)]
    assert not on.state.pending


def test_a_marker_of_a_producer_without_pending_offsets_changes_nothing() -> None:
    on = Offsets()
    on.pend(ONE, 7)
    for is_commit in (True, False):
        on.end(TWO, is_commit=is_commit)
    assert on.committed == {}
    assert on.state.pending.is_unstable(GROUP, AT)
    assert on.state.next_offset == 3


def test_a_producers_later_offset_replaces_its_earlier_one() -> None:
    on = Offsets()
    on.pend(ONE, 9)
    on.pend(ONE, 7)
    on.end(ONE, is_commit=True)
    assert on.committed == {0: 7}


@pytest.mark.parametrize("is_commit", [True, False])
def test_a_plain_commit_after_the_pending_offset_wins(is_commit: bool) -> None:
    on = Offsets()
    on.pend(ONE, 7)
    on.commit(5)
    assert on.fetched(require_stable=True)[0].code is ErrorCode.UNSTABLE_OFFSET_COMMIT
    on.end(ONE, is_commit=is_commit)
    assert on.committed == {0: 5}


def test_a_pending_offset_after_a_plain_commit_wins() -> None:
    on = Offsets()
    on.pend(ONE, 6)
    on.commit(5)
    on.pend(ONE, 7)
    on.end(ONE, is_commit=True)
    assert on.committed == {0: 7}


@pytest.mark.parametrize("order", [(ONE, TWO), (TWO, ONE)])
def test_the_last_record_wins_in_whatever_order_transactions_are_committed(order: tuple[int, int]) -> None:
    on = Offsets()
    on.pend(ONE, 9)
    on.pend(TWO, 7)
    for producer in order:
        on.end(producer, is_commit=True)
    assert on.committed == {0: 7}
    assert not on.state.pending


def test_an_aborted_later_record_lets_the_earlier_one_count() -> None:
    on = Offsets()
    on.pend(ONE, 9)
    on.pend(TWO, 7)
    on.end(TWO, is_commit=False)
    on.end(ONE, is_commit=True)
    assert on.committed == {0: 9}


def test_a_partition_is_unstable_until_the_last_transaction_has_ended() -> None:
    on = Offsets()
    for producer in (ONE, TWO):
        on.pend(producer, 9)
    on.end(ONE, is_commit=True)
    assert on.fetched(require_stable=True) == [FetchedOffset(0, code=ErrorCode.UNSTABLE_OFFSET_COMMIT)]
    assert on.fetched(require_stable=False) == [FetchedOffset(0, 9)]
    on.end(TWO, is_commit=False)
    assert on.fetched(require_stable=True) == [FetchedOffset(0, 9)]


def test_fetch_all_marks_unstable_partitions_that_have_a_committed_offset() -> None:
    on = Offsets()
    on.commit(1)
    on.commit(2, partition=1)
    on.pend(ONE, 9)
    on.pend(ONE, 9, partition=2)
    stable = fetch_all(on.state, NOBODY, GROUP, require_stable=True)
    assert [(at, each and each.offset) for at, each in stable] == [(AT, None), (("orders", 1), 2)]
    every = fetch_all(on.state, NOBODY, GROUP)
    assert [(at, each and each.offset) for at, each in every] == [(AT, 1), (("orders", 1), 2)]


def test_a_tombstone_removes_the_pending_offsets_of_all_producers() -> None:
    on = Offsets()
    for producer in (ONE, TWO):
        on.pend(producer, 9)
        on.pend(producer, 9, partition=1)
    on.delete()
    assert on.fetched(require_stable=True) == [FetchedOffset(0)]
    for producer in (ONE, TWO):
        on.end(producer, is_commit=True)
    assert on.committed == {1: 9}
    assert not on.state.pending


def test_offset_delete_deletes_pending_offsets() -> None:
    on = Offsets()
    on.pend(ONE, 9)
    records, codes = delete(on.state, GROUP, [AT, ("orders", 1)])
    assert (codes, records) == ([ErrorCode.NONE] * 2, [GroupRecord(key(), None)])


def test_a_deleted_group_takes_its_pending_offsets_with_it() -> None:
    on = Offsets()
    on.commit(5)
    for partition in range(CHUNK + 1):
        on.pend(ONE, 9, partition)
    records, remains = delete_group(on.state, GROUP)
    assert (len(records), remains) == (CHUNK, True)
    on.apply(*records)
    assert on.state.groups
    records, remains = delete_group(on.state, GROUP)
    assert (records, remains) == ([GroupRecord(key(CHUNK), None), GroupRecord(GroupMetadataKey(GROUP), None)], False)
    on.apply(*records)
    on.end(ONE, is_commit=True)
    assert (on.committed, on.state.groups, bool(on.state.pending)) == ({}, {}, False)


def test_a_group_that_ends_keeps_its_pending_offsets() -> None:
    on = Offsets()
    on.apply(GroupRecord(GroupMetadataKey(GROUP), GroupMetadataValue("consumer", 3, None, None, 1, ())))
    on.pend(ONE, 9)
    on.apply(GroupRecord(GroupMetadataKey(GROUP), None))
    assert on.state.groups[GROUP].protocol_type == ""
    on.end(ONE, is_commit=True)
    assert on.committed == {0: 9}


def test_neither_an_unstable_offset_nor_a_group_with_pending_offsets_expires() -> None:
    on = Offsets()
    on.commit(5)
    on.commit(6, partition=1)
    on.pend(ONE, 9)
    assert on.sweep(expired(1_000, 10_000)) == [GroupRecord(key(1), None)]
    on.end(ONE, is_commit=False)
    assert on.sweep(expired(1_000, 10_000)) == [
        GroupRecord(key(), None),
        GroupRecord(GroupMetadataKey(GROUP), None),
    ]
    on.pend(ONE, 9)
    assert on.sweep(expired(1_000, 10_000)) == []


def test_the_pending_offsets_of_a_deleted_topic_go_with_it() -> None:
    on = Offsets()
    on.commit(5, topic_id=OLD)
    for partition in (0, 1):
        on.pend(ONE, 9, partition, OLD)
    # Partition 2 belongs to a new topic of the name, and partition 3 to both.
    on.pend(ONE, 9, 2, NEW)
    on.commit(5, partition=3, topic_id=OLD)
    on.pend(ONE, 9, 3, NEW)
    assert on.sweep(topics_deleted({"orders": OLD})) == [GroupRecord(key(partition), None) for partition in (0, 1)]
    on.end(ONE, is_commit=True)
    assert on.committed == {2: 9, 3: 9}


def test_a_large_transaction_ends_in_steps() -> None:
    on = Offsets()
    for partition in range(500):
        on.pend(ONE, partition, partition)
    state = on.state
    state.apply(GroupRecord(TransactionEndKey(ONE), TransactionEndValue(True)), state.next_offset)
    assert on.committed == {}
    assert len(list(state.count_the_rest())) > 10
    assert on.committed == {partition: partition for partition in range(500)}
    assert not state.pending


def test_a_commit_costs_the_same_however_many_producers_have_a_pending_offset_for_its_partition() -> None:
    on = Offsets()
    for producer in range(3_000):
        on.pend(producer, 7)

    def change() -> None:
        on.commit(8)
        on.end(1, is_commit=True)
        on.delete()

    assert calls_of(change) < 100
    assert not on.state.pending
    on.end(2, is_commit=True)
    assert on.committed == {}


class LoggedRecord(NamedTuple):
    """A record of a random log, at its offset."""

    at: int
    record: GroupRecord

    @property
    def producer(self) -> int | None:
        """The producer of a pending offset, or of a marker."""
        if isinstance(self.record.key, TransactionEndKey):
            return self.record.key.producer_id
        return self.record.value.producer_id if isinstance(self.record.value, PendingOffsetValue) else None


def random_log(chance: random.Random, length: int) -> list[LoggedRecord]:
    """Commits, pending offsets, tombstones and markers of few partitions and producers."""
    log = []
    for at in range(length):
        kind, at_key, producer = chance.random(), key(chance.randrange(3)), chance.choice([ONE, TWO, TWO + 1])
        if kind < 0.2:
            record = GroupRecord(at_key, value(at))
        elif kind < 0.3:
            record = GroupRecord(at_key, None)
        elif kind < 0.7:
            record = GroupRecord(at_key, PendingOffsetValue(producer, value(at)))
        else:
            record = GroupRecord(TransactionEndKey(producer), TransactionEndValue(chance.random() < 0.6))
        log.append(LoggedRecord(at, record))
    return log


def loaded(log: Sequence[LoggedRecord]) -> tuple[dict[int, int], dict[int, list[int]]]:
    """The committed offsets of a state loaded from the log, and the pending ones by partition."""
    on = Offsets()
    for at, record in log:
        on.state.apply(record, at)
    found = on.state.pending
    pending = {at[1]: sorted(each.offset for each in found.values_of(GROUP, at)) for at in found.of(GROUP)}
    return on.committed, pending


def expected(log: Sequence[LoggedRecord]) -> dict[int, int]:
    """The committed offsets by Kafka's rule: of the records that count, the last one of a partition wins."""
    newest: dict[int, int | None] = {}
    for at, record in log:
        if not isinstance(record.key, OffsetCommitKey):
            continue
        if isinstance(record.value, PendingOffsetValue):
            producer = record.value.producer_id
            later = [each for each in log if each.at > at]
            # A tombstone removes the pending offset, so that the marker does not bring it back.
            end = next((each for each in later if each.producer == producer and _is_end(each)), None)
            gone = [each for each in later if each.record == GroupRecord(record.key, None)]
            if end is None or not _commits(end) or any(each.at < end.at for each in gone):
                continue
        # The records are in the order of the log, so this one is the newest.
        newest[record.key.partition] = None if record.value is None else at
    return {partition: offset for partition, offset in newest.items() if offset is not None}


def _is_end(each: LoggedRecord) -> bool:
    return isinstance(each.record.value, TransactionEndValue)


def _commits(each: LoggedRecord) -> bool:
    return isinstance(each.record.value, TransactionEndValue) and each.record.value.is_commit


def cleaned(log: Sequence[LoggedRecord]) -> list[LoggedRecord]:
    """The log after a cleaning up to its last stable offset: the last record of each key stays, of those that count."""
    open_since: dict[int, int] = {}
    for each in log:
        producer = each.producer
        if producer is not None and _is_end(each):
            open_since.pop(producer, None)
        elif producer is not None:
            open_since.setdefault(producer, each.at)
    stable = min(open_since.values(), default=len(log))
    kept: dict[OffsetCommitKey, LoggedRecord] = {}
    rest = []
    for each in log:
        if each.at >= stable or not isinstance(each.record.key, OffsetCommitKey):
            rest.append(each)
            continue
        ends = [later for later in log[each.at :] if later.producer == each.producer and _is_end(later)]
        if each.producer is None or (ends and _commits(ends[0])):
            kept[each.record.key] = each
    return sorted([*kept.values(), *rest])


@pytest.mark.parametrize("seed", range(200))
def test_random_logs_give_kafkas_offsets_and_the_same_after_a_cleaning(seed: int) -> None:
    chance = random.Random(seed)
    log = random_log(chance, chance.randrange(5, 40))
    committed, pending = loaded(log)
    assert committed == expected(log)
    assert loaded(cleaned(log)) == (committed, pending)
