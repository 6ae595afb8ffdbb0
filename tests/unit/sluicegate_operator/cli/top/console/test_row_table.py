"""What a line of the table costs: few texts, and no cells for a row that did not change."""

from collections.abc import Sequence
from typing import Any

import pytest
from rich.style import Style

from sluicegate_operator.cli.top.console import row_table
from sluicegate_operator.cli.top.console.app import TopConsole
from sluicegate_operator.cli.top.console.row_table import merged
from sluicegate_operator.cli.top.console.styles import CURSOR, PLAIN, STYLES
from sluicegate_operator.cli.top.model.columns import Mark, Piece, cells
from sluicegate_operator.cli.top.model.lines import LimitLine
from tests.support.fakes.synthetic_console import SyntheticSource

LINE: tuple[Piece, ...] = (("a", Mark.PLAIN), ("b ", Mark.PLAIN), ("c", Mark.BAD), (" d", Mark.PLAIN))


def test_neighbours_of_one_style_are_one_text() -> None:
    assert merged(False, LINE) == [(" a b  ", PLAIN), ("c", STYLES[Mark.BAD]), ("  d ", PLAIN)]
    assert merged(True, LINE) == [(">a b  c  d ", CURSOR)]
    assert merged(False, ()) == [(" ", PLAIN)]


def test_two_marked_neighbours_keep_their_styles_and_their_gap() -> None:
    found: list[tuple[str, Style]] = merged(False, (("a", Mark.GOOD), ("b", Mark.WARN)))
    assert [text for text, _ in found] == [" ", "a", " ", "b", " "]


async def test_a_row_that_did_not_change_keeps_its_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    computed: list[str] = []

    def counted(shown: Sequence[Any], screen: Any, row: LimitLine, blocks: str) -> list[Piece]:
        computed.append(row.target)
        return cells(shown, screen, row, blocks)

    source = SyntheticSource(addresses=200, changes=10)
    app = TopConsole(source, await source.look(), 3600.0, table="limits")
    async with app.run_test(size=(120, 40)) as pilot:
        app.take(await source.look())
        app.show_view()
        monkeypatch.setattr(row_table, "cells", counted)
        look = await source.look()
        app.take(look)
        app.show_view()
        table = app.query_one(row_table.RowTable)
        in_sight = {row.target for row in table.rows[: table.size.height - 1]}
        assert computed
        assert len(computed) < len(in_sight) / 2
        computed.clear()
        await pilot.resize_terminal(100, 30)
        await pilot.pause()
        assert len(computed) == table.size.height - 1, "other columns need other cells"
