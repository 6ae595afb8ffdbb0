"""A broker's own view of its membership: every transition between states, and when it must not serve clients."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_runtime.cluster.lifecycle import BrokerState, Lifecycle, LifecycleEvent, Phase

SESSION_S = 9.0


def running(now_s: float = 100.0) -> Lifecycle:
    life = Lifecycle(SESSION_S)
    life.on(LifecycleEvent.START)
    life.on(LifecycleEvent.REGISTERED)
    life.heartbeat_answered(now_s, now_s, fenced=False, released=False)
    return life


def test_a_start_goes_through_kafkas_states_and_serves_only_at_its_end() -> None:
    life = Lifecycle(SESSION_S)
    seen = [(life.state, life.serves)]
    for event in (LifecycleEvent.START, LifecycleEvent.REGISTERED, LifecycleEvent.FENCED, LifecycleEvent.UNFENCED):
        life.on(event)
        seen.append((life.state, life.serves))
    assert seen == [
        (BrokerState.NOT_RUNNING, False),
        (BrokerState.STARTING, False),
        (BrokerState.RECOVERY, False),
        (BrokerState.RECOVERY, False),
        (BrokerState.RUNNING, True),
    ]


@pytest.mark.parametrize(
    ("event", "phase"),
    [
        (LifecycleEvent.FENCED, Phase.FENCED),
        (LifecycleEvent.SILENCE, Phase.CUT_OFF),
        (LifecycleEvent.REGISTRATION_LOST, Phase.REJOINING),
    ],
)
def test_a_running_broker_that_loses_its_membership_stops_serving_and_says_why(
    event: LifecycleEvent, phase: Phase
) -> None:
    life = running()
    life.on(event)
    assert life.phase is phase
    assert not life.serves
    assert life.why_not_ready()
    assert life.state is not BrokerState.RUNNING


def test_a_broker_serves_again_when_a_heartbeat_reports_it_unfenced() -> None:
    life = running(100.0)
    life.on(LifecycleEvent.SILENCE)
    life.heartbeat_answered(120.0, 120.1, fenced=True, released=False)
    assert (life.phase, life.serves) == (Phase.FENCED, False)
    life.heartbeat_answered(121.0, 121.1, fenced=False, released=False)
    assert (life.phase, life.serves) == (Phase.RUNNING, True)


def test_a_lost_registration_is_followed_by_a_new_one_that_starts_fenced() -> None:
    life = running()
    life.on(LifecycleEvent.REGISTRATION_LOST)
    life.on(LifecycleEvent.UNFENCED)
    assert life.phase is Phase.REJOINING, "an answer to the old registration counts for nothing"
    life.on(LifecycleEvent.REGISTERED)
    assert not life.serves
    life.on(LifecycleEvent.UNFENCED)
    assert life.serves


def test_the_session_is_counted_from_when_the_answered_heartbeat_was_sent() -> None:
    life = running(100.0)
    life.heartbeat_answered(104.0, 107.5, fenced=False, released=False)
    assert life.cut_off_s == 104.0 + SESSION_S


def test_an_answer_that_comes_a_session_late_cuts_off_instead_of_renewing() -> None:
    """A process that was stopped finds the old answer in its socket when it resumes."""
    life = running(100.0)
    life.heartbeat_answered(102.0, 102.0 + SESSION_S, fenced=False, released=False)
    assert life.phase is Phase.CUT_OFF


def test_answers_out_of_order_do_not_shorten_a_session() -> None:
    life = running(100.0)
    life.heartbeat_answered(104.0, 104.1, fenced=False, released=False)
    life.heartbeat_answered(103.0, 104.2, fenced=False, released=False)
    assert life.cut_off_s == 104.0 + SESSION_S


def test_a_controlled_shutdown_serves_until_the_process_ends() -> None:
    life = running()
    life.on(LifecycleEvent.LEAVE)
    assert life.wants_shut_down
    assert (life.state, life.serves) == (BrokerState.PENDING_CONTROLLED_SHUTDOWN, True)
    life.on(LifecycleEvent.RELEASED)
    assert (life.state, life.serves) == (BrokerState.SHUTTING_DOWN, True)
    assert life.why_not_ready() == "stopping"


@pytest.mark.parametrize("event", [LifecycleEvent.SILENCE, LifecycleEvent.REGISTRATION_LOST])
def test_a_stopping_broker_without_standing_stops_serving_and_waiting(event: LifecycleEvent) -> None:
    life = running()
    life.on(LifecycleEvent.LEAVE)
    life.on(event)
    assert life.phase is Phase.GONE
    assert not life.serves


@pytest.mark.parametrize(
    "before",
    [
        [],
        [LifecycleEvent.START],
        [LifecycleEvent.START, LifecycleEvent.REGISTERED, LifecycleEvent.UNFENCED, LifecycleEvent.SILENCE],
    ],
)
def test_a_broker_without_leaderships_leaves_at_once(before: list[LifecycleEvent]) -> None:
    life = Lifecycle(SESSION_S)
    for event in [*before, LifecycleEvent.LEAVE]:
        life.on(event)
    assert life.phase is Phase.GONE
    assert not life.serves


def test_a_fenced_broker_requests_its_shutdown_so_that_its_id_is_free() -> None:
    life = running()
    life.on(LifecycleEvent.FENCED)
    life.on(LifecycleEvent.LEAVE)
    assert life.wants_shut_down
    assert not life.serves


@pytest.mark.parametrize("last", [Phase.GONE, Phase.REPLACED])
@given(events=st.lists(st.sampled_from(LifecycleEvent)))
def test_nothing_leads_back_from_the_end(last: Phase, events: list[LifecycleEvent]) -> None:
    life = running()
    life.phase = last
    for event in events:
        life.on(event)
    assert life.phase is last


@given(events=st.lists(st.sampled_from(LifecycleEvent)))
def test_whatever_happens_only_a_broker_in_good_standing_serves(events: list[LifecycleEvent]) -> None:
    """A broker serves if its last event was an unfencing, or a shutdown began while it served."""
    life = Lifecycle(SESSION_S)
    good = False
    for event in events:
        life.on(event)
        if (
            event in (LifecycleEvent.FENCED, LifecycleEvent.SILENCE, LifecycleEvent.REGISTRATION_LOST)
            and life.phase is not Phase.STOPPING
        ):
            good = good and life.phase is Phase.GONE and event is LifecycleEvent.FENCED
        elif event is LifecycleEvent.UNFENCED and life.phase is Phase.RUNNING:
            good = True
        assert not life.serves or good
        assert life.serves or life.why_not_ready() is not None
