"""Contests in rounds, and their table."""

import math
from collections.abc import Callable

import pytest

from benchmarks.groups.push_report import contest_table, measure_contest
from benchmarks.groups.push_rows import Contest


def _each_round(*figures: tuple[float, ...]) -> Callable[[], tuple[float, ...]]:
    left = iter(figures)
    return lambda: next(left)


def test_ratios_are_taken_within_a_round(capsys: pytest.CaptureFixture[str]) -> None:
    subjects = {"push": _each_round((1.0, 0.0), (4.0, 1.0)), "classic": _each_round((2.0, 0.0), (4.0, 2.0))}
    measured = measure_contest(Contest("gaps", ("gap, s", "lost"), subjects, "Said."), rounds=2)
    assert measured["figures"]["gap, s"] == {
        "push": {"rounds": [1.0, 4.0]},
        "classic": {"rounds": [2.0, 4.0], "ratio": {"median": 0.75, "least": 0.5, "greatest": 1.0}},
    }
    assert "ratio" not in measured["figures"]["lost"]["classic"], "nothing is no part of anything"
    table = contest_table({"gaps": measured}, machine="two cores", rounds=2)
    assert "| gap, s | 2.5 (1 to 4) | 3 [0.75 (0.50 to 1.00)] |" in table
    assert "Said." in table
    assert capsys.readouterr().out.count("gaps: ") == 4


def test_a_round_that_fails_leaves_the_others(capsys: pytest.CaptureFixture[str]) -> None:
    def fail() -> tuple[float, ...]:
        raise RuntimeError("nobody came")

    classic = _each_round((2.0,), (math.nan,))
    measured = measure_contest(Contest("gaps", ("gap, s",), {"push": fail, "classic": classic}), rounds=2)
    assert measured["figures"]["gap, s"] == {"push": {"rounds": [None, None]}, "classic": {"rounds": [2.0, None]}}
    table = contest_table({"gaps": measured}, machine="two cores", rounds=2)
    assert "| gap, s | none | 2 (without 1 that failed) (2 to 2) |" in table
    assert "nobody came" in capsys.readouterr().out
