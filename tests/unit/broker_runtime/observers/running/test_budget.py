"""The budget of an observer: lateness, frequency, and the duration of its suspension."""

import pytest

from broker_runtime.observers.running.budget import LONGEST_SUSPENSION_S, Budget, ThreadUsage

IDLE = ThreadUsage(0.0, 0)
LIMIT_S = 0.001


def busy(cpu_s: float) -> ThreadUsage:
    return ThreadUsage(cpu_s, 0)


def test_a_first_late_call_only_has_the_next_ones_looked_at() -> None:
    budget = Budget(LIMIT_S)
    assert budget.late(0.05, 100.0) is None
    assert budget.watched_until_s == 110.0


def test_a_busy_machine_is_not_held_against_it() -> None:
    budget = Budget(LIMIT_S)
    assert all(budget.late(1.0, 100.0, IDLE, busy(LIMIT_S / 2)) is None for _ in range(1000))


@pytest.mark.parametrize("after", [busy(0.2), ThreadUsage(0.0, 1)])
def test_used_and_waited_time_counts_against_the_budget(after: ThreadUsage) -> None:
    assert Budget(LIMIT_S).late(0.2, 100.0, IDLE, after) == 1.0


def test_a_rarely_slow_observer_is_watched_for_a_while() -> None:
    budget = Budget(LIMIT_S)
    assert budget.late(5.0, 100.0) is None
    assert budget.watched_until_s == 100.0 + 500.0


def test_small_debts_add_up_and_are_forgiven_with_time() -> None:
    often, seldom = Budget(LIMIT_S), Budget(LIMIT_S)
    suspended = [often.late(0.006, 100.0 + number / 10, IDLE, busy(0.006)) for number in range(20)]
    assert suspended.index(1.0) == 12, "5 ms late each, 1 ms forgiven between"
    assert all(seldom.late(0.006, 100.0 + number, IDLE, busy(0.006)) is None for number in range(1000))


def test_each_suspension_is_longer_until_it_has_behaved_for_a_while() -> None:
    budget, now_s, lengths = Budget(LIMIT_S), 100.0, []
    for _ in range(12):
        suspended_s = budget.late(0.2, now_s, IDLE, busy(0.2))
        assert suspended_s is not None
        assert budget.resumes_s == now_s + suspended_s
        lengths.append(suspended_s)
        now_s = budget.resumes_s
    assert lengths == [1, 2, 4, 8, 16, 32, 64, 128, 256, *[LONGEST_SUSPENSION_S] * 3]
    assert budget.late(0.2, now_s + 2 * LONGEST_SUSPENSION_S, IDLE, busy(0.2)) == 1.0
