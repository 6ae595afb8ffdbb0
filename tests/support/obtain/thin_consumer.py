"""examples/thin-consumer, a client of the push protocol in Go.

`python -m tests.support.obtain.thin_consumer` builds it once. The client uses nothing but Go's standard library.
"""

import json
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, Self

from tests.support.obtain.cache import main
from tests.support.obtain.go_program import of_folder

_END_S = 30.0
PROGRAM = of_folder(
    Path(__file__).parents[3] / "examples" / "thin-consumer",
    "thin-consumer",
    "the thin consumer",
    target="thin-consumer",
    variable="SLUICEGATE_THIN_CONSUMER",
    cached_as="thin-consumer",
)


class ThinConsumer:
    """A thin consumer in a process of its own.

    It reads the topics that match `pattern`, and keeps all that it has printed.
    """

    def __init__(self, bootstrap: str, *, group: str, name: str, pattern: str, session_s: float) -> None:
        self.name = name
        self.values: set[bytes] = set()
        self.partitions: frozenset[str] = frozenset()
        """Partitions that the consumer reads now."""
        self.starts = 0
        self.complaints = ""
        """The lines of its standard error so far."""
        command = [str(PROGRAM.program()), "-bootstrap", bootstrap, "-group", group, "-id", name]
        command += ["-topics", f"*1*{pattern}", "-session", f"{session_s}s"]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self._lock = threading.Lock()
        self._threads = [threading.Thread(target=self._listen), threading.Thread(target=self._note)]
        for thread in self._threads:
            thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def kill(self) -> None:
        """Kill the process as kill -9 does. Every line that it had printed is processed when this returns."""
        self._process.kill()
        self.ended()

    def leave(self) -> int:
        """Send SIGTERM and return the exit code."""
        self._process.terminate()
        return self.ended()

    def ended(self) -> int:
        """The exit code of a process that ends without a signal."""
        code = self._process.wait(_END_S)
        for thread in self._threads:
            thread.join(_END_S)
        for stream in (self._process.stdout, self._process.stderr):
            if stream is not None:
                stream.close()
        return code

    def read(self) -> frozenset[bytes]:
        with self._lock:
            return frozenset(self.values)

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if not line.endswith("\n"):
                # The process was killed while it wrote this line.
                return
            with self._lock:
                self._hear(json.loads(line))

    def _hear(self, said: dict[str, Any]) -> None:
        if said["event"] == "record":
            assert f"{said['topic']}-{said['partition']}" in self.partitions, f"it reads what it has not: {said}"
            self.values.add(said["value"].encode())
        elif said["event"] == "assigned":
            self.starts += 1
            self.partitions = frozenset(said["partitions"])
        else:
            self.partitions = frozenset()

    def _note(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self.complaints += line


if __name__ == "__main__":
    sys.exit(main(PROGRAM.obtain))
