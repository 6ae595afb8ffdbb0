"""Members that read, each in a separate process (reading_member), and a producer, as seen by a benchmark."""

import json
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from benchmarks.brokers.rows import ROOT
from benchmarks.groups.reading_gaps import Read, shared

GROUP, TOPIC = "readers", "handed"
PARTITIONS = 24
INTERVAL_S = 0.01
"""Time between two records of a partition: no measured pause is shorter."""
SHARED_MAX_S = 90.0
_RECENT_S = 1.0
_LOOK_S = 0.05
_END_S = 15.0


@dataclass(frozen=True)
class Client:
    """A kind of member: a kind of `reading_member`, and its client's settings."""

    kind: str
    settings: Mapping[str, object] = field(default_factory=dict)


class _Member:
    def __init__(self, name: str, asked: Mapping[str, Any], path: Path) -> None:
        self.name = name
        self._path = path
        self._at = 0
        self.reads: list[Read] = []
        self.notices: list[float] = []
        path.touch()
        command = [sys.executable, "-m", "benchmarks.groups.reading_member", json.dumps({**asked, "path": str(path)})]
        self.process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE)

    def look(self) -> None:
        """Read the member's new events from its file."""
        with self._path.open("rb") as file:
            file.seek(self._at)
            said = file.read()
        whole = said.rpartition(b"\n")[0]
        self._at += len(whole) + 1 if whole else 0
        for line in whole.split(b"\n") if whole else ():
            kind, *values = line.split()
            if kind == b"r":
                self.reads.append(Read(self.name, int(values[0]), int(values[1]), float(values[2])))
            else:
                self.notices.append(float(values[0]))

    def leave(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.kill()
        self.process.wait()
        assert self.process.stdin is not None
        self.process.stdin.close()


class Readers:
    """A producer and members, which end with the block. Reads of members that were killed or have left are kept."""

    def __init__(self, bootstrap: str, client: Client) -> None:
        self._client = client
        self._asked = {"bootstrap": bootstrap, "group": GROUP, "topic": TOPIC, "partitions": PARTITIONS}
        self._producing = {"kind": "producer", "settings": {}, "interval_s": INTERVAL_S}
        self._members: dict[str, _Member] = {}
        self._there: dict[str, _Member] = {}
        self._producer: _Member | None = None

    def __enter__(self) -> Self:
        self._folder = tempfile.TemporaryDirectory(prefix="sluicegate-")
        self._producer = _Member("producer", self._asked | self._producing, Path(self._folder.name) / "producer")
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        assert self._producer is not None
        for member in (*self._members.values(), self._producer):
            member.end()
        self._folder.cleanup()

    def start(self, name: str) -> float:
        """Start a member. Like `leave`, `kill` and `hang`, it returns the time of the change."""
        asked = self._asked | {"kind": self._client.kind, "settings": self._client.settings}
        now_s = time.monotonic()
        self._members[name] = self._there[name] = _Member(name, asked, Path(self._folder.name) / name)
        return now_s

    def leave(self, name: str) -> float:
        now_s = time.monotonic()
        self._there.pop(name).leave()
        return now_s

    def kill(self, name: str) -> float:
        now_s = time.monotonic()
        self._there.pop(name).process.kill()
        return now_s

    def hang(self, name: str) -> float:
        """Send SIGSTOP: the member's connections stay open, and nothing is sent on them."""
        now_s = time.monotonic()
        self._there.pop(name).process.send_signal(signal.SIGSTOP)
        return now_s

    def until_shared(self, at_least_s: float = 0.0) -> float:
        """Wait until the running members have shared all partitions for a second, and for at least `at_least_s`.

        Raises RuntimeError on timeout, or if a process ends.
        """
        began_s = time.monotonic()
        while True:
            self.let_run(_LOOK_S)
            now_s = time.monotonic()
            if now_s > began_s + at_least_s and shared(self._since(now_s - _RECENT_S), self._there, PARTITIONS):
                return now_s
            if now_s > began_s + SHARED_MAX_S:
                raise RuntimeError(f"{len(self._there)} members do not share all partitions after {SHARED_MAX_S:g} s")

    def let_run(self, seconds: float) -> None:
        """Wait. Raises RuntimeError if one of the processes ends."""
        assert self._producer is not None
        deadline_s = time.monotonic() + seconds
        for member in (*self._there.values(), self._producer):
            try:
                code = member.process.wait(max(deadline_s - time.monotonic(), 0.0))
            except subprocess.TimeoutExpired:
                continue
            raise RuntimeError(f"{member.name} ended with code {code}")

    def reads(self) -> Sequence[Read]:
        for member in self._members.values():
            member.look()
        return [read for member in self._members.values() for read in member.reads]

    def _since(self, since_s: float) -> Iterator[Read]:
        for member in self._members.values():
            member.look()
            yield from takewhile(lambda read: read.at_s > since_s, reversed(member.reads))

    def noticed(self, names: Collection[str], since_s: float) -> float:
        """Return when the client of one of these members first reported a change."""
        return min(at_s for name in names for at_s in self._members[name].notices if at_s > since_s)
