"""Random histories of transactions in one log, with crashes and a follower: readers see what the model says.

The model is not blind: each rule that is broken here on purpose is found within some histories.
"""

from collections.abc import Callable, Iterator

import pytest

from broker_runtime.storage.compaction.transactions import CleanedTransactions
from broker_runtime.storage.records.producers import ProducerStates
from broker_runtime.storage.records.transactions import Ended, Transactions
from broker_runtime.storage.segment.aborted_index import AbortedIndex
from tests.support.logs.transaction_history import TransactionHistory

SEEDS = range(200)


@pytest.mark.parametrize("seed", range(30))
def test_readers_see_committed_records_and_no_others(seed: int) -> None:
    TransactionHistory(seed).run()


@pytest.mark.parametrize("seed", range(20))
def test_readers_of_a_cleaned_log_see_the_last_committed_record_of_each_key(seed: int) -> None:
    TransactionHistory(seed, compacts=True).run(100)


@pytest.mark.full
@pytest.mark.parametrize("compacts", [False, True])
@pytest.mark.parametrize("first", range(1_000, 1_300, 50))
def test_many_histories(compacts: bool, first: int) -> None:
    for seed in range(first, first + 50):
        TransactionHistory(seed, compacts=compacts).run(100)


Break = Callable[[pytest.MonkeyPatch], None]


def forget_unreplicated_markers(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last stable offset passes a transaction whose marker is not replicated."""

    def end(self: Transactions, producer_id: int, offset: int) -> Ended | None:
        ended = original(self, producer_id, offset)
        self.unreplicated.clear()
        self.settle(0)
        return ended

    original = Transactions.end
    monkeypatch.setattr(Transactions, "end", end)


def leave_out_transactions_that_began_earlier(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader hears only of aborted transactions that begin at its offset or later."""

    def collect(self: AbortedIndex, offset: int, upper: int, found: list[tuple[int, int]]) -> bool:
        done = original(self, offset, upper, found)
        found[:] = [each for each in found if each[1] >= offset]
        return done

    original = AbortedIndex.collect
    monkeypatch.setattr(AbortedIndex, "collect", collect)


def end_lookups_at_the_marker(monkeypatch: pytest.MonkeyPatch) -> None:
    """The entries carry the offset after the marker instead of the oldest open transaction."""

    def append(self: AbortedIndex, ended: Ended) -> None:
        original(self, ended._replace(last_stable_offset=ended.last_offset + 1))

    original = AbortedIndex.append
    monkeypatch.setattr(AbortedIndex, "append", append)


def load_no_open_transactions(monkeypatch: pytest.MonkeyPatch) -> None:
    """A start takes no open transactions from a snapshot."""

    def decode(self: ProducerStates, content: bytes) -> None:
        original(self, content)
        self.transactions.clear()

    original = ProducerStates.decode
    monkeypatch.setattr(ProducerStates, "decode", decode)


def keep_guards_at_markers(monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch that was verified before the marker opens a transaction that nobody ends."""
    monkeypatch.setattr(Transactions, "drop_guard_before", lambda _self, _marker: None)


def keep_the_index_at_a_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """A truncation leaves the transactions whose markers it cuts."""
    monkeypatch.setattr(AbortedIndex, "cut", lambda _self, _end: None)


def let_old_coordinators_end_transactions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ProducerStates, "check_marker", lambda _self, _marker: None)


def clean_aborted_records_like_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """A record of an aborted transaction replaces a committed one of its key."""
    monkeypatch.setattr(CleanedTransactions, "is_aborted", lambda _self, _header: False)


BROKEN: tuple[tuple[Break, bool], ...] = (
    (forget_unreplicated_markers, False),
    (leave_out_transactions_that_began_earlier, False),
    (end_lookups_at_the_marker, False),
    (load_no_open_transactions, False),
    (keep_guards_at_markers, False),
    (keep_the_index_at_a_cut, False),
    (let_old_coordinators_end_transactions, False),
    (clean_aborted_records_like_others, True),
)


def _failures(compacts: bool) -> Iterator[int]:
    for seed in SEEDS:
        try:
            TransactionHistory(seed, compacts=compacts).run()
        except (AssertionError, LookupError):
            yield seed


@pytest.mark.parametrize(("break_rule", "compacts"), BROKEN)
def test_a_broken_rule_is_found(break_rule: Break, compacts: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    break_rule(monkeypatch)
    assert next(_failures(compacts), None) is not None
