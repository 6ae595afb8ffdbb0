"""The table of broker states: it is complete, never leads to a wrong state, and equals Kafka's where Kafka has it."""

from itertools import product

import pytest

from broker_runtime.controller.broker_states import (
    TRANSITIONS,
    BrokerControlState,
    BrokerEvent,
    Guard,
    transitions,
)
from tools.broker_states_page import states_page

OFFLINE, FENCED, ONLINE, STOPPING = BrokerControlState
OPPOSITES = (
    {Guard.ALWAYS},
    {Guard.CAUGHT_UP, Guard.BEHIND},
    {Guard.LEADS, Guard.LEADS_NONE},
    {Guard.MAY_GO, Guard.MUST_WAIT},
    {Guard.SAME_INCARNATION, Guard.TAKEN, Guard.FREE},
    {Guard.SAME_INCARNATION, Guard.FREE},
)


@pytest.mark.parametrize(("state", "event"), list(product(BrokerControlState, BrokerEvent)))
def test_every_event_in_every_state_has_one_way_for_each_condition(
    state: BrokerControlState, event: BrokerEvent
) -> None:
    guards = [transition.guard for transition in transitions(state, event)]
    assert set(guards) in OPPOSITES
    assert len(guards) == len(set(guards))


def test_only_heartbeats_have_flags_and_only_a_released_broker_goes() -> None:
    for transition in TRANSITIONS:
        beat = transition.event in (BrokerEvent.FENCE, BrokerEvent.SERVE, BrokerEvent.STOP, BrokerEvent.GO)
        assert (transition.fenced is not None, transition.shut_down is not None) == (beat, beat)
        if beat:
            assert transition.shut_down == (transition.next is OFFLINE)
            assert transition.fenced == (transition.next in (OFFLINE, FENCED))


def test_a_broker_that_is_online_can_get_there_from_every_state_and_leave_from_every_state() -> None:
    reach = {
        state: {transition.next for transition in TRANSITIONS if transition.state is state} - {state}
        for state in BrokerControlState
    }
    for start in BrokerControlState:
        seen, edge = {start}, {start}
        while edge := {nxt for state in edge for nxt in reach[state] if nxt is not None} - seen:
            seen |= edge
        assert seen == set(BrokerControlState)
        assert None in reach[start]


@pytest.mark.parametrize(
    ("state", "event", "guard", "expected"),
    [
        (FENCED, BrokerEvent.STOP, Guard.ALWAYS, OFFLINE),
        (FENCED, BrokerEvent.SERVE, Guard.CAUGHT_UP, ONLINE),
        (FENCED, BrokerEvent.SERVE, Guard.BEHIND, FENCED),
        (FENCED, BrokerEvent.FENCE, Guard.ALWAYS, FENCED),
        (ONLINE, BrokerEvent.GO, Guard.ALWAYS, OFFLINE),
        (ONLINE, BrokerEvent.FENCE, Guard.ALWAYS, FENCED),
        (ONLINE, BrokerEvent.STOP, Guard.LEADS, STOPPING),
        (ONLINE, BrokerEvent.STOP, Guard.LEADS_NONE, OFFLINE),
        (ONLINE, BrokerEvent.SERVE, Guard.ALWAYS, ONLINE),
        (STOPPING, BrokerEvent.STOP, Guard.MUST_WAIT, STOPPING),
        (STOPPING, BrokerEvent.SERVE, Guard.MUST_WAIT, STOPPING),
        (STOPPING, BrokerEvent.STOP, Guard.MAY_GO, OFFLINE),
        (STOPPING, BrokerEvent.GO, Guard.ALWAYS, OFFLINE),
    ],
)
def test_the_rows_of_kafkas_own_table(
    state: BrokerControlState, event: BrokerEvent, guard: Guard, expected: BrokerControlState
) -> None:
    assert [transition.next for transition in transitions(state, event) if transition.guard is guard] == [expected]


def test_the_page_has_every_way() -> None:
    page = states_page()
    rows = [line for line in page.splitlines() if line.startswith(tuple(f"| {s.value} | " for s in BrokerControlState))]
    assert len(rows) == len(TRANSITIONS) + len(BrokerControlState)
    assert all(line.count("|") == 8 for line in rows[len(BrokerControlState) :])
    assert "refused: DUPLICATE_BROKER_REGISTRATION" in page
