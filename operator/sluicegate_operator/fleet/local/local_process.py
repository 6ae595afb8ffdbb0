"""Keep one child process alive: start it, watch it, restart it with back-off when it ends, stop it cleanly.

The module does not know Kafka, only a command, a log file and a readiness check. The child gets its own process group,
so that Ctrl-C in a terminal reaches only the supervisor, which then stops its children in the right order.
"""

import asyncio
import os
import signal
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from sluicegate_operator.fleet.kafka.http_get import http_get
from sluicegate_operator.fleet.local import local_child

STOP_DEADLINE_S = 12.0
PROBE_INTERVAL_S = 0.05
LAST_WORDS_BYTES = 4096
LAST_LINES = 5
CRASH_LOOP_EXITS = 3


@dataclass(frozen=True, slots=True)
class BackOff:
    """The delay before an ended child is restarted.

    It doubles each time, and is `first_s` again after the child ran for `steady_s`.
    """

    first_s: float = 1.0
    max_s: float = 30.0
    steady_s: float = 60.0

    def delay_s(self, exits_in_a_row: int) -> float:
        """Return the delay in seconds; the first exit has number 1."""
        # No need to count further: 2 ** 30 s are decades.
        return min(self.first_s * 2.0 ** min(exits_in_a_row - 1, 30), self.max_s)


async def _nothing() -> None:
    return


@dataclass(frozen=True, slots=True)
class Watcher:
    """The callbacks of a child process.

    `say` gets one line for each event that users want to know. `changed` is called when the pid changed. `died` is
    called when the child ended without being stopped: the child is not restarted before `died` returns.
    """

    say: Callable[[str], None]
    changed: Callable[[], None]
    died: Callable[[], Awaitable[None]] = _nothing


@dataclass(frozen=True, slots=True)
class ChildSpec:
    """A command that is kept running as a child process. `http` is the address that serves /readyz."""

    name: str
    command: Sequence[str]
    log_file: Path
    http: tuple[str, int]


class Child:
    """A child process that is kept running.

    `failing`: why it does not stay up; empty before it is a crash loop, and after it was ready. `began_ms`: when its
    process was last started, by the wall clock.
    """

    def __init__(self, spec: ChildSpec, watcher: Watcher, back_off: BackOff) -> None:
        self.spec = spec
        self.pid: int | None = None
        self.restarts = 0
        self.failing = ""
        self.began_ms = 0
        self._watcher = watcher
        self._back_off = back_off
        self._process: asyncio.subprocess.Process | None = None
        self._task: asyncio.Task[None] | None = None
        self._stopping = False

    def start(self) -> None:
        self._stopping = False
        self._task = asyncio.create_task(self._keep_alive(), name=f"keep {self.spec.name} alive")

    async def _keep_alive(self) -> None:
        exits = 0
        loop = asyncio.get_running_loop()
        while True:
            started_s = loop.time()
            code = await self._run_once()
            if self._stopping:
                return
            exits = 1 if loop.time() - started_s > self._back_off.steady_s else exits + 1
            delay_s = self._back_off.delay_s(exits)
            self._report_exit(code, exits, delay_s)
            await asyncio.gather(self._watcher.died(), asyncio.sleep(delay_s))
            self.restarts += 1

    def _report_exit(self, code: int, exits: int, delay_s: float) -> None:
        name, lines = self.spec.name, self._last_lines()
        again = f"it is restarted in {delay_s:g} s"
        if exits < CRASH_LOOP_EXITS:
            self.failing = ""
            # If a signal ended the child, its last line does not explain it.
            words = f"; its last output: {lines[-1]} (see {self.spec.log_file})" if code > 0 and lines else ""
            self._watcher.say(f"{name} {describe_exit(code)}; {again}{words}")
            return
        self.failing = f"crash loop: {describe_exit(code)}, {exits} times in a row" + (
            f"; its last words: {lines[-1]}" if lines else ""
        )
        shown = "".join(f"\n  | {line}" for line in lines[-LAST_LINES:])
        self._watcher.say(
            f"{name} is in a crash loop: it {describe_exit(code)}, {exits} times in a row; {again};"
            f" see {self.spec.log_file}{shown}"
        )
        self._watcher.changed()

    def _last_lines(self) -> list[str]:
        with self.spec.log_file.open("rb") as log:
            log.seek(max(0, self.spec.log_file.stat().st_size - LAST_WORDS_BYTES))
            return log.read().decode(errors="replace").strip().splitlines()

    async def _run_once(self) -> int:
        self.began_ms = time.time_ns() // 1_000_000
        with self.spec.log_file.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable,
                local_child.__file__,
                str(os.getpid()),
                *self.spec.command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self.pid = self._process.pid
        self._watcher.changed()
        if self._stopping:
            self._process.send_signal(signal.SIGTERM)
        try:
            return await self._process.wait()
        finally:
            self.pid = None
            self._watcher.changed()

    async def why_not_ready(self) -> str | None:
        """Return why the process does not serve yet, as half a sentence; None if its /readyz reports ready."""
        if self.pid is None:
            return self.failing or "not running"
        try:
            answer = await http_get(self.spec.http, "/readyz", timeout_s=1.0)
        except OSError:
            return self.failing or "not listening yet"
        if answer.status == 200:
            self.failing = ""
            return None
        return answer.body.strip() or f"HTTP {answer.status}"

    async def wait_ready(self, timeout_s: float) -> str | None:
        """Wait until the child process is ready. Return None, or the cause if it does not become ready in time."""
        deadline_s = asyncio.get_running_loop().time() + timeout_s
        while (reason := await self.why_not_ready()) is not None:
            if asyncio.get_running_loop().time() >= deadline_s:
                return reason
            await asyncio.sleep(PROBE_INTERVAL_S)
        return None

    async def stop(self, deadline_s: float = STOP_DEADLINE_S) -> None:
        """Send SIGTERM to the child, then SIGKILL after `deadline_s`. This also cancels a pending restart."""
        # A second SIGTERM would order an immediate exit.
        is_first, self._stopping = not self._stopping, True
        # Two callers may wait for the same end.
        task = self._task
        if task is None:
            return
        if self.pid is None:
            task.cancel()
        elif is_first:
            self._signal(signal.SIGTERM)
        _, waiting = await asyncio.wait([task], timeout=deadline_s)
        if waiting:
            self._watcher.say(f"{self.spec.name} did not stop within {deadline_s:g} s and was killed")
            self._signal(signal.SIGKILL)
            await asyncio.wait([task])
        if not task.cancelled():
            task.result()
        self._task = None

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None and self._process.returncode is None:
            self._process.send_signal(number)


def describe_exit(code: int) -> str:
    if code < 0:
        return f"was ended by {signal.Signals(-code).name}"
    return f"ended with exit code {code}"
