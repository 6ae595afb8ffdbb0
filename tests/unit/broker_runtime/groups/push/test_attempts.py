"""A rebalance that is tried again, with consumers whose sessions have different lengths."""

from broker_runtime.config.keys.broker import BrokerConfig
from broker_runtime.groups.push.state.calls import Ping, StopFetcher
from broker_runtime.groups.push.state.states import PushState
from tests.support.groups.push_groups import SESSION_S, Consumer, Coordinator, answer_all

PATIENT_S = 10 * SESSION_S
BACKOFF_S = 2.0


def made() -> tuple[Coordinator, Consumer, Consumer]:
    """A coordinator with one retry, and two consumers that read; the second may take ten times as long to answer."""
    coordinator = Coordinator(BrokerConfig(sluicegate_group_push_rebalance_retries_max=1))
    coordinator.topic("t", 4)
    quick, patient = Consumer(coordinator, "a"), Consumer(coordinator, "b", session_s=PATIENT_S)
    for each in (quick, patient):
        each.register()
        answer_all([quick, patient])
    return coordinator, quick, patient


def wait(coordinator: Coordinator, seconds: float, *consumers: Consumer) -> None:
    """Let time pass while the consumers answer pings, and nothing else."""
    for _ in range(round(2 * seconds)):
        coordinator.wait(0.5)
        for each in consumers:
            called, each.unanswered = list(each.unanswered), type(each.unanswered)()
            for call in called:
                if isinstance(call, Ping):
                    each.unanswered.appendleft(call)
                    each.answer(Ping)
                else:
                    each.unanswered.append(call)


def orders(consumer: Consumer) -> list[type]:
    return [type(call) for call in consumer.unanswered if not isinstance(call, Ping)]


def test_a_consumer_with_time_left_to_stop_gets_no_second_stop_call() -> None:
    coordinator, quick, patient = made()
    coordinator.topic("t", 5)
    wait(coordinator, 2 / 3 * SESSION_S, quick, patient)
    assert coordinator.group_state() is PushState.BACKING_OFF
    wait(coordinator, BACKOFF_S, quick, patient)
    assert coordinator.group_state() is PushState.STOPPING
    assert orders(quick) == [StopFetcher, StopFetcher]
    assert orders(patient) == [StopFetcher]
    answer_all([quick, patient])
    assert coordinator.group_state() is PushState.STABLE


def test_a_repeated_call_renews_the_consumers_time_limit() -> None:
    coordinator = Coordinator()
    coordinator.topic("t", 3)
    quick, slower = Consumer(coordinator, "a"), Consumer(coordinator, "b", session_s=SESSION_S * 11 / 6)
    for each in (quick, slower):
        each.register()
        answer_all([quick, slower])
    coordinator.topic("t", 4)
    told = [len(orders(each)) for each in (quick, slower)]
    assert told == [1, 1]
    for seconds, wanted in ((4.0, [1, 1]), (2.0, [2, 1]), (1.5, [2, 1]), (2.0, [2, 2]), (0.5, [2, 2]), (2.0, [3, 2])):
        wait(coordinator, seconds, quick, slower)
        assert [len(orders(each)) for each in (quick, slower)] == wanted


def test_a_consumer_late_in_one_rebalance_has_its_full_time_in_the_next() -> None:
    coordinator, quick, patient = made()
    coordinator.topic("t", 5)
    quick.answer(StopFetcher)
    wait(coordinator, 2 / 3 * PATIENT_S, quick, patient)
    assert coordinator.group_state() is PushState.BACKING_OFF
    answer_all([quick, patient])
    wait(coordinator, BACKOFF_S, quick, patient)
    answer_all([quick, patient])
    assert coordinator.group_state() is PushState.STABLE

    coordinator.topic("t", 6)
    wait(coordinator, 2 * SESSION_S, quick, patient)
    assert quick.hung_up == "it did not respond to a call to stop or start"
    assert patient.hung_up is None
    answer_all([patient])
    assert patient.reading == {("t", number) for number in range(6)}
