"""Failure detection, the draft's section 8: pings, their retries, and suspicion."""

import pytest

from broker_runtime.config.keys.broker import BrokerConfig
from broker_runtime.groups.push.answers import ping_answered
from broker_runtime.groups.push.offsets import Consumed
from broker_runtime.groups.push.state.calls import Ping
from broker_runtime.groups.push.state.states import PushState
from broker_runtime.groups.records import GroupRecord, OffsetCommitKey, OffsetCommitValue
from tests.support.groups.push_groups import GROUP, SESSION_S, Consumer, Coordinator, answer_all


def started(config: BrokerConfig | None = None, **changes: float) -> tuple[Coordinator, Consumer]:
    coordinator = Coordinator(config)
    coordinator.topic("t", 1)
    consumer = Consumer(coordinator, "a", **changes)  # type: ignore[arg-type]
    consumer.register()
    answer_all([consumer])
    consumer.told.clear()
    return coordinator, consumer


def test_a_ping_goes_out_every_third_of_the_session() -> None:
    coordinator, consumer = started()
    for count in range(1, 6):
        coordinator.wait(SESSION_S / 3 - 0.01)
        assert len(consumer.told) == count - 1
        coordinator.wait(0.01)
        assert consumer.told == [Ping("a", 0)] * count
        consumer.answer(Ping)


def test_each_has_pings_by_its_own_session() -> None:
    coordinator, _ = started()
    slow = Consumer(coordinator, "b", session_s=60.0)
    slow.register()
    answer_all([slow])
    coordinator.wait(19.9)
    assert Ping("b", 0) not in slow.told
    coordinator.wait(0.1)
    assert slow.told[-1] == Ping("b", 0)


def test_a_ping_that_is_not_answered_in_two_thirds_of_the_session_is_tried_again_and_counted() -> None:
    coordinator, consumer = started()
    coordinator.wait(SESSION_S)
    assert consumer.told == [Ping("a", 0), Ping("a", 0), Ping("a", 1)]
    consumer.answer(Ping)
    consumer.answer(Ping)
    coordinator.wait(SESSION_S / 3)
    assert consumer.told[-1] == Ping("a", 0), "it has caught up"
    answer_all([consumer])
    coordinator.wait(10 * SESSION_S)
    assert consumer.hung_up is not None


@pytest.mark.parametrize(("retries", "seconds"), [(0, SESSION_S), (1, 4 / 3 * SESSION_S), (4, 7 / 3 * SESSION_S)])
def test_a_consumer_has_failed_when_more_pings_than_that_were_left_unanswered(retries: int, seconds: float) -> None:
    coordinator, consumer = started(BrokerConfig(sluicegate_group_push_ping_retries_max=retries))
    coordinator.wait(seconds - 0.01)
    assert consumer.hung_up is None
    coordinator.wait(0.01)
    assert consumer.hung_up is not None


def test_the_coordinator_calls_a_consumer_often_enough_not_to_be_suspected() -> None:
    coordinator, consumer = started()
    for _ in range(600):
        coordinator.wait(0.1)
        answer_all([consumer])
        consumer.suspect()
    assert consumer.connection is not None


def test_the_shortest_session_is_no_flood_of_pings() -> None:
    coordinator, consumer = started(BrokerConfig(group_min_session_timeout_ms=0), session_s=0.001)
    for _ in range(10):
        coordinator.wait(0.1)
        answer_all([consumer])
    assert 5 <= len(consumer.told) <= 10


def test_offsets_that_come_with_answers_to_pings_are_committed_at_their_interval() -> None:
    coordinator, consumer = started()
    for offset, committed in ((1, None), (2, None), (3, 3), (4, 3), (5, 3), (6, 6)):
        consumer.read_to(offset)
        coordinator.wait(SESSION_S / 3)
        consumer.answer(Ping)
        assert coordinator.committed().get(("t", 0)) == committed


def test_what_has_not_moved_is_not_committed_again() -> None:
    coordinator, consumer = started()
    consumer.read_to(1)
    for _ in range(20):
        coordinator.wait(SESSION_S / 3)
        consumer.answer(Ping)
    assert len(coordinator.log) == 2, "the registration, and one offset"


def test_an_offset_of_what_a_consumer_was_not_told_to_read_is_not_taken() -> None:
    coordinator, consumer = started(BrokerConfig(sluicegate_group_push_offsets_commit_interval_ms=0))
    coordinator.topic("u", 1)
    coordinator.wait(SESSION_S / 3)
    told = (Consumed("u", 0, 5), Consumed("t", 1, 5), Consumed("t", 0, -2), Consumed("nosuch", 0, 1))
    consumer.say(ping_answered, offsets=told)
    assert coordinator.committed() == {}


def test_an_offset_does_not_go_back() -> None:
    coordinator, consumer = started(BrokerConfig(sluicegate_group_push_offsets_commit_interval_ms=0))
    for offset, committed in ((5, 5), (3, 5), (9, 9), (4, 9)):
        coordinator.wait(SESSION_S / 3)
        consumer.say(ping_answered, offsets=[Consumed("t", 0, offset)])
        assert coordinator.committed() == {("t", 0): committed}


def test_an_offset_does_not_move_behind_the_consumers_own_commit() -> None:
    coordinator, consumer = started(BrokerConfig(sluicegate_group_push_offsets_commit_interval_ms=0))
    committed = OffsetCommitValue(9, -1, "", 0, None, coordinator.environment.image.topics["t"].id)
    coordinator.decide(lambda _: ([GroupRecord(OffsetCommitKey(GROUP, "t", 0), committed)], None))
    for told, in_force in ((7, 9), (10, 10)):
        coordinator.wait(SESSION_S / 3)
        consumer.say(ping_answered, offsets=[Consumed("t", 0, told)])
        assert coordinator.committed() == {("t", 0): in_force}


def test_a_consumer_that_commits_itself_is_alive_by_answers_without_offsets() -> None:
    coordinator, consumer = started(auto_commit=False)
    for _ in range(20):
        coordinator.wait(SESSION_S / 3)
        consumer.answer(Ping)
    assert consumer.connection is not None
    assert coordinator.committed() == {}


def test_a_late_coordinator_removes_no_consumer_and_sends_no_second_ping() -> None:
    """The ping has not been sent, or the answer is unread in the socket, or undecided in the queue."""
    coordinator, consumer = started()
    assert consumer.connection is not None
    coordinator.wait(SESSION_S / 3)
    coordinator.environment.behind.add(consumer.connection)
    coordinator.wait(10 * SESSION_S)
    assert (consumer.told, consumer.hung_up) == ([Ping("a", 0)], None)
    coordinator.environment.behind.clear()
    consumer.answer(Ping)
    coordinator.wait(SESSION_S / 3)
    assert consumer.told[1:] == [Ping("a", 0)]
    coordinator.wait(4 / 3 * SESSION_S)
    assert consumer.hung_up is not None, "the coordinator is not late any more"


def test_a_consumer_stopped_by_a_late_coordinator_has_its_full_time_before_it_is_suspected() -> None:
    coordinator, consumer = started()
    assert consumer.connection is not None
    second = Consumer(coordinator, "Z")
    second.register()
    assert second.connection is not None
    coordinator.environment.behind |= {consumer.connection, second.connection}
    coordinator.wait(3 * SESSION_S)
    assert (consumer.hung_up, coordinator.group_state()) == (None, PushState.STOPPING)
    coordinator.environment.behind.clear()
    answer_all([consumer, second])
    assert (consumer.hung_up, coordinator.group_state()) == (None, PushState.STABLE)
