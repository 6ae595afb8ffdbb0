"""One program of the control plane as a child process, with its output in a file."""

import contextlib
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

STOP_TIMEOUT_S = 15.0


def end_on_sigterm() -> None:
    """Let SIGTERM exit this process by SystemExit, so that it removes its resources as on Ctrl-C."""
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))


class Program:
    def __init__(self, command: list[str], log: Path, environment: Mapping[str, str] | None = None) -> None:
        self.name = Path(command[0]).name
        self.log = log
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                command,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    def must_run(self) -> None:
        code = self._process.poll()
        if code is not None:
            raise RuntimeError(f"{self.name} ended with code {code}; the end of {self.log}:\n{self.last_output()}")

    def last_output(self, characters: int = 3000) -> str:
        return self.log.read_text(errors="replace")[-characters:]

    def stop(self, *, by: signal.Signals = signal.SIGTERM) -> None:
        if self._process.poll() is not None:
            return
        self._process.send_signal(by)
        try:
            self._process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
            self._process.wait()
