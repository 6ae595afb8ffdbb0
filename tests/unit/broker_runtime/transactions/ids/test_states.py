"""The states of a transaction are those of Apache Kafka, and so are their transitions."""

import pytest

from broker_runtime.transactions.ids.states import COMPLETION, LEGAL, TransactionState, is_legal

E, ON, PC, PA, CC, CA, D = TransactionState


def test_numbers_and_names_are_those_of_kafka() -> None:
    assert [(state.value, state.shown) for state in TransactionState] == [
        (0, "Empty"),
        (1, "Ongoing"),
        (2, "PrepareCommit"),
        (3, "PrepareAbort"),
        (4, "CompleteCommit"),
        (5, "CompleteAbort"),
        (6, "Dead"),
    ]


@pytest.mark.parametrize(
    ("after", "version", "allowed"),
    [
        (E, 0, {E, CC, CA}),
        (ON, 0, {ON, E, CC, CA}),
        (PC, 0, {ON}),
        (PC, 2, {ON}),
        (PA, 0, {ON}),
        (PA, 1, {ON}),
        (PA, 2, {ON, E, CC, CA}),
        (CC, 0, {PC}),
        (CA, 0, {PA}),
        (D, 0, {E, CC, CA}),
    ],
)
def test_only_these_states_may_precede(after: TransactionState, version: int, allowed: set[TransactionState]) -> None:
    assert {before for before in TransactionState if is_legal(before, after, version=version)} == allowed


def test_every_state_has_a_row_and_each_prepared_state_a_completion() -> None:
    assert set(LEGAL) == set(TransactionState)
    assert all(is_legal(before, after, version=0) for before, after in COMPLETION.items())
