"""The table of connection states: every state is reachable, the end is final, and the page is made of it."""

from itertools import product
from pathlib import Path

import pytest

from broker_runtime.network.connection.connection_states import (
    AFTER,
    MEANING_OF_EVENT,
    MEANING_OF_STATE,
    TABLE,
    ConnectionEvent,
    ConnectionState,
    unknown,
)
from tools.connection_states_page import states_page

REFERENCE = Path(__file__).parents[5] / "docs" / "reference"


@pytest.mark.parametrize("state", ConnectionState)
def test_every_state_is_reached_from_the_start_and_can_end(state: ConnectionState) -> None:
    def reached_from(start: ConnectionState) -> set[ConnectionState]:
        seen, edge = {start}, {start}
        while edge := {after for (before, _), after in TABLE.items() if before in edge} - seen:
            seen |= edge
        return seen

    assert state in reached_from(ConnectionState.READING)
    assert ConnectionState.CLOSED in reached_from(state)
    assert reached_from(ConnectionState.CLOSED) == {ConnectionState.CLOSED}


def test_a_client_is_read_in_two_states_and_its_end_of_stream_is_handled_in_one() -> None:
    assert [state for state in ConnectionState if (state, ConnectionEvent.BYTES) in TABLE] == [
        ConnectionState.READING,
        ConnectionState.AWAITING,
    ]
    assert [state for state in ConnectionState if (state, ConnectionEvent.END_OF_STREAM) in TABLE] == [
        ConnectionState.READING
    ]


def test_an_open_connection_can_always_be_closed_refused_finished_and_lost() -> None:
    for state, event in product(
        ConnectionState, (ConnectionEvent.CLOSE, ConnectionEvent.REFUSE, ConnectionEvent.FINISH, ConnectionEvent.LOST)
    ):
        if state is not ConnectionState.CLOSED:
            assert (state, event) in TABLE


def test_both_forms_of_the_table_say_the_same() -> None:
    for state, event in product(ConnectionState, ConnectionEvent):
        assert AFTER[event][state] == TABLE.get((state, event))


def test_an_event_that_the_state_does_not_know_is_named_with_it() -> None:
    error = unknown(ConnectionState.SHORT_OF_MEMORY, ConnectionEvent.BYTES)
    assert str(error) == "a connection in state Short of memory cannot get the event: bytes have arrived"


def test_everything_has_a_meaning_and_stands_on_the_page() -> None:
    page = (REFERENCE / "connection-states.md").read_text(encoding="utf-8")
    assert page == states_page(), "run `make crds`"
    for meaning in (
        *(MEANING_OF_STATE[state] for state in ConnectionState),
        *(MEANING_OF_EVENT[event] for event in ConnectionEvent),
    ):
        assert meaning in page
