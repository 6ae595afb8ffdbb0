"""The landers of `sluicegate up`: beside each broker with an audit log, a process that makes Parquet files of it."""

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Collection
from pathlib import Path

from sluicegate_operator.fleet.local import local_child
from sluicegate_operator.fleet.local.local_data import DataDir
from sluicegate_operator.local.audit import segments_folder, spools_folder
from sluicegate_operator.planning.observers.observers import AUDIT_LOG, PREFIX, SPOOLS, ObserverPlan, class_key

STOP_DEADLINE_S = 12.0


class LocalLanders:
    """The lander processes of `sluicegate up`, which end with this process. `keep` restarts one that has ended.

    They are stopped after their brokers, so that they land the brokers' last records.
    """

    def __init__(self, data: DataDir, say: Callable[[str], None]) -> None:
        self._data = data
        self._say = say
        self._running: dict[tuple[str, int], asyncio.subprocess.Process] = {}

    async def keep(self, cluster: str, brokers: Collection[int], plan: ObserverPlan) -> None:
        """Run a lander for each of these brokers if the plan has an audit log."""
        wanted = set(brokers) if has_audit_log(plan) else set()
        await self._stop([key for key in self._running if key[0] == cluster and key[1] not in wanted])
        for broker in sorted(wanted):
            process = self._running.get((cluster, broker))
            if process is not None and process.returncode is None:
                continue
            log_file = self._data.node_dir(cluster, broker) / "lander.log"
            if process is None:
                self._say(f"the audit log of broker {broker} of {cluster} is landed in {self._segments(cluster)}")
            else:
                self._say(f"the lander of broker {broker} of {cluster} ended with {process.returncode}, see {log_file}")
            self._running[cluster, broker] = await self._start(cluster, broker, log_file, upkeep=broker == min(wanted))

    async def forget(self, cluster: str) -> None:
        await self._stop([key for key in self._running if key[0] == cluster])

    async def aclose(self) -> None:
        await self._stop(list(self._running))

    def _segments(self, cluster: str) -> Path:
        return segments_folder(self._data.path, cluster)

    async def _start(self, cluster: str, broker: int, log_file: Path, *, upkeep: bool) -> asyncio.subprocess.Process:
        spools = spools_folder(self._data.node_dir(cluster, broker))
        command = ["-m", "audit_pipeline", "land", str(spools), str(self._segments(cluster)), "--follow"]
        with log_file.open("ab") as log:
            return await asyncio.create_subprocess_exec(
                sys.executable,
                local_child.__file__,
                str(os.getpid()),
                sys.executable,
                *command,
                *(["--upkeep"] if upkeep else []),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    async def _stop(self, keys: Collection[tuple[str, int]]) -> None:
        stopping = [self._running.pop(key) for key in keys]
        for process in stopping:
            if process.returncode is None:
                process.send_signal(signal.SIGTERM)
        for process in stopping:
            try:
                async with asyncio.timeout(STOP_DEADLINE_S):
                    await process.wait()
            except TimeoutError:
                process.kill()
                await process.wait()


def has_audit_log(plan: ObserverPlan) -> bool:
    """Return whether an observer of the plan writes spools to the folder that landers read.

    Spools in another folder are landed by the user who chose that folder.
    """
    names = [name for name in plan.keys if plan.configs.get(class_key(name)) == AUDIT_LOG]
    return any(not plan.configs.get(f"{PREFIX}{name}.{SPOOLS}") for name in names)
