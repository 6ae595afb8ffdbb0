"""The lines around the table: totals, names of the tables, and the keys. Pure."""

from collections.abc import Mapping, Sequence

from sluicegate_operator.cli.top.model.columns import Mark, Piece, Screen, SortOrder, fitted
from sluicegate_operator.cli.top.model.lines import TopView, Totals
from sluicegate_operator.cli.top.model.numbers import seconds
from sluicegate_operator.cli.top.model.plain_text import headline

FOOTER = "Enter detail  / filter  s sort  r reverse  p pause  y copy  ? help  q quit"
PROBLEMS = ("storms", "partitions")
GAP_OF_TOTALS = 2
LATE_S = 3.0
"""Age of the shown answers from which the heading shows it."""


def heading(title: str, view: TopView, age_s: float, *, paused: bool) -> list[Piece]:
    """Return the first line: the source, the time of the answers, and whether the console is paused."""
    clusters = ", ".join(view.clusters)
    pieces: list[Piece] = [(f"sluicegate top  {clusters}  {title}  {view.shown_at} UTC", Mark.PLAIN)]
    if paused:
        pieces.append(("  PAUSED, p continues", Mark.WARN))
    elif age_s >= LATE_S:
        pieces.append((f"  waiting for answers for {seconds(age_s)}", Mark.WARN))
    return pieces


def totals_line(totals: Totals, width: int) -> list[Piece]:
    """Return the totals that fit into this width."""
    found: list[Piece] = []
    left = width
    for text, mark in headline(totals):
        left -= len(text) + GAP_OF_TOTALS
        if left + GAP_OF_TOTALS < 0:
            break
        found += [(text, mark), (" " * GAP_OF_TOTALS, Mark.PLAIN)]
    return found[:-1]


def tabs(screens: Mapping[str, Screen], shown: str, view: TopView) -> list[Piece]:
    """Return the names of the tables with their keys.

    Brackets mark the shown table. A sign `!` marks tables of problems that have rows.
    """
    pieces: list[Piece] = []
    before = ""
    for number, screen in enumerate(screens.values(), 1):
        busy = screen.key in PROBLEMS and bool(screen.rows(view))
        edge = "[" if screen.key == shown else "]" if before == shown and before else " "
        mark = Mark.WARN if busy else Mark.PLAIN if screen.key == shown else Mark.DIM
        pieces += [(edge, Mark.PLAIN), (f"{number} {screen.title}{'!' if busy else ''}", mark)]
        before = screen.key
    return [*pieces, ("]" if before == shown else " ", Mark.PLAIN)]


def status(screen: Screen, order: SortOrder, words: str, place: tuple[int, int, int]) -> str:
    """Return the line below the table. `place` has the cursor's row, the number of rows, and that without a filter."""
    at, count, of_all = place
    column = screen.column(order.key)
    largest = column.largest_first is not order.reverse
    direction = (
        ("largest first" if largest else "smallest first") if column.right else ("Z to A" if largest else "A to Z")
    )
    rows = f"row {at + 1} of {count}" if count else "no rows"
    filtered = f"  filter: {words}  ({of_all} without it)" if words else ""
    return f"{rows}  sorted by {column.heading}, {direction}{filtered}"


def cut(pieces: Sequence[Piece], width: int) -> list[Piece]:
    """Return the pieces with exactly this width together."""
    found: list[Piece] = []
    left = width
    for text, mark in pieces:
        shown = fitted(text, min(left, len(text)))
        found.append((shown, mark))
        left -= len(shown)
    return [*found, (" " * left, Mark.PLAIN)] if left else found
