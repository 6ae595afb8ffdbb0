"""A process that plays the members of groups, controlled by its parent: `Crowd` is the parent's side.

The process is started with `-m`. Requests are lines of JSON on stdin, and each is answered by one line of figures.
"""

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from types import TracebackType
from typing import Any, Self

import uvloop

from benchmarks.groups.group_members import (
    SESSION_S,
    ClassicMember,
    ConsumerMember,
    Coordinators,
    Member,
    Pace,
    settled,
)
from benchmarks.groups.push_members import PushMember

ROOT = Path(__file__).resolve().parents[2]
ANSWER_TIMEOUT_S = 150.0
_CONNECTING = 32
"""Number of connections opened at a time, so that the backlog of a listener does not limit the measurement."""
_LOOK_S = 0.01
KINDS: Mapping[str, type[Member]] = {"classic": ClassicMember, "consumer": ConsumerMember, "push": PushMember}


class Crowd:
    """The process, as seen by its parent. It ends with the block."""

    def __init__(self, bootstrap: str, protocol: str, groups: int, members: int, topic: str, partitions: int) -> None:
        """Play groups of `members`, which share `partitions` of the topic. Names of groups begin with the protocol."""
        self._settings: dict[str, Any] = {"bootstrap": bootstrap, "protocol": protocol, "groups": groups}
        self._settings |= {"members": members, "topic": topic, "partitions": partitions}
        self._settings |= {"prefix": protocol, "interval_s": None, "session_s": SESSION_S}
        self._settings |= {"patience_s": ANSWER_TIMEOUT_S}
        self._process: subprocess.Popen[str] | None = None

    def beside(self, interval_s: float) -> Self:
        """Use groups with other names than those of the same protocol, and a separate heartbeat interval."""
        self._settings |= {"prefix": f"beside-{self._settings['prefix']}", "interval_s": interval_s}
        return self

    def paced(self, session_s: float, interval_s: float | None) -> Self:
        """Use session and heartbeat lengths other than the clients' defaults. The push protocol has no heartbeats."""
        self._settings |= {"session_s": session_s, "interval_s": interval_s}
        return self

    def impatient(self, seconds: float) -> Self:
        """Let the process give up a request that takes longer than this."""
        self._settings |= {"patience_s": seconds}
        return self

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def __enter__(self) -> Self:
        command = [sys.executable, "-m", "benchmarks.groups.group_crowd", json.dumps(self._settings)]
        self._process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()

    def begin(self, do: str, **options: float) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"do": do, **options}) + "\n")
        self._process.stdin.flush()

    def finish(self) -> dict[str, float]:
        """Wait for the figures. Raises RuntimeError if the process ended."""
        assert self._process is not None
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the members ended with code {self._process.wait()}")
        figures: dict[str, float] = json.loads(line)
        return figures

    def ask(self, do: str, **options: float) -> dict[str, float]:
        self.begin(do, **options)
        return self.finish()


class _Played:
    """All members, inside the process."""

    def __init__(self, settings: dict[str, Any]) -> None:
        brokers = [(host, int(port)) for host, port in (one.split(":") for one in settings["bootstrap"].split(","))]
        self._coordinators = Coordinators(brokers)
        self._pace = Pace(settings["interval_s"], settings["session_s"])
        self._kind = KINDS[settings["protocol"]]
        self._shared = (settings["topic"], settings["partitions"], self._coordinators, self._pace)
        self._groups = [
            [self._member(f"{settings['prefix']}-{number}") for _ in range(settings["members"])]
            for number in range(settings["groups"])
        ]
        self._tasks: list[asyncio.Task[None]] = []

    def _member(self, group: str) -> Member:
        return self._kind(group, *self._shared)

    @property
    def _members(self) -> list[Member]:
        return [member for group in self._groups for member in group]

    async def connect(self) -> dict[str, float]:
        members = self._members
        for first in range(0, len(members), _CONNECTING):
            await asyncio.gather(*(member.connect() for member in members[first : first + _CONNECTING]))
        return {}

    async def join(self) -> dict[str, float]:
        """Let all members join at once, and wait until every group is settled."""
        began = time.perf_counter()
        self._tasks = [asyncio.create_task(member.run()) for member in self._members]
        await self._until_settled(self._groups)
        return {"seconds": time.perf_counter() - began}

    async def hurry(self, seconds: float, commits: bool = False) -> dict[str, float]:
        """Let each member send the next heartbeat, or commit, as soon as the previous one is answered."""
        before, began = sum(member.answers for member in self._members), time.perf_counter()
        with self._pace.hurry(commits):
            await asyncio.sleep(seconds)
            answers, took = sum(member.answers for member in self._members) - before, time.perf_counter() - began
        await self._until_settled(self._groups)
        return {"per_s": answers / took, "answers": answers}

    async def idle(self, seconds: float) -> dict[str, float]:
        """Send only the periodic heartbeats or pings. Raises RuntimeError if a member is not settled at the end."""
        before, began = sum(member.answers for member in self._members), time.perf_counter()
        await asyncio.sleep(seconds)
        answers, took = sum(member.answers for member in self._members) - before, time.perf_counter() - began
        self._check()
        if not all(settled(group) for group in self._groups):
            raise RuntimeError("members were lost while nothing went on")
        return {"per_s": answers / took, "answers": answers}

    async def watch(self, seconds: float) -> dict[str, float]:
        """Measure how long the periodic heartbeats take."""
        times: list[float] = []
        for member in self._members:
            member.watched = times
        await asyncio.sleep(seconds)
        for member in self._members:
            member.watched = None
        times.sort()
        return {"p50_ms": median(times) * 1000, "p99_ms": times[int(len(times) * 0.99)] * 1000, "beats": len(times)}

    async def rebalance(self, seconds: float) -> dict[str, float]:
        """Let one more member join and leave the first group repeatedly, and measure until all are settled."""
        group, took, end = self._groups[0], [], time.perf_counter() + seconds
        while time.perf_counter() < end:
            began = time.perf_counter()
            newcomer = self._member(group[0].group)
            task = asyncio.create_task(newcomer.run())
            await self._until_settled([[newcomer, *group]])
            took.append(time.perf_counter() - began)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            newcomer.close()
            await newcomer.connect()
            await newcomer.leave()
            newcomer.close()
        return {"seconds": median(took), "rebalances": len(took)}

    async def own_again(self, since_s: float) -> dict[str, float]:
        """Wait until the coordinator has confirmed every member after `since_s`, and all groups are settled."""
        while any(member.confirmed_s < since_s for member in self._members):
            self._check()
            await asyncio.sleep(_LOOK_S)
        await self._until_settled(self._groups)
        return {"seconds": time.perf_counter() - since_s}

    async def coordinator(self) -> dict[str, float]:
        return {"node_id": (await self._coordinators.of(self._groups[0][0].group)).node_id}

    async def _until_settled(self, groups: Sequence[Sequence[Member]]) -> None:
        waiting = list(groups)
        while waiting := [group for group in waiting if not settled(group)]:
            self._check()
            await asyncio.sleep(_LOOK_S)

    def _check(self) -> None:
        """Raise the first error of a member."""
        for task in self._tasks:
            if task.done():
                task.result()


async def _play(settings: dict[str, Any]) -> None:
    played = _Played(settings)
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        asked = json.loads(line)
        async with asyncio.timeout(settings["patience_s"]):
            print(json.dumps(await getattr(played, asked.pop("do"))(**asked)), flush=True)


if __name__ == "__main__":
    uvloop.run(_play(json.loads(sys.argv[1])))
