"""Environment of the demo: a temporary copy of the quickstart manifests, `sluicegate up` on it, and load processes.

The stage ends every process that it started, by its id.
"""

import asyncio
import contextlib
import json
import os
import shutil
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sluicegate_operator.cli.fleets.fleet_view import FleetView, ShownCluster
from sluicegate_operator.fleet.local.local_data import DataDirError, read_state

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
QUICKSTART = EXAMPLES / "quickstart"
LISTENER = "EXTERNAL"
START_TIMEOUT_S = 45.0
STOP_TIMEOUT_S = 20.0
LOOK_INTERVAL_S = 0.02

Process = asyncio.subprocess.Process


class DemoError(Exception):
    """Error of a demo that cannot continue. The message gives the reason."""


@dataclass(slots=True)
class Stage:
    folder: Path
    view: FleetView
    processes: list[tuple[str, Process]] = field(default_factory=list)

    @property
    def manifests(self) -> Path:
        return self.folder / "manifests"

    @property
    def up_log(self) -> Path:
        return self.folder / "up.log"

    async def start_up(self) -> None:
        with self.up_log.open("wb") as log:
            arguments = ("up", "-f", str(self.manifests), "--data-dir", str(self.folder / "data"), "--watch")
            await self._start("sluicegate up", ("-m", "sluicegate_operator.cli.main", *arguments), log.fileno())

    async def start_client(self, bootstrap: str, topic: str, broker: int, result: Path) -> Process:
        arguments = ("-m", "demo.client", bootstrap, topic, str(broker), str(result))
        with (self.folder / "client.log").open("wb") as log:
            return await self._start("the client", arguments, log.fileno())

    async def start_parcels(self, bootstrap: str, result: Path) -> Process:
        with (self.folder / "parcels.log").open("wb") as log:
            return await self._start("the parcels", ("-m", "demo.parcels", bootstrap, str(result)), log.fileno())

    async def storm(self, target: str, rate: int, sources: str, seconds: float) -> dict[str, Any]:
        """Run a storm and return its report. Raises DemoError if the storm fails."""
        options = ("--to", target, "--rate", str(rate), "--sources", sources, "--seconds", str(seconds), "-o", "json")
        process = await self._start(
            "sluicegate storm", ("-m", "sluicegate_operator.cli.main", "storm", *options), asyncio.subprocess.PIPE
        )
        output, _ = await process.communicate()
        if process.returncode != 0:
            raise DemoError(f"sluicegate storm ended with exit code {process.returncode}")
        report: dict[str, Any] = json.loads(output)
        return report

    async def stop_up(self) -> None:
        """Stop `sluicegate up`, which stops its brokers first and lands the last events of their audit logs."""
        await self.stop_process(self.processes[0][1])

    async def audit(self, *arguments: str) -> tuple[int, str]:
        """Run `sluicegate audit` with these arguments, and return its exit code and output."""
        process = await self._start(
            "sluicegate audit", ("-m", "sluicegate_operator.cli.main", "audit", *arguments), asyncio.subprocess.PIPE
        )
        output, _ = await process.communicate()
        return await process.wait(), output.decode()

    async def what_if(self, *arguments: str) -> tuple[int, str]:
        """Run `sluicegate what-if` with these arguments, and return its exit code and output."""
        process = await self._start(
            "sluicegate what-if", ("-m", "sluicegate_operator.cli.main", "what-if", *arguments), asyncio.subprocess.PIPE
        )
        output, _ = await process.communicate()
        return await process.wait(), output.decode()

    async def _start(self, name: str, arguments: tuple[str, ...], output: int) -> Process:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *arguments,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=output,
            stderr=output if output != asyncio.subprocess.PIPE else None,
            start_new_session=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )
        self.processes.append((name, process))
        return process

    async def cluster(self) -> ShownCluster | None:
        """Return the view of the cluster, or None while `up` is still starting."""
        name, process = self.processes[0]
        if process.returncode is not None:
            raise DemoError(f"{name} ended with exit code {process.returncode}:\n{self.up_log.read_text()}")
        try:
            clusters = await self.view.read_clusters()
        except DataDirError:
            return None
        return clusters[0] if clusters else None

    async def enforced_after_s(self, number: int) -> float | None:
        """Return how long change `number` of limits took, as `up` measured it. None if it gave up on a broker."""
        deadline_s = time.monotonic() + START_TIMEOUT_S
        while (last := read_state(self.folder / "data")["last_change"]) is None or last["number"] < number:
            if time.monotonic() > deadline_s:
                raise DemoError(f"`sluicegate up` has not recorded change {number}:\n{self.up_log.read_text()}")
            await asyncio.sleep(LOOK_INTERVAL_S)
        measured: float | None = last["enforced_after_s"]
        return measured

    async def wait_until(self, what: str, holds: Callable[[ShownCluster], bool], timeout_s: float) -> ShownCluster:
        """Wait for a view of the cluster for which `holds`, and return it. Raises DemoError on timeout."""
        deadline_s = time.monotonic() + timeout_s
        while True:
            cluster = await self.cluster()
            if cluster is not None and holds(cluster):
                return cluster
            if time.monotonic() > deadline_s:
                raise DemoError(
                    f"{what}: not within {timeout_s:g} s; the log of `sluicegate up`:\n{self.up_log.read_text()}"
                )
            await asyncio.sleep(LOOK_INTERVAL_S)

    async def stop_process(self, process: Process) -> None:
        if process.returncode is None:
            process.send_signal(signal.SIGTERM)
        await asyncio.wait_for(process.wait(), STOP_TIMEOUT_S)

    async def close(self) -> None:
        for _, process in reversed(self.processes):
            try:
                await self.stop_process(process)
            except TimeoutError:
                process.kill()
                await process.wait()


@contextlib.asynccontextmanager
async def open_stage(folder: Path) -> AsyncIterator[Stage]:
    (folder / "manifests").mkdir(parents=True)
    stage = Stage(folder, FleetView(folder / "data"))
    try:
        yield stage
    finally:
        await stage.close()


def publish(source: Path, target: Path) -> float:
    """Put a manifest in place atomically, and return the wall clock of that moment."""
    draft = target.with_suffix(".draft")
    shutil.copyfile(source, draft)
    draft.replace(target)
    return time.time()


def is_ready(cluster: ShownCluster) -> bool:
    brokers = [node for node in cluster.nodes if node.role == "broker"]
    return (
        bool(brokers)
        and all(node.problem is None for node in cluster.nodes)
        and bool(cluster.resources)
        and all(resource["ready"] for resource in cluster.resources)
    )


def bootstrap_of(cluster: ShownCluster) -> str:
    return ",".join(node.listeners[LISTENER] for node in cluster.nodes if node.role == "broker")
