"""Members of both protocols in one group, and groups that change theirs (KIP-848, group.consumer.migration.policy)."""

import struct
from collections.abc import Callable
from typing import Any

import pytest

from broker_runtime.config.keys.broker import BrokerConfig
from broker_runtime.coordination.seam import AtomicBatch, in_one_go
from broker_runtime.errors import ErrorCode
from broker_runtime.groups.answers import DeferredAnswer
from broker_runtime.groups.classic.group import ClassicGroup
from broker_runtime.groups.classic.heartbeats import heartbeat
from broker_runtime.groups.classic.joining import join
from broker_runtime.groups.classic.leaving import leave
from broker_runtime.groups.classic.loading import loaded
from broker_runtime.groups.classic.requests import (
    HeartbeatRequest,
    JoinAnswer,
    JoinRequest,
    LeaveRequest,
    LeavingMember,
    SyncAnswer,
    SyncRequest,
)
from broker_runtime.groups.classic.syncing import sync
from broker_runtime.groups.consumer.classic_members import CLASSIC_MEMBERS
from broker_runtime.groups.consumer.embedded import read_assignment, write_assignment
from broker_runtime.groups.consumer.heartbeat import heartbeat as heartbeat_of_new
from broker_runtime.groups.consumer.state.validity import ConsumerHeartbeatRequest as NewHeartbeatRequest
from broker_runtime.groups.group import GroupType
from broker_runtime.groups.offsets.delete import delete_group
from broker_runtime.groups.records import ClassicProtocol, GroupRecord, OffsetCommitKey, OffsetCommitValue
from broker_runtime.slicing.steps import at_once
from tests.support.groups.consumer_groups import GROUP, Coordinator, durable, refused

PARTITIONS = 4
NONE, AGAIN = ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS


def subscription(*topics: str, owned: tuple[int, ...] = ()) -> bytes:
    """A subscription of version 1 in bytes; the owned partitions are of the first topic."""
    parts = [struct.pack(">hi", 1, len(topics))]
    parts += [struct.pack(">h", len(topic)) + topic.encode() for topic in topics]
    parts.append(struct.pack(">i", -1))
    parts.append(struct.pack(">i", 1 if owned else 0))
    if owned:
        name = topics[0].encode()
        parts.append(struct.pack(f">h{len(name)}si{len(owned)}i", len(name), name, len(owned), *owned))
    return b"".join(parts)


PROTOCOLS = (ClassicProtocol("range", subscription("orders")),)


class Old:
    """Members of the classic protocol."""

    def __init__(self, coordinator: Coordinator) -> None:
        self.coordinator = coordinator

    def _ask(self, decide: Callable[..., Any], request: Any) -> Any:
        environment = self.coordinator.environment
        return self.coordinator.decide(lambda state: decide(state, environment, request, CLASSIC_MEMBERS))

    def join(self, member_id: str = "", owned: tuple[int, ...] = (), **more: Any) -> DeferredAnswer[JoinAnswer]:
        """Join under its own id, as in version 3: the coordinator does not return an id first."""
        protocols = (ClassicProtocol("range", subscription("orders", owned=owned)),)
        fields: dict[str, Any] = {
            "group_instance_id": None,
            "client_id": "c",
            "client_host": "/h",
            "session_timeout_ms": 10_000,
            "rebalance_timeout_ms": 60_000,
            "protocol_type": "consumer",
            "protocols": protocols,
            "needs_known_id": False,
            **more,
        }
        answer: DeferredAnswer[JoinAnswer] = self._ask(join, JoinRequest(GROUP, member_id, **fields))
        return answer

    def joined(self, member_id: str = "", owned: tuple[int, ...] = (), **more: Any) -> JoinAnswer:
        answer = self.join(member_id, owned, **more).result
        assert isinstance(answer, JoinAnswer), answer
        return answer

    def sync(self, member_id: str, generation: int, **more: Any) -> SyncAnswer:
        answer = self._ask(sync, SyncRequest(GROUP, member_id, generation, **more)).result
        assert isinstance(answer, SyncAnswer)
        return answer

    def bring(self, member_id: str, generation: int, assignment: bytes) -> None:
        """Send an assignment, as the leader of a classic group."""
        assignments = ((member_id, assignment),)
        self._ask(sync, SyncRequest(GROUP, member_id, generation, assignments=assignments))

    def assigned(self, member_id: str, generation: int) -> tuple[int, ...]:
        answer = self.sync(member_id, generation)
        assert answer.error is NONE, answer
        return tuple(at_once(read_assignment(answer.assignment)).partitions.get("orders", ()))

    def beat(self, member_id: str, generation: int) -> ErrorCode:
        error: ErrorCode = self._ask(heartbeat, HeartbeatRequest(GROUP, member_id, generation))
        return error

    def leave(self, *members: LeavingMember) -> tuple[ErrorCode, ...]:
        errors: tuple[ErrorCode, ...] = self._ask(leave, LeaveRequest(GROUP, members)).errors
        return errors


