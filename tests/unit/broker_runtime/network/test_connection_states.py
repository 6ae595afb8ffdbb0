"""The table of connection states: it leads everywhere, never back from the end, and the page is made of it."""

from itertools import product
from pathlib import Path

import pytest

from broker_runtime.network.connection_states import (
    AFTER,
    MEANING_OF_EVENT,
    MEANING_OF_STATE,
    TABLE,
    Event,
    State,
    states_page,
    unknown,
)

REFERENCE = Path(__file__).parents[4] / "docs" / "reference"


@pytest.mark.parametrize("state", State)
def test_every_state_is_reached_from_the_start_and_can_end(state: State) -> None:
    def reached_from(start: State) -> set[State]:
        seen, edge = {start}, {start}
        while edge := {after for (before, _), after in TABLE.items() if before in edge} - seen:
            seen |= edge
        return seen

    assert state in reached_from(State.READING)
    assert State.CLOSED in reached_from(state)
    assert reached_from(State.CLOSED) == {State.CLOSED}


def test_a_client_is_read_in_one_state_only() -> None:
    assert [state for state in State if (state, Event.BYTES) in TABLE] == [State.READING]
    assert [state for state in State if (state, Event.END_OF_STREAM) in TABLE] == [State.READING]


def test_an_open_connection_can_always_be_closed_refused_finished_and_lost() -> None:
    for state, event in product(State, (Event.CLOSE, Event.REFUSE, Event.FINISH, Event.LOST)):
        if state is not State.CLOSED:
            assert (state, event) in TABLE


def test_both_forms_of_the_table_say_the_same() -> None:
    for state, event in product(State, Event):
        assert AFTER[event][state] == TABLE.get((state, event))


def test_an_event_that_the_state_does_not_know_is_named_with_it() -> None:
    error = unknown(State.SHORT_OF_MEMORY, Event.BYTES)
    assert str(error) == "a connection that is Short of memory cannot have: bytes have arrived"


def test_everything_has_a_meaning_and_stands_on_the_page() -> None:
    page = (REFERENCE / "connection-states.md").read_text(encoding="utf-8")
    assert page == states_page(), "run `make crds`"
    for meaning in (*(MEANING_OF_STATE[state] for state in State), *(MEANING_OF_EVENT[event] for event in Event)):
        assert meaning in page
