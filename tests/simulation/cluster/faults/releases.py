"""Nodes that change between the previous release and this one, on the same disks."""

import asyncio
import random
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from tests.simulation.cluster import check
from tests.simulation.cluster.machine.previous import previous
from tests.simulation.cluster.machine.process import Process
from tests.simulation.cluster.machine.release import THIS, Release

if TYPE_CHECKING:
    from tests.simulation.cluster.cluster import Cluster

_PAUSE_MAX_S = 10.0
"""Longest pause between two steps of a roll."""
_STEP_S = 60.0
"""Longest time until a node that has changed serves and all replicas are in sync."""


def begin(cluster: "Cluster") -> None:
    """Let all nodes begin with the previous release."""
    for process in cluster.processes:
        process.release = previous()


async def change_release(cluster: "Cluster", rng: random.Random) -> None:
    """Let one node change to the other release, whatever else happens. It stops in good order or is killed."""
    process = rng.choice(cluster.processes)
    if not process.alive:
        return
    _change(cluster, process, _other(process.release))
    if process.paused or rng.random() < 0.7:
        process.stop()
    else:
        process.kill()


async def roll(cluster: "Cluster", rng: random.Random) -> None:
    """Let all nodes change, one after the other: upwards the controllers first, downwards the brokers first.

    Most of the time both releases serve.
    """
    if cluster.rolling:
        return
    cluster.rolling = True
    try:
        wanted = _other(cluster.controllers[0].release)
        up = [*cluster.controllers, *(broker for broker in cluster.brokers if broker not in cluster.controllers)]
        for process in up if wanted is THIS else up[::-1]:
            await _roll_to(cluster, wanted, [process])
            await asyncio.sleep(rng.uniform(0.0, _PAUSE_MAX_S))
    finally:
        cluster.rolling = False


async def end(cluster: "Cluster") -> None:
    """Let all nodes change to this release, one after the other, so that its checks can read them."""
    await _roll_to(cluster, THIS, cluster.processes)


async def _roll_to(cluster: "Cluster", release: Release, order: Sequence[Process]) -> None:
    for process in order:
        if process.release is release:
            continue
        _change(cluster, process, release)
        if process.alive:
            process.stop()
        # A node that is restarted too early would take the last in-sync replica away.
        is_back = partial(_is_back, cluster, process, release)
        if not await cluster.until(f"{process.name} runs {release.name}", is_back, _STEP_S):
            return


def _is_back(cluster: "Cluster", process: Process, release: Release) -> bool | str:
    if process.runs is not release or not check.serves(process):
        return f"{process.name} does not serve"
    return check.in_sync(cluster)


def _change(cluster: "Cluster", process: Process, release: Release) -> None:
    cluster.note(f"{process.name} changes to {release.name}")
    process.release = release
    cluster.changed += 1


def _other(release: Release) -> Release:
    return previous() if release is THIS else THIS
