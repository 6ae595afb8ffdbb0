"""One round: a control plane with objects, an operator that finds them, and the operator's figures under each load.

Every phase returns its figures as a mapping of row to number, without rows that were not available.
"""

import asyncio
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.operator import manifests
from benchmarks.operator.changes import PLURAL, OthersChange, Took, change_all, change_at_once, percentile
from benchmarks.operator.objects import NAMESPACE, PLURALS, Seen, Writers
from benchmarks.operator.process import AuditedRequests, memory_mib, metric, processor_s
from e2e.cluster.control_plane import ControlPlane
from e2e.world.operator_process import OPERATOR_NAMESPACE, OperatorProcess, operator_account
from e2e.world.shop import install_crds
from tests.support.processes.process_kubelet.api import Access, Json
from tests.support.worlds.served_clusters import ServedClusters, make_sick, make_well

LOOK_EVERY_S = 0.1
SAY_EVERY_S = 10.0
SETTLE_S = 20.0
SICK = 10
SICK_LATE_S = 3.0
SICK_BEFORE_S = 15.0
"""By then, requests to the sick brokers have timed out."""
ROLLED = 10
WIDE, FLOOD = "wide", "flood"
LEASE = "leases"


@dataclass(frozen=True, slots=True)
class Size:
    """Sizes of a round.

    One more cluster has `wide` brokers and `wide_quotas` quotas; 0 omits it. Another one has `brokers` brokers and
    `flood` quotas, which change at once; 0 omits it. `others` quotas change in the background.
    """

    clusters: int
    brokers: int
    quotas: int
    topics: int
    changes: int
    others: int
    idle_s: float
    deadline_s: float
    wide: int = 0
    wide_quotas: int = 0
    flood: int = 0


Figures = dict[str, float]


