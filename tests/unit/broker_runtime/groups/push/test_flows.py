"""The draft's flows, by their names: the calls of a push group's coordinator, their receivers and times."""

from collections.abc import Callable

import pytest

from broker_runtime.groups.push.state.calls import EARLIEST, LATEST, Call, Ping, StartAt, StartFetcher, StopFetcher
from broker_runtime.groups.push.state.ownership import Necessity
from broker_runtime.groups.push.state.states import PushState
from tests.support.groups.push_groups import GROUP, SESSION_S, Consumer, Coordinator, answer_all
from tests.support.oracles.circles import no_circles

STARTED = {("t", 0), ("t", 1), ("t", 2), ("t", 3)}


@pytest.fixture
def coordinator() -> Coordinator:
    made = Coordinator()
    made.topic("t", 4)
    return made


def kinds(consumer: Consumer) -> list[type[Call]]:
    return [type(call) for call in consumer.told]


def test_startup_of_a_consumer_is_answered_by_a_start_with_all_that_it_owns(coordinator: Coordinator) -> None:
    consumer = Consumer(coordinator, "a", '{"t": 2}')
    consumer.register()
    parts = [tuple(StartAt("t", number, EARLIEST) for number in pair) for pair in ((0, 1), (2, 3))]
    assert consumer.told == [StartFetcher("a", (("a-0", parts[0]), ("a-1", parts[1])))]
    assert coordinator.group_state() is PushState.STARTING
    consumer.answer(StartFetcher)
    assert consumer.reading == STARTED
    assert coordinator.group_state() is PushState.STABLE


def test_a_new_group_begins_without_consumers_and_is_kept_by_its_first(coordinator: Coordinator) -> None:
    assert GROUP not in coordinator.state.groups
    (consumer,) = coordinator.consumers("a")
    assert set(coordinator.group.members) == {"a"}
    consumer.close()
    assert GROUP not in coordinator.state.groups


def test_a_new_consumer_has_the_others_stop_and_all_start(coordinator: Coordinator) -> None:
    (first,) = coordinator.consumers("a")
    first.read_to(10)
    second = Consumer(coordinator, "b")
    second.register()
    assert second.told == [], "it has no fetchers to stop, and waits until the other has stopped"
    first.answer(StopFetcher)
    assert first.reading == set()
    assert coordinator.committed() == dict.fromkeys(STARTED, 10), "committed before anybody starts"
    assert kinds(first) == [StartFetcher, StopFetcher, StartFetcher]
    assert second.told == [StartFetcher("b", (("b-0", (StartAt("t", 2, 10), StartAt("t", 3, 10))),))]
    first.answer(StartFetcher)
    assert coordinator.group_state() is PushState.STARTING
    second.answer(StartFetcher)
    assert coordinator.group_state() is PushState.STABLE
    assert (first.reading, second.reading) == ({("t", 0), ("t", 1)}, {("t", 2), ("t", 3)})


def test_a_failed_consumer_is_replaced_by_those_who_are_left(coordinator: Coordinator) -> None:
    first, second = coordinator.consumers("a", "b")
    second.read_to(5)
    while second.connection is not None:
        answer_all([first])
        coordinator.wait(0.5)
    assert second.hung_up is not None
    assert "pings, each for" in second.hung_up
    answer_all([first])
    assert first.reading == STARTED
    assert set(coordinator.group.members) == {"a"}


def test_a_consumer_whose_connection_ends_has_failed_at_once(coordinator: Coordinator) -> None:
    first, second = coordinator.consumers("a", "b")
    second.close()
    assert kinds(first)[-1] is StopFetcher
    answer_all([first])
    assert first.reading == STARTED


def test_a_new_owner_begins_at_the_failed_consumers_last_reported_position(coordinator: Coordinator) -> None:
    first, second = coordinator.consumers("a", "b")
    second.read_to(7)
    coordinator.wait(SESSION_S / 3)
    answer_all([first, second])
    assert coordinator.committed() == {}, "the interval of commits is longer"
    second.close()
    answer_all([first])
    assert first.positions[("t", 3)] == 7


def test_a_topic_change_concerns_those_with_a_wildcard(coordinator: Coordinator) -> None:
    (wild,) = coordinator.consumers("a", topic_count="*1*n.*")
    assert wild.told == [StartFetcher("a", ())]
    coordinator.topic("new", 2)
    answer_all([wild])
    assert wild.reading == {("new", 0), ("new", 1)}
    before = len(wild.told)
    coordinator.topic("other", 2)
    coordinator.topic("__consumer_offsets", 2)
    assert len(wild.told) == before, "a rebalance is not necessary"
    coordinator.delete_topic("new")
    answer_all([wild])
    assert wild.reading == set()


