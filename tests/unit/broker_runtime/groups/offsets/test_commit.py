"""Commits that are accepted, their records, and the groups that they create."""

from collections.abc import Sequence
from uuid import UUID

import pytest

from broker_runtime.config.keys.broker import BrokerConfig
from broker_runtime.errors import ErrorCode
from broker_runtime.groups.classic.group import APPLIERS, ClassicGroup
from broker_runtime.groups.group import Committer, Group
from broker_runtime.groups.offsets.commit import OffsetToCommit, commit
from broker_runtime.groups.record_codec import encode
from broker_runtime.groups.records import (
    ClassicMember,
    GroupMetadataKey,
    GroupMetadataValue,
    GroupRecord,
    OffsetCommitKey,
    OffsetCommitValue,
)
from broker_runtime.groups.state import GroupsState
from broker_runtime.metadata.areas.topics import TopicRecord
from tests.support.groups.consumer_groups import ManualEnvironment, refused

NOBODY = Committer()
MEMBER = ClassicMember("m", None, "c", "/h", 60_000, 10_000, b"", b"")
STABLE = GroupRecord(GroupMetadataKey("g"), GroupMetadataValue("consumer", 3, "range", "m", 1, (MEMBER,)))


class Commits:
    """A shard's state, and the members whose commits showed them alive."""

    def __init__(self, config: BrokerConfig | None = None) -> None:
        self.state = GroupsState(APPLIERS, ClassicGroup)
        self.environment = ManualEnvironment(config or BrokerConfig())
        self.alive: list[Committer] = []

    def commit(self, committer: Committer, *offsets: OffsetToCommit, retention_ms: int = -1) -> Sequence[ErrorCode]:
        def keep_session(group: Group, committer: Committer) -> None:
            assert group is self.state.groups["g"]
            self.alive.append(committer)

        records, codes = commit(self.state, self.environment, keep_session, committer, "g", offsets, retention_ms)
        self.apply(*records)
        return codes

    def apply(self, *records: GroupRecord) -> None:
        for record in records:
            self.state.apply(record, self.state.next_offset)

    @property
    def kept(self) -> dict[tuple[str, int], OffsetCommitValue]:
        return dict(self.state.offsets.of("g"))


def test_a_commit_without_a_member_creates_a_group_that_only_keeps_offsets() -> None:
    on = Commits()
    assert on.commit(NOBODY, OffsetToCommit("orders", 0, 42, 7, "half")) == [ErrorCode.NONE]
    group = on.state.groups["g"]
    assert (group.state_name, group.protocol_type, group.is_empty) == ("Empty", "", True)
    assert on.kept == {("orders", 0): OffsetCommitValue(42, 7, "half", on.environment.now_ms())}
    assert on.alive == []
    assert on.commit(NOBODY, OffsetToCommit("orders", 0, 43)) == [ErrorCode.NONE]
    assert on.state.groups["g"] is group


@pytest.mark.parametrize(("version", "code"), [(8, ErrorCode.ILLEGAL_GENERATION), (9, ErrorCode.GROUP_ID_NOT_FOUND)])
def test_a_commit_of_a_member_of_a_deleted_group_is_rejected(version: int, code: ErrorCode) -> None:
    on = Commits()
    with refused(code):
        on.commit(Committer("m", 0, None, version), OffsetToCommit("orders", 0, 1))
    assert on.state.groups == {}


def test_a_retention_may_be_for_ever() -> None:
    on = Commits()
    assert on.commit(NOBODY, OffsetToCommit("orders", 0, 1), retention_ms=2**63 - 1) == [ErrorCode.NONE]
    kept = on.kept["orders", 0]
    assert kept.expire_timestamp_ms == 2**63 - 1
    encode(GroupRecord(OffsetCommitKey("g", "orders", 0), kept))


