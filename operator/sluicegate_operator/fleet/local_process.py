"""One child process that is kept alive: started, watched, started again with back-off when it ends, stopped cleanly.

It knows nothing of Kafka: a command, a log file, a question whether it is ready. The child gets a process group of its
own, so that a terminal's Ctrl-C reaches only the supervisor, which then stops its children in the right order.
"""

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from sluicegate_operator.fleet import local_child
from sluicegate_operator.fleet.local_http import http_get

FIRST_BACK_OFF_S = 0.2
MAX_BACK_OFF_S = 15.0
STEADY_AFTER_S = 20.0
"""A child that ran so long starts again with the first back-off."""
STOP_DEADLINE_S = 10.0
PROBE_INTERVAL_S = 0.05
LAST_WORDS_BYTES = 4096


@dataclass(frozen=True, slots=True)
class ChildSpec:
    """`http` is where /readyz answers."""

    name: str
    command: Sequence[str]
    log_file: Path
    http: tuple[str, int]
    environment: dict[str, str] = field(default_factory=dict)


class Child:
    """`say` gets one line for everything a person wants to know; `changed` is called when the pid changed."""

    def __init__(self, spec: ChildSpec, say: Callable[[str], None], changed: Callable[[], None]) -> None:
        self.spec = spec
        self.pid: int | None = None
        self.restarts = 0
        self._say = say
        self._changed = changed
        self._process: asyncio.subprocess.Process | None = None
        self._task: asyncio.Task[None] | None = None
        self._stopping = False

    def start(self) -> None:
        self._stopping = False
        self._task = asyncio.create_task(self._keep_alive(), name=f"keep {self.spec.name} alive")

    async def _keep_alive(self) -> None:
        back_off_s = FIRST_BACK_OFF_S
        loop = asyncio.get_running_loop()
        while True:
            started_s = loop.time()
            code = await self._run_once()
            if self._stopping:
                return
            if loop.time() - started_s > STEADY_AFTER_S:
                back_off_s = FIRST_BACK_OFF_S
            self._say(
                f"{self.spec.name} {describe_exit(code)}; it is started again in {back_off_s:g} s"
                f"{self._last_words(code)}"
            )
            await asyncio.sleep(back_off_s)
            back_off_s = min(back_off_s * 2, MAX_BACK_OFF_S)
            self.restarts += 1

    async def _run_once(self) -> int:
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
                env={**os.environ, **self.spec.environment},
            )
        self.pid = self._process.pid
        self._changed()
        if self._stopping:
            self._process.send_signal(signal.SIGTERM)
        try:
            return await self._process.wait()
        finally:
            self.pid = None
            self._changed()

    def _last_words(self, code: int) -> str:
        """The last line it wrote, for an exit that was not a signal's doing."""
        if code <= 0:
            return ""
        with self.spec.log_file.open("rb") as log:
            log.seek(max(0, self.spec.log_file.stat().st_size - LAST_WORDS_BYTES))
            lines = log.read().decode(errors="replace").strip().splitlines()
        return f"; its last words: {lines[-1]} (see {self.spec.log_file})" if lines else ""

    async def why_not_ready(self) -> str | None:
        """None when /readyz says so; otherwise half a sentence."""
        if self.pid is None:
            return "not running"
        try:
            answer = await http_get(self.spec.http, "/readyz", timeout_s=1.0)
        except OSError:
            return "not listening yet"
        return None if answer.status == 200 else answer.body.strip() or f"HTTP {answer.status}"

    async def wait_ready(self, timeout_s: float) -> str | None:
        """None when it became ready in time, otherwise why not."""
        deadline_s = asyncio.get_running_loop().time() + timeout_s
        while (reason := await self.why_not_ready()) is not None:
            if asyncio.get_running_loop().time() >= deadline_s:
                return reason
            await asyncio.sleep(PROBE_INTERVAL_S)
        return None

    async def stop(self, deadline_s: float = STOP_DEADLINE_S) -> None:
        """SIGTERM, then SIGKILL when it takes longer than `deadline_s`. Also ends a pending restart."""
        self._stopping = True
        if self._task is None:
            return
        if self.pid is None:
            self._task.cancel()
        else:
            self._signal(signal.SIGTERM)
        _, waiting = await asyncio.wait([self._task], timeout=deadline_s)
        if waiting:
            self._say(f"{self.spec.name} did not stop within {deadline_s:g} s and is killed")
            self._signal(signal.SIGKILL)
            await asyncio.wait([self._task])
        if not self._task.cancelled():
            self._task.result()
        self._task = None

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None and self._process.returncode is None:
            self._process.send_signal(number)


def describe_exit(code: int) -> str:
    if code < 0:
        return f"was ended by {signal.Signals(-code).name}"
    return f"ended with exit code {code}"
