"""Offsets beyond the ends of their logs: consumers send them by mistake, and logs lose records."""

from collections.abc import Callable
from uuid import UUID

import pytest

from broker_runtime.config.keys.broker import BrokerConfig
from broker_runtime.groups.environment import GroupTimer
from broker_runtime.groups.push.state.calls import Ping, StopFetcher
from broker_runtime.groups.push.state.log_ends import Asked, Ends
from broker_runtime.groups.push.state.states import PushState
from broker_runtime.groups.records import GroupRecord, OffsetCommitKey, OffsetCommitValue
from broker_runtime.metadata.areas.topics import PartitionRecord
from tests.support.groups.push_groups import GROUP, SESSION_S, Consumer, Coordinator, answer_all

T0, T1 = ("t", 0), ("t", 1)
FAR = 10**15


@pytest.fixture(params=[False, True], ids=["led here", "led elsewhere"])
def coordinator(request: pytest.FixtureRequest) -> Coordinator:
    made = Coordinator(BrokerConfig(sluicegate_group_push_offsets_commit_interval_ms=0))
    made.topic("t", 1)
    made.logs.elsewhere = request.param
    made.logs.ends[T0] = 50
    return made


def ping(coordinator: Coordinator, consumer: Consumer, *offsets: int) -> None:
    for offset in offsets:
        coordinator.wait(SESSION_S / 3)
        consumer.read_to(offset)
        answer_all([consumer])


def elect(coordinator: Coordinator, epoch: int) -> None:
    """Elect another leader in the metadata."""
    image = coordinator.environment.image
    image.apply(PartitionRecord(image.topics["t"].id, 0, (1,), (1,), 1, epoch, epoch), image.next_offset)


def lose_records(coordinator: Coordinator, left: int, grown_to: int | None = None) -> None:
    """Elect a new leader that has `left` records of the old one's, and more records since."""
    elect(coordinator, 1)
    coordinator.logs.cuts[T0] = (1, left)
    coordinator.logs.ends[T0] = left if grown_to is None else grown_to


def test_an_offset_beyond_the_end_is_not_committed_and_a_consumer_that_repeats_it_has_failed(
    coordinator: Coordinator, caplog: pytest.LogCaptureFixture
) -> None:
    (consumer,) = coordinator.consumers("a")
    ping(coordinator, consumer, 20, FAR)
    assert coordinator.committed() == {T0: 20}
    assert consumer.hung_up is None
    assert "OFFSET_OUT_OF_RANGE: it sent offset 1000000000000000 of t-0, whose log ends at 50" in caplog.text
    ping(coordinator, consumer, FAR)
    assert consumer.hung_up is not None
    assert consumer.hung_up.startswith("OFFSET_OUT_OF_RANGE")
    assert coordinator.committed() == {T0: 20}
    (other,) = coordinator.consumers("b")
    assert other.positions == {T0: 20}


def test_a_consumer_that_corrects_itself_stays(coordinator: Coordinator) -> None:
    (consumer,) = coordinator.consumers("a")
    ping(coordinator, consumer, FAR, 30, FAR, 40)
    assert consumer.hung_up is None
    assert coordinator.committed() == {T0: 40}


@pytest.mark.parametrize("how", ["closes", "is told to stop", "is silent"])
def test_nor_is_it_committed_when_the_consumer_ends_or_stops(coordinator: Coordinator, how: str) -> None:
    coordinator.environment.config = BrokerConfig(sluicegate_group_push_offsets_commit_interval_ms=60_000)
    (consumer,) = coordinator.consumers("a")
    ping(coordinator, consumer, FAR)
    if how == "closes":
        consumer.close()
    elif how == "is told to stop":
        coordinator.topic("t", 2)
        consumer.answer(StopFetcher)
        answer_all([consumer])
        assert consumer.positions == {T0: -2, T1: -2}
    else:
        coordinator.wait(3 * SESSION_S)
    assert coordinator.committed() == ({T0: FAR} if how == "is silent" and coordinator.logs.elsewhere else {})
    if how != "is told to stop":
        (other,) = coordinator.consumers("c")
        assert other.positions[T0] <= 50, "what nobody could check is corrected before a consumer starts there"


def test_what_was_read_is_committed_as_ever_when_no_leader_answers(coordinator: Coordinator) -> None:
    coordinator.logs.elsewhere = coordinator.logs.silent = True
    (consumer,) = coordinator.consumers("a")
    ping(coordinator, consumer, 70)
    assert coordinator.committed() == {T0: 70}
    coordinator.topic("t", 2)
    consumer.answer(StopFetcher)
    answer_all([consumer])
    assert consumer.positions == {T0: 70, T1: -2}


