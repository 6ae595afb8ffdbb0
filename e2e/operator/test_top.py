"""`sluicegate top -n` at a real API server: its plain text, and the console with a pilot, under a storm.

Requests to the pods are forwarded by a front of the API server (e2e/world/pods_forwarded.py).
"""

import asyncio
import contextlib
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest_asyncio
from textual.pilot import Pilot

from e2e.world.pods_forwarded import ForwardedPods
from e2e.world.shop import CLUSTER, NAMESPACE, Shop
from sluicegate_operator.cli.asking.kubernetes_asked import Place
from sluicegate_operator.cli.top.console.app import TopConsole
from sluicegate_operator.cli.top.console.detail_screen import DetailScreen
from sluicegate_operator.cli.top.console.row_table import RowTable
from sluicegate_operator.cli.top.sources.fleet_source import source_in_kubernetes
from tests.support.processes.proxies.api_proxy import ApiProxy

COMMAND = Path(sys.executable).parent / "sluicegate"
TIMEOUT_S = 60
STORM_S, STORM_RATE = 60.0, 150.0
DEADLINE_S = 60.0
QUOTA = f"{NAMESPACE}/shop-noisy-neighbour"


@pytest_asyncio.fixture
async def kubeconfig(shop: Shop, tmp_path: Path) -> AsyncIterator[Path]:
    """A kubeconfig by which pods that are processes answer."""
    async with ApiProxy(shop.plane.url, shop.plane.certificate) as proxy:
        proxy.answer = ForwardedPods(shop.kubelet.address).answer
        yield proxy.kubeconfig(shop.plane.kubeconfig, tmp_path / "kubeconfig")


async def once(kubeconfig: Path, *options: str) -> tuple[int, str, str]:
    """Run `top --once`. Return its exit code, and its output and errors."""
    running = await asyncio.create_subprocess_exec(
        str(COMMAND), "top", "--once", "--kubeconfig", str(kubeconfig), *options,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    out, errors = await asyncio.wait_for(running.communicate(), TIMEOUT_S)
    return running.returncode or 0, out.decode(), errors.decode()


def rows(text: str, *words: str) -> list[list[str]]:
    """Return the cells of the lines that begin with these words."""
    found = [line.split() for line in text.splitlines()]
    return [cells for cells in found if cells[: len(words)] == list(words)]


@asynccontextmanager
async def storming(shop: Shop) -> AsyncIterator[None]:
    """Open more connections to a broker than its listener's limit admits, in a process of its own."""
    pod = shop.pod(0)
    storm = await asyncio.create_subprocess_exec(
        str(COMMAND), "storm", "--yes-i-own-this-target", "--to", f"{pod.address}:9094",
        "--rate", f"{STORM_RATE:g}", "--seconds", f"{STORM_S:g}", stdout=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    try:
        yield
    finally:
        with contextlib.suppress(ProcessLookupError):
            storm.terminate()
        await storm.wait()


async def test_once_shows_brokers_and_limits_of_a_namespace(shop: Shop, kubeconfig: Path) -> None:
    code, text, errors = await once(kubeconfig, "-n", NAMESPACE, "--cluster", CLUSTER)
    assert (code, errors) == (0, "")
    assert "brokers 3/3" in text, text
    assert [row[:2] for row in rows(text) if "Online" in row] == [["0", "Online"], ["1", "Online"], ["2", "Online"]]
    [limit] = rows(text, "listener", "EXTERNAL")
    assert limit[2] == "50"
    assert rows(text, "ip", "127.0.1.7", "5")
    assert "no limit has held connections back" in text
    assert "\n!" not in text, "no answer is missing"


async def test_once_shows_a_storm(shop: Shop, kubeconfig: Path) -> None:
    async with storming(shop), asyncio.timeout(DEADLINE_S):
        while True:
            _, text, _ = await once(kubeconfig, "-n", NAMESPACE, "--view", "storms")
            found = rows(text, "listener", "EXTERNAL", "now")
            if found and float(found[0][5]) > 0:
                break


async def test_a_namespace_without_clusters_says_what_to_do(kubeconfig: Path) -> None:
    code, _, errors = await once(kubeconfig, "-n", "kube-public")
    assert (code, errors) == (1, "namespace kube-public has no BrokerCluster; set the namespace with -n NAMESPACE\n")


class Shown:
    """The console under a pilot, and the lines of its table."""

    def __init__(self, app: TopConsole, pilot: Pilot[None]) -> None:
        self.app, self.pilot = app, pilot
        self.table = app.query_one(RowTable)

    @property
    def lines(self) -> list[list[str]]:
        return [self.table.render_line(y).text.split() for y in range(self.table.size.height)]

    def line(self, *words: str) -> list[str]:
        """Return the cells of the line with these words in this order; nothing without one."""
        return next((line for line in self.lines if " ".join(words) in " ".join(line)), [])

    def broker(self, broker_id: int) -> list[str]:
        """Return the cells of a broker's row, without the cursor."""
        cells = ([cell for cell in line if cell != ">"] for line in self.lines)
        return next((line for line in cells if line[:1] == [str(broker_id)]), [])

    async def until(self, what: str, holds: Callable[[], bool]) -> None:
        deadline_s = time.monotonic() + DEADLINE_S
        while not holds():
            assert time.monotonic() < deadline_s, f"{what}: {self.lines}"
            await self.pilot.pause(0.1)


@asynccontextmanager
async def console(kubeconfig: Path) -> AsyncIterator[Shown]:
    async with source_in_kubernetes(Place(NAMESPACE, kubeconfig=str(kubeconfig)), None, None) as source:
        app = TopConsole(source, await source.look(), 0.5)
        async with app.run_test(size=(120, 40)) as pilot:
            yield Shown(app, pilot)


async def test_the_console_shows_a_storm_and_why_an_address_is_limited(shop: Shop, kubeconfig: Path) -> None:
    async with console(kubeconfig) as shown:
        await shown.until("three brokers", lambda: all("Online" in shown.broker(one) for one in range(3)))
        await shown.pilot.press("5")
        async with storming(shop):
            await shown.until("a storm", lambda: bool(shown.line("listener EXTERNAL now")))
            await shown.pilot.press("2")
            await shown.until("a limit that blocks", lambda: shown.line("listener EXTERNAL 50")[-1:] == ["3"])
        await shown.pilot.press("slash", *"127.0.1.7", "enter", "enter")
        window = shown.app.screen
        assert isinstance(window, DetailScreen)
        await shown.until("the answer of why", lambda: QUOTA in window.plain)


async def test_a_broker_that_does_not_answer_takes_no_figures_of_others(shop: Shop, kubeconfig: Path) -> None:
    """A stopped process accepts connections and does not answer."""
    pids = shop.kubelet.pids(NAMESPACE, shop.pod(2).name)
    async with console(kubeconfig) as shown:
        try:
            for pid in pids:
                os.kill(pid, signal.SIGSTOP)
            await shown.until("the reason", lambda: "no answer in time" in " ".join(shown.broker(2)))
            assert all(shown.broker(one)[2][0].isdigit() for one in (0, 1)), shown.lines
        finally:
            for pid in pids:
                os.kill(pid, signal.SIGCONT)
        await shown.until("its figures", lambda: shown.broker(2)[1:2] == ["Online"] and shown.broker(2)[2][0].isdigit())
