"""The offsets that expire, those that are deleted with their topics, and the end of their group."""

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

import pytest

from broker_runtime.groups.classic.group import APPLIERS, ClassicGroup
from broker_runtime.groups.group import OffsetRetention
from broker_runtime.groups.offsets.delete import CHUNK
from broker_runtime.groups.offsets.sweep import Sweep, expired, topics_deleted
from broker_runtime.groups.records import GroupMetadataKey, GroupRecord, OffsetCommitKey, OffsetCommitValue
from broker_runtime.groups.state import GroupsState

RETENTION_MS = 1000
BY_COMMIT = OffsetRetention(None)
OLD, NEW = UUID(int=1), UUID(int=2)


@dataclass
class StubGroup(ClassicGroup):
    """A group whose retention a test sets."""

    group_id: str
    retention: OffsetRetention | None = BY_COMMIT
    empty: bool = True

    @property
    def is_empty(self) -> bool:
        return self.empty

    def offset_retention(self) -> OffsetRetention | None:
        return self.retention


def state_of(*groups: StubGroup) -> GroupsState:
    state = GroupsState(APPLIERS, StubGroup)
    state.groups.update({group.group_id: group for group in groups})
    return state


def put(state: GroupsState, at_ms: int, *partitions: int, topic: str = "orders", group: str = "g") -> None:
    for partition in partitions:
        write(state, OffsetCommitKey(group, topic, partition), OffsetCommitValue(1, -1, "", at_ms))


def write(state: GroupsState, key: OffsetCommitKey, value: OffsetCommitValue | None) -> None:
    state.apply(GroupRecord(key, value), state.next_offset)


def swept(state: GroupsState, sweep: Sweep) -> list[Sequence[GroupRecord]]:
    """All chunks, each applied before the next."""
    chunks, more = [], True
    while more:
        records, more = sweep.decide(state)
        for record in records:
            state.apply(record, state.next_offset)
        chunks.append(records)
    return chunks


def left(state: GroupsState, group: str = "g") -> list[tuple[str, int]]:
    return list(state.offsets.of(group))


@pytest.mark.parametrize(("now_ms", "kept"), [(5_999, [0]), (6_000, [])])
def test_offsets_without_a_group_expire_after_their_commit(now_ms: int, kept: list[int]) -> None:
    state = state_of()
    put(state, 5_000, 0)
    swept(state, expired(RETENTION_MS, now_ms))
    assert left(state) == [("orders", partition) for partition in kept]
    assert ("g" in state.groups) == bool(kept)


@pytest.mark.parametrize(("now_ms", "kept"), [(8_999, 2), (9_000, 0)])
def test_offsets_of_a_group_without_members_expire_after_the_last_has_left(now_ms: int, kept: int) -> None:
    state = state_of(StubGroup("g", OffsetRetention(8_000)))
    put(state, 1_000, 0)
    # Also an offset that was committed later.
    put(state, 8_500, 1)
    swept(state, expired(RETENTION_MS, now_ms))
    assert len(left(state)) == kept


def test_topics_that_members_read_expire_never_and_others_after_their_commit() -> None:
    state = state_of(StubGroup("g", OffsetRetention(None, frozenset({"orders"})), empty=False))
    put(state, 0, 0)
    put(state, 0, 0, topic="clicks")
    put(state, 9_500, 1, topic="clicks")
    swept(state, expired(RETENTION_MS, 10_000))
    assert left(state) == [("orders", 0), ("clicks", 1)]


def test_nothing_expires_while_a_group_rebalances() -> None:
    state = state_of(StubGroup("g", None, empty=False))
    put(state, 0, 0)
    assert swept(state, expired(RETENTION_MS, 10_000)) == [[]]


@pytest.mark.parametrize(("now_ms", "kept"), [(1_499, 1), (1_500, 0)])
def test_a_time_that_the_client_chose_wins(now_ms: int, kept: int) -> None:
    state = state_of(StubGroup("g", OffsetRetention(0)))
    write(state, OffsetCommitKey("g", "orders", 0), OffsetCommitValue(1, -1, "", 0, 1_500))
    swept(state, expired(RETENTION_MS, now_ms))
    assert len(left(state)) == kept


