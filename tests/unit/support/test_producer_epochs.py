"""The allowed and the forbidden records of one idempotent producer in a partition."""

from collections.abc import Mapping

import pytest

from tests.support.processes.clients.producer_epochs import WrittenBatch, fault_in

IN_ORDER = [WrittenBatch(0, 0, 0, (1, 5)), WrittenBatch(0, 2, 2, (9,))]


def test_sequences_and_numbers_that_run_on_are_as_they_should_be() -> None:
    assert fault_in(IN_ORDER, {0: 1, 1: 5, 2: 9}) is None


def test_unacknowledged_records_may_be_repeated_under_the_next_epoch() -> None:
    again = WrittenBatch(1, 0, 3, (9, 13))
    assert fault_in([*IN_ORDER, again], {0: 1, 1: 5, 3: 9, 4: 13}) is None


@pytest.mark.parametrize(
    ("last", "acknowledged", "fault"),
    [
        (WrittenBatch(0, 3, 3, (9,)), {}, "9 comes after 9, repeated or out of order"),
        (WrittenBatch(0, 3, 3, (5,)), {}, "5 comes after 9, repeated or out of order"),
        (WrittenBatch(0, 2, 3, (13,)), {}, "sequence 3 comes next"),
        (WrittenBatch(0, 4, 3, (13,)), {}, "sequence 3 comes next"),
        (WrittenBatch(1, 1, 3, (13,)), {}, "sequence 0 comes next"),
        (WrittenBatch(1, 0, 3, (13, 9)), {}, "9 comes after 13, repeated or out of order"),
        (WrittenBatch(1, 0, 3, (9,)), {2: 9}, "9 was acknowledged at 2 and is there again"),
        (WrittenBatch(-1, 3, 3, (13,)), {}, "epoch 0 has written before"),
    ],
    ids=["twice", "back", "sequence again", "gap", "not from 0", "out of order", "acknowledged", "older epoch"],
)
def test_a_broker_that_breaks_the_promise_is_found(
    last: WrittenBatch, acknowledged: Mapping[int, int], fault: str
) -> None:
    assert str(fault_in([*IN_ORDER, last], acknowledged)).endswith(fault)
