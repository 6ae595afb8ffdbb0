"""Markers of transactions under faults: each decided transaction ends in each partition, exactly as it was decided."""

from collections.abc import Callable, Iterable

import pytest

from broker_runtime.errors import ErrorCode
from broker_runtime.storage.records.producers import ProducerStates
from broker_runtime.transactions.markers import results
from broker_runtime.transactions.markers.queues import MarkerBatch, MarkerQueues
from broker_runtime.transactions.markers.results import MarkerResult
from kafka_bytes.control import Marker
from tests.simulation.budget import seeds_within
from tests.simulation.markers.terms import Decided, Term
from tests.simulation.markers.world import simulate

BUDGET_S = 4.0
SEEDS = 100
BROKEN_SEEDS = range(1_000, 1_030)
Break = Callable[[pytest.MonkeyPatch], None]
pytestmark = pytest.mark.usefixtures("quiet")


@pytest.fixture
def quiet(caplog: pytest.LogCaptureFixture) -> None:
    """Keep the warnings about lost requests out of the output."""
    caplog.set_level("CRITICAL", "broker_runtime.transactions")


def test_each_transaction_ends_as_it_was_decided_within_the_budget() -> None:
    _each_transaction_ends(seeds_within(BUDGET_S))


@pytest.mark.full
def test_each_transaction_ends_as_it_was_decided() -> None:
    _each_transaction_ends(range(SEEDS))


def _each_transaction_ends(seeds: Iterable[int]) -> None:
    for seed in seeds:
        outcome = simulate(seed)
        assert not outcome.problems, (seed, outcome.problems[:20])
        assert outcome.transactions > 10
        assert outcome.terms > 1


def a_retriable_error_counts_as_done(monkeypatch: pytest.MonkeyPatch) -> None:
    """A dispatch that takes NOT_LEADER_OR_FOLLOWER for success."""
    table = {**results._RESULTS, ErrorCode.NOT_LEADER_OR_FOLLOWER: MarkerResult.DONE}
    monkeypatch.setattr(results, "_RESULTS", table)


def a_lost_request_is_not_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    """A dispatch that forgets the markers of a request without an answer."""

    def failed(self: MarkerQueues, batch: MarkerBatch, now_s: float) -> None:
        self._destinations[batch.broker_id].is_asked = False

    monkeypatch.setattr(MarkerQueues, "failed", failed)


def a_new_term_aborts_what_is_prepared(monkeypatch: pytest.MonkeyPatch) -> None:
    """A coordinator that aborts all transactions of the term before, whatever was decided."""
    send = Term.send

    def aborting(self: Term, decided: Decided) -> None:
        if self.epoch and decided.marker.coordinator_epoch < self.epoch:
            decided.marker = decided.marker._replace(is_commit=False)
        send(self, decided)

    monkeypatch.setattr(Term, "send", aborting)


def leaders_accept_markers_that_are_out_of_date(monkeypatch: pytest.MonkeyPatch) -> None:
    """A log that checks neither the producer's epoch nor the coordinator's."""

    def check_marker(self: ProducerStates, marker: Marker) -> None:
        """Accept the marker."""

    monkeypatch.setattr(ProducerStates, "check_marker", check_marker)


@pytest.mark.parametrize(
    "broken",
    [
        a_retriable_error_counts_as_done,
        a_lost_request_is_not_repeated,
        a_new_term_aborts_what_is_prepared,
        leaders_accept_markers_that_are_out_of_date,
    ],
)
def test_a_broken_rule_is_found(broken: Break, monkeypatch: pytest.MonkeyPatch) -> None:
    broken(monkeypatch)
    assert any(simulate(seed).problems for seed in BROKEN_SEEDS)