def test_a_group_continues_at_the_end_of_a_truncated_log(
    coordinator: Coordinator, caplog: pytest.LogCaptureFixture
) -> None:
    (consumer,) = coordinator.consumers("a")
    ping(coordinator, consumer, 50)
    consumer.close()
    lose_records(coordinator, left=10, grown_to=30)
    consumer.register()
    answer_all([consumer])
    assert consumer.positions == {T0: 10}
    assert coordinator.committed() == {T0: 10}
    assert "offset 50 of t-0 lies beyond the end of its log; the group continues at 10" in caplog.text
    ping(coordinator, consumer, 30)
    assert coordinator.committed() == {T0: 30}


def test_also_where_the_log_has_grown_past_the_offset_since(coordinator: Coordinator) -> None:
    (consumer,) = coordinator.consumers("a")
    ping(coordinator, consumer, 50)
    consumer.close()
    lose_records(coordinator, left=10, grown_to=1_000)
    coordinator.fail_over()
    consumer.register()
    answer_all([consumer])
    assert consumer.positions == {T0: 10}


def test_a_new_leader_that_lost_nothing_moves_nothing(coordinator: Coordinator) -> None:
    (consumer,) = coordinator.consumers("a")
    ping(coordinator, consumer, 50)
    consumer.close()
    lose_records(coordinator, left=50, grown_to=90)
    consumer.register()
    answer_all([consumer])
    assert consumer.positions == {T0: 50}


def test_an_offset_that_was_committed_without_an_epoch_is_compared_with_the_end(coordinator: Coordinator) -> None:
    topic_id = coordinator.environment.image.topics["t"].id
    of_a_tool = OffsetCommitValue(FAR, -1, "", 0, None, topic_id)
    coordinator.decide(lambda _: ([GroupRecord(OffsetCommitKey(GROUP, *T0), of_a_tool)], None))
    (consumer,) = coordinator.consumers("a")
    assert consumer.positions == {T0: 50}
    assert coordinator.committed() == {T0: 50}


def test_the_offset_of_an_earlier_topic_of_the_name_is_not_looked_up(coordinator: Coordinator) -> None:
    earlier = OffsetCommitValue(FAR, -1, "", 0, None, UUID(int=7))
    coordinator.decide(lambda _: ([GroupRecord(OffsetCommitKey(GROUP, *T0), earlier)], None))
    (consumer,) = coordinator.consumers("a")
    assert consumer.positions == {T0: -2}
    assert coordinator.committed() == {T0: FAR}


@pytest.mark.parametrize(("reset", "then"), [("smallest", 5), ("largest", 12)])
def test_a_consumer_whose_log_is_cut_while_it_reads_takes_its_group_along(
    coordinator: Coordinator, reset: str, then: int
) -> None:
    """The consumer's Fetch fails, and the consumer starts again as `auto_offset_rest` says."""
    (consumer,) = coordinator.consumers("a")
    ping(coordinator, consumer, 50)
    lose_records(coordinator, left=10, grown_to=12)
    ping(coordinator, consumer, -2 if reset == "smallest" else -1)
    assert coordinator.committed() == {T0: 50}
    ping(coordinator, consumer, then)
    assert coordinator.committed() == {T0: then}
    consumer.close()
    (other,) = coordinator.consumers("b")
    assert other.positions == {T0: then}


def test_corrections_that_the_log_refuses_are_made_before_anybody_starts(coordinator: Coordinator) -> None:
    coordinator.topic("many", 600)
    (consumer,) = coordinator.consumers("a", topic_count='{"many": 1}')
    coordinator.logs.ends.update({("many", number): 40 for number in range(600)})
    ping(coordinator, consumer, 40)
    consumer.close()
    coordinator.logs.ends.update({("many", number): 4 for number in range(600)})
    coordinator.aside_at_once = False
    consumer.register()
    coordinator.log_refuses = coordinator.aside_at_once = True
    coordinator.wait(SESSION_S / 4)
    answer_all([consumer])
    assert consumer.positions == {}
    coordinator.log_refuses = False
    coordinator.wait(SESSION_S / 4)
    answer_all([consumer])
    assert set(consumer.positions.values()) == {4}
    assert set(coordinator.committed().values()) == {4}
    assert len(consumer.positions) == 600


def test_a_group_that_changes_while_leaders_are_asked_takes_that_into_account(coordinator: Coordinator) -> None:
    coordinator.logs.elsewhere = True
    (consumer,) = coordinator.consumers("a")
    ping(coordinator, consumer, 50)
    consumer.close()
    coordinator.aside_at_once = False
    consumer.register()
    coordinator.run_aside()
    coordinator.wait(0)
    assert coordinator.group_state() is PushState.CHECKING
    second = Consumer(coordinator, "b")
    second.register()
    coordinator.aside_at_once = True
    coordinator.wait(0)
    answer_all([consumer, second])
    assert coordinator.group_state() is PushState.STABLE
    assert consumer.positions | second.positions == {T0: 50}
    assert set(coordinator.group.members) == {"a", "b"}


