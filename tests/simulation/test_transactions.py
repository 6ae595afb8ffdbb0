"""Transactions of a simulated cluster under faults: exactly once, whichever coordinator, leader or client fails."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

import pytest

from broker_runtime.coordination.replicated_log import ReplicatedLog
from broker_runtime.errors import ErrorCode
from broker_runtime.groups.pending_offsets import PendingOffsets
from broker_runtime.groups.records import TransactionEndValue
from broker_runtime.groups.state import GroupsState
from broker_runtime.storage.log.log_transactions import LogTransactions
from broker_runtime.storage.records.transactions import Transactions
from broker_runtime.transactions import service
from broker_runtime.transactions.decisions import adding, producers
from broker_runtime.transactions.environment import TransactionEnvironment
from broker_runtime.transactions.ids.records import TransactionRecord
from broker_runtime.transactions.ids.state import TransactionsState
from broker_runtime.transactions.shard import TransactionShard
from tests.simulation.broken_rules import Break, assert_found
from tests.simulation.budget import seeds_within
from tests.simulation.cluster.__main__ import explained
from tests.simulation.cluster.cluster import simulate
from tests.simulation.cluster.shape import TRANSACTIONS, TRANSACTIONS_V2, Shape

SEEDS = 300
BLOCK = 10
BUDGET_S = 5.0
BROKEN_SEEDS = range(1_000, 1_060)
POWERLESS = replace(TRANSACTIONS, faults=("kill", "power_loss"), delay_factor=5.0)
SHAPES = {"v1": TRANSACTIONS, "v2": TRANSACTIONS_V2}


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_transactions_are_exactly_once_within_the_budget(shape: Shape) -> None:
    _are_exactly_once(shape, seeds_within(BUDGET_S))


@pytest.mark.full
@pytest.mark.parametrize("first", range(0, SEEDS, BLOCK))
def test_transactions_are_exactly_once(first: int) -> None:
    """Check both versions of the protocol by turns."""
    _are_exactly_once(TRANSACTIONS, range(first, first + BLOCK, 2))
    _are_exactly_once(TRANSACTIONS_V2, range(first + 1, first + BLOCK, 2))


def _are_exactly_once(shape: Shape, seeds: Iterable[int]) -> None:
    """Run writers that fence each other, transformations of what they commit, and readers of both isolation levels."""
    seen: Counter[str] = Counter()
    for seed in seeds:
        result = simulate(seed, shape)
        assert not result.problems, explained(result, 40)
        seen.update(result.figures)
    assert min(seen[f"transactions {end}"] for end in ("committed", "aborted", "left")) > 0, seen
    assert seen["transformed"] > 0, seen


def read_up_to_the_high_watermark(monkeypatch: pytest.MonkeyPatch) -> None:
    """Open transactions hold nothing back."""
    monkeypatch.setattr(LogTransactions, "last_stable_offset", property(lambda self: self.high_watermark))


def name_no_aborted_transaction(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fetches list no aborted transactions."""
    monkeypatch.setattr(LogTransactions, "aborted_transactions", lambda self, first, upper: [])


def write_no_markers_after_a_failover(monkeypatch: pytest.MonkeyPatch) -> None:
    """A new coordinator does not continue with prepared transactions."""
    real = TransactionShard.loaded

    def without_prepared(self: TransactionShard, state: TransactionsState) -> None:
        with monkeypatch.context() as now:
            now.setattr(TransactionShard, "_send_all", lambda *_: None)
            real(self, state)

    monkeypatch.setattr(TransactionShard, "loaded", without_prepared)


def fence_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """InitProducerId gives every instance the same epoch, and aborts nothing."""
    real = producers.init_producer

    def same_again(
        state: TransactionsState, environment: TransactionEnvironment, request: producers.InitRequest
    ) -> tuple[list[TransactionRecord], producers.InitializedProducer]:
        known = state.transactions.get(request.transactional_id)
        if known is None:
            return real(state, environment, request)
        return [], producers.InitializedProducer(known.producer_id, known.producer_epoch)

    monkeypatch.setattr(service, "init_producer", same_again)


def accept_late_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch is appended whether or not its transaction is still open (what KIP-890 is against)."""
    monkeypatch.setattr(Transactions, "check_opening", lambda *_, **__: None)
    monkeypatch.setattr(adding, "_of_epoch", lambda state, *asked: state.transactions[asked[0]])
    monkeypatch.setattr(service, "verified", lambda state, *asked: dict.fromkeys(asked[3], ErrorCode.NONE))


def commit_offsets_of_aborted_transactions(monkeypatch: pytest.MonkeyPatch) -> None:
    """An abort marker counts like a commit in __consumer_offsets."""
    real = GroupsState._end_transaction

    def committed(self: GroupsState, producer_id: int, end: TransactionEndValue) -> None:
        real(self, producer_id, replace(end, is_commit=True))

    monkeypatch.setattr(GroupsState, "_end_transaction", committed)


def show_pending_offsets(monkeypatch: pytest.MonkeyPatch) -> None:
    """An instance that takes over does not wait for the offsets of the transaction before (KIP-447)."""
    monkeypatch.setattr(PendingOffsets, "is_unstable", lambda *_: False)
    monkeypatch.setattr(PendingOffsets, "of", lambda *_: ())


def answer_before_replication(monkeypatch: pytest.MonkeyPatch) -> None:
    """Coordinators answer when their own log has the records."""

    async def commit(self: ReplicatedLog) -> None:
        """Nothing is waited for."""

    monkeypatch.setattr(ReplicatedLog, "commit", commit)


@pytest.mark.full
@pytest.mark.parametrize(
    ("break_it", "shape", "first"),
    [
        (read_up_to_the_high_watermark, TRANSACTIONS, 1_000),
        (name_no_aborted_transaction, TRANSACTIONS, 1_000),
        (fence_nobody, TRANSACTIONS, 1_000),
        (write_no_markers_after_a_failover, TRANSACTIONS, 1_000),
        (accept_late_batches, TRANSACTIONS, 1_000),
        (commit_offsets_of_aborted_transactions, TRANSACTIONS, 1_000),
        (answer_before_replication, POWERLESS, 1_000),
    ],
)
def test_a_broken_rule_is_found(break_it: Break, shape: Shape, first: int) -> None:
    assert_found(break_it, shape, BROKEN_SEEDS, first)
