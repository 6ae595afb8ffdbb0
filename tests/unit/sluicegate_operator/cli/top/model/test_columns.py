"""Which columns fit, in which order rows are, and what a filter leaves."""

from typing import Any, NamedTuple

import pytest

from sluicegate_operator.cli.top.model.columns import (
    GAP,
    Column,
    Mark,
    Screen,
    SortOrder,
    cells,
    chosen,
    fitted,
    next_order,
    ordered,
    placed,
)
from sluicegate_operator.cli.top.model.lines import TopView, Totals
from sluicegate_operator.cli.top.model.recorder import Recorder
from sluicegate_operator.cli.top.model.screens import SCREENS
from tests.support.fakes.synthetic_console import SyntheticSource

VIEW = TopView("", (), Totals(0, 0, None, None, None, None, 0, None))


class Row(NamedTuple):
    name: str
    rate: float | None
    problem: str = ""


NAME = Column("name", "name", 6, lambda row: row.name, lambda row: row.name, "", right=False, stretch=10,
              largest_first=False)  # fmt: skip
RATE = Column("rate", "rate", 5, lambda row: str(row.rate), lambda row: row.rate, "", mark=lambda row: Mark.WARN)
MORE = Column("more", "more", 4, lambda row: "x", lambda row: 0, "", from_width=40)
THINGS = Screen(
    "things", "Things", (NAME, RATE, MORE), "rate", lambda view: (), lambda row: row.name, lambda row: row.name, "none",
    lambda row: row.problem, "rate",
)  # fmt: skip
ROWS = [Row("b", 2.0), Row("a", None), Row("C", 2.0), Row("d", 7.0)]


def names(rows: Any) -> str:
    return "".join(row.name for row in rows)


def test_rows_without_a_value_are_last_in_both_directions() -> None:
    assert names(ordered(THINGS, ROWS, SortOrder("rate"))) == "dbCa"
    assert names(ordered(THINGS, ROWS, SortOrder("rate", reverse=True))) == "bCda"
    assert names(ordered(THINGS, ROWS, SortOrder("name"))) == "Cabd"


def test_a_filter_has_words_that_all_occur_and_words_that_do_not() -> None:
    rows = [Row("listener EXTERNAL", 1), Row("ip 10.0.0.1", 1), Row("ip 10.0.0.2", 1)]
    assert chosen(THINGS, rows, "") is rows
    assert [row.name for row in chosen(THINGS, rows, "  external ")] == ["listener EXTERNAL"]
    assert [row.name for row in chosen(THINGS, rows, "ip !0.2")] == ["ip 10.0.0.1"]
    assert chosen(THINGS, rows, "ip external") == []
    assert chosen(THINGS, rows, "!") == [], "a sign alone is a word: the user is still typing"


def test_columns_fit_into_the_width() -> None:
    assert [(one.column.key, one.width) for one in placed(THINGS.columns, 12)] == [("name", 6), ("rate", 5)]
    assert [(one.column.key, one.width) for one in placed(THINGS.columns, 14)] == [("name", 8), ("rate", 5)]
    assert [(one.column.key, one.width) for one in placed(THINGS.columns, 50)] == [
        ("name", 10),
        ("rate", 5),
        ("more", 4),
    ]
    assert [one.column.key for one in placed(THINGS.columns, 3)] == ["name"]


def test_a_long_text_is_cut_with_a_sign() -> None:
    assert fitted("abcdef", 4) == "abc~"
    assert fitted("ab", 4) == "ab  "
    assert fitted("ab", 4, right=True) == "  ab"
    assert fitted("ab", 0) == ""


def test_a_problem_takes_the_place_of_the_figures() -> None:
    shown = placed(THINGS.columns, 50)
    assert cells(shown, THINGS, Row("a", 1.5)) == [("a         ", ""), ("  1.5", "warn"), ("   x", "")]
    assert cells(shown, THINGS, Row("a", 1.5, "gone")) == [("a         ", ""), ("gone      ", "bad")]


def test_the_next_column_to_sort_by_is_one_in_sight() -> None:
    shown = placed(THINGS.columns, 14)
    assert next_order(THINGS, shown, SortOrder("rate", reverse=True)) == SortOrder("name")
    assert next_order(THINGS, shown, SortOrder("name"), -1) == SortOrder("rate")
    assert next_order(THINGS, shown, SortOrder("more")) == SortOrder("name")


@pytest.mark.parametrize("screen", SCREENS.values(), ids=SCREENS.keys())
@pytest.mark.parametrize("width", [20, 80, 120, 200])
def test_every_table_fits_and_has_rows_of_one_width(screen: Screen, width: int) -> None:
    source, recorder = SyntheticSource(), Recorder()
    recorder.view(source.look_at(3))
    view = recorder.view(source.look_at(4))
    shown = placed(screen.columns, width - GAP, clusters=2)
    used = sum(one.width + GAP for one in shown)
    assert used <= width or len(shown) == 1
    rows = screen.rows(view)
    assert rows
    for row in rows:
        assert sum(len(text) + GAP for text, _ in cells(shown, screen, row)) == used
        assert screen.search(row)
        assert hash(screen.identity(row)) is not None
    for column in screen.columns:
        assert len(column.heading) <= column.width
        assert column.meaning.endswith(".")
        assert len(ordered(screen, rows, SortOrder(column.key))) == len(rows)
    assert screen.column(screen.sort)


@pytest.mark.parametrize("screen", SCREENS.values(), ids=SCREENS.keys())
def test_a_terminal_of_80_columns_shows_the_column_that_sorts(screen: Screen) -> None:
    assert screen.sort in [one.column.key for one in placed(screen.columns, 80 - GAP)]
