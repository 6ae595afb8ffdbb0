"""One process of a Java program, which a test kills and starts again.

with JavaProgram(tmp_path, "count-1", programs.command("WordCount", ...)) as program:
    program.kill()
    program.start()
"""

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from tests.support.processes.apache_kafka import LOG4J

_STOP_S = 60.0
_SHOWN = 4_000
OPTIONS = ("-Xmx160m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
"""Options of a Java that shares the machine with brokers, and that a test kills after seconds."""


class JavaProgram:
    """A process that runs from `start` to `kill` or its own end. All that its runs print is in one log."""

    def __init__(self, folder: Path, name: str, command: Sequence[str]) -> None:
        """Prepare a program; `command` begins with the path of Java, and `folder` gets the log."""
        java, *rest = command
        self._log4j = folder / "log4j2.xml"
        self._command = [java, *OPTIONS, f"-Dlog4j2.configurationFile={self._log4j}", *rest]
        self._log = folder / f"{name}.log"
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self._log4j.write_text(LOG4J)
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def start(self) -> None:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log)

    def kill(self) -> None:
        """Kill the process as kill -9 does. A process that has ended is left as it is."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(_STOP_S)

    def stop(self) -> int:
        """Send SIGTERM and return the exit code."""
        assert self._process is not None
        self._process.terminate()
        return self._process.wait(_STOP_S)

    def poll(self) -> int | None:
        """The exit code of a process that has ended; None while it runs."""
        assert self._process is not None
        return self._process.poll()

    def printed(self) -> str:
        return self._log.read_text(errors="replace")

    def tail(self) -> str:
        """The end of the log, for the message of a failure."""
        return self.printed()[-_SHOWN:]