@pytest.fixture
def coordinator() -> Coordinator:
    return of()


def of(**settings: Any) -> Coordinator:
    defaults: dict[str, Any] = {"group_consumer_assignment_interval_ms": 0, "group_initial_rebalance_delay_ms": 0}
    coordinator = Coordinator(BrokerConfig(**{**defaults, **settings}))
    coordinator.topic("orders", PARTITIONS)
    return coordinator


@pytest.fixture
def old(coordinator: Coordinator) -> Old:
    return Old(coordinator)


def stable_classic(coordinator: Coordinator, old: Old) -> str:
    """Make a classic group of one member that has all partitions; return its id."""
    waiting = old.join()
    coordinator.wait(0)
    answer = waiting.result
    assert isinstance(answer, JoinAnswer)
    everything = write_assignment(1, {"orders": tuple(range(PARTITIONS))})
    old.bring(answer.member_id, answer.generation, everything)
    coordinator.wait(0)
    assert coordinator.state.groups[GROUP].state_name == "Stable"
    return answer.member_id


def test_a_classic_group_with_members_takes_up_a_member_of_the_new_protocol(coordinator: Coordinator, old: Old) -> None:
    first = stable_classic(coordinator, old)
    joined = coordinator.join("b", "orders")
    assert coordinator.state.groups[GROUP].type is GroupType.CONSUMER
    assert (joined.member_epoch, joined.assignment) == (2, {})
    assert old.beat(first, 1) is AGAIN
    again = old.joined(first, owned=(0, 1, 2, 3))
    assert (again.error, again.generation, again.protocol, again.leader) == (NONE, 1, "range", "")
    kept = old.assigned(first, 1)
    assert len(kept) == 2
    assert old.beat(first, 1) is AGAIN, "it has to say that it has given up the others"
    again = old.joined(first, owned=kept)
    assert again.generation == 2
    assert old.assigned(first, 2) == kept
    assert old.beat(first, 2) is NONE
    topic = coordinator.environment.image.topics["orders"].id
    told = coordinator.heartbeat("b", 2).assignment
    assert told is not None
    assert sorted((*told[topic], *kept)) == list(range(PARTITIONS))
    assert durable(coordinator.replayed()) == durable(coordinator.state)


def test_a_join_waiting_for_the_next_generation_is_answered_with_rejoin(coordinator: Coordinator, old: Old) -> None:
    first = stable_classic(coordinator, old)
    waiting = old.join()
    assert waiting.result is None
    coordinator.join("b", "orders")
    coordinator.wait(0)
    answer = waiting.result
    assert isinstance(answer, JoinAnswer)
    assert answer.error is AGAIN
    assert old.beat(first, 1) is AGAIN


@pytest.mark.parametrize("policy", ["disabled", "downgrade"])
def test_the_policy_may_forbid_it(policy: str) -> None:
    coordinator = of(group_consumer_migration_policy=policy)
    old = Old(coordinator)
    first = stable_classic(coordinator, old)
    with refused(ErrorCode.GROUP_ID_NOT_FOUND):
        coordinator.join("b", "orders")
    assert old.beat(first, 1) is NONE
    old.leave(LeavingMember(first))
    assert coordinator.join("b", "orders").member_epoch == 2, "an empty group may always"