def test_a_commit_is_a_members_heartbeat() -> None:
    on = Commits()
    on.apply(STABLE)
    member = Committer("m", 3)
    assert on.commit(member, OffsetToCommit("orders", 0, 1)) == [ErrorCode.NONE]
    assert on.alive == [member]


@pytest.mark.parametrize(
    ("committer", "code"),
    [
        (Committer("m", 2), ErrorCode.ILLEGAL_GENERATION),
        (Committer("x", 3), ErrorCode.UNKNOWN_MEMBER_ID),
        (NOBODY, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_an_unauthorized_commit_writes_nothing_and_does_not_renew_a_session(
    committer: Committer, code: ErrorCode
) -> None:
    on = Commits()
    on.apply(STABLE)
    with refused(code):
        on.commit(committer, OffsetToCommit("orders", 0, 1))
    assert (on.kept, on.alive) == ({}, [])


@pytest.mark.parametrize(
    ("metadata", "code"),
    [
        (None, ErrorCode.NONE),
        ("", ErrorCode.NONE),
        ("12345", ErrorCode.NONE),
        ("éééöö", ErrorCode.NONE),
        ("123456", ErrorCode.OFFSET_METADATA_TOO_LARGE),
        # Java counts such a character as two.
        ("\U0001f600" * 3, ErrorCode.OFFSET_METADATA_TOO_LARGE),
    ],
)
def test_metadata_has_a_limit_for_each_partition(metadata: str | None, code: ErrorCode) -> None:
    on = Commits(BrokerConfig(offset_metadata_max_bytes=5))
    one, other = OffsetToCommit("orders", 0, 1, metadata=metadata), OffsetToCommit("orders", 1, 2)
    assert on.commit(NOBODY, one, other) == [code, ErrorCode.NONE]
    assert (("orders", 0) in on.kept) == (code is ErrorCode.NONE)
    assert ("orders", 1) in on.kept
    if code is ErrorCode.NONE:
        assert on.kept["orders", 0].metadata == (metadata or "")


@pytest.mark.parametrize(("retention_ms", "expires_in_ms"), [(-1, None), (0, 0), (60_000, 60_000)])
def test_older_clients_say_how_long_an_offset_is_kept(retention_ms: int, expires_in_ms: int | None) -> None:
    on = Commits()
    on.commit(NOBODY, OffsetToCommit("orders", 0, 1), retention_ms=retention_ms)
    expected = None if expires_in_ms is None else on.environment.now_ms() + expires_in_ms
    assert on.kept["orders", 0].expire_timestamp_ms == expected


def test_the_topic_is_known_by_its_id() -> None:
    on = Commits()
    on.environment.image.apply(TopicRecord("orders", UUID(int=7)), 0)
    on.commit(
        NOBODY,
        OffsetToCommit("orders", 0, 1),
        OffsetToCommit("orders", 1, 1, topic_id=UUID(int=6)),
        OffsetToCommit("unknown", 0, 1),
    )
    assert [value.topic_id for value in on.kept.values()] == [UUID(int=7), UUID(int=6), None]


def test_offsets_that_a_cleaned_log_has_before_their_group_are_that_groups() -> None:
    on = Commits()
    on.apply(GroupRecord(OffsetCommitKey("g", "orders", 0), OffsetCommitValue(5, -1, "", 1)), STABLE)
    assert on.state.groups["g"].state_name == "Stable"
    assert on.kept["orders", 0].offset == 5


def test_a_tombstone_makes_no_group() -> None:
    on = Commits()
    on.apply(GroupRecord(OffsetCommitKey("g", "orders", 0), None))
    assert on.state.groups == {}
    assert on.state.offsets.count == 0


def test_a_state_without_a_factory_of_simple_groups_raises_an_error() -> None:
    with pytest.raises(ValueError, match="offsets of group g are committed"):
        GroupsState(APPLIERS).apply(GroupRecord(OffsetCommitKey("g", "orders", 0), OffsetCommitValue(5, -1, "", 1)), 0)
