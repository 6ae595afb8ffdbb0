"""The observed limits of brokers: when less than everything is read, and when no longer."""

from sluicegate_operator.planning.limits.limits import COUNT, RATE, LimitKey, Missing, ObservedLimits
from sluicegate_operator.quotas.state.ledger import LimitLedger

HERE = ("10.0.0.1", 9091)
THERE = ("10.0.0.2", 9091)
NOTHING: frozenset[LimitKey] = frozenset()


def looked_at(*lacks: LimitKey) -> LimitLedger:
    """A ledger after broker 0 was asked for everything."""
    ledger = LimitLedger()
    ledger.answered(0, HERE, None, Missing(frozenset(lacks)), ObservedLimits())
    return ledger


def test_a_broker_that_was_never_seen_is_asked_for_everything() -> None:
    assert LimitLedger().asks(0, frozenset({RATE})) is None


def test_a_known_broker_is_asked_for_missing_and_changed_limits_only() -> None:
    ledger = looked_at(RATE)
    assert ledger.asks(0, NOTHING) == frozenset({RATE})
    ledger.changed({COUNT})
    assert ledger.asks(0, NOTHING) == frozenset({RATE, COUNT})


def test_an_answer_about_some_limits_leaves_other_missing_ones_missing() -> None:
    ledger = looked_at(RATE, COUNT)
    ledger.answered(0, HERE, {COUNT}, Missing(), ObservedLimits())
    assert ledger.lacked() == {0: {RATE}}


def test_a_broker_at_another_place_is_another_one() -> None:
    ledger = looked_at()
    ledger.keep({0: THERE}, {0})
    assert ledger.lacked() == {}
    assert ledger.asks(0, NOTHING) is None


def test_a_broker_that_was_down_or_silent_is_asked_for_everything_and_keeps_its_missing_limits() -> None:
    down, silent, again = looked_at(RATE), looked_at(RATE), looked_at(RATE)
    down.keep({0: HERE}, set())
    silent.fell_silent(0)
    again.read_all()
    for ledger in (down, silent, again):
        assert ledger.asks(0, NOTHING) is None
        assert not ledger.any_whole
        assert ledger.lacked() == {0: {RATE}}
    assert (down.silent, silent.silent) == (set(), {0})
    silent.answered(0, HERE, None, Missing(), ObservedLimits())
    assert silent.silent == set()


def test_a_limit_that_is_wanted_otherwise_is_refused_no_more() -> None:
    ledger = looked_at(RATE, COUNT)
    ledger.refused = {RATE: "no", COUNT: "never"}
    ledger.changed({RATE})
    assert ledger.refused == {COUNT: "never"}


def test_a_listener_counts_as_open_anywhere_while_one_broker_has_not_said() -> None:
    ledger = looked_at()
    assert ledger.open_somewhere({}) is None
    assert ledger.open_somewhere({0: ObservedLimits(listeners=frozenset({"EXTERNAL"}))}) == frozenset({"EXTERNAL"})
    ledger.answered(0, HERE, None, Missing(), ObservedLimits(listeners=frozenset({"EXTERNAL"})))
    assert ledger.open_somewhere({}) == frozenset({"EXTERNAL"})
    assert ledger.open_somewhere({1: ObservedLimits()}) is None
