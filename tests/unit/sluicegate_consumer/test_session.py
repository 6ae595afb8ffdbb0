"""One registration, call by call."""

import pytest

from kafka_bytes import own_keys
from kafka_bytes.frames import frame
from sluicegate_consumer.errors import Code, ProtocolError, RegistrationRefusedError
from sluicegate_consumer.session import IdTakenError, Phase, Session, TryAgain
from sluicegate_consumer.wire import push
from sluicegate_consumer.wire.fields import INT16, INT32, text
from sluicegate_consumer.wire.push import PartitionOffset, Registration

SESSION_S = 6.0
TOLD = [PartitionOffset("t", 0, 7)]


def registered(*, auto_commit: bool = True) -> Session:
    session = Session(Registration("g", "c", '{"t":1}', auto_commit, "smallest", 6_000), 0.0)
    assert session.receive(memoryview(INT16.pack(0)), 0.0) is None
    return session


def call(kind: int, consumer_id: str = "c", rest: bytes = b"") -> memoryview:
    return memoryview(frame(INT16.pack(kind), text(consumer_id), rest))[4:]


def ping(retries: int = 0) -> memoryview:
    return call(own_keys.PING, rest=INT32.pack(retries))


STOP = call(own_keys.STOP_FETCHER)
START = call(own_keys.START_FETCHER, rest=INT16.pack(0) * 2)


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (Code.NOT_COORDINATOR, TryAgain),
        (Code.COORDINATOR_LOAD_IN_PROGRESS, TryAgain),
        (Code.COORDINATOR_NOT_AVAILABLE, TryAgain),
        (Code.UNRELEASED_INSTANCE_ID, IdTakenError),
        (Code.INVALID_REGULAR_EXPRESSION, RegistrationRefusedError),
        (Code.INCONSISTENT_GROUP_PROTOCOL, RegistrationRefusedError),
        (99, RegistrationRefusedError),
    ],
)
def test_a_refusal_says_whether_to_try_again(code: int, error: type[Exception]) -> None:
    session = Session(Registration("g", "c", '{"t":1}', True, "smallest", 6_000), 0.0)
    with pytest.raises(error):
        session.receive(memoryview(INT16.pack(code)), 0.0)
    assert session.phase is Phase.REGISTERING


def test_a_session_repeats_the_phases_from_start_to_stop() -> None:
    session = registered()
    phases = [session.phase]
    for _ in range(2):
        session.receive(START, 0.0)
        phases.append(session.phase)
        assert session.answer_start() == push.start_answer("c")
        session.receive(STOP, 0.0)
        phases.append(session.phase)
        session.receive(ping(), 0.0)
        assert session.answer_stop(lambda: TOLD) == push.stop_answer("c", TOLD)
        phases.append(session.phase)
    assert phases == [Phase.IDLE] + 2 * [Phase.READING, Phase.STOPPING, Phase.IDLE]


def test_each_of_two_stops_has_its_answer() -> None:
    session = registered()
    session.receive(STOP, 0.0)
    session.receive(STOP, 0.0)
    session.answer_stop(lambda: TOLD)
    with pytest.raises(ProtocolError):
        session.receive(START, 0.0)
    session.answer_stop(list)
    session.receive(START, 0.0)


@pytest.mark.parametrize("wrong", [START, call(own_keys.PING, "other", INT32.pack(0)), call(30_001)])
def test_a_coordinator_that_does_what_it_may_not_is_left(wrong: memoryview) -> None:
    session = registered()
    session.receive(STOP, 0.0)
    with pytest.raises(ProtocolError):
        session.receive(wrong, 0.0)


def test_each_call_puts_suspicion_off_and_one_that_was_seen_too_late_does_not_count() -> None:
    session = registered()
    assert session.suspected_s == SESSION_S
    session.receive(ping(), 5.0)
    assert session.suspected_s == 5.0 + SESSION_S
    with pytest.raises(TryAgain, match="session"):
        session.receive(ping(), 5.1 + SESSION_S)


def test_offsets_are_told_only_with_auto_commit() -> None:
    assert registered().answer_ping(lambda: TOLD) == push.ping_answer("c", TOLD)
    assert registered(auto_commit=False).answer_ping(lambda: TOLD) == push.ping_answer("c", None)
    assert registered(auto_commit=False).answer_stop(lambda: TOLD) == push.stop_answer("c", None)


def test_the_last_offsets_have_come_with_the_first_ping_after_one_that_was_answered() -> None:
    session = registered()
    session.answer_ping(lambda: TOLD)
    session.close(has_offsets=True)
    session.receive(ping(), 1.0)
    assert not session.may_end, "the answer before it was not the last"
    session.answer_ping(lambda: TOLD)
    session.receive(ping(retries=1), 2.0)
    assert not session.may_end, "the coordinator has not seen the answer"
    session.answer_ping(lambda: TOLD)
    session.receive(ping(), 3.0)
    assert session.may_end


def test_or_with_the_start_after_a_stop_that_was_answered() -> None:
    session = registered()
    session.close(has_offsets=True)
    session.receive(STOP, 1.0)
    session.answer_stop(lambda: TOLD)
    session.receive(ping(), 1.0)
    assert not session.may_end
    session.receive(START, 1.0)
    assert session.may_end


def test_without_offsets_it_may_end_at_once() -> None:
    session = registered()
    session.close(has_offsets=False)
    assert session.may_end
