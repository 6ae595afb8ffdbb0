"""A window over the table: details of a row, the brokers' answers about an address, or the help."""

import io
from collections.abc import Awaitable, Callable, Sequence

from rich.console import Console, Group, RenderableType
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Static

from sluicegate_operator.cli.top.console.styles import KEYS
from sluicegate_operator.cli.top.console.text_lines import TextLines
from sluicegate_operator.cli.top.model.columns import Mark

Contents = Sequence[RenderableType]
COPY_WIDTH = 120
_KEYS = " Esc close  Up/Down scroll  y copy the text"


class DetailScreen(ModalScreen[None]):
    """A window with a title and a text. `ask` fetches more text, which is shown when it arrives."""

    BINDINGS = [
        Binding("escape,q,enter", "dismiss_window", show=False),
        Binding("y", "copy", show=False),
        Binding("j", "scroll(1)", show=False),
        Binding("k", "scroll(-1)", show=False),
    ]

    def __init__(self, title: str, contents: Contents, ask: Callable[[], Awaitable[Contents]] | None = None) -> None:
        super().__init__()
        self._title = title
        self._contents = contents
        self._ask = ask

    def compose(self) -> ComposeResult:
        yield TextLines("detail-title", KEYS)
        with VerticalScroll():
            yield Static(Group(*self._contents), id="detail-text", markup=False)
        yield TextLines("detail-keys", KEYS)

    def on_mount(self) -> None:
        self.query_one("#detail-title", TextLines).show([(f" {self._title}", Mark.PLAIN)])
        self.query_one("#detail-keys", TextLines).show([(_KEYS, Mark.PLAIN)])
        self.query_one(VerticalScroll).focus()
        if self._ask is not None:
            self._show([Text("the brokers are asked ..."), *self._contents])
            self.run_worker(self._fetch(self._ask), exit_on_error=True)

    async def _fetch(self, ask: Callable[[], Awaitable[Contents]]) -> None:
        self._contents = [*await ask(), *self._contents]
        self._show(self._contents)

    def _show(self, contents: Contents) -> None:
        self.query_one("#detail-text", Static).update(Group(*contents))

    @property
    def plain(self) -> str:
        """The text of the window."""
        out = io.StringIO()
        console = Console(file=out, width=COPY_WIDTH)
        for part in self._contents:
            console.print(part)
        return "\n".join(line.rstrip() for line in out.getvalue().splitlines())

    def action_dismiss_window(self) -> None:
        self.dismiss()

    def action_copy(self) -> None:
        self.app.copy_to_clipboard(f"{self._title}\n{self.plain}\n")
        self.query_one("#detail-keys", TextLines).show([(f"{_KEYS}   copied", Mark.PLAIN)])

    def action_scroll(self, lines: int) -> None:
        self.query_one(VerticalScroll).scroll_relative(y=lines, animate=False)
