"""Histories of figures, and rates of counters."""

from sluicegate_operator.cli.top.model.histories import Histories
from sluicegate_operator.cli.top.model.rates import Rates, sum_of


def test_a_history_keeps_the_last_values() -> None:
    histories = Histories(kept=3)
    for value in (1, 2, 3):
        histories.add("one", value)
    assert histories.add("one", 4) == (2, 3, 4)
    histories.forget("one")
    assert "one" not in histories


def test_the_figure_without_news_for_the_longest_time_is_removed_first() -> None:
    histories = Histories(figures_max=2)
    for key in ("a", "b", "a", "c"):
        histories.add(key, 1)
    assert ["a" in histories, "b" in histories, "c" in histories, len(histories)] == [True, False, True, 2]


def test_growth_needs_two_looks() -> None:
    rates = Rates()
    rates.begin(10.0)
    assert rates.growth("held", 100) is None
    rates.begin(12.0)
    assert rates.growth("held", 150) == 25


def test_a_counter_of_a_restarted_broker_begins_at_zero() -> None:
    rates = Rates()
    rates.begin(10.0)
    rates.growth("held", 100)
    rates.begin(12.0)
    assert rates.growth("held", 8) == 4


def test_a_counter_that_a_look_does_not_have_is_forgotten() -> None:
    rates = Rates()
    rates.begin(1.0)
    rates.growth("held", 100)
    rates.begin(2.0)
    rates.begin(3.0)
    assert rates.growth("held", 100) is None


def test_two_looks_of_one_moment_have_no_rate() -> None:
    rates = Rates()
    rates.begin(1.0)
    rates.growth("held", 100)
    rates.begin(1.0)
    assert rates.growth("held", 200) is None


def test_a_sum_is_unknown_if_no_value_is_known() -> None:
    assert sum_of([None, 2, None, 3]) == 5
    assert sum_of([None, None]) is None
    assert sum_of([]) is None
