"""A widget for one line of text whose pieces have marks."""

from collections.abc import Sequence

from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip
from textual.widget import Widget

from sluicegate_operator.cli.top.console.styles import STYLES
from sluicegate_operator.cli.top.model.chrome import cut
from sluicegate_operator.cli.top.model.columns import Piece


class TextLines(Widget):
    """One line. It is drawn again only if it has changed."""

    def __init__(self, id: str, style: Style | None = None) -> None:
        super().__init__(id=id)
        self._base = style or Style()
        self._pieces: Sequence[Piece] = ()

    @property
    def plain(self) -> str:
        return "".join(text for text, _ in self._pieces)

    def show(self, pieces: Sequence[Piece]) -> None:
        if list(pieces) != list(self._pieces):
            self._pieces = pieces
            self.refresh()

    def render_line(self, y: int) -> Strip:
        width = self.size.width
        return Strip([Segment(text, self._base + STYLES[mark]) for text, mark in cut(self._pieces, width)], width)
