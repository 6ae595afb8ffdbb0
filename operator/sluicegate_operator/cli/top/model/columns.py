"""Columns of the console's tables: which fit into a width, in which order rows are, and the text of each cell. Pure."""

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

from sluicegate_operator.cli.top.model.lines import TopView
from sluicegate_operator.cli.top.model.numbers import BLOCKS, sparkline

CLUSTER_KEY = "cluster"
GAP = 1
"""Spaces between two columns."""


class Mark(StrEnum):
    """The importance of a cell, which a terminal with colours shows as well. The cell's text shows the same."""

    PLAIN = ""
    GOOD = "good"
    WARN = "warn"
    BAD = "bad"
    DIM = "dim"


Piece = tuple[str, Mark]
"""A text with its importance."""


def plain(row: Any) -> Mark:
    return Mark.PLAIN


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table.

    - `sort_by` returns a value to compare, or None for an unknown one, which is always last.
    - `width` is that of its cells; a column that stretches takes the rest of the terminal, up to `stretch` cells.
    - `from_width`: smallest width of a terminal that shows the column.
    - `trend`: whether the column draws the field `trend` of a row as a sparkline.
    - `meaning`: sentence for the help and the documentation.
    - `largest_first`: whether the first sort has the largest value at the top.
    """

    key: str
    heading: str
    width: int
    text: Callable[[Any], str]
    sort_by: Callable[[Any], Any]
    meaning: str
    right: bool = True
    stretch: int = 0
    from_width: int = 0
    largest_first: bool = True
    trend: bool = False
    mark: Callable[[Any], Mark] = plain


class Placed(NamedTuple):
    """A column with the width that it has in a terminal."""

    column: Column
    width: int

    def cell(self, row: Any, blocks: str = BLOCKS) -> str:
        """Return the cell of a row with exactly the width of the column; `blocks` draw a sparkline."""
        if self.column.trend:
            return sparkline(row.trend, self.width, blocks)
        return fitted(self.column.text(row), self.width, right=self.column.right)


def cells(shown: Sequence[Placed], screen: "Screen", row: Any, blocks: str = BLOCKS) -> list[Piece]:
    """Return the cells of a row with their importance. A problem takes the place of the cells from its column on."""
    problem = screen.problem(row)
    found: list[Piece] = []
    for at, one in enumerate(shown):
        if problem and one.column.key == screen.problem_from:
            rest = sum(each.width + GAP for each in shown[at:]) - GAP
            return [*found, (fitted(problem, rest), Mark.BAD)]
        found.append((one.cell(row, blocks), one.column.mark(row)))
    return found


@dataclass(frozen=True, slots=True)
class Screen:
    """One table of the console.

    - `rows` returns its rows; `identity` what stays the same for a row from look to look.
    - `search` returns the text that a filter compares.
    - `problem` returns a sentence in place of the figures that begin at the column `problem_from`, or an empty text.
    - `empty`: sentence for a table without rows.
    """

    key: str
    title: str
    columns: tuple[Column, ...]
    sort: str
    rows: Callable[[TopView], Sequence[Any]]
    identity: Callable[[Any], Hashable]
    search: Callable[[Any], str]
    empty: str
    problem: Callable[[Any], str] = lambda row: ""
    problem_from: str = ""

    def column(self, key: str) -> Column:
        return next(one for one in self.columns if one.key == key)


@dataclass(frozen=True, slots=True)
class SortOrder:
    """The order of rows: a column's key, and whether its usual direction is reversed."""

    key: str
    reverse: bool = False


def fitted(text: str, width: int, *, right: bool = False) -> str:
    """Return a text with exactly this width. A longer one ends in `~`."""
    if len(text) > width:
        return text[: max(0, width - 1)] + "~" if width else ""
    return text.rjust(width) if right else text.ljust(width)


def placed(columns: Iterable[Column], width: int, clusters: int = 1) -> list[Placed]:
    """Return the columns that fit into a terminal of this width, in their order.

    A column that does not fit is left out with all columns after it. The column of clusters needs several `clusters`.
    """
    wanted = [one for one in columns if one.from_width <= width and (clusters > 1 or one.key != CLUSTER_KEY)]
    shown: list[Column] = []
    used = 0
    for column in wanted:
        if shown and used + column.width + GAP > width:
            break
        used += column.width + (GAP if shown else 0)
        shown.append(column)
    rest = max(0, width - used)
    found = []
    for column in shown:
        more = min(rest, max(0, column.stretch - column.width))
        rest -= more
        found.append(Placed(column, column.width + more))
    return found


def chosen(screen: Screen, rows: Sequence[Any], words: str) -> Sequence[Any]:
    """Return the rows whose text contains each word of a filter. A word that begins with `!` must not occur."""
    wanted = words.lower().split()
    if not wanted:
        return rows
    found = rows
    for word in wanted:
        if len(word) > 1 and word[0] == "!":
            found = [row for row in found if word[1:] not in screen.search(row).lower()]
        else:
            found = [row for row in found if word in screen.search(row).lower()]
    return found


def ordered(screen: Screen, rows: Sequence[Any], order: SortOrder) -> list[Any]:
    """Return the rows in this order. Equal rows keep their order, and unknown values are last."""
    column = screen.column(order.key)
    sort_by = column.sort_by
    largest_first = column.largest_first is not order.reverse
    if None not in list(map(sort_by, rows)):
        return sorted(rows, key=sort_by, reverse=largest_first)
    known = sorted((row for row in rows if sort_by(row) is not None), key=sort_by, reverse=largest_first)
    return known + [row for row in rows if sort_by(row) is None]


def next_order(screen: Screen, shown: Sequence[Placed], order: SortOrder, step: int = 1) -> SortOrder:
    """Return the order by the next of the visible columns, or by the previous one for a `step` of -1."""
    keys = [one.column.key for one in shown]
    at = keys.index(order.key) if order.key in keys else -1 if step > 0 else 0
    return SortOrder(keys[(at + step) % len(keys)])
