"""Invalid answers: from the wrong member, out of order, without a call, or not as registered."""

from collections.abc import Callable

import pytest

from broker_runtime.groups.push.answers import ping_answered, start_answered, stop_answered
from broker_runtime.groups.push.offsets import Consumed
from broker_runtime.groups.push.state.calls import Ping, StartFetcher, StopFetcher
from broker_runtime.groups.push.state.decided import Decided
from broker_runtime.groups.push.state.states import PushState
from tests.support.groups.push_groups import SESSION_S, Consumer, Coordinator, answer_all

OFFSETS = (Consumed("t", 0, 1),)


@pytest.fixture
def coordinator() -> Coordinator:
    made = Coordinator()
    made.topic("t", 4)
    return made


@pytest.mark.parametrize(
    "say",
    [
        lambda consumer: consumer.say(ping_answered, offsets=()),
        lambda consumer: consumer.say(stop_answered, offsets=()),
        lambda consumer: consumer.say(start_answered, offsets=None),
    ],
    ids=["ping", "stop", "start"],
)
def test_an_answer_to_what_was_not_asked_ends_the_registration(
    coordinator: Coordinator, say: Callable[[Consumer], None]
) -> None:
    consumer, other = coordinator.consumers("a", "b")
    say(consumer)
    assert consumer.hung_up == "it sent a response without a call"
    answer_all([other])
    assert len(other.reading) == 4, "nobody else is troubled"


def test_an_answer_is_not_taken_twice(coordinator: Coordinator) -> None:
    (consumer,) = coordinator.consumers("a")
    coordinator.wait(SESSION_S / 3)
    consumer.answer(Ping)
    consumer.say(ping_answered, offsets=())
    assert consumer.hung_up is not None


def test_an_answer_in_the_name_of_another_consumer_ends_its_own_connection_only(
    coordinator: Coordinator,
) -> None:
    first, second = coordinator.consumers("a", "b")
    coordinator.wait(SESSION_S / 3)
    first.say(ping_answered, offsets=[Consumed("t", 2, 99)], consumer_id="b")
    assert first.hung_up == "consumer 'b' is not registered on this connection"
    assert coordinator.group.members["b"].pings_unanswered == 1
    assert second.hung_up is None


def test_an_answer_after_the_end_of_a_registration_ends_the_connection(coordinator: Coordinator) -> None:
    (consumer,) = coordinator.consumers("a")
    stale = consumer.connection
    consumer.close()
    consumer.connection = stale
    coordinator.environment.connections[stale or 0] = consumer
    consumer.say(ping_answered, offsets=())
    assert consumer.hung_up is not None


@pytest.mark.parametrize("answered", [ping_answered, stop_answered])
@pytest.mark.parametrize(("auto_commit", "offsets"), [(True, None), (False, ()), (False, OFFSETS)])
def test_only_consumers_registered_for_it_report_offsets(
    coordinator: Coordinator,
    auto_commit: bool,
    offsets: tuple[Consumed, ...] | None,
    answered: Callable[..., Decided],
) -> None:
    consumer = Consumer(coordinator, "a", auto_commit=auto_commit)
    consumer.register()
    answer_all([consumer])
    coordinator.topic("t", 5)
    coordinator.wait(SESSION_S / 3)
    assert [type(call) for call in consumer.unanswered] == [StopFetcher, Ping]
    consumer.say(answered, offsets=offsets)
    assert consumer.hung_up is not None
    assert "contradicts its registration" in consumer.hung_up
    assert coordinator.committed() == {}


def test_an_answer_with_an_error_is_that_of_a_consumer_that_has_failed(coordinator: Coordinator) -> None:
    first, second = coordinator.consumers("a", "b")
    third = Consumer(coordinator, "c")
    third.register()
    first.say(stop_answered, offsets=(), error_code=-1)
    assert first.hung_up == "it returned error -1"
    answer_all([second, third])
    assert second.reading | third.reading == {("t", number) for number in range(4)}


def test_a_start_that_is_answered_late_is_told_from_the_next(coordinator: Coordinator) -> None:
    first = Consumer(coordinator, "a")
    first.register()
    second = Consumer(coordinator, "b")
    second.register()
    assert [type(call) for call in first.unanswered] == [StartFetcher], "the second waits for the end of this"
    coordinator.wait(2 / 3 * SESSION_S)
    assert coordinator.group_state() is PushState.BACKING_OFF
    coordinator.wait(2.0)
    assert [type(call) for call in first.unanswered if not isinstance(call, Ping)] == [StartFetcher, StopFetcher]
    answer_all([first, second])
    assert coordinator.group_state() is PushState.STABLE
    assert (first.reading, second.reading) == ({("t", 0), ("t", 1)}, {("t", 2), ("t", 3)})


def test_no_consumer_starts_while_the_log_refuses_the_offsets_of_stopped_ones(coordinator: Coordinator) -> None:
    (first,) = coordinator.consumers("a")
    first.read_to(8)
    second = Consumer(coordinator, "b")
    second.register()
    coordinator.log_refuses = True
    first.answer(StopFetcher)
    coordinator.wait(3.0)
    assert {type(call) for call in second.told} == {Ping}
    coordinator.log_refuses = False
    coordinator.wait(1.0)
    answer_all([first, second])
    assert set(first.positions.values()) == set(second.positions.values()) == {8}


def test_a_failed_consumer_stays_while_the_log_refuses_that_it_goes(coordinator: Coordinator) -> None:
    first, second = coordinator.consumers("a", "b")
    coordinator.log_refuses = True
    for _ in range(30):
        coordinator.wait(1.0)
        answer_all([first])
    assert set(coordinator.group.members) == {"a", "b"}
    coordinator.log_refuses = False
    coordinator.wait(2.0)
    assert set(coordinator.group.members) == {"a"}
    assert second.hung_up is not None
    answer_all([first])
    assert len(first.reading) == 4
