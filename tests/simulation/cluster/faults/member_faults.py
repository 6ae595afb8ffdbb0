"""Faults of members of groups, and of coordinators during a rebalance."""

import asyncio
import random
from typing import TYPE_CHECKING

from tests.simulation.cluster.faults import disk_faults
from tests.simulation.cluster.machine.loop import Owner

if TYPE_CHECKING:
    from tests.simulation.cluster.cluster import Cluster

_STEP_S = 0.02
"""Approximate duration of a step of a rebalance."""


async def member_pauses(cluster: "Cluster", rng: random.Random) -> None:
    """Pause a member, as SIGSTOP or a long garbage collection does."""
    owner = _some_member(cluster, rng)
    if owner is None or owner.paused:
        return
    cluster.note(f"pause {owner.name}")
    owner.paused = True
    await asyncio.sleep(rng.choice((rng.uniform(0.1, 2.0), rng.uniform(2.0, 8.0))))
    cluster.note(f"resume {owner.name}")
    cluster.loop.resume(owner)


async def member_cut_off(cluster: "Cluster", rng: random.Random) -> None:
    """Cut a member off from all brokers, in one direction or both."""
    owner = _some_member(cluster, rng)
    if owner is None:
        return
    brokers = [process.host for process in cluster.brokers]
    there, back = [(owner.host, host) for host in brokers], [(host, owner.host) for host in brokers]
    pairs = rng.choice((there, back, there + back))
    cluster.note("cut " + ", ".join(f"{source} -> {target}" for source, target in pairs))
    for source, target in pairs:
        cluster.network.cut(source, target)
    await asyncio.sleep(rng.uniform(0.2, 7.0))
    cluster.note("links heal")
    cluster.network.heal()


async def in_rebalance(cluster: "Cluster", rng: random.Random) -> None:
    """Let the coordinator fail while it asks consumers to stop, commits, or starts them."""
    what, host = await cluster.moments.next()
    await asyncio.sleep(rng.uniform(0.0, _STEP_S))
    process = next(each for each in cluster.brokers if each.host == host)
    if not process.alive:
        return
    how = rng.choice(("killed", "stopped", "paused", "cut off", "moved"))
    cluster.note(f"{process.name} is {how} when somebody {what}")
    if how == "killed":
        process.wanted = False
        process.kill()
        await disk_faults.start_later(cluster, rng, process)
    elif how == "stopped":
        process.stop()
    elif how == "paused" and not process.paused:
        owner = process.owner
        process.pause()
        await asyncio.sleep(rng.uniform(0.5, 7.0))
        if process.owner is owner and process.alive and process.paused:
            process.resume()
    elif how == "cut off":
        others = [each.host for each in cluster.processes if each is not process]
        for other in others:
            cluster.network.cut(host, other)
            cluster.network.cut(other, host)
        await asyncio.sleep(rng.uniform(0.5, 7.0))
        cluster.network.heal()
    else:
        await cluster.admin.elect_preferred()


async def coordinator_falls_silent(cluster: "Cluster", rng: random.Random) -> None:
    """Let a coordinator lose power until it has a successor, before some of its consumers notice."""
    while (moment := await cluster.moments.next())[0] != "has started":
        pass
    await asyncio.sleep(rng.uniform(0.0, 1.0))
    process = next(each for each in cluster.brokers if each.host == moment[1])
    if not process.alive or not disk_faults.is_the_only_lossy(cluster, process):
        return
    cluster.note(f"{process.name} falls silent")
    process.wanted = False
    process.power_loss(rng)
    await asyncio.sleep(rng.uniform(4.0, 8.0))
    process.wanted = True
    await disk_faults.until_in_sync(cluster, process)


def heal(cluster: "Cluster") -> None:
    for group in cluster.groups:
        for owner in group.owners:
            if owner.paused:
                cluster.loop.resume(owner)


def _some_member(cluster: "Cluster", rng: random.Random) -> Owner | None:
    owners = [owner for group in cluster.groups for owner in group.owners]
    return rng.choice(owners) if owners else None
