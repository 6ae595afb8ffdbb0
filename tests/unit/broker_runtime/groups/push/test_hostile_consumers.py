"""A consumer that answers anything at any time: it harms only itself."""

from contextlib import suppress
from typing import NamedTuple

from hypothesis import example, given
from hypothesis import strategies as st

from broker_runtime.errors import KafkaError
from broker_runtime.groups.push.answers import ping_answered, start_answered, stop_answered
from broker_runtime.groups.push.offsets import Consumed
from broker_runtime.groups.push.state.calls import Ping, StartFetcher, StopFetcher
from broker_runtime.groups.push.state.states import PushState
from tests.support.groups.push_groups import GROUP, Consumer, Coordinator, answer_all

PARTITIONS = 4
FAR = 1 << 40
"""Only the hostile consumer reports offsets from here on."""
SETTLES_S = 120
WHAT = {"ping": ping_answered, "stop": stop_answered, "start": start_answered}
ASKED = {"ping": Ping, "stop": StopFetcher, "start": StartFetcher}


class Said(NamedTuple):
    """An answer, whatever was asked."""

    what: str
    consumer_id: str | None
    error_code: int
    offsets: list[Consumed] | None


class Comes(NamedTuple):
    """A registration with arbitrary fields."""

    changes: dict[str, object]


class Obeys(NamedTuple):
    """A number of correct answers to calls."""

    calls: int


class Waits(NamedTuple):
    """A time in which the other consumers answer correctly."""

    seconds: float


consumed = st.builds(
    Consumed,
    st.sampled_from(("t", "u", "")),
    st.integers(-1, PARTITIONS + 1) | st.just(2**31 - 1),
    st.integers(-(2**63), -1) | st.integers(FAR, 2**63 - 1),
)
said = st.builds(
    Said,
    st.sampled_from(tuple(WHAT)),
    st.sampled_from((None, None, None, "a", "b", "", "nobody")),
    st.sampled_from((0, 0, 0, -1, 1, 32_767)),
    st.none() | st.lists(consumed, max_size=6),
)
comes = st.builds(
    Comes,
    st.fixed_dictionaries(
        {},
        optional={
            "consumer_id": st.sampled_from(("a", "h", "")),
            "topic_count": st.sampled_from(('{"t": 100}', "*1*.*", "!1!t", '{"none": 1}', "{", "*0*t")),
            "auto_commit": st.booleans(),
            "session_timeout_ms": st.sampled_from((6_000, 1_800_000, 0, -1)),
            "auto_offset_reset": st.sampled_from(("smallest", "largest", "")),
        },
    ),
)
steps = st.lists(
    said | comes | st.builds(Obeys, st.integers(1, 4)) | st.builds(Waits, st.floats(0.1, 9.0)), max_size=20
)


@given(steps)
@example([Comes({}), Said("stop", None, 0, []), Waits(1.0)])
@example([Comes({}), Obeys(1), Said("ping", "a", 0, [Consumed("t", 0, FAR)]), Waits(1.0)])
@example([Comes({}), Obeys(2), Waits(3.0), Said("ping", None, 0, [Consumed("t", each, FAR) for each in range(4)])])
@example([Comes({"session_timeout_ms": 1_800_000}), Said("ping", "a", 0, None)])
@example([Comes({}), Waits(3.0), Said("start", None, 0, None), Said("stop", None, 0, [Consumed("t", 3, FAR)])])
def test_arbitrary_answers_of_one_consumer_do_not_stop_others_or_move_offsets_back(
    taken: list[Said | Comes | Obeys | Waits],
) -> None:
    coordinator = Coordinator()
    coordinator.topic("t", PARTITIONS)
    others = coordinator.consumers("a", "b")
    hostile, owned, before = Consumer(coordinator, "h"), set[tuple[str, int]](), dict[tuple[str, int], int]()
    for step in (*taken, Waits(SETTLES_S)):
        _take(coordinator, hostile, others, step)
        owned |= {
            (at.topic, at.partition)
            for call in hostile.told
            if isinstance(call, StartFetcher)
            for _, parts in call.threads
            for at in parts
        }
        committed = coordinator.committed()
        assert all(committed[key] >= offset for key, offset in before.items()), "an offset has gone back"
        assert {key for key, offset in committed.items() if offset >= FAR} <= owned
        assert not others[0].reading & others[1].reading
        assert all(each.hung_up is None for each in others)
        before = committed
    if hostile.connection is not None:
        hostile.close()
    answer_all(others)
    assert coordinator.group_state() is PushState.STABLE
    assert set(coordinator.state.groups) == {GROUP}
    assert others[0].reading | others[1].reading == {("t", number) for number in range(PARTITIONS)}


def _take(
    coordinator: Coordinator, hostile: Consumer, others: list[Consumer], step: Said | Comes | Obeys | Waits
) -> None:
    match step:
        case Comes(changes):
            if hostile.connection is None:
                with suppress(KafkaError):
                    hostile.register(**changes)
                    hostile.consumer_id = str(changes.get("consumer_id", "h"))
                    hostile.auto_commit = bool(changes.get("auto_commit", True))
        case Obeys(calls):
            for _ in range(calls):
                if hostile.unanswered:
                    hostile.answer()
        case Said():
            if hostile.connection is not None:
                _answer(hostile, hostile.connection, step)
        case Waits(seconds):
            for _ in range(round(seconds * 2)):
                coordinator.wait(0.5)
                answer_all(others)
    answer_all(others)


def _answer(hostile: Consumer, connection: int, said: Said) -> None:
    asked = next((call for call in hostile.unanswered if isinstance(call, ASKED[said.what])), None)
    hostile.say(WHAT[said.what], offsets=said.offsets, error_code=said.error_code, consumer_id=said.consumer_id)
    if hostile.connection is None:
        hostile.report_end(connection)
    if asked is None or said.error_code:
        assert hostile.hung_up is not None
    elif hostile.connection is not None:
        hostile.unanswered.remove(asked)