def test_a_topic_may_be_subscribed_to_before_it_is_there(coordinator: Coordinator) -> None:
    (consumer,) = coordinator.consumers("a", topic_count='{"later": 1}')
    assert consumer.reading == set()
    coordinator.topic("later", 1)
    answer_all([consumer])
    assert consumer.reading == {("later", 0)}


def test_a_partition_change_has_the_group_rebalance(coordinator: Coordinator) -> None:
    (consumer,) = coordinator.consumers("a")
    consumer.read_to(3)
    coordinator.topic("t", 6)
    answer_all([consumer])
    assert consumer.positions == dict.fromkeys(STARTED, 3) | {("t", 4): EARLIEST, ("t", 5): EARLIEST}


def test_a_rebalance_starts_nobody_before_all_have_stopped(coordinator: Coordinator) -> None:
    first, second = coordinator.consumers("a", "b")
    third = Consumer(coordinator, "c")
    third.register()
    assert coordinator.group.members["a"].told == first.reading
    first.answer(StopFetcher)
    assert kinds(first)[-1] is StopFetcher
    assert coordinator.group.members["a"].told == frozenset(), "tools are shown what is read"
    assert third.told == []
    second.answer(StopFetcher)
    assert [kinds(each)[-1] for each in (first, second, third)] == [StartFetcher] * 3


def test_a_rebalance_is_not_made_where_it_is_not_necessary(coordinator: Coordinator) -> None:
    owners = coordinator.consumers("a", "b", "c", "d")
    before = [len(each.told) for each in owners]
    idle = Consumer(coordinator, "e")
    idle.register()
    assert [len(each.told) for each in owners] == before
    assert idle.told == [], "there is no partition left for it"
    assert coordinator.group_state() is PushState.STABLE
    owners[0].close()
    answer_all([*owners, idle])
    assert idle.reading == {("t", 3)}


def test_a_consumer_that_reconnected_and_started_is_not_considered_failed(coordinator: Coordinator) -> None:
    first, second = coordinator.consumers("a", "b", topic_count="*1*.*")
    second.close()
    second.register()
    answer_all([first, second])
    before = [len(each.told) for each in (first, second)]
    coordinator.topic("t", 4)
    assert coordinator.group_state() is PushState.STABLE
    assert [len(each.told) for each in (first, second)] == before, "topics were looked at, and nothing has changed"


def test_ownership_is_not_computed_for_a_topic_that_no_consumer_reads(coordinator: Coordinator) -> None:
    coordinator.consumers("a")
    coordinator.aside_at_once = False
    coordinator.topic("unread", 1)
    assert coordinator.environment.aside == []
    coordinator.topic("t", 5)
    assert len(coordinator.environment.aside) == 1


def test_a_rebalance_is_tried_again_after_a_pause_when_somebody_does_not_stop(coordinator: Coordinator) -> None:
    first, second = coordinator.consumers("a", "b")
    third = Consumer(coordinator, "c")
    third.register()
    first.answer(StopFetcher)
    hung = second.unanswered.popleft()
    wait(coordinator, 2 / 3 * SESSION_S, first, third)
    assert coordinator.group_state() is PushState.BACKING_OFF
    wait(coordinator, 2.0, first, third)
    assert [type(call) for call in second.unanswered if not isinstance(call, Ping)] == [StopFetcher]
    assert kinds(first).count(StopFetcher) == 2, "it has stopped, and is not asked again"
    second.unanswered.appendleft(hung)
    answer_all([first, second, third])
    assert coordinator.group_state() is PushState.STABLE
    assert first.reading | second.reading | third.reading == STARTED


def test_a_consumer_that_answers_pings_but_never_stops_fails_after_the_retries(
    coordinator: Coordinator, caplog: pytest.LogCaptureFixture
) -> None:
    first, second = coordinator.consumers("a", "b")
    third = Consumer(coordinator, "c")
    third.register()
    for _ in range(200):
        wait(coordinator, 0.5, first, third)
        second.unanswered = type(second.unanswered)(call for call in second.unanswered if isinstance(call, Ping))
        if second.connection is not None:
            answer_all([second])
    assert "ConsumerRebalanceFailed: group 'readers' could not rebalance in 5 attempts" in caplog.text
    assert second.hung_up == "it did not respond to a call to stop or start"
    assert coordinator.group_state() is PushState.STABLE
    assert first.reading | third.reading == STARTED


def test_a_consumer_that_dies_between_stop_and_start_fails_the_rebalance_and_the_next_starts_at_once(
    coordinator: Coordinator,
) -> None:
    first, second = coordinator.consumers("a", "b")
    third = Consumer(coordinator, "c")
    third.register()
    first.answer(StopFetcher)
    second.close()
    assert kinds(first)[-1] is StartFetcher, "it stays stopped, and is not asked twice"
    answer_all([first, third])
    assert first.reading | third.reading == STARTED


