"""`sluicegate top` over running brokers: its plain text, and the console itself with a pilot."""

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sluicegate_operator.cli.top.console.app import TopConsole
from sluicegate_operator.cli.top.console.detail_screen import DetailScreen
from sluicegate_operator.cli.top.console.row_table import RowTable
from sluicegate_operator.cli.top.sources.fleet_source import source_here
from tests.support.processes.local_fleet import LocalUp, copy_quickstart, run_command

DEADLINE_S = 60.0


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalUp]:
    folder = tmp_path_factory.mktemp("top")
    with LocalUp(copy_quickstart(folder), folder / "data") as running:
        running.wait_until(lambda: running.all_online(3), "all brokers online")
        yield running


def once(up: LocalUp, *options: str) -> str:
    done = run_command("top", "--once", "--data-dir", str(up.data_dir), *options)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_once_prints_brokers_limits_and_what_is_in_sync(up: LocalUp) -> None:
    text = once(up)
    assert "brokers 3/3" in text
    assert [line.split()[:2] for line in text.splitlines() if " Online " in line] == [
        ["0", "Online"], ["1", "Online"], ["2", "Online"],
    ]  # fmt: skip
    assert any(line.split()[:3] == ["listener", "EXTERNAL", "50"] for line in text.splitlines())
    assert any(line.split()[:3] == ["ip", "127.0.1.7", "5"] for line in text.splitlines())
    assert "all partitions that brokers report are in sync" in text
    assert "!" not in text


def test_a_bootstrap_server_is_enough(up: LocalUp) -> None:
    text = once(up, "--bootstrap-server", up.external())
    assert [line.split()[:2] for line in text.splitlines() if " Serving " in line] == [
        ["0", "Serving"], ["1", "Serving"], ["2", "Serving"],
    ]  # fmt: skip
    assert any(line.split()[:3] == ["ip", "127.0.1.7", "5"] for line in text.splitlines())


def test_a_bootstrap_server_that_does_not_answer_is_said(up: LocalUp) -> None:
    done = run_command("top", "--once", "--bootstrap-server", "127.0.0.1:1")
    assert done.returncode == 1
    assert "groups and partitions of 127.0.0.1:1 are not known" in done.stderr


def test_without_a_terminal_the_command_says_what_to_do(up: LocalUp) -> None:
    done = run_command("top", "--data-dir", str(up.data_dir))
    assert done.returncode == 2
    assert "use --once" in done.stderr


async def test_the_console_shows_brokers_and_why_an_address_is_limited(up: LocalUp) -> None:
    async with source_here(Path(up.data_dir), None) as source:
        app = TopConsole(source, await source.look(), 0.2)
        async with app.run_test(size=(120, 40)) as pilot:
            table = app.query_one(RowTable)

            async def until(what: str) -> None:
                deadline_s = time.monotonic() + DEADLINE_S
                while not any(what in table.render_line(y).text for y in range(table.size.height)):
                    assert time.monotonic() < deadline_s, what
                    await pilot.pause(0.05)

            await until("Online")
            await pilot.press("2", "slash", *"127.0.1.7", "enter", "enter")
            window = app.screen
            assert isinstance(window, DetailScreen)
            async with asyncio.timeout(DEADLINE_S):
                while "default/shop-noisy-neighbour" not in window.plain:
                    await pilot.pause(0.05)
            assert "Limits on 127.0.1.7 in cluster shop" in window.plain
            await pilot.press("escape", "1")
            await until("Online")
