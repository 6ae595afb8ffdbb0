"""The console: asks its source for looks, and shows them until the user ends it.

`model` decides rows, order and texts. This module connects them with keys and widgets.
"""

import asyncio
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from rich.text import Text
from textual.binding import Binding
from textual.widgets import Input

from sluicegate_operator.cli.asking.why_report import silent_words, why_tables
from sluicegate_operator.cli.top.console.detail_screen import Contents, DetailScreen
from sluicegate_operator.cli.top.console.row_table import RowTable
from sluicegate_operator.cli.top.console.tables_app import TablesApp
from sluicegate_operator.cli.top.model import chrome
from sluicegate_operator.cli.top.model.columns import Mark
from sluicegate_operator.cli.top.model.details import address_of, copied, details, help_of, title_of
from sluicegate_operator.cli.top.model.lines import TopView
from sluicegate_operator.cli.top.model.look import Look
from sluicegate_operator.cli.top.model.numbers import BLOCKS
from sluicegate_operator.cli.top.model.recorder import Recorder
from sluicegate_operator.cli.top.model.screens import BROKERS
from sluicegate_operator.cli.top.sources.source import SourceError, TopSource

PAUSE_MIN_S = 0.01
"""Least pause between two looks, in which keys are handled."""
SAID_S = 3.0
"""Seconds for which the footer shows a message."""
OF_TABLES = frozenset({"table", "next_table", "filter", "remove_filter", "sort", "reverse", "copy", "help"})
"""Actions that have no effect while a window is open."""


class TopConsole(TablesApp):
    """The console over a source. `first` is the look that it begins with."""

    BINDINGS = [
        Binding("p,space", "pause", show=False),
        Binding("y", "copy", show=False),
        Binding("question_mark", "help", show=False),
        Binding("q,ctrl+c", "quit", show=False),
    ]

    def __init__(
        self,
        source: TopSource,
        first: Look,
        every_s: float,
        *,
        table: str = BROKERS.key,
        words: str = "",
        blocks: str = BLOCKS,
    ) -> None:
        self._source = source
        self._every_s = every_s
        self._recorder = Recorder()
        self._latest: TopView = self._recorder.view(first)
        self._answered_s = time.monotonic()
        self._failure = ""
        self._paused = False
        self._said: tuple[str, float] = ("", 0.0)
        super().__init__(self._latest, table, words, blocks)

    def on_mount(self) -> None:
        self._rows.focus()
        self.show_view()
        self.set_interval(1.0, self._draw_heading)
        self.run_worker(self._keep_looking(), exit_on_error=True)

    async def _keep_looking(self) -> None:
        while True:
            began_s = time.monotonic()
            try:
                look = await self._source.look()
            except SourceError as error:
                self._failure = str(error)
            else:
                self.take(look)
            self.show_view()
            await asyncio.sleep(max(PAUSE_MIN_S, began_s + self._every_s - time.monotonic()))

    def take(self, look: Look) -> None:
        """Compute the view of a newer look. It is shown unless the console pauses."""
        self._failure, self._answered_s = "", time.monotonic()
        self._latest = self._recorder.view(look)
        if not self._paused:
            self._view = self._latest

    def show_view(self) -> None:
        super().show_view()
        self._draw_heading()
        self._line("totals", chrome.totals_line(self._view.totals, self.size.width))
        self._show_notes([self._failure] if self._failure else self._view.notes)

    def _show_notes(self, notes: Sequence[str]) -> None:
        line = self._lines["notes"]
        if line.display is not bool(notes):
            line.display = bool(notes)
        more = f" (and {len(notes) - 1} more)" if len(notes) > 1 else ""
        line.show([(f"! {notes[0]}{more}", Mark.BAD)] if notes else [])

    def _draw_heading(self) -> None:
        age_s = time.monotonic() - self._answered_s - self._every_s
        pieces = chrome.heading(self._source.title, self._view, age_s, paused=self._paused)
        self._line("heading", [(" ", Mark.PLAIN), *pieces])
        said, at_s = self._said
        shown = said if time.monotonic() - at_s < SAID_S else ""
        self._line("footer", [(f" {shown or chrome.FOOTER}", Mark.PLAIN)])

    def _say(self, sentence: str) -> None:
        self._said = sentence, time.monotonic()
        self._draw_heading()

    def on_row_table_opened(self, event: RowTable.Opened) -> None:
        screen, row = self._table, event.row
        address = address_of(row)

        async def why() -> Contents:
            return await self._why(address or "")

        window = DetailScreen(title_of(screen, row), details(screen, row, self._view), why if address else None)
        self.push_screen(window, self._window_closed)

    def _window_closed(self, _: object) -> None:
        self.show_view()

    async def _why(self, address: str) -> Contents:
        try:
            found = await self._source.why(address)
        except SourceError as error:
            return [Text(str(error), style="red")]
        tables = [table for one in found for table in why_tables(one, datetime.now(UTC))]
        return [*tables, *(Text(sentence, style="red") for sentence in silent_words(found))]

    def action_pause(self) -> None:
        self._paused = not self._paused
        self._view = self._view if self._paused else self._latest
        self.show_view()

    def action_copy(self) -> None:
        row: Any = self._rows.row
        if row is None:
            self._say("there is no row to copy")
            return
        self.copy_to_clipboard(copied(self._table, row))
        self._say("copied the row to the clipboard of the terminal")

    def action_help(self) -> None:
        self.push_screen(DetailScreen("Help of sluicegate top", help_of(self._table)), self._window_closed)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Leave keys to the line of the filter, and to an open window."""
        if len(self.screen_stack) > 1:
            return action not in OF_TABLES
        if action == "next_table":
            return not isinstance(self.focused, Input)
        return True
