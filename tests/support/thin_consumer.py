"""examples/thin-consumer, a client of the push protocol in Go: `python -m tests.support.thin_consumer` builds it, once.

The program is the one that SLUICEGATE_THIN_CONSUMER names, else in the cache, where Go builds it with nothing but its
standard library. Tests only look for it: what is built is built before them.
"""

import json
import os
import shutil
import subprocess
import sys
import threading
from hashlib import sha256
from pathlib import Path
from typing import Any, Self

from tests.support.cache import ObtainError, cache_root, main, obtained, show

SOURCE = Path(__file__).parents[2] / "examples" / "thin-consumer"
PROGRAM_VARIABLE = "SLUICEGATE_THIN_CONSUMER"
_BUILD_TIMEOUT_S = 900
_END_S = 30.0


def program() -> Path:
    """Raises ObtainError when it is not there."""
    found = _place()
    if not found.is_file():
        raise ObtainError(f"{found} is not there: `make thin-consumer` builds it")
    return found


def obtain() -> Path:
    """The program, built when it is not there yet. Raises ObtainError."""
    if os.environ.get(PROGRAM_VARIABLE):
        return program()
    return obtained(_place(), Path.is_file, _build)


def _place() -> Path:
    given = os.environ.get(PROGRAM_VARIABLE)
    if given:
        return Path(given)
    content = b"".join(path.read_bytes() for path in sorted(SOURCE.iterdir()) if path.suffix in (".go", ".mod"))
    return cache_root() / f"thin-consumer-{sha256(content).hexdigest()[:12]}" / "thin-consumer"


def _build(fresh: Path) -> None:
    go = shutil.which("go")
    if go is None:
        raise ObtainError(
            f"the thin consumer is not in {_place()} and Go is not installed to build it; install Go, or let "
            f"{PROGRAM_VARIABLE} name the program"
        )
    show("thin-consumer", "building examples/thin-consumer ...")
    fresh.parent.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(
        [go, "build", "-trimpath", "-ldflags=-s -w", "-o", str(fresh), "."],
        cwd=SOURCE,
        env={**os.environ, "CGO_ENABLED": "0"},
        capture_output=True,
        text=True,
        timeout=_BUILD_TIMEOUT_S,
        check=False,
    )
    if done.returncode != 0:
        raise ObtainError(f"Go could not build the thin consumer: {done.stderr[-800:]}")


class ThinConsumer:
    """One process of it, which reads what matches `pattern`, and all that it has printed."""

    def __init__(self, bootstrap: str, *, group: str, name: str, pattern: str, session_s: float) -> None:
        self.name = name
        self.values: set[bytes] = set()
        self.partitions: frozenset[str] = frozenset()
        """What it reads now."""
        self.starts = 0
        self.complaints = ""
        """Its standard error, when it has ended."""
        command = [str(program()), "-bootstrap", bootstrap, "-group", group, "-id", name]
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
        """As kill -9. All that it had printed is heard when this returns."""
        self._process.kill()
        self.ended()

    def leave(self) -> int:
        """SIGTERM; its exit code."""
        self._process.terminate()
        return self.ended()

    def ended(self) -> int:
        """The exit code of one that ends by itself."""
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
                # It was killed while it said this.
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
        self.complaints = self._process.stderr.read()


if __name__ == "__main__":
    sys.exit(main(obtain))
