"""The console with Textual's pilot: keys, windows, sizes, missing colours, and brokers that do not answer."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from textual.geometry import Region
from textual.pilot import Pilot
from textual.widgets import Input

from sluicegate_operator.cli.asking.why_report import AddressAnswers
from sluicegate_operator.cli.top.console.app import TopConsole
from sluicegate_operator.cli.top.console.detail_screen import DetailScreen
from sluicegate_operator.cli.top.console.row_table import RowTable
from sluicegate_operator.cli.top.console.running import blocks_of
from sluicegate_operator.cli.top.console.text_lines import TextLines
from sluicegate_operator.cli.top.model import chrome
from sluicegate_operator.cli.top.model.look import Look
from sluicegate_operator.cli.top.model.numbers import ASCII_BLOCKS, BLOCKS
from sluicegate_operator.cli.top.sources.source import SourceError
from tests.support.fakes.synthetic_console import CLUSTER, SyntheticSource

DEADLINE_S = 20.0
SIZES = ((80, 24), (120, 40), (200, 60))


class Steps(SyntheticSource):
    """A source whose looks are released one by one, so that a test decides what the console shows."""

    def __init__(self, **more: object) -> None:
        super().__init__(**more)  # type: ignore[arg-type]
        self.release = asyncio.Semaphore(0)
        self.failure = ""

    async def look(self) -> Look:
        if self.looks:
            await self.release.acquire()
        if self.failure:
            raise SourceError(self.failure)
        return await super().look()

    async def why(self, address: str) -> Sequence[AddressAnswers]:
        if self.failure:
            raise SourceError(self.failure)
        return await super().why(address)


class Shown:
    """The console under a pilot, and what it shows."""

    def __init__(self, app: TopConsole, pilot: Pilot[None], source: Steps) -> None:
        self.app, self.pilot, self.source = app, pilot, source

    @property
    def table(self) -> RowTable:
        return self.app.screen_stack[0].query_one(RowTable)

    def line(self, name: str) -> str:
        return self.app.screen_stack[0].query_one(f"#{name}", TextLines).plain

    @property
    def lines(self) -> list[str]:
        """The lines of the table, the heading first."""
        return [self.table.render_line(y).text for y in range(self.table.size.height)]

    async def until(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(DEADLINE_S):
            while not holds():
                await self.pilot.pause(0.01)

    async def step(self) -> None:
        """Let the console show the next look."""
        looks = self.source.looks
        self.source.release.release()
        await self.until(lambda: self.source.looks > looks or bool(self.source.failure))
        await self.pilot.pause()

    async def press(self, *keys: str) -> None:
        await self.pilot.press(*keys)
        await self.pilot.pause()


@asynccontextmanager
async def console(
    source: Steps | None = None, size: tuple[int, int] = (80, 24), table: str = "brokers", words: str = ""
) -> AsyncIterator[Shown]:
    asked = source or Steps()
    app = TopConsole(asked, await asked.look(), 0.1, table=table, words=words)
    async with app.run_test(size=size) as pilot:
        await pilot.pause()
        yield Shown(app, pilot, asked)


@pytest.fixture(autouse=True)
def _colours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)


async def test_the_console_shows_brokers_and_refreshes_them() -> None:
    async with console() as shown:
        assert "12:00:01" in shown.line("heading")
        assert [line.split()[:2] for line in shown.lines[2:4]] == [["1", "Online"], ["2", "Fenced"]]
        assert "no answer within 3 s" in shown.lines[3]
        await shown.step()
        assert "12:00:02" in shown.line("heading")
        assert shown.line("totals").startswith("brokers 2/3  new/s ")


async def test_only_changed_cells_are_drawn_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async with console(Steps(away=frozenset({0, 1, 2}))) as shown:
        drawn: list[object] = []
        monkeypatch.setattr(shown.table, "refresh", lambda *regions, **more: drawn.extend(regions or ["all"]))
        await shown.step()
        assert drawn == [], "brokers that do not answer have no figures that change"
        shown.source.away = frozenset({0, 1})
        await shown.step()
        assert drawn == [Region(0, 3, 80, 1)], "all cells of a broker that has begun to answer"
        drawn.clear()
        await shown.step()
        assert [(region.x, region.y, region.height) for region in drawn if isinstance(region, Region)] == [(34, 3, 1)]


async def test_keys_choose_tables() -> None:
    async with console() as shown:
        for key, name in enumerate(("Brokers", "Limits", "Addresses", "Clients", "Storms", "Groups", "Partitions"), 1):
            await shown.press(str(key))
            assert f"[{key} {name}" in shown.line("tabs")
        await shown.press("tab")
        assert "[1 Brokers]" in shown.line("tabs")
        await shown.press("left")
        assert "[7 Partitions!]" in shown.line("tabs")
        await shown.press("shift+tab", "right")
        assert "[7 Partitions!]" in shown.line("tabs")


async def test_sorting_by_keys_and_by_a_click() -> None:
    async with console(table="limits") as shown:
        await shown.step()
        assert "▼held/s" in shown.lines[0]
        await shown.press("s")
        assert "▼held" in shown.lines[0].split()
        await shown.press("S", "S", "r")
        assert "▲blocked" in shown.lines[0]
        assert shown.line("status").startswith("row 1 of 14  sorted by blocked, smallest first")
        await shown.pilot.click(RowTable, offset=(2, 0))
        assert [row.target for row in shown.table.rows][:2] == ["broker", "ip 10.0.0.0"]
        await shown.pilot.click(RowTable, offset=(2, 0))
        assert shown.table.rows[0].target == "listener EXTERNAL"


async def test_the_cursor_stays_on_its_row_when_the_order_changes() -> None:
    async with console(table="limits") as shown:
        await shown.press("down", "down", "down")
        target = shown.table.row.target  # type: ignore[union-attr]
        await shown.press("r")
        assert shown.table.row.target == target  # type: ignore[union-attr]
        assert sum(line.startswith(">") for line in shown.lines) == 1
        await shown.press("end")
        assert shown.table.at == 13
        await shown.press("pageup", "home", "up")
        assert shown.table.at == 0
        await shown.pilot.click(RowTable, offset=(2, 3))
        assert shown.table.at == 2


async def test_a_filter_is_typed_kept_and_removed() -> None:
    async with console(table="limits") as shown:
        await shown.press("slash", *"ip !0.1")
        assert len(shown.table.rows) == 9
        assert "filter: ip !0.1  (14 without it)" in shown.line("status")
        await shown.press("enter")
        assert shown.app.query_one("#filter", Input).display is False
        await shown.step()
        assert len(shown.table.rows) == 9
        await shown.press("1")
        assert len(shown.table.rows) == 3, "each table has its own filter"
        await shown.press("2", "escape")
        assert len(shown.table.rows) == 14


async def test_a_filter_without_a_row_says_what_is_missing() -> None:
    async with console(table="groups", words="nothing-like-this") as shown:
        assert "no group is known" in shown.lines[1]
        assert "no rows" in shown.line("status")
        await shown.press("enter", "y")
        assert "there is no row to copy" in shown.line("footer")


async def test_details_of_an_address_have_the_brokers_answers() -> None:
    async with console(table="addresses") as shown:
        await shown.press("down", "enter")
        window = shown.app.screen
        assert isinstance(window, DetailScreen)
        await shown.until(lambda: "Limits on 10.0.0.1 in cluster shop" in window.plain)
        assert shown.source.asked == ["10.0.0.1"]
        assert "default/noisy-neighbour" in window.plain
        assert f"broker 2 of {CLUSTER} did not answer: no answer within 3 s" in window.plain
        await shown.step()
        await shown.press("j", "k", "escape")
        assert not isinstance(shown.app.screen, DetailScreen)
        assert "12:00:02" in shown.line("heading")


async def test_details_without_an_answer_say_why() -> None:
    source = Steps()
    async with console(source, table="addresses") as shown:
        source.failure = "no `sluicegate up` runs here"
        await shown.press("enter")
        window = shown.app.screen
        assert isinstance(window, DetailScreen)
        await shown.until(lambda: "no `sluicegate up` runs here" in window.plain)


async def test_details_of_other_rows_and_the_help() -> None:
    async with console(table="groups") as shown:
        await shown.press("enter")
        window = shown.app.screen
        assert isinstance(window, DetailScreen)
        assert "Offsets of billing" in window.plain
        await shown.press("y")
        assert "Offsets of billing" in shown.app.clipboard
        await shown.press("q", "question_mark")
        window = shown.app.screen
        assert isinstance(window, DetailScreen)
        assert "Growth of the lag in records a second" in window.plain
        await shown.press("1", "s")
        assert shown.app.screen is window, "keys of the tables have no effect in a window"


async def test_a_pause_keeps_the_shown_figures() -> None:
    async with console() as shown:
        await shown.press("p")
        await shown.step()
        assert "12:00:01" in shown.line("heading")
        assert "PAUSED" in shown.line("heading")
        await shown.press("p")
        assert "12:00:02" in shown.line("heading")
        assert "PAUSED" not in shown.line("heading")


async def test_copying_sends_the_row_to_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    async with console(table="limits") as shown:
        await shown.press("y")
        assert shown.app.clipboard.splitlines()[0].split("\t")[:3] == ["cluster", "target", "limit/s"]
        assert "copied the row" in shown.line("footer")


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
async def test_more_width_shows_more_columns(size: tuple[int, int]) -> None:
    async with console(size=size) as shown:
        headings = [one.column.heading for one in shown.table.shown]
        assert {"broker", "state", "new/s", "open", "held/s", "blocked", "loop ms", "out of sync"} <= set(headings)
        assert ("address" in headings) is (size[0] >= 120)
        assert ("pod or pid" in headings) is (size[0] >= 200)
        assert all(len(line) == size[0] for line in shown.lines)
        assert shown.table.size.height == size[1] - 5


async def test_a_resized_terminal_shows_other_columns() -> None:
    async with console() as shown:
        await shown.pilot.resize_terminal(200, 60)
        await shown.until(lambda: "heartbeat" in shown.lines[0])
        await shown.pilot.resize_terminal(80, 24)
        await shown.until(lambda: "heartbeat" not in shown.lines[0])
        await shown.pilot.resize_terminal(20, 6)
        await shown.press("down")


async def test_without_colours_every_state_is_a_word_or_a_sign(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    async with console() as shown:
        assert shown.app.no_color
        assert shown.lines[1].startswith(">")
        assert "Fenced" in shown.lines[3]
        assert "5 Storms" in shown.line("tabs")
        await shown.step()
        strips = shown.app.screen._compositor.render_strips()
        styles = {part.style for strip in strips for part in strip if part.style is not None}
        colours = [colour for style in styles for colour in (style.color, style.bgcolor) if colour is not None]
        assert {colour.name for colour in colours} <= {"default"}


async def test_a_source_that_hangs_leaves_the_console_usable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chrome, "LATE_S", 0.1)
    async with console() as shown:
        await shown.press("2", "down", "s")
        assert "[2 Limits]" in shown.line("tabs")
        await shown.until(lambda: "waiting for answers" in shown.line("heading"))


async def test_a_source_without_an_answer_is_a_note_until_it_answers() -> None:
    source = Steps()
    async with console(source) as shown:
        source.failure = "the API server does not answer"
        source.release.release()
        await shown.until(lambda: "! the API server does not answer" in shown.line("notes"))
        assert len(shown.table.rows) == 3, "the former rows stay"
        source.failure = ""
        await shown.step()
        await shown.until(lambda: not shown.app.query_one("#notes").display)


async def test_a_broker_that_vanishes_is_removed() -> None:
    source = Steps(brokers=4)
    async with console(source) as shown:
        await shown.press("end")
        source.brokers = 2
        await shown.step()
        assert (len(shown.table.rows), shown.table.at) == (2, 1)
        source.brokers = 0
        await shown.step()
        assert "no broker is known" in shown.lines[1]


async def test_ten_thousand_limits_are_rows_of_one_table() -> None:
    async with console(Steps(brokers=100, addresses=10_000, away=frozenset()), table="limits") as shown:
        assert len(shown.table.rows) == 10_002
        await shown.step()
        await shown.press("end")
        assert shown.line("status").startswith("row 10002 of 10002")
        await shown.press("slash", *"10.0.39.15", "enter")
        assert [row.target for row in shown.table.rows] == ["ip 10.0.39.15"]


async def test_several_clusters_have_a_column() -> None:
    source = Steps()
    first = await source.look()
    other = replace(first.clusters[0], name="warehouse")
    app = TopConsole(source, replace(first, clusters=[*first.clusters, other]), 0.1)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        assert [one.column.heading for one in app.query_one(RowTable).shown][:2] == ["cluster", "broker"]


@pytest.mark.parametrize(
    ("environment", "blocks"),
    [
        ({}, BLOCKS),
        ({"LANG": "de_DE.UTF-8"}, BLOCKS),
        ({"LANG": "en_US.utf8"}, BLOCKS),
        ({"LANG": "C"}, ASCII_BLOCKS),
        ({"LC_ALL": "POSIX", "LANG": "de_DE.UTF-8"}, ASCII_BLOCKS),
    ],
)
def test_a_locale_without_utf_8_gets_sparklines_in_ascii(environment: dict[str, str], blocks: str) -> None:
    assert blocks_of(environment) == blocks
