"""Members that name thousands of topics, and groups of thousands of members: the work of one step of a decision."""

import struct
from collections.abc import Iterator
from itertools import pairwise

import pytest

from broker_runtime.config.keys.broker import BrokerConfig
from broker_runtime.coordination.seam import Deciding, in_one_go
from broker_runtime.errors import ErrorCode
from broker_runtime.groups.classic import reading
from broker_runtime.groups.classic.group import ClassicGroup
from broker_runtime.groups.classic.joining import join
from broker_runtime.groups.classic.loading import loaded
from broker_runtime.groups.classic.portions import PORTION
from broker_runtime.groups.classic.states import ClassicState
from broker_runtime.groups.classic.subscriptions import subscribed_topics
from broker_runtime.groups.consumer.classic_members import CLASSIC_MEMBERS
from broker_runtime.groups.record_codec import decode, encode
from broker_runtime.groups.records import (
    ClassicMember,
    ClassicProtocol,
    GroupMetadataKey,
    GroupMetadataValue,
    GroupRecord,
)
from broker_runtime.groups.state import GroupsState
from tests.support.groups.classic_coordinator import GROUP, OTHER_TOPIC, ClassicCoordinator, join_request, told

NAMES = 3_000
NAMES_OF_A_DECISION = PORTION * 16
MEMBERS = 400
MEMBERS_OF_A_STEP = 8


def subscription(*topics: str) -> bytes:
    names = (struct.pack(">h", len(name)) + name.encode() for name in topics)
    return struct.pack(">hi", 0, len(topics)) + b"".join(names) + b"\xff\xff\xff\xff"


def reads(*topics: str) -> tuple[ClassicProtocol, ...]:
    return (ClassicProtocol("range", subscription(*topics)),)


class CountedNames:
    """Counts the names that one decision reads."""

    def __init__(self) -> None:
        self.now = self.most = self.total = self.subscriptions = 0

    def read(self, metadata: bytes) -> Iterator[list[str]]:
        self.subscriptions += 1
        for names in subscribed_topics(metadata):
            self.now += len(names)
            self.total += len(names)
            self.most = max(self.most, self.now)
            yield names

    def decide_all(self, at: ClassicCoordinator, seconds: float) -> None:
        """Run all timers that fall due in this time."""
        at.timers.now_s += seconds
        while due := list(at.timers.timers.take_due(at.timers.now_s)):
            for _, action in due:
                self.now = 0
                at.decide_timer(action)


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> CountedNames:
    counted = CountedNames()
    monkeypatch.setattr(reading, "subscribed_topics", counted.read)
    return counted


def names_of(member: int) -> list[str]:
    return [f"{member}-{number}" for number in range(NAMES)]


def test_no_decision_reads_more_names_than_a_portion_has(counted: CountedNames) -> None:
    at = ClassicCoordinator()
    for member in range(3):
        at.join(needs_known_id=False, protocols=reads(*names_of(member)))
    counted.decide_all(at, 30.0)
    counted.decide_all(at, 30.0)
    assert (counted.total, counted.most) == (3 * NAMES, NAMES_OF_A_DECISION)
    assert at.group.topics == frozenset(name for member in range(3) for name in names_of(member))


def test_a_subscription_that_many_members_have_is_read_once(counted: CountedNames) -> None:
    at = ClassicCoordinator()
    for _ in range(70):
        at.join(needs_known_id=False, protocols=reads("t", "u"))
    at.advance(6.0)
    assert (counted.subscriptions, at.group.topics) == (1, frozenset({"t", "u"}))


def test_nothing_of_a_generation_that_is_over_is_read(counted: CountedNames) -> None:
    at = ClassicCoordinator()
    at.join(needs_known_id=False, protocols=reads(*names_of(0)))
    at.timers.now_s += 3.0
    for _, action in at.timers.timers.take_due(at.timers.now_s):
        at.decide_timer(action)
    at.group.generation += 1
    counted.total = 0
    at.advance(0.0)
    assert counted.total < NAMES
    assert at.group.topics is None


def test_a_load_reads_no_subscription_before_the_groups_are_there(counted: CountedNames) -> None:
    at = ClassicCoordinator()
    (member_id,) = at.stable(protocols=reads(*names_of(0)))
    record = at.log[-1]
    read = decode(*encode(record))
    assert read is not None
    other = ClassicCoordinator()
    counted.total = counted.most = counted.now = 0
    for _ in range(3):
        other.state.apply(GroupRecord(read.key, read.value), other.state.next_offset)
    assert (counted.total, other.group.topics, other.group.is_subscribed_to("v")) == (0, None, True)
    loaded(other.state, other)
    counted.decide_all(other, 0.0)
    assert (counted.total, other.group.topics) == (NAMES, frozenset(names_of(0)))
    assert counted.most == NAMES_OF_A_DECISION
    assert member_id in other.group.members.by_id


