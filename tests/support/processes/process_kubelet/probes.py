"""Probes: when one is due and what its results mean (pure), and how one is run (`attempt`)."""

import http.client
import socket
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tests.support.processes.process_kubelet.translate import Mounts, host_command

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ProbeTarget:
    """The parts of a container that an attempt needs."""

    address: str
    ports: Mapping[str, int]
    env: Mapping[str, str]
    mounts: Mounts


class ProbeState:
    """Counts successes and failures in a row.

    `passing` starts as given: readiness False, liveness True. `exhausted` is set once it has failed as often in a row
    as it may, whatever it was before.
    """

    def __init__(self, spec: Json, *, passing: bool, started_at: float) -> None:
        self.spec = spec
        self.passing = passing
        self.exhausted = False
        self.last_message = ""
        self._failed = 0
        self._row = 0
        self._next_at = started_at + spec.get("initialDelaySeconds", 0)
        self._running = False

    def is_due(self, now: float) -> bool:
        return not self._running and now >= self._next_at

    def begin(self) -> None:
        self._running = True

    def finish(self, now: float, *, succeeded: bool, message: str) -> None:
        self._running = False
        self._next_at = now + self.spec.get("periodSeconds", 10)
        self.last_message = message
        self._failed = 0 if succeeded else self._failed + 1
        self.exhausted = self._failed >= self.spec.get("failureThreshold", 3)
        if succeeded == self.passing:
            self._row = 0
            return
        self._row += 1
        threshold = self.spec.get("successThreshold", 1) if succeeded else self.spec.get("failureThreshold", 3)
        if self._row >= threshold:
            self.passing = succeeded
            self._row = 0


def attempt(spec: Json, target: ProbeTarget) -> tuple[bool, str]:
    timeout_s = float(spec.get("timeoutSeconds", 1))
    try:
        if "httpGet" in spec:
            return _http_get(spec["httpGet"], target, timeout_s)
        if "tcpSocket" in spec:
            with socket.create_connection((target.address, _port(spec["tcpSocket"]["port"], target)), timeout_s):
                return True, "connected"
        if "exec" in spec:
            command = host_command(spec["exec"]["command"], target.mounts)
            done = subprocess.run(
                command, env=dict(target.env), timeout=timeout_s, capture_output=True, text=True, check=False
            )
            return done.returncode == 0, (done.stdout + done.stderr)[-500:]
    except (OSError, http.client.HTTPException, subprocess.TimeoutExpired) as error:
        return False, repr(error)
    raise ValueError(f"no httpGet, tcpSocket or exec in probe {spec}")


def _port(port: int | str, target: ProbeTarget) -> int:
    return port if isinstance(port, int) else target.ports[port]


def _http_get(spec: Json, target: ProbeTarget, timeout_s: float) -> tuple[bool, str]:
    host = spec.get("host") or target.address
    connection = http.client.HTTPConnection(host, _port(spec["port"], target), timeout=timeout_s)
    try:
        connection.request("GET", spec.get("path", "/"))
        answer = connection.getresponse()
        body = answer.read(500).decode(errors="replace")
        return 200 <= answer.status < 400, f"HTTP {answer.status}: {body}"
    finally:
        connection.close()