def test_offsets_refused_at_a_stop_are_committed_before_the_next_rebalance_starts_a_consumer(
    coordinator: Coordinator,
) -> None:
    first, second = coordinator.consumers("a", "b")
    third = Consumer(coordinator, "c")
    third.register()
    first.read_to(10)
    coordinator.log_refuses = True
    first.answer(StopFetcher)
    coordinator.wait(2 / 3 * SESSION_S)
    assert coordinator.group_state() is PushState.BACKING_OFF
    coordinator.log_refuses = False
    second.close()
    answer_all([first, third])
    assert first.positions | third.positions == {("t", 0): 10, ("t", 1): 10, ("t", 2): EARLIEST, ("t", 3): EARLIEST}


def test_a_consumer_that_dies_while_all_start_has_those_stop_again_who_were_started(coordinator: Coordinator) -> None:
    first, second = coordinator.consumers("a", "b")
    third = Consumer(coordinator, "c")
    third.register()
    first.answer(StopFetcher)
    second.answer(StopFetcher)
    first.answer(StartFetcher)
    second.close()
    assert kinds(first)[-1] is StopFetcher
    assert kinds(third) == [StartFetcher, StopFetcher], "it may have started though it has not said so"
    answer_all([first, third])
    assert first.reading | third.reading == STARTED
    assert coordinator.group_state() is PushState.STABLE


def test_fail_over_waits_for_all_known_consumers_and_then_starts_them(coordinator: Coordinator) -> None:
    first, second = coordinator.consumers("a", "b")
    first.read_to(4)
    coordinator.fail_over()
    assert coordinator.group_state() is PushState.GATHERING
    first.register()
    assert first.told == []
    second.register()
    answer_all([first, second])
    assert (first.reading, second.reading) == ({("t", 0), ("t", 1)}, {("t", 2), ("t", 3)})


def test_fail_over_removes_consumers_that_do_not_reconnect(coordinator: Coordinator) -> None:
    first, _ = coordinator.consumers("a", "b")
    coordinator.fail_over()
    first.register()
    wait(coordinator, 4 / 3 * SESSION_S - 0.1, first)
    assert first.reading == set()
    wait(coordinator, 0.1, first)
    assert first.reading == STARTED
    assert set(coordinator.group.members) == {"a"}


def test_fail_over_between_commit_and_start_loses_nothing(coordinator: Coordinator) -> None:
    (first,) = coordinator.consumers("a")
    first.read_to(9)
    second = Consumer(coordinator, "b")
    second.register()
    first.answer(StopFetcher)
    coordinator.fail_over()
    for each in (first, second):
        each.register()
    answer_all([first, second])
    assert first.positions | second.positions == dict.fromkeys(STARTED, 9)


def test_fail_over_without_returning_consumers_leaves_offsets_without_a_group(
    coordinator: Coordinator,
) -> None:
    (consumer,) = coordinator.consumers("a")
    consumer.read_to(9)
    coordinator.topic("t", 5)
    answer_all([consumer])
    coordinator.fail_over()
    coordinator.wait(10.0)
    assert coordinator.state.groups[GROUP].is_empty
    assert coordinator.committed() == dict.fromkeys(STARTED, 9)


def test_a_consumer_that_wants_the_largest_offset_begins_at_the_end_of_logs(coordinator: Coordinator) -> None:
    consumer = Consumer(coordinator, "a", reset="largest")
    consumer.register()
    answer_all([consumer])
    assert set(consumer.positions.values()) == {LATEST}


def test_a_registration_while_others_stop_is_part_of_the_same_rebalance(coordinator: Coordinator) -> None:
    (first,) = coordinator.consumers("a")
    others = [Consumer(coordinator, name) for name in ("b", "c", "d")]
    for each in others:
        each.register()
    answer_all([first, *others])
    assert kinds(first) == [StartFetcher, StopFetcher, StartFetcher]
    assert [len(each.reading) for each in (first, *others)] == [1] * 4


def test_a_consumer_that_reconnects_before_the_next_check_is_started(coordinator: Coordinator) -> None:
    first, second = coordinator.consumers("a", "b")
    coordinator.aside_at_once = False
    coordinator.topic("t", 4)
    second.close()
    second.register()
    coordinator.aside_at_once = True
    coordinator.wait(0.1)
    answer_all([first, second])
    assert first.reading | second.reading == STARTED


