"""The part of the console that shows one of the tables, and handles the keys of its order and filter."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from rich.style import Style
from textual.app import App, ComposeResult
from textual.binding import Binding
from textual.widgets import Input

from sluicegate_operator.cli.top.console.row_table import RowTable
from sluicegate_operator.cli.top.console.styles import CSS, KEYS
from sluicegate_operator.cli.top.console.text_lines import TextLines
from sluicegate_operator.cli.top.model import chrome
from sluicegate_operator.cli.top.model.columns import Mark, Piece, SortOrder, chosen, next_order, ordered
from sluicegate_operator.cli.top.model.lines import TopView
from sluicegate_operator.cli.top.model.screens import SCREENS

LINES: Mapping[str, Style | None] = {
    "heading": KEYS,
    "totals": None,
    "notes": None,
    "tabs": None,
    "status": None,
    "footer": KEYS,
}


class TablesApp(App[None]):
    """The tables of a view, with an order and a filter for each table."""

    CSS = CSS
    ENABLE_COMMAND_PALETTE = False
    BINDINGS = [
        *(Binding(str(at), f"table('{key}')", show=False) for at, key in enumerate(SCREENS, 1)),
        Binding("tab,right", "next_table(1)", show=False, priority=True),
        Binding("shift+tab,left", "next_table(-1)", show=False, priority=True),
        Binding("slash", "filter", show=False),
        Binding("escape", "remove_filter", show=False),
        Binding("s", "sort(1)", show=False),
        Binding("S", "sort(-1)", show=False),
        Binding("r", "reverse", show=False),
    ]

    def __init__(self, view: TopView, table: str, words: str, blocks: str) -> None:
        super().__init__(ansi_color=True)
        self._view = view
        self._table = SCREENS[table]
        self._orders = {key: SortOrder(screen.sort) for key, screen in SCREENS.items()}
        self._of_all = 0
        self._words = dict.fromkeys(SCREENS, words)
        self._lines = {name: TextLines(name, style) for name, style in LINES.items()}
        self._rows = RowTable(self._table, blocks)
        self._filter = Input(
            id="filter", placeholder="words; !WORD leaves rows out", compact=True, select_on_focus=False
        )

    def compose(self) -> ComposeResult:
        yield from (self._lines[name] for name in ("heading", "totals", "notes", "tabs"))
        yield self._rows
        yield self._lines["status"]
        yield self._filter
        yield self._lines["footer"]

    def show_view(self) -> None:
        """Show the view with the present table, filter and order. The table below a window is not drawn."""
        if len(self.screen_stack) > 1:
            return
        screen, order = self._table, self._orders[self._table.key]
        rows = screen.rows(self._view)
        self._of_all = len(rows)
        found = ordered(screen, chosen(screen, rows, self._words[screen.key]), order)
        self._rows.show(screen, found, order, len(self._view.clusters))
        self._line("tabs", chrome.tabs(SCREENS, screen.key, self._view))
        self._draw_status()

    def _line(self, name: str, pieces: Sequence[Piece]) -> None:
        self._lines[name].show(pieces)

    def _draw_status(self) -> None:
        key = self._table.key
        place = self._rows.at, len(self._rows.rows), self._of_all
        self._line("status", [(chrome.status(self._table, self._orders[key], self._words[key], place), Mark.DIM)])

    def on_row_table_moved(self, event: RowTable.Moved) -> None:
        self._draw_status()

    def on_row_table_sort_chosen(self, event: RowTable.SortChosen) -> None:
        order = self._orders[self._table.key]
        same = order.key == event.key
        self._orders[self._table.key] = SortOrder(event.key, same and not order.reverse)
        self.show_view()

    def action_table(self, key: str) -> None:
        self._table = SCREENS[key]
        self._filter.display = False
        self._rows.focus()
        self.show_view()

    def action_next_table(self, step: int) -> None:
        keys = list(SCREENS)
        self.action_table(keys[(keys.index(self._table.key) + step) % len(keys)])

    def action_sort(self, step: int) -> None:
        key = self._table.key
        self._orders[key] = next_order(self._table, self._rows.shown, self._orders[key], step)
        self.show_view()

    def action_reverse(self) -> None:
        key = self._table.key
        self._orders[key] = replace(self._orders[key], reverse=not self._orders[key].reverse)
        self.show_view()

    def action_filter(self) -> None:
        self._filter.value = self._words[self._table.key]
        self._filter.display = True
        self._filter.focus()

    def action_remove_filter(self) -> None:
        self._words[self._table.key] = ""
        self._filter.display = False
        self._rows.focus()
        self.show_view()

    def on_input_changed(self, event: Input.Changed) -> None:
        if self._filter.display:
            self._words[self._table.key] = event.value
            self.show_view()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.input.display = False
        self._rows.focus()