class World:
    """The world of one round. `run` executes all named phases in order."""

    _served: ServedClusters
    _writers: Writers
    _seen: Seen
    _operator: OperatorProcess

    def __init__(self, plane: ControlPlane, size: Size) -> None:
        self._plane = plane
        self._size = size
        self._access = Access(plane.url, str(plane.certificate), plane.token)
        self._names = [f"c{number}" for number in range(size.clusters)]
        self._quotas = [manifests.quota(number, self._names) for number in range(size.quotas)]
        self._requests = AuditedRequests(plane)
        self.requests: Mapping[str, float] = {}
        """Requests per minute while idle, by verb and resource."""
        self.requests_of_start: Mapping[str, float] = {}
        """Requests until all objects were Ready, by verb and resource."""

    async def run(self, phases: Sequence[str]) -> Figures:
        sizes = dict.fromkeys(self._names, self._size.brokers)
        if self._size.wide:
            sizes[WIDE] = self._size.wide
        if self._size.flood:
            sizes[FLOOD] = self._size.brokers
        folder = Path(tempfile.mkdtemp(prefix="sluicegate-operator-"))
        self._operator = OperatorProcess(
            operator_account(self._plane, folder),
            folder / "operator.log",
            "measured",
            resync_s=None,
            first_modules=without_test_tools(folder / "modules"),
        )
        print(f"the operator's log: {self._operator.log}", file=sys.stderr, flush=True)
        found: Figures = {}
        async with ServedClusters(self._access, NAMESPACE, sizes) as self._served:
            with Writers(self._access) as self._writers, Seen(self._access) as self._seen, self._operator:
                # Entering the block started the operator, but the objects have to exist first.
                self._operator.kill()
                await asyncio.to_thread(self._create)
                self._operator.start()
                for phase in ("start", *phases):
                    figures = await getattr(self, f"_{phase}")()
                    figures[f"{phase}: longest iteration until then, ms"] = 1000 * await self._metric(
                        "sluicegate_operator_loop_longest_turn_seconds"
                    )
                    figures[f"{phase}: memory then (VmRSS), MiB"] = memory_mib(self._operator, "VmRSS")
                    figures[f"{phase}: memory at its most until then (VmHWM), MiB"] = memory_mib(
                        self._operator, "VmHWM"
                    )
                    for row, value in figures.items():
                        print(f"{row}: {value:,.2f}", file=sys.stderr, flush=True)
                    found |= figures
                found["longest work of an iteration, ms"] = 1000 * await self._metric(
                    "sluicegate_operator_loop_longest_work_seconds"
                )
                found["iterations that worked over 50 ms"] = await self._metric("sluicegate_operator_loop_long_turns")
                found["Leases lost"] = self._operator.output().count("has lost the Lease")
        return found

    async def _metric(self, name: str) -> float:
        self._operator.must_run()
        return await asyncio.to_thread(metric, self._operator, name)

    def _create(self) -> None:
        size = self._size
        started_s = time.monotonic()
        self._writers.create("brokerclusters", [manifests.cluster(name, size.brokers) for name in self._names])
        self._writers.create(PLURAL, self._quotas)
        topics = [manifests.topic(number, self._names, size.brokers) for number in range(size.topics)]
        self._writers.create("topics", topics)
        print(f"objects created in {time.monotonic() - started_s:.0f} s", file=sys.stderr, flush=True)

    async def _start(self) -> Figures:
        size, started_s = self._size, time.monotonic()
        self._requests.skip()
        wanted = dict(zip(PLURALS, (size.clusters, size.quotas, size.topics), strict=True))
        took = await self._until_ready(wanted)
        figures = {f"start: {plural} Ready, s": at_s - started_s for plural, at_s in took.items()}
        figures["start: all Ready, s"] = max(took.values()) - started_s
        figures["start: processor time, s"] = processor_s(self._operator)
        self.requests_of_start = dict(sorted((await asyncio.to_thread(self._requests.take)).items()))
        figures["start: requests"] = sum(self.requests_of_start.values())
        return figures

    async def _until_ready(self, wanted: Mapping[str, int]) -> dict[str, float]:
        """Wait for so many Ready objects, and return when each kind was Ready. Raises TimeoutError."""
        took: dict[str, float] = {}
        said_s = time.monotonic()
        async with asyncio.timeout(self._size.deadline_s):
            while len(took) < len(wanted):
                self._operator.must_run()
                now_s = time.monotonic()
                ready = {plural: self._seen.ready(plural) for plural in wanted}
                took |= {plural: now_s for plural in wanted if plural not in took and ready[plural] >= wanted[plural]}
                if now_s - said_s > SAY_EVERY_S:
                    said_s = now_s
                    memory = memory_mib(self._operator, "VmRSS")
                    told = ", ".join(f"{ready[plural]} of {wanted[plural]} {plural}" for plural in wanted)
                    print(f"{told} Ready, {memory:.0f} MiB", file=sys.stderr, flush=True)
                await asyncio.sleep(LOOK_EVERY_S)
        return took

    async def _idle(self) -> Figures:
        await asyncio.sleep(SETTLE_S)
        self._requests.skip()
        writes, cpu_s, started_s = self._seen.writes, processor_s(self._operator), time.monotonic()
        await asyncio.sleep(self._size.idle_s)
        took_s = time.monotonic() - started_s
        cpu_s = processor_s(self._operator) - cpu_s
        taken = await asyncio.to_thread(self._requests.take)
        self.requests = {key: 60 * count / took_s for key, count in sorted(taken.items())}
        return {
            "idle: processor, % of a core": 100 * cpu_s / took_s,
            "idle: requests a minute besides the Lease": sum(
                count for key, count in self.requests.items() if not key.endswith(LEASE)
            ),
            "idle: changes of our objects a minute": 60 * (self._seen.writes - writes) / took_s,
        }

    async def _quiet(self) -> Figures:
        return _figures("quiet", await self._change(self._quotas[: self._size.changes], every_s=0.2))

    async def _busy(self) -> Figures:
        others = self._quotas[-self._size.others :]
        started_s = time.monotonic()
        async with OthersChange(self._writers, others) as beside:
            took = await self._change(self._quotas[: self._size.changes], every_s=0.1)
            lasted_s = time.monotonic() - started_s
        found = {**_figures("busy", took), "busy: others changed a second": beside.changed / lasted_s}
        await self._until_ready({PLURAL: len(self._quotas)})
        return {**found, "busy: all told after, s": time.monotonic() - started_s - lasted_s}

    async def _sick(self) -> Figures:
        chosen = self._names[-min(SICK, len(self._names) // 2) :]
        sick = [self._served.clusters[name] for name in chosen]
        make_sick(sick[::2])
        make_sick(sick[1::2], late_s=SICK_LATE_S)
        well = [quota for quota in self._quotas if _cluster_of(quota) not in chosen]
        theirs = [quota for quota in self._quotas if _cluster_of(quota) in chosen][:SICK]
        try:
            for quota in theirs:
                await asyncio.to_thread(
                    self._writers.change, PLURAL, quota["metadata"]["name"], {"maxConnectionCreationRate": 9}
                )
            await asyncio.sleep(SICK_BEFORE_S)
            took = await self._change(well[: self._size.changes], every_s=0.2)
        finally:
            make_well(sick)
        started_s = time.monotonic()
        await self._until_ready({"brokerclusters": len(self._names), PLURAL: len(self._quotas)})
        return {**_figures("sick", took), "sick: all Ready again, s": time.monotonic() - started_s}

    async def _roll(self) -> Figures:
        """Measure changes of quotas of rolling clusters, during the roll."""
        rolled = self._names[:ROLLED]
        before = {name: dict(self._served.clusters[name].epochs) for name in rolled}
        spec = {"config": {"num.partitions": "3"}}
        started_s = time.monotonic()
        for name in rolled:
            await asyncio.to_thread(self._writers.change, "brokerclusters", name, spec)
        theirs = [quota for quota in self._quotas if _cluster_of(quota) in rolled]
        took = await self._change(theirs[: self._size.changes], every_s=0.2)
        figures = _figures("roll", took)
        async with asyncio.timeout(self._size.deadline_s):
            while not all(self._restarted(name, epochs) for name, epochs in before.items()):  # noqa: ASYNC110
                await asyncio.sleep(LOOK_EVERY_S)
        figures["roll: every broker restarted, s"] = time.monotonic() - started_s
        await self._until_ready({"brokerclusters": len(self._names)})
        return figures

    def _restarted(self, name: str, before: Mapping[int, int]) -> bool:
        return all(self._served.clusters[name].epochs[one] != epoch for one, epoch in before.items())

    async def _wide(self) -> Figures:
        size = self._size
        started_s = time.monotonic()
        await asyncio.to_thread(self._writers.create, "brokerclusters", [manifests.cluster(WIDE, size.wide)])
        quotas = [manifests.quota(size.quotas + number, [WIDE]) for number in range(size.wide_quotas)]
        await asyncio.to_thread(self._writers.create, PLURAL, quotas)
        await self._until_ready({"brokerclusters": size.clusters + 1, PLURAL: size.quotas + size.wide_quotas})
        ready_s = time.monotonic() - started_s
        found = _figures("wide", await self._change(quotas[: size.changes], every_s=0.2))
        return {"wide: cluster and quotas Ready, s": ready_s, **found}

    async def _flood(self) -> Figures:
        size = self._size
        await asyncio.to_thread(self._writers.create, "brokerclusters", [manifests.cluster(FLOOD, size.brokers)])
        first = size.quotas + size.wide_quotas
        quotas = [manifests.quota(first + number, [FLOOD]) for number in range(size.flood)]
        await asyncio.to_thread(self._writers.create, PLURAL, quotas)
        await self._until_ready({PLURAL: size.quotas + size.wide_quotas + size.flood})
        writing_s, enforced_s = await change_at_once(self._writers, self._served, quotas)
        return {
            "flood: all changes written after, s": writing_s,
            "flood: all in force after the last write, s": enforced_s,
        }

    async def _change(self, quotas: Sequence[Json], every_s: float) -> list[Took]:
        return await change_all(self._writers, self._served, self._seen, quotas, every_s)


def without_test_tools(folder: Path) -> Path:
    """Hide Hypothesis from the operator: kio loads it if installed, which takes 8 MiB.

    The operator's image lacks it.
    """
    folder.mkdir()
    (folder / "hypothesis.py").write_text('raise ImportError("it is a tool of tests")\n')
    return folder


def _cluster_of(quota: Json) -> str:
    name: str = quota["spec"]["clusterRef"]["name"]
    return name


def _figures(phase: str, took: Sequence[Took]) -> Figures:
    found: Figures = {f"{phase}: changes": len(took)}
    for what, seconds in (("enforced", [one.enforced_s for one in took]), ("told", [one.told_s for one in took])):
        found |= {f"{phase}: {what} p{part}, s": percentile(seconds, part / 100) for part in (50, 99)}
    return found


async def one_round(size: Size, phases: Sequence[str]) -> tuple[Figures, Mapping[str, Mapping[str, float]]]:
    """Return the figures, and the requests by verb and resource: all of the start, and those per minute while idle."""
    with ControlPlane(audited=f"system:serviceaccounts:{OPERATOR_NAMESPACE}") as plane:
        install_crds(plane)
        world = World(plane, size)
        found = await world.run(phases)
        return found, {"start, all": world.requests_of_start, "idle, a minute": world.requests}