def test_a_group_of_something_else_than_consumers_stays_what_it_is(coordinator: Coordinator, old: Old) -> None:
    waiting = old.join(protocol_type="connect")
    coordinator.wait(0)
    assert waiting.result is not None
    with refused(ErrorCode.GROUP_ID_NOT_FOUND):
        coordinator.join("b", "orders")


def test_a_classic_member_joins_a_group_of_the_new_protocol(coordinator: Coordinator, old: Old) -> None:
    coordinator.join("a", "orders")
    joined = old.joined()
    assert (joined.error, joined.generation) == (NONE, 3)
    assert old.assigned(joined.member_id, 3) == ()
    assert old.beat(joined.member_id, 3) is NONE, "nothing is free yet"
    coordinator.heartbeat("a", 2)
    coordinator.heartbeat("a", 2, owned=coordinator.assigned("a"))
    assert old.beat(joined.member_id, 3) is AGAIN
    assert old.joined(joined.member_id).generation == 3
    assert len(old.assigned(joined.member_id, 3)) == 2
    assert coordinator.group.state_name == "Stable"


def test_a_classic_member_has_its_id_given_first(coordinator: Coordinator, old: Old) -> None:
    coordinator.join("a", "orders")
    answer = old.joined(needs_known_id=True)
    assert answer.error is ErrorCode.MEMBER_ID_REQUIRED
    assert old.joined(answer.member_id, needs_known_id=True).error is NONE


def test_what_a_classic_member_may_not(coordinator: Coordinator, old: Old) -> None:
    coordinator.join("a", "orders")
    member_id = old.joined().member_id
    assert old.joined(protocol_type="connect").error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    other = (ClassicProtocol("own", subscription("orders")),)
    assert old.joined(protocols=other).error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    malformed = (ClassicProtocol("range", b"\x00"),)
    assert old.joined(protocols=malformed).error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert old.sync("a", 2).error is ErrorCode.UNKNOWN_MEMBER_ID
    assert old.beat("a", 2) is ErrorCode.UNKNOWN_MEMBER_ID
    assert old.leave(LeavingMember("nobody")) == (ErrorCode.UNKNOWN_MEMBER_ID,)
    assert old.beat(member_id, 9) is ErrorCode.ILLEGAL_GENERATION
    assert old.sync(member_id, 3, protocol="own").error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_a_classic_member_that_does_not_sync_or_falls_silent_is_put_out(coordinator: Coordinator, old: Old) -> None:
    coordinator.join("a", "orders")
    member_id = old.joined(rebalance_timeout_ms=5_000).member_id
    coordinator.wait(5.1)
    assert member_id not in coordinator.group.members
    member_id = old.joined().member_id
    coordinator.wait(10.1)
    assert member_id not in coordinator.group.members


def test_the_last_member_of_the_new_protocol_leaves_a_classic_group(coordinator: Coordinator, old: Old) -> None:
    coordinator.join("a", "orders")
    first = old.joined().member_id
    old.sync(first, 3)
    coordinator.leave("a")
    coordinator.wait(0)
    group = coordinator.state.groups[GROUP]
    assert isinstance(group, ClassicGroup)
    assert (group.state_name, group.generation) == ("PreparingRebalance", 3)
    assert old.beat(first, 3) is AGAIN
    joined = old.joined(first)
    assert (joined.error, joined.generation, joined.leader) == (NONE, 4, first)
    assert coordinator.replayed().groups[GROUP].type is GroupType.CLASSIC


def test_without_leave_to_go_back_it_stays_a_group_of_the_new_protocol() -> None:
    coordinator = of(group_consumer_migration_policy="upgrade")
    old = Old(coordinator)
    coordinator.join("a", "orders")
    first = old.joined().member_id
    old.sync(first, 3)
    coordinator.leave("a")
    coordinator.wait(0)
    assert coordinator.state.groups[GROUP].type is GroupType.CONSUMER
    again = old.joined(first)
    assert old.assigned(first, again.generation) == tuple(range(PARTITIONS))


def test_an_empty_group_takes_the_protocol_of_its_next_member(coordinator: Coordinator, old: Old) -> None:
    coordinator.join("a", "orders")
    coordinator.leave("a")
    assert old.joined("a").error is ErrorCode.UNKNOWN_MEMBER_ID
    waiting = old.join()
    coordinator.wait(0)
    assert isinstance(waiting.result, JoinAnswer)
    assert waiting.result.error is NONE
    assert coordinator.state.groups[GROUP].type is GroupType.CLASSIC


