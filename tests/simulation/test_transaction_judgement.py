"""The judge of histories of transactions: it accepts a correct one, and finds each rule that is broken on purpose."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from kafka_bytes.batches import TRANSACTIONAL, ProducerStamp, encode_batch
from kafka_bytes.control import Marker, encode_marker
from tests.support.transactions.history import (
    Attempt,
    End,
    History,
    LogBatch,
    Reading,
    Seen,
    Transform,
    batches_of,
)
from tests.support.transactions.judgement import faults_of

ONE, TWO, IN = ("orders", 0), ("orders", 1), ("inputs", 0)


def data(base: int, producer_id: int, *values: bytes) -> LogBatch:
    return LogBatch(base, base + len(values) - 1, producer_id, True, None, values)


def end(base: int, producer_id: int, *, commit: bool) -> LogBatch:
    return LogBatch(base, base, producer_id, True, commit, ())


def correct() -> History:
    """Two writers whose transactions overlap, one aborted and one committed, and a group that processes one input."""
    committed = Attempt("a/1", {ONE: [b"a1", b"a2"], TWO: [b"a3"]}, End.COMMITTED)
    aborted = Attempt("b/1", {ONE: [b"b1"]}, End.ABORTED)
    source = Attempt("source/1", {IN: [b"i0", b"i1"]}, End.COMMITTED)
    processed = Attempt("t/1", {TWO: [b"out0", b"out1"]}, End.COMMIT_ASKED, (0, 1), 2)
    retried = Attempt("t/0", {TWO: [b"old0"]}, End.ABORTED, (0,), 1)
    history = History([committed, aborted, source, processed, retried])
    history.logs = {
        ONE: [data(0, 1, b"a1"), data(1, 2, b"b1"), data(2, 1, b"a2"), end(3, 2, commit=False), end(4, 1, commit=True)],
        TWO: [
            data(0, 1, b"a3"),
            end(1, 1, commit=True),
            data(2, 3, b"old0"),
            end(3, 3, commit=False),
            data(4, 3, b"out0", b"out1"),
            end(6, 3, commit=True),
        ],
        IN: [data(0, 4, b"i0", b"i1"), end(2, 4, commit=True)],
    }
    history.transforms = [Transform("group", IN, [retried, processed], 2)]
    history.readings = [
        Reading("committed", ONE, True, [Seen(0, b"a1"), Seen(2, b"a2")], 5),
        Reading("behind", ONE, True, [Seen(0, b"a1")], 2),
        Reading("all", ONE, False, [Seen(0, b"a1"), Seen(1, b"b1"), Seen(2, b"a2")], 5),
    ]
    return history


def lose_a_committed_record(history: History) -> None:
    """A partition's part of a committed transaction ends with an abort."""
    history.logs[TWO] = [history.logs[TWO][0], end(1, 1, commit=False), *history.logs[TWO][2:]]


def commit_what_was_aborted(history: History) -> None:
    history.logs[ONE] = [*history.logs[ONE][:3], end(3, 2, commit=True), *history.logs[ONE][4:]]


def commit_what_a_dead_client_left_open(history: History) -> None:
    commit_what_was_aborted(history)
    history.attempts[1].end = End.OPEN


def tear_a_transaction(history: History) -> None:
    """Half of a transaction whose client does not know the outcome is committed."""
    lose_a_committed_record(history)
    history.attempts[0].end = End.COMMIT_ASKED


def write_a_record_twice(history: History) -> None:
    history.logs[TWO] = [*history.logs[TWO], data(7, 3, b"out0"), end(8, 3, commit=True)]


def leave_a_transaction_open(history: History) -> None:
    history.logs[ONE] = history.logs[ONE][:-1]
    history.attempts[0].end = End.OPEN
    history.logs[TWO] = [history.logs[TWO][0], end(1, 1, commit=False), *history.logs[TWO][2:]]
    history.readings.clear()


def show_an_aborted_record(history: History) -> None:
    history.readings[0].seen.insert(1, Seen(1, b"b1"))


def pass_an_open_transaction(history: History) -> None:
    """The last stable offset is not held back: a client reads on before the marker is there, and misses the record."""
    history.readings[1] = replace(history.readings[1], position=4)


def show_a_record_out_of_order(history: History) -> None:
    history.readings[0].seen.reverse()


def hide_a_record_from_who_reads_all(history: History) -> None:
    del history.readings[2].seen[1]


def commit_offsets_without_their_output(history: History) -> None:
    history.transforms[0].committed_offset = 3


def process_an_input_twice(history: History) -> None:
    history.logs[TWO] = [*history.logs[TWO][:3], end(3, 3, commit=True), *history.logs[TWO][4:]]
    history.attempts[4].end = End.COMMIT_ASKED


def skip_an_input(history: History) -> None:
    history.attempts[3].consumed = (1,)


def invent_a_record(history: History) -> None:
    history.logs[IN] = [*history.logs[IN], data(3, 9, b"?"), end(4, 9, commit=False)]


def send_out_of_order(history: History) -> None:
    history.attempts[0].outputs[ONE].reverse()


BROKEN: list[tuple[Callable[[History], None], str]] = [
    (lose_a_committed_record, "was answered as committed, and 2 of its 3 records are"),
    (commit_what_was_aborted, "are committed although its client has asked for an abort"),
    (commit_what_a_dead_client_left_open, "are committed although its client has asked for no end"),
    (tear_a_transaction, "is torn"),
    (write_a_record_twice, "is committed 2 times"),
    (leave_a_transaction_open, "has not ended"),
    (show_an_aborted_record, "which it must not"),
    (pass_an_open_transaction, "did not see b'a2'"),
    (show_a_record_out_of_order, "out of order"),
    (hide_a_record_from_who_reads_all, "did not see b'b1'"),
    (commit_offsets_without_their_output, "its committed offset is 3"),
    (process_an_input_twice, "was processed 2 times"),
    (skip_an_input, "the input at offset 0 was not processed"),
    (invent_a_record, "nobody has sent b'?'"),
    (send_out_of_order, "in another order"),
]


def test_a_correct_history_has_no_fault() -> None:
    assert faults_of(correct()) == []


@pytest.mark.parametrize(("break_it", "told"), BROKEN, ids=[break_it.__name__ for break_it, _ in BROKEN])
def test_a_broken_rule_is_found(break_it: Callable[[History], None], told: str) -> None:
    history = correct()
    break_it(history)
    assert any(told in fault for fault in faults_of(history)), faults_of(history)


def test_batches_are_read_from_the_bytes_of_a_log() -> None:
    written = encode_batch([(None, b"v")], 0, ProducerStamp(5, 1, 0), attributes=TRANSACTIONAL)
    marker = encode_marker(Marker(5, 1, True, 3), 0)
    assert list(batches_of(written + marker)) == [
        LogBatch(0, 0, 5, True, None, (b"v",)),
        LogBatch(0, 0, 5, True, True, ()),
    ]
