"""Unconfirmed changes of a broker: when their limits are checked again, and until when."""

from math import inf

from sluicegate_operator.planning.limits.limits import LimitKey
from sluicegate_operator.quotas.state.unconfirmed_limits import AGAIN_S, LATE_S, UnconfirmedLimits

RATE: frozenset[LimitKey] = frozenset(("max.connection.creation.rate",))
COUNT: frozenset[LimitKey] = frozenset(("max.connections",))
NOBODY = frozenset[int]()


def looks(doubts: UnconfirmedLimits, silent: frozenset[int], until_s: float) -> list[float]:
    """Times of checks, by a caller that comes whenever one is due."""
    found, now_s = [], 0.0
    while (now_s := doubts.next_read_s(silent)) < until_s:
        assert doubts.take(silent, now_s)
        found.append(now_s)
    return found


def test_no_limits_are_checked_while_all_brokers_answer() -> None:
    doubts = UnconfirmedLimits()
    assert (doubts.next_read_s(NOBODY), doubts.take(NOBODY, 100)) == (inf, frozenset())


def test_limits_are_looked_at_every_few_seconds_until_the_broker_has_had_its_time() -> None:
    doubts = UnconfirmedLimits()
    doubts.note(1, RATE, 100)
    assert doubts.take(NOBODY, 100 + AGAIN_S / 2) == frozenset()
    found = looks(doubts, NOBODY, inf)
    assert found == [100 + AGAIN_S * number for number in range(1, round(LATE_S / AGAIN_S) + 1)]
    assert doubts.keys == frozenset()


def test_limits_of_a_silent_broker_are_checked_once_it_answers() -> None:
    doubts, silent = UnconfirmedLimits(), frozenset((1,))
    doubts.note(1, RATE, 0)
    assert looks(doubts, silent, inf)[-1] == LATE_S
    assert doubts.take(silent, 10 * LATE_S) == frozenset()
    assert doubts.keys == RATE
    assert doubts.next_read_s(NOBODY) == 0
    back_s = 20 * LATE_S
    assert doubts.take(NOBODY, back_s) == RATE
    assert looks(doubts, NOBODY, inf)[-1] == back_s + LATE_S


def test_an_unanswered_change_of_another_broker_is_awaited_separately() -> None:
    doubts = UnconfirmedLimits()
    doubts.note(1, RATE, 0)
    doubts.note(2, COUNT, LATE_S - 1)
    assert doubts.take(NOBODY, LATE_S) == RATE
    assert doubts.keys == COUNT
    doubts.note(2, RATE, LATE_S)
    assert doubts.take(NOBODY, LATE_S - 1 + AGAIN_S) == RATE | COUNT