def test_a_group_is_deleted_when_it_has_neither_members_nor_offsets() -> None:
    empty, with_members = StubGroup("empty"), StubGroup("members", OffsetRetention(None), empty=False)
    state = state_of(empty, StubGroup("rebalances", None, empty=False), with_members, StubGroup("unknown", None))
    put(state, 0, 0, group="members")
    put(state, 9_900, 0, group="kept")
    swept(state, expired(RETENTION_MS, 10_000))
    # Also a group with unknown retention: it has no offsets.
    assert sorted(state.groups) == ["kept", "members", "rebalances"]
    assert left(state, "members") == []


def test_very_many_offsets_are_looked_at_in_chunks() -> None:
    state = state_of()
    put(state, 9_900, *range(CHUNK))
    put(state, 0, *range(CHUNK), topic="clicks")
    chunks = swept(state, expired(RETENTION_MS, 10_000))
    assert [len(records) for records in chunks] == [0, CHUNK, 0]
    put(state, 0, *range(2 * CHUNK), group="other")
    assert sum(len(records) for records in swept(state, expired(RETENTION_MS, 10_000))) == 2 * CHUNK + 1
    assert sorted(state.groups) == ["g"]


def test_what_happens_between_two_chunks_counts() -> None:
    group = StubGroup("g", OffsetRetention(None))
    state = state_of(group)
    put(state, 0, *range(2 * CHUNK))
    sweep = expired(RETENTION_MS, 10_000)
    records, more = sweep.decide(state)
    assert (len(records), more) == (CHUNK, True)
    for record in records:
        state.apply(record, state.next_offset)
    # A deleted offset is committed again, a remaining one is renewed, and another client deletes one.
    put(state, 9_999, 0, CHUNK)
    write(state, OffsetCommitKey("g", "orders", CHUNK + 1), None)
    swept(state, sweep)
    assert sorted(left(state)) == [("orders", 0), ("orders", CHUNK)]
    assert "g" in state.groups


def test_a_group_joined_between_two_chunks_keeps_the_offsets_that_it_reads() -> None:
    group = StubGroup("g", OffsetRetention(None))
    state = state_of(group)
    put(state, 0, *range(2 * CHUNK))
    sweep = expired(RETENTION_MS, 10_000)
    for record in sweep.decide(state)[0]:
        state.apply(record, state.next_offset)
    group.empty, group.retention = False, None
    swept(state, sweep)
    assert len(left(state)) == CHUNK
    assert "g" in state.groups


def test_the_offsets_of_deleted_topics_go_in_all_groups() -> None:
    state = state_of()
    for group in ("a", "b"):
        put(state, 9_999, 0, 1, group=group)
        put(state, 9_999, 0, group=group, topic="clicks")
    (records,) = swept(state, topics_deleted({"orders": OLD, "nobody-read": NEW}))
    assert len(records) == 4
    assert (left(state, "a"), left(state, "b")) == ([("clicks", 0)], [("clicks", 0)])
    # The groups stay until they expire, as in Apache Kafka.
    assert sorted(state.groups) == ["a", "b"]


def test_a_topic_that_is_made_again_under_the_name_keeps_its_own() -> None:
    state = state_of()
    for partition, topic_id in enumerate((OLD, NEW, None)):
        write(state, OffsetCommitKey("g", "orders", partition), OffsetCommitValue(1, -1, "", 1, None, topic_id))
    swept(state, topics_deleted({"orders": OLD}))
    assert left(state) == [("orders", 1)]


def test_the_last_record_of_a_group_is_its_own_tombstone() -> None:
    state = state_of()
    put(state, 0, 0)
    (records,) = swept(state, expired(RETENTION_MS, 10_000))
    assert records == [
        GroupRecord(OffsetCommitKey("g", "orders", 0), None),
        GroupRecord(GroupMetadataKey("g"), None),
    ]
