"""The tables of the console as plain text, for pipes and files. Pure."""

from collections.abc import Iterable, Iterator

from sluicegate_operator.cli.top.model.columns import (
    Mark,
    Piece,
    Screen,
    SortOrder,
    cells,
    chosen,
    fitted,
    ordered,
    placed,
)
from sluicegate_operator.cli.top.model.lines import TopView, Totals
from sluicegate_operator.cli.top.model.numbers import milliseconds, short


def headline(totals: Totals) -> list[Piece]:
    """Return the totals, the most important first."""
    away = totals.answering < totals.brokers
    found: list[Piece] = [
        (f"brokers {totals.answering}/{totals.brokers}", Mark.BAD if away else Mark.PLAIN),
        (f"new/s {short(totals.new_s)}", Mark.PLAIN),
        (f"held/s {short(totals.held_s)}", Mark.WARN if totals.held_s else Mark.PLAIN),
        (f"out of sync {totals.out_of_sync}", Mark.BAD if totals.out_of_sync else Mark.PLAIN),
    ]
    if totals.lag is not None:
        found.append((f"lag {short(totals.lag)}", Mark.PLAIN))
    found.append((f"loop ms {milliseconds(totals.loop_ms)}", Mark.PLAIN))
    found.append((f"open {short(totals.open)}", Mark.PLAIN))
    return found


def plain_text(view: TopView, screens: Iterable[Screen], width: int, words: str = "") -> Iterator[str]:
    """Yield the lines of these tables; `words` filter the rows."""
    yield f"{', '.join(view.clusters)}  {view.shown_at}"
    yield "  ".join(text for text, _ in headline(view.totals))
    for note in view.notes:
        yield f"! {note}"
    for screen in screens:
        yield ""
        rows = ordered(screen, chosen(screen, screen.rows(view), words), SortOrder(screen.sort))
        yield f"{screen.title} ({len(rows)})"
        if not rows:
            yield f"  {screen.empty}"
            continue
        shown = placed(screen.columns, width, len(view.clusters))
        heading = (fitted(one.column.heading, one.width, right=one.column.right) for one in shown)
        yield " ".join(heading).rstrip()
        for row in rows:
            yield " ".join(text for text, _ in cells(shown, screen, row)).rstrip()