def test_an_empty_group_whose_end_the_log_refuses_stays_what_it_is(coordinator: Coordinator, old: Old) -> None:
    coordinator.join("a", "orders")
    coordinator.leave("a")
    before = durable(coordinator.state)
    request = JoinRequest(GROUP, "", None, "c", "/h", 10_000, 60_000, "consumer", PROTOCOLS)
    records, _ = join(coordinator.state, coordinator.environment, request, CLASSIC_MEMBERS)
    assert records, "the log takes nothing of it"
    coordinator.wait(0)
    assert durable(coordinator.state) == before


def test_removed_members_may_rejoin_with_either_protocol(coordinator: Coordinator, old: Old) -> None:
    """The last members with an expression remove it when they leave."""
    for member in ("a", "b"):
        coordinator.join(member, regex="ord.*")
    first = old.joined().member_id
    epoch = coordinator.group.epoch
    leaving = (LeavingMember("a"), LeavingMember("b"), LeavingMember("a"))
    assert old.leave(*leaving) == (NONE, NONE, ErrorCode.UNKNOWN_MEMBER_ID)
    assert (coordinator.group.epoch, set(coordinator.group.members)) == (epoch + 1, {first})
    assert not coordinator.group.subscriptions.resolved
    coordinator.wait(0)
    assert coordinator.state.groups[GROUP].type is GroupType.CLASSIC


def test_a_new_coordinator_continues_a_conversion(coordinator: Coordinator, old: Old) -> None:
    """The member of KIP-848 is gone, and the group has not been converted yet."""
    coordinator.join("a", "orders")
    first = old.joined().member_id
    old.sync(first, 3)
    coordinator.leave("a")
    coordinator.fail_over()
    coordinator.wait(0)
    group = coordinator.state.groups[GROUP]
    assert isinstance(group, ClassicGroup)
    assert group.state_name == "PreparingRebalance"
    again = coordinator.replayed()
    loaded(again, coordinator.environment)
    group = again.groups[GROUP]
    assert isinstance(group, ClassicGroup)
    assert group.state_name == "PreparingRebalance", "whoever takes over then begins with the rebalance"


def test_what_a_member_was_waited_for_ends_with_the_conversion(coordinator: Coordinator, old: Old) -> None:
    """There and back again, within the time-out of its SyncGroup."""
    coordinator.join("a", "orders")
    first = old.joined(rebalance_timeout_ms=5_000).member_id
    coordinator.leave("a")
    coordinator.wait(1)
    joined = old.joined(first)
    old.bring(first, joined.generation, write_assignment(1, {"orders": tuple(range(PARTITIONS))}))
    coordinator.wait(1)
    coordinator.join("b", "orders")
    assert set(coordinator.group.members) == {first, "b"}
    coordinator.wait(4)
    assert set(coordinator.group.members) == {first, "b"}


def test_no_member_gets_its_target_before_the_others_have_joined(coordinator: Coordinator, old: Old) -> None:
    """A request may be decided between the conversion and the rebalance."""
    coordinator.join("a", "orders")
    first = old.joined().member_id
    coordinator.heartbeat("a", 2, owned={coordinator.environment.image.topics["orders"].id: (0, 1)})
    generation = old.joined(first).generation
    coordinator.leave("a")
    ((_, downgrade),) = [timer for timer in coordinator.environment.timers.take_due() if "downgrade" in str(timer[0])]
    coordinator.decide(downgrade)
    assert old.sync(first, generation).error is AGAIN
    assert old.beat(first, generation) is AGAIN
    waiting = old.join(first)
    coordinator.wait(0)
    assert waiting.result is not None


