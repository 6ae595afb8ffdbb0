"""Measures changes of quotas at a steady pace, which does not wait until earlier changes are in force."""

import asyncio
import itertools
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.operator.objects import Seen, Writers
from tests.support.processes.process_kubelet.api import Json
from tests.support.worlds.served_clusters import ServedClusters

GIVE_UP_S = 60.0
LOOK_EVERY_S = 0.05
RATES = itertools.count(1000)
"""Rates to set, different in each change."""
PLURAL = "connectionquotas"


@dataclass(frozen=True, slots=True)
class Took:
    """Durations in seconds from before the request that changed the quota. Infinite after a timeout.

    `enforced_s` ends when the brokers received the limit, `told_s` when the quota's status was Ready for that
    generation.
    """

    enforced_s: float
    told_s: float


async def change_all(
    writers: Writers, served: ServedClusters, seen: Seen, quotas: Sequence[Json], every_s: float
) -> list[Took]:
    changing = []
    for quota in quotas:
        changing.append(asyncio.create_task(_change(writers, served, seen, quota)))
        await asyncio.sleep(every_s)
    return await asyncio.gather(*changing)


async def change_at_once(writers: Writers, served: ServedClusters, quotas: Sequence[Json]) -> tuple[float, float]:
    """Change all quotas as fast as the API server takes it.

    Returns the seconds for the writes, and the seconds from the last write until the brokers have all limits. The
    latter is infinite if one limit is not in force after GIVE_UP_S.
    """
    expected = [_expect(served, quota) for quota in quotas]
    started_s = time.monotonic()
    await asyncio.gather(*(_write(writers, quota, rate) for quota, (rate, _) in zip(quotas, expected, strict=True)))
    written_s = time.monotonic()
    try:
        async with asyncio.timeout(GIVE_UP_S):
            last_s = max(await asyncio.gather(*(enforced for _, enforced in expected)))
    except TimeoutError:
        return written_s - started_s, math.inf
    return written_s - started_s, max(0.0, last_s - written_s)


async def _change(writers: Writers, served: ServedClusters, seen: Seen, quota: Json) -> Took:
    rate, enforced = _expect(served, quota)
    started_s = time.monotonic()
    generation = await _write(writers, quota, rate)
    try:
        async with asyncio.timeout(GIVE_UP_S):
            enforced_s = await enforced - started_s
    except TimeoutError:
        return Took(math.inf, math.inf)
    for _ in range(round(GIVE_UP_S / LOOK_EVERY_S)):
        told_s = seen.ready_at_s(PLURAL, quota["metadata"]["name"], generation)
        if told_s is not None:
            return Took(enforced_s, told_s - started_s)
        await asyncio.sleep(LOOK_EVERY_S)
    return Took(enforced_s, math.inf)


def _expect(served: ServedClusters, quota: Json) -> tuple[int, asyncio.Future[float]]:
    """Return a new rate for the quota, and the time at which the brokers have it."""
    rate, cluster = next(RATES), served.clusters[quota["spec"]["clusterRef"]["name"]]
    return rate, cluster.expect(quota["spec"]["target"]["ip"], float(rate))


async def _write(writers: Writers, quota: Json, rate: int) -> int:
    """Set the rate, and return the generation of the quota."""
    spec = {"maxConnectionCreationRate": rate}
    return await asyncio.to_thread(writers.change, PLURAL, quota["metadata"]["name"], spec)


class OthersChange:
    """Inside the block, four threads keep changing other quotas one after another."""

    def __init__(self, writers: Writers, quotas: Sequence[Json]) -> None:
        self._writers = writers
        self._quotas = quotas
        self._over = False
        self._running: list[asyncio.Task[None]] = []
        self.changed = 0

    async def __aenter__(self) -> "OthersChange":
        threads = 4
        self._running = [
            asyncio.create_task(asyncio.to_thread(self._write, self._quotas[first::threads]))
            for first in range(threads)
        ]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._over = True
        await asyncio.gather(*self._running)

    def _write(self, quotas: Sequence[Json]) -> None:
        for quota in itertools.cycle(quotas):
            if self._over:
                return
            spec = {"maxConnectionCreationRate": 10 + (self.changed & 511)}
            self._writers.change(PLURAL, quota["metadata"]["name"], spec)
            self.changed += 1


def percentile(values: Sequence[float], part: float) -> float:
    """Return the smallest value that at least this part of all values does not exceed."""
    in_order = sorted(values)
    return in_order[max(0, math.ceil(part * len(in_order)) - 1)]