def test_a_consumer_that_ends_while_leaders_are_asked_is_not_waited_for(coordinator: Coordinator) -> None:
    coordinator.logs.elsewhere = True
    first, second = coordinator.consumers("a", "b")
    coordinator.aside_at_once = False
    reader = first if first.positions else second
    other = second if reader is first else first
    ping(coordinator, reader, 20)
    reader.close()
    assert set(coordinator.group.members) == {"a", "b"}
    coordinator.run_aside()
    assert set(coordinator.group.members) == {other.consumer_id}
    coordinator.aside_at_once = True
    coordinator.wait(0)
    answer_all([other])
    assert other.positions == {T0: 20}


def test_pings_that_wait_for_leaders_are_answered_in_time(coordinator: Coordinator) -> None:
    """The check of an answer takes none of the consumer's time."""
    (consumer,) = coordinator.consumers("a")
    coordinator.aside_at_once = False
    ping(coordinator, consumer, 1, 2, 3, 4)
    assert consumer.hung_up is None
    assert not any(isinstance(call, Ping) and call.num_retries for call in consumer.told)
    coordinator.run_aside()
    assert coordinator.committed()[T0] == 4


def test_an_offset_below_a_committed_one_that_is_void_is_not_committed_beyond_the_end_either(
    coordinator: Coordinator,
) -> None:
    """A consumer that sent two wrong offsets left the second one in the group."""
    topic_id = coordinator.environment.image.topics["t"].id
    (consumer,) = coordinator.consumers("a")
    of_an_earlier_version = OffsetCommitValue(FAR, -1, "", 0, None, topic_id)
    coordinator.decide(lambda _: ([GroupRecord(OffsetCommitKey(GROUP, *T0), of_an_earlier_version)], None))
    ping(coordinator, consumer, FAR - 1)
    assert coordinator.committed() == {T0: 50}


def test_a_consumer_that_reads_on_while_leaders_are_slow_to_answer_stays(
    coordinator: Coordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Previously the newest offset was compared with an older log end, and the connection was closed."""
    coordinator.logs.elsewhere = True
    (consumer,) = coordinator.consumers("a")
    environment, late = coordinator.environment, list[GroupTimer]()

    def ask_ends(asked: Asked, then: Callable[[Ends], GroupTimer]) -> None:
        late.append(then({at: coordinator.logs.end(at, epoch) for at, epoch in asked.items()}))

    monkeypatch.setattr(environment, "ask_ends", ask_ends)
    for end in (50, 100, 150):
        coordinator.logs.ends[T0] = end
        coordinator.wait(SESSION_S / 3)
        consumer.read_to(end)
        consumer.answer(Ping)
    for decide in late:
        coordinator.decide(decide)
    assert consumer.hung_up is None
    assert coordinator.committed() == {T0: 150}


def test_a_check_ends_although_the_log_has_refused_a_correction(
    coordinator: Coordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Previously another leader's answer was lost before the retry of the correction: no consumer started."""
    coordinator.logs.elsewhere = False
    coordinator.topic("t", 2)
    coordinator.logs.ends[T1] = 50
    void = OffsetCommitValue(FAR, -1, "", 0, None, coordinator.environment.image.topics["t"].id)
    records = [GroupRecord(OffsetCommitKey(GROUP, *at), void) for at in (T0, T1)]
    coordinator.decide(lambda _: (records, None))
    environment, late = coordinator.environment, list[GroupTimer]()

    def known_ends(asked: Asked) -> tuple[Ends, Asked]:
        here = {at: coordinator.logs.end(at, epoch) for at, epoch in asked.items() if at == T0}
        return here, {at: epoch for at, epoch in asked.items() if at != T0}

    def ask_ends(asked: Asked, then: Callable[[Ends], GroupTimer]) -> None:
        coordinator.log_refuses = True
        late.append(then({}))

    monkeypatch.setattr(environment, "known_ends", known_ends)
    monkeypatch.setattr(environment, "ask_ends", ask_ends)
    consumer = Consumer(coordinator, "a")
    consumer.register()
    assert coordinator.group_state() is PushState.CHECKING
    (answer,) = late
    coordinator.decide(answer)
    coordinator.log_refuses = False
    coordinator.wait(2)
    answer_all([consumer])
    assert coordinator.group_state() is PushState.STABLE
    assert consumer.positions == {T0: 50, T1: FAR}