def test_many_consumers_are_asked_in_portions(coordinator: Coordinator) -> None:
    coordinator.topic("t", 300)
    consumers = [Consumer(coordinator, f"c{number:03}") for number in range(300)]
    for each in consumers:
        each.register()
    answer_all(consumers)
    assert [len(each.reading) for each in consumers] == [1] * 300
    assert coordinator.group_state() is PushState.STABLE


def rebalance_and_end(coordinator: Coordinator) -> None:
    first, second = coordinator.consumers("a", "b")
    first.read_to(10)
    wait(coordinator, 2 * SESSION_S, first, second)
    for each in (first, second):
        each.close()


def test_calls_that_were_answered_and_consumers_that_left_keep_nothing(coordinator: Coordinator) -> None:
    with no_circles():
        rebalance_and_end(coordinator)


def wait(coordinator: Coordinator, seconds: float, *alive: Consumer) -> None:
    """Let time pass while these consumers answer all calls."""
    for _ in range(round(seconds * 10)):
        coordinator.wait(0.1)
        answer_all(alive)


def test_startup_of_a_coordinator_sends_no_calls_before_the_first_consumer_registers() -> None:
    coordinator = Coordinator()
    coordinator.topic("t", 4)
    coordinator.fail_over()
    coordinator.wait(10 * SESSION_S)
    assert coordinator.log == []
    assert coordinator.environment.timers.timers.next_due_s() is None
    consumer = Consumer(coordinator, "a")
    consumer.register()
    assert kinds(consumer) == [StartFetcher]


def _fail_over(coordinator: Coordinator) -> None:
    coordinator.fail_over()
    Consumer(coordinator, "a", '{"t": 1, "u": 1}').register()


@pytest.mark.parametrize(
    ("happens", "why"),
    [
        (_fail_over, Necessity.NO_OWNERSHIP),
        (lambda coordinator: coordinator.topic("t", 6), Necessity.NOT_OWNED),
        (lambda coordinator: coordinator.delete_topic("u"), Necessity.NOT_THERE),
        (lambda coordinator: coordinator.consumers("b"), Necessity.OTHER_OWNERS),
    ],
    ids=["3.1", "3.2", "3.3", "3.4"],
)
def test_a_rebalance_is_necessary_for_each_of_the_draft_s_reasons(
    coordinator: Coordinator,
    caplog: pytest.LogCaptureFixture,
    happens: Callable[[Coordinator], object],
    why: Necessity,
) -> None:
    coordinator.topic("u", 1)
    coordinator.consumers("a", topic_count='{"t": 1, "u": 1}')
    caplog.clear()
    with caplog.at_level("INFO"):
        happens(coordinator)
    assert f"group 'readers' rebalances: {why.value}" in caplog.text


def test_ping_request_names_its_consumer_and_its_answer_has_the_offset_of_each_partition(
    coordinator: Coordinator,
) -> None:
    (consumer,) = coordinator.consumers("a")
    consumer.read_to(3)
    coordinator.wait(SESSION_S / 3)
    assert consumer.answer(Ping) == Ping("a", 0)
    assert coordinator.group.members["a"].consumed == dict.fromkeys(STARTED, 3)


def test_ping_request_of_a_consumer_that_shuts_down_is_answered_before_its_connection_ends(
    coordinator: Coordinator,
) -> None:
    """The next ping confirms that the offsets of the previous one have arrived."""
    (consumer,) = coordinator.consumers("a")
    consumer.read_to(8)
    for _ in range(2):
        coordinator.wait(SESSION_S / 3)
        consumer.answer(Ping)
    consumer.close()
    assert coordinator.committed() == dict.fromkeys(STARTED, 8)


def test_stop_fetcher_request_goes_to_each_consumer_that_may_be_reading(coordinator: Coordinator) -> None:
    owners = coordinator.consumers("a", "b", "c")
    newcomer = Consumer(coordinator, "d")
    newcomer.register()
    assert [kinds(each)[-1] for each in owners] == [StopFetcher] * 3
    assert newcomer.told == []


def test_start_fetcher_request_has_for_each_partition_the_offset_that_was_told_at_the_stop(
    coordinator: Coordinator,
) -> None:
    first, second = coordinator.consumers("a", "b")
    first.read_to(5)
    second.read_to(6)
    third = Consumer(coordinator, "c")
    third.register()
    answer_all([first, second, third])
    assert first.positions | second.positions | third.positions == {
        ("t", 0): 5,
        ("t", 1): 5,
        ("t", 2): 6,
        ("t", 3): 6,
    }


def test_start_fetcher_request_names_no_thread_for_who_owns_nothing(coordinator: Coordinator) -> None:
    names = ("a", "b", "c", "d", "e")
    consumers = [Consumer(coordinator, name) for name in names]
    for each in consumers:
        each.register()
    answer_all(consumers)
    assert consumers[-1].told == [StartFetcher("e", ())]