def test_after_a_load_all_groups_share_the_names_of_a_decision(counted: CountedNames) -> None:
    at = ClassicCoordinator()
    said = [subscription(*(f"{number}-{name}" for name in range(400))) for number in range(60)]
    for number, metadata in enumerate(said):
        one = ClassicMember("m", None, "c", "/h", 60_000, 45_000, metadata, b"a")
        value = GroupMetadataValue("consumer", 1, "range", "m", 0, (one,))
        at.state.apply(GroupRecord(GroupMetadataKey(f"g{number}"), value), at.state.next_offset)
    loaded(at.state, at)
    counted.decide_all(at, 0.0)
    assert counted.most <= NAMES_OF_A_DECISION
    groups = [group for group in at.state.groups.values() if isinstance(group, ClassicGroup)]
    assert [len(group.topics or ()) for group in groups] == [400] * 60


@pytest.mark.parametrize("named", [4, 5])
def test_the_topics_of_a_group_that_reads_too_many_are_not_known(named: int) -> None:
    """The group's offsets then do not expire, and OffsetDelete deletes none."""
    at = ClassicCoordinator(BrokerConfig(sluicegate_group_topics_max=4))
    at.stable(protocols=reads(*"abcde"[:named]))
    at.advance(1.0)
    known = named == 4
    assert (at.group.topics is not None, at.group.offset_retention() is not None) == (known, known)
    assert at.group.is_subscribed_to("z") is not known


@pytest.mark.parametrize("named", [2, 3])
def test_a_member_may_name_so_many_topics(named: int) -> None:
    at = ClassicCoordinator(BrokerConfig(sluicegate_group_member_topics_max=2))
    error = told(at.join(protocols=reads(*"abc"[:named]))).error
    assert error is (ErrorCode.MEMBER_ID_REQUIRED if named == 2 else ErrorCode.INVALID_REQUEST)


@pytest.mark.parametrize("metadata", [b"", b"\x00\x01", b"\x00\x01\x7f\xff\xff\xff\x00", b"own words of an assignor"])
def test_metadata_that_is_no_subscription_has_no_limit_of_topics(metadata: bytes) -> None:
    at = ClassicCoordinator(BrokerConfig(sluicegate_group_member_topics_max=2))
    assert told(at.join(protocols=(ClassicProtocol("range", metadata),))).error is ErrorCode.MEMBER_ID_REQUIRED


def test_members_of_another_type_name_no_topics() -> None:
    at = ClassicCoordinator(BrokerConfig(sluicegate_group_member_topics_max=2))
    error = told(at.join(protocol_type="connect", protocols=reads("a", "b", "c"))).error
    assert error is ErrorCode.MEMBER_ID_REQUIRED


def of_many(at: ClassicCoordinator, **changes: object) -> list[str]:
    for number in range(MEMBERS):
        named = None if number % 2 else f"i{number}"
        at.join(needs_known_id=False, group_instance_id=named if "static" in changes else None)
    at.advance(6.0)
    came = list(at.group.members.by_id)
    for member_id in came[1:]:
        at.sync(member_id)
    at.sync(came[0], assignments=dict.fromkeys(came, b"mine"))
    assert at.group.state is ClassicState.STABLE
    return came


def steps_of(at: ClassicCoordinator, deciding: Deciding[GroupRecord, object]) -> list[int]:
    """Number of members left after each step."""
    assert not isinstance(deciding, tuple), "it is decided in steps"
    left = [len(at.group.members)]
    for _ in deciding:
        left.append(len(at.group.members))
    return left


def test_thousands_of_missing_members_are_removed_in_small_steps() -> None:
    at = ClassicCoordinator()
    came = of_many(at)
    last = at.join(came[-1], protocols=OTHER_TOPIC)
    at.timers.now_s += 60.0
    due = dict(at.timers.timers.take_due(at.timers.now_s))
    assert in_one_go(due[GROUP, "join"](at.state)) == ((), None)
    ((_, go_on),) = [timer for timer in at.timers.timers.take_due(at.timers.now_s) if "complete" in timer[0]]  # type: ignore[operator]
    left = steps_of(at, go_on(at.state))
    gone = [before - after for before, after in pairwise(left)]
    assert (max(gone), sum(gone)) == (MEMBERS_OF_A_STEP, MEMBERS - 1)
    at.outbox.flush()
    assert (told(last).leader, at.group.leader, list(at.group.members.by_id)) == (came[-1], came[-1], [came[-1]])


def test_a_static_member_of_thousands_is_replaced_in_steps_by_the_same_record() -> None:
    at = ClassicCoordinator()
    of_many(at, static=True)
    again = join(at.state, at, join_request(group_instance_id="i2"), CLASSIC_MEMBERS)
    assert not isinstance(again, tuple)
    steps = 0
    while True:
        try:
            next(again)
        except StopIteration as ended:
            records, later = ended.value
            break
        steps += 1
    assert steps >= MEMBERS // MEMBERS_OF_A_STEP
    assert told(later).error is ErrorCode.NONE
    (record,) = records
    state = GroupsState(at.state._appliers)
    read = decode(*encode(record))
    assert read is not None
    state.apply(read, 0)
    assert {m.assignment for m in state.groups[GROUP].members.by_id.values()} == {b"mine"}  # type: ignore[attr-defined]
