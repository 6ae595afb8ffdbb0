"""A table that draws only the rows in sight, and of these only the cells that have changed.

Textual's own DataTable keeps all rows as text: ten thousand rows that change ten times a second would use a whole core.
"""

from collections.abc import Hashable, Sequence
from typing import Any

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import Binding
from textual.geometry import Region
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from sluicegate_operator.cli.top.console.styles import CURSOR, HEADING, PLAIN, STYLES
from sluicegate_operator.cli.top.model.columns import GAP, Mark, Piece, Placed, Screen, SortOrder, cells, fitted, placed
from sluicegate_operator.cli.top.model.numbers import BLOCKS

Line = tuple[bool, tuple[Piece, ...]]
"""A drawn row: whether it has the cursor, and its cells."""
WHEEL_ROWS = 3


class RowTable(Widget, can_focus=True):
    """The rows of one screen, with a cursor that follows its row when the order changes."""

    BINDINGS = [
        Binding("up,k", "move(-1)", show=False),
        Binding("down,j", "move(1)", show=False),
        Binding("pageup,ctrl+b", "page(-1)", show=False),
        Binding("pagedown,ctrl+f", "page(1)", show=False),
        Binding("home,g", "move(-1000000)", show=False),
        Binding("end,G", "move(1000000)", show=False),
        Binding("enter", "open", show=False),
    ]

    class Opened(Message):
        """The user wants the details of a row."""

        def __init__(self, row: Any) -> None:
            super().__init__()
            self.row = row

    class SortChosen(Message):
        """The user has clicked on the heading of a column."""

        def __init__(self, key: str) -> None:
            super().__init__()
            self.key = key

    class Moved(Message):
        """The cursor is on another row."""

    def __init__(self, screen: Screen, blocks: str = BLOCKS) -> None:
        super().__init__(id="rows")
        self.table = screen
        self.rows: Sequence[Any] = ()
        self.shown: Sequence[Placed] = ()
        self.at = 0
        self._blocks = blocks
        self._order = SortOrder(screen.sort)
        self._clusters = 1
        self._cursor: Hashable = None
        self._first = 0
        self._lines: list[Line] = []
        self._known: dict[int, tuple[Any, tuple[Piece, ...]]] = {}
        """The rows in sight and their cells, by the identity of a row: a row object that did not change keeps them."""
        self._heading = ""

    @property
    def row(self) -> Any | None:
        """The row of the cursor; None without rows."""
        return self.rows[self.at] if self.rows else None

    def show(self, screen: Screen, rows: Sequence[Any], order: SortOrder, clusters: int) -> None:
        """Show these rows, which are in order."""
        if screen is not self.table:
            self.table, self.at, self._first, self._cursor = screen, 0, 0, None
        self.rows, self._order, self._clusters = rows, order, clusters
        self._follow()
        self._draw()

    def _follow(self) -> None:
        """Keep the cursor on its row. If the row is gone or the cursor was never moved, it keeps its place."""
        if self._cursor is not None:
            identity = self.table.identity
            if self.at < len(self.rows) and identity(self.rows[self.at]) == self._cursor:
                return
            found = next((at for at, row in enumerate(self.rows) if identity(row) == self._cursor), None)
            if found is not None:
                self.at = found
        self.at = max(0, min(self.at, len(self.rows) - 1))

    def move_to(self, at: int) -> None:
        """Move the cursor to a row. At the first row it stays at the top, whichever row is there."""
        self.at = max(0, min(at, len(self.rows) - 1))
        self._cursor = self.table.identity(self.rows[self.at]) if self.rows and self.at else None
        self._draw()
        self.post_message(self.Moved())

    def action_move(self, by: int) -> None:
        self.move_to(self.at + by)

    def action_page(self, by: int) -> None:
        self.move_to(self.at + by * max(1, self.size.height - 2))

    def action_open(self) -> None:
        if self.row is not None:
            self.post_message(self.Opened(self.row))

    def on_resize(self, event: events.Resize) -> None:
        self._lines = []
        self._draw()

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        self.move_to(self.at + WHEEL_ROWS)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        self.move_to(self.at - WHEEL_ROWS)

    def on_click(self, event: events.Click) -> None:
        if event.y == 0:
            key = self._column_at(event.x)
            if key is not None:
                self.post_message(self.SortChosen(key))
        elif self._first + event.y - 1 < len(self.rows):
            self.move_to(self._first + event.y - 1)
            if event.chain == 2:
                self.action_open()

    def _column_at(self, x: int) -> str | None:
        start = GAP
        for one in self.shown:
            if x < start + one.width:
                return one.column.key
            start += one.width + GAP
        return None

    def _draw(self) -> None:
        """Draw the rows in sight, and ask Textual for the cells that differ from the drawn ones."""
        width, height = self.size
        if not width or height < 2:
            return
        shown = placed(self.table.columns, width - GAP, self._clusters)
        if shown != self.shown:
            self.shown, self._known = shown, {}
        in_sight = height - 1
        self._first = max(0, min(self._first, len(self.rows) - in_sight))
        self._first = min(max(self._first, self.at - in_sight + 1), self.at)
        drawn, self._lines = self._lines, self._visible(in_sight, width)
        heading = self._heading_text()
        if heading != self._heading or len(drawn) != len(self._lines):
            self._heading = heading
            self.refresh()
            return
        changed = [
            Region(start, y, end - start, 1)
            for y, (before, now) in enumerate(zip(drawn, self._lines, strict=True), 1)
            if before != now
            for start, end in [_changed(before, now, width)]
        ]
        if changed:
            self.refresh(*changed)

    def _visible(self, count: int, width: int) -> list[Line]:
        rows = self.rows[self._first : self._first + count]
        known, self._known = self._known, {}
        lines: list[Line] = []
        for at, row in enumerate(rows, self._first):
            before = known.get(id(row))
            found = before[1] if before is not None else tuple(cells(self.shown, self.table, row, self._blocks))
            self._known[id(row)] = row, found
            lines.append((at == self.at, found))
        if not self.rows:
            lines = [(False, ((fitted(self.table.empty, width - GAP), Mark.DIM),))]
        return lines + [(False, ())] * (count - len(lines))

    def _heading_text(self) -> str:
        """Return the headings. The sorted column has an arrow beside its heading."""
        largest_first = self.table.column(self._order.key).largest_first is not self._order.reverse
        text = " " * GAP
        for one in self.shown:
            heading = one.column.heading
            cell = fitted(heading, one.width, right=one.column.right)
            if one.column.key == self._order.key:
                arrow = ("▼" if largest_first else "▲") if self._blocks == BLOCKS else "v" if largest_first else "^"
                if one.column.right:
                    text, cell = (text + cell).removesuffix(heading)[:-1] + arrow, heading
                else:
                    cell = heading + arrow + " " * (one.width - len(heading) - 1)
            text += cell + " " * max(0, GAP - max(0, len(cell) - one.width))
        return text.rstrip()

    def render_line(self, y: int) -> Strip:
        width = self.size.width
        if y == 0:
            return Strip([Segment(fitted(self._heading, width), HEADING)], width)
        if y > len(self._lines):
            return Strip.blank(width)
        under_cursor, row = self._lines[y - 1]
        pieces = merged(under_cursor, row)
        used = sum(len(text) for text, _ in pieces)
        segments = [Segment(text, style) for text, style in pieces]
        if used > width:
            return Strip(segments, used).crop(0, width)
        return Strip([*segments, Segment(" " * (width - used), CURSOR if under_cursor else PLAIN)], width)


def merged(under_cursor: bool, row: Sequence[Piece]) -> list[tuple[str, Style]]:
    """Return the texts of a line with their styles, with the gaps. Neighbours of one style are one text.

    Textual's time for a line grows with the number of its texts, and most cells have the same style.
    """
    base = CURSOR if under_cursor else PLAIN
    found: list[tuple[str, Style]] = []
    waiting = ">" if under_cursor else " "
    for text, mark in row:
        if under_cursor or mark is Mark.PLAIN:
            waiting += text
        else:
            found += [(waiting, base), (text, STYLES[mark])]
            waiting = ""
        waiting += " " * GAP
    return [*found, (waiting, base)]


def _changed(before: Line, now: Line, width: int) -> tuple[int, int]:
    """Return the first changed cell of a line, and the end of the last one, in columns of the terminal."""
    if before[0] != now[0] or len(before[1]) != len(now[1]):
        return 0, width
    start, first, end = GAP, None, width
    for old, new in zip(before[1], now[1], strict=True):
        if len(old[0]) != len(new[0]):
            return 0, width
        if old != new:
            first = start if first is None else first
            end = start + len(new[0])
        start += len(new[0]) + GAP
    return first or 0, end
