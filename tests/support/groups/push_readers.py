"""Consumers of the push protocol as processes (`push_member`), their reports, and the violations in them.

with PushReader("a", bootstrap, group="billing", pattern="orders-.*", session_ms=6_000) as first:
    until(lambda: len(first.owned) == 4, "it has all partitions")
"""

import math
import os
import signal
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, Self

ROOT = Path(__file__).resolve().parents[3]
END_S = 30.0
Place = tuple[str, int]
"""A topic's name and the number of the partition."""


class Read(NamedTuple):
    """One record that a reader reported, and the time of its report."""

    at_s: float
    place: Place
    offset: int
    value: bytes


class Turn(NamedTuple):
    """The time for which one consumer owned one partition. Times are those of the machine's monotonic clock."""

    reader: str
    place: Place
    began_s: float
    ended_s: float
    """Time at which it reported a requested stop; otherwise the time of its last record."""


class PushReader:
    """A consumer of a push group in a process of its own.

    `events` are time and words of each line but those of records.
    """

    def __init__(
        self, name: str, bootstrap: str, *, group: str, pattern: str, session_ms: int, family: str = "library"
    ) -> None:
        self.name = name
        self.events: list[tuple[float, list[str]]] = []
        self.read: list[Read] = []
        self.owned: frozenset[Place] = frozenset()
        """Partitions that the consumer reads."""
        self.began_at: dict[Place, int] = {}
        """Offset of the first record of each partition since the last start."""
        self.turns: list[Turn] = []
        self._began_s: dict[Place, float] = {}
        self._last_s: dict[Place, float] = {}
        self._resumed_s = math.inf
        """Time of the last resume; infinite after the first record that follows."""
        self._lock = threading.Lock()
        command = [sys.executable, "-m", "tests.support.groups.push_member", family, bootstrap, group, name, pattern]
        self._process = subprocess.Popen([*command, str(session_ms)], cwd=ROOT, stdout=subprocess.PIPE, text=True)
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def kill(self) -> None:
        """Kill the process as kill -9 does. Every line that it had written is processed when this returns."""
        self._process.kill()
        self._ended()

    def leave(self) -> None:
        self._process.send_signal(signal.SIGTERM)
        self._ended()
        assert self._process.returncode == 0, f"{self.name} ended with code {self._process.returncode}"

    def pause(self) -> None:
        os.kill(self._process.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """Resume the process.

        The first record that it then reports may have been delivered to it before the pause. It cannot be taken back,
        and no turn is longer because of it.
        """
        with self._lock:
            self._resumed_s = time.monotonic()
        os.kill(self._process.pid, signal.SIGCONT)

    def firsts_since(self, since_s: float) -> dict[Place, float]:
        """Time of the first record of each partition after that time."""
        firsts: dict[Place, float] = {}
        with self._lock:
            for each in reversed(self.read):
                if each.at_s <= since_s:
                    break
                firsts[each.place] = each.at_s
        return firsts

    def all_turns(self) -> list[Turn]:
        """All turns, including those that have not ended."""
        with self._lock:
            return self.turns + [self._turn(place, None) for place in self._began_s]

    def records(self) -> set[tuple[str, bytes]]:
        """Topics and values of all records read."""
        with self._lock:
            return {(each.place[0], each.value) for each in self.read}

    def said(self, word: str, since_s: float = 0.0) -> list[tuple[float, list[str]]]:
        with self._lock:
            return [(at_s, words) for at_s, words in self.events if words[0] == word and at_s > since_s]

    def _ended(self) -> None:
        self._process.wait(END_S)
        self._listener.join(END_S)
        assert self._process.stdout is not None
        self._process.stdout.close()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if not line.endswith("\n"):
                # The process was killed while it wrote this line.
                return
            at_s, *words = line.split()
            with self._lock:
                self._hear(float(at_s), words)
        with self._lock:
            self._end_turns(None)

    def _hear(self, at_s: float, words: list[str]) -> None:
        if words[0] == "read":
            place = words[1], int(words[2])
            self.read.append(Read(at_s, place, int(words[3]), words[4].encode()))
            if at_s > self._resumed_s:
                self._resumed_s = math.inf
            else:
                self._last_s[place] = at_s
            self.began_at.setdefault(place, int(words[3]))
            return
        self.events.append((at_s, words))
        if words[0] == "started":
            self._end_turns(at_s)
            self.owned = frozenset(zip(words[1::2], map(int, words[2::2]), strict=True))
            self.began_at = {}
            self._began_s = dict.fromkeys(self.owned, at_s)
        elif words[0] == "stopped":
            self._end_turns(at_s)
        elif words[0] in ("lost", "left"):
            self._end_turns(None)

    def _end_turns(self, at_s: float | None) -> None:
        self.turns += [self._turn(place, at_s) for place in self._began_s]
        self.owned, self._began_s, self._last_s = frozenset(), {}, {}

    def _turn(self, place: Place, at_s: float | None) -> Turn:
        began_s = self._began_s[place]
        return Turn(self.name, place, began_s, at_s if at_s is not None else self._last_s.get(place, began_s))


def overlaps(readers: Sequence[PushReader]) -> list[tuple[Turn, Turn]]:
    """Turns of two consumers with one partition at the same time."""
    by_place: dict[Place, list[Turn]] = defaultdict(list)
    for reader in readers:
        for turn in reader.all_turns():
            by_place[turn.place].append(turn)
    found = []
    for turns in by_place.values():
        turns.sort(key=lambda turn: turn.began_s)
        found += [
            (one, other)
            for index, one in enumerate(turns)
            for other in turns[index + 1 :]
            if one.reader != other.reader and other.began_s < one.ended_s
        ]
    return found