def test_all_members_waiting_for_the_leader_get_an_answer() -> None:
    """The members' sessions continue: a silent member is removed."""
    coordinator = of(group_initial_rebalance_delay_ms=100)
    old = Old(coordinator)
    waiting = [old.join() for _ in range(120)]
    coordinator.wait(10)
    joined = [later.result for later in waiting]
    ids = [answer.member_id for answer in joined if isinstance(answer, JoinAnswer)]
    syncs = [old._ask(sync, SyncRequest(GROUP, member_id, 1)) for member_id in ids[1:]]
    coordinator.join("b", "orders", rebalance_timeout_ms=600_000)
    coordinator.wait(0)
    assert {later.result.error for later in syncs} == {AGAIN}
    for _ in range(4):
        coordinator.wait(4)
        coordinator.heartbeat("b", coordinator.group.members["b"].epoch)
    assert set(coordinator.group.members) == {"b"}


def test_cooperative_members_keep_their_partitions_if_a_conversion_ends_their_rebalance(
    coordinator: Coordinator, old: Old
) -> None:
    """The leader had not assigned when another rebalance began: only the members themselves know their partitions."""
    first = stable_classic(coordinator, old)
    again = old.join(first, owned=(0, 1, 2, 3))
    coordinator.wait(0)
    assert isinstance(again.result, JoinAnswer)
    old.join()
    coordinator.join("b", "orders")
    assert [sum(map(len, coordinator.assigned(member).values())) for member in (first, "b")] == [PARTITIONS, 0]


def test_a_conversion_is_one_batch(coordinator: Coordinator, old: Old) -> None:
    stable_classic(coordinator, old)
    request = NewHeartbeatRequest(GROUP, "b", 0, "i", None, 60_000, ("orders",), owned={})
    records, _ = in_one_go(heartbeat_of_new(coordinator.state, coordinator.environment, request))
    assert isinstance(records, AtomicBatch)
    coordinator.join("b", "orders")
    coordinator.wait(0)
    coordinator.leave("b")
    ((_, downgrade),) = [timer for timer in coordinator.environment.timers.take_due() if "downgrade" in str(timer[0])]
    assert isinstance(in_one_go(downgrade(coordinator.state))[0], AtomicBatch)


def test_a_static_member_changes_its_protocol(coordinator: Coordinator, old: Old) -> None:
    coordinator.join("a", "orders", instance_id="i")
    joined = old.joined(group_instance_id="i")
    assert joined.error is NONE
    coordinator.wait(0)
    assert coordinator.state.groups[GROUP].type is GroupType.CLASSIC
    assert coordinator.join("b", "orders", instance_id="i").member_id == "b"
    assert coordinator.state.groups[GROUP].type is GroupType.CONSUMER
    assert set(coordinator.group.members) == {"b"}
    assert old.beat(joined.member_id, joined.generation) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_classic_group_whose_upgrade_the_log_refuses_continues_unchanged(coordinator: Coordinator, old: Old) -> None:
    stable_classic(coordinator, old)
    waiting = old.join()
    request = NewHeartbeatRequest(
        GROUP, "b", 0, rebalance_timeout_ms=60_000, subscribed_topic_names=("orders",), owned={}
    )
    records, _ = in_one_go(heartbeat_of_new(coordinator.state, coordinator.environment, request))
    assert records, "the log takes nothing of it"
    coordinator.wait(0)
    assert waiting.result is None, "it waits for the other member to join again"
    group = coordinator.state.groups[GROUP]
    assert isinstance(group, ClassicGroup)
    assert len(group.members) == 2
    coordinator.wait(10)
    assert isinstance(waiting.result, JoinAnswer)
    assert (waiting.result.error, len(group.members)) == (NONE, 1), "the session of the one that says nothing is over"


def test_the_offsets_of_a_group_that_ends_with_its_protocol_are_a_group_and_can_be_deleted() -> None:
    """The coordinator has failed after a classic member began to take over an empty group of KIP-848."""
    coordinator = of()
    coordinator.join("a", "orders")
    committed = GroupRecord(OffsetCommitKey(GROUP, "orders", 0), OffsetCommitValue(5, -1, "", 0))
    coordinator.decide(lambda state: ([committed], None))
    coordinator.leave("a")
    coordinator.decide(lambda state: (coordinator.group.tombstones(), None))
    assert coordinator.replayed().groups.keys() == coordinator.state.groups.keys() == {GROUP}
    while coordinator.decide(lambda state: delete_group(state, GROUP)):
        pass
    assert coordinator.replayed().groups == coordinator.state.groups == {}
