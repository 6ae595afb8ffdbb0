"""One container of a pod: its process, its probes, its restarts."""

import contextlib
import os
import signal
import subprocess
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.support.processes.process_kubelet.probes import ProbeState, ProbeTarget, attempt

Json = dict[str, Any]

FIRST_BACKOFF_S = 0.4
BACKOFF_MAX_S = 5.0
"""Longest back-off. The first end is followed by an immediate start, the second by the first back-off.

A kubelet waits 10 s to 5 minutes, which is too long for tests.
"""

WORDS_LINES_MAX = 80
WORDS_BYTES_MAX = 2048
MESSAGE_BYTES_MAX = 4096
"""Limit of the file that a container writes for its status."""

BACKOFF_RESET_S = 30.0
"""A container that ran this long restarts without back-off (a kubelet: ten minutes)."""


@dataclass(frozen=True, slots=True)
class ContainerStart:
    """Everything resolved: the command, its environment and folder, and the file for its output."""

    command: list[str]
    env: Mapping[str, str]
    working_dir: Path
    log: Path
    probe_target: ProbeTarget
    message: Path | None = None
    """File to which it may write the message of its status at its end."""
    restart_policy: str = "Always"


class ContainerProcess:
    """The process of a container, and its probes. `sync` restarts it after its back-off."""

    def __init__(self, spec: Json, start: ContainerStart, prober: ThreadPoolExecutor) -> None:
        self.name: str = spec["name"]
        self.spec = spec
        self.restart_count = 0
        self.held = False
        self._ends: list[Json] = []
        """Reported statuses of the last two ends, the last one last."""
        self._backs_off = False
        self._start = start
        self._prober = prober
        self._process: subprocess.Popen[bytes] | None = None
        self._started_at = 0.0
        self._log_from = 0
        self._started_time = ""
        self._next_start_at = 0.0
        self._backoff_s = 0.0
        self._probes: dict[str, ProbeState] = {}
        self._attempts: dict[str, Future[tuple[bool, str]]] = {}

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process is not None and self._process.poll() is None else None

    @property
    def was_started(self) -> bool:
        return self._process is not None or bool(self._ends)

    @property
    def exit_code(self) -> int | None:
        """Exit code of a container that has ended and is not started again."""
        return int(self._ends[-1]["exitCode"]) if self._is_over() else None

    @property
    def probe_target(self) -> ProbeTarget:
        return self._start.probe_target

    @property
    def ready(self) -> bool:
        readiness = self._probes.get("readinessProbe")
        return self.pid is not None and self._startup_passed() and (readiness is None or readiness.passing)

    def sync(self, now: float) -> None:
        """Start the container, or restart it after its back-off; run the probes that are due."""
        if self._process is not None and self._process.poll() is not None:
            # The end is reported in this check; a restart comes in a later one.
            self._note_exit(now)
            return
        if self._is_over():
            return
        if self._process is None:
            self._backs_off = self.held or now < self._next_start_at
            if not self._backs_off:
                self._launch(now)
            return
        self._collect_probes(now)
        for kind in ("startupProbe", "livenessProbe"):
            probe = self._probes.get(kind)
            if probe is not None and probe.exhausted:
                self.log_line(f"{kind} failed ({probe.last_message}); killing")
                self.send(signal.SIGKILL)

    def send(self, number: signal.Signals) -> None:
        """Send a signal to the container's whole process group, which this kubelet made."""
        if self.pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, number)

    def completed(self) -> bool:
        """Whether an init container ran to its end successfully."""
        return self._process is not None and self._process.poll() == 0

    def reap(self, timeout_s: float) -> None:
        if self._process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(timeout_s)

    def status(self, *, seen: bool) -> Json:
        """Status as a kubelet reports it.

        An end is in `state` until the back-off or the next start, then in `lastState`.

        Before the kubelet has `seen` the container there is nothing to report.
        """
        if not seen:
            nothing = {"waiting": {"reason": "ContainerCreating"}}
            return self._status(nothing, {}, ready=False, started=False) | {"restartCount": 0}
        state: Json
        before = self._ends
        if self._process is not None:
            state = {"running": {"startedAt": self._started_time}}
        elif not self._ends:
            state = {"waiting": {"reason": "ContainerCreating"}}
        elif self._backs_off:
            message = f"back-off {self._backoff_s:g}s restarting failed container={self.name}"
            state = {"waiting": {"reason": "CrashLoopBackOff", "message": message}}
        else:
            *before, last = self._ends
            state = {"terminated": last}
        last = {"terminated": before[-1]} if before else {}
        return self._status(state, last, ready=self.ready, started=self.pid is not None and self._startup_passed())

    def _status(self, state: Json, last_state: Json, *, ready: bool, started: bool) -> Json:
        return {
            "name": self.name,
            "image": self.spec.get("image", ""),
            "imageID": "",
            "ready": ready,
            "started": started,
            "restartCount": self.restart_count,
            "state": state,
            "lastState": last_state,
        }

    def _is_over(self) -> bool:
        if self._process is not None or not self._ends or self._start.restart_policy == "Always":
            return False
        return self._start.restart_policy == "Never" or self._ends[-1]["exitCode"] == 0

    def _launch(self, now: float) -> None:
        if self._ends:
            self.restart_count += 1
        if self._start.message is not None:
            self._start.message.write_bytes(b"")
        with self._start.log.open("ab") as output:
            self._log_from = output.tell()
            self._process = subprocess.Popen(
                self._start.command,
                env=dict(self._start.env),
                cwd=self._start.working_dir,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        self._started_at = now
        self._started_time = _time_now()
        self._attempts = {}
        kinds = {"startupProbe": False, "readinessProbe": False, "livenessProbe": True}
        self._probes = {
            kind: ProbeState(self.spec[kind], passing=passing, started_at=now)
            for kind, passing in kinds.items()
            if kind in self.spec
        }

    def _note_exit(self, now: float) -> None:
        if self._process is None:
            return
        code = self._process.returncode
        end = {
            "exitCode": code if code >= 0 else 128 - code,
            "reason": "Error" if code else "Completed",
            "startedAt": self._started_time,
            "finishedAt": _time_now(),
            **self._last_words(code),
        }
        self._ends = [*self._ends[-1:], end]
        if len(self._ends) == 1 or now - self._started_at >= BACKOFF_RESET_S:
            self._backoff_s = 0.0
        else:
            self._backoff_s = min(self._backoff_s * 2, BACKOFF_MAX_S) or FIRST_BACKOFF_S
        self._next_start_at = now + self._backoff_s
        self._process = None
        again = "" if self._is_over() else f"; starts again after {self._backoff_s:g} s"
        self.log_line(f"exited with {code}{again}")

    def _last_words(self, code: int) -> Json:
        """Return the container's message for its status, else the end of this run's log if the pod asks for that."""
        said = self._start.message.read_bytes() if self._start.message is not None else b""
        if said:
            return {"message": said[:MESSAGE_BYTES_MAX].decode(errors="replace")}
        if not code or self.spec.get("terminationMessagePolicy") != "FallbackToLogsOnError":
            return {}
        with self._start.log.open("rb") as log:
            log.seek(self._log_from)
            return {"message": last_words(log.read())}

    def _startup_passed(self) -> bool:
        startup = self._probes.get("startupProbe")
        return startup is None or startup.passing

    def _collect_probes(self, now: float) -> None:
        for kind, running in list(self._attempts.items()):
            if running.done():
                succeeded, message = running.result()
                self._probes[kind].finish(now, succeeded=succeeded, message=message)
                del self._attempts[kind]
        for kind, probe in self._probes.items():
            waits = kind != "startupProbe" and not self._startup_passed()
            done = kind == "startupProbe" and probe.passing
            if probe.is_due(now) and not waits and not done:
                probe.begin()
                self._attempts[kind] = self._prober.submit(attempt, probe.spec, self._start.probe_target)

    def log_line(self, text: str) -> None:
        with self._start.log.open("a") as log:
            log.write(f"[kubelet] container {self.name} {text}\n")


def last_words(output: bytes) -> str:
    """The part of a log that a kubelet puts into a container's status: 80 lines and 2048 bytes at most."""
    return b"".join(output.splitlines(keepends=True)[-WORDS_LINES_MAX:])[-WORDS_BYTES_MAX:].decode(errors="replace")


def _time_now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
