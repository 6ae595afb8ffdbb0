"""Damage of files at rest: a flipped byte, a lost file, a lost folder, on the disk of a node that is down.

One broker's disk at a time, so that good copies of its replicas exist; where any number of brokers may lose power
(flush.messages=1) their word for those copies must be there too, so all are in sync then. A node may refuse to start
over its metadata log only; somebody restores that disk then, as its last words say. Bytes of a segment that no start
reads again are as they are until somebody reads them, as in Kafka: where one is flipped here the segment has lost its
index, too.
"""

import asyncio
import random
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from broker_runtime.metadata.topic_names import METADATA_TOPIC
from tests.simulation.cluster import check, disk_faults
from tests.simulation.cluster.process import Process

if TYPE_CHECKING:
    from tests.simulation.cluster.cluster import Cluster

_STOPS_WITHIN_S = 15.0
_LOCK = ".lock"
Damaging = Callable[[random.Random, Process], str]
"""Does it; returns what was done."""


async def damage(cluster: "Cluster", rng: random.Random) -> None:
    await _damage_of_broker(cluster, rng, _damaged)


async def lost_beginning(cluster: "Cluster", rng: random.Random) -> None:
    await _damage_of_broker(cluster, rng, _without_beginning)


async def _damage_of_broker(cluster: "Cluster", rng: random.Random, done_to: Damaging) -> None:
    process = rng.choice(cluster.brokers)
    if cluster.shape.flush_messages == 1 and check.in_sync(cluster) is not True:
        return
    if process.alive and disk_faults.is_the_only_lossy(cluster, process):
        await _damage_while_down(cluster, rng, process, done_to)
        await disk_faults.until_in_sync(cluster, process)


async def damage_of_controller(cluster: "Cluster", rng: random.Random) -> None:
    process = rng.choice(cluster.controllers)
    if process.alive and process not in cluster.brokers:
        await _damage_while_down(cluster, rng, process, _damaged)


async def _damage_while_down(cluster: "Cluster", rng: random.Random, process: Process, done_to: Damaging) -> None:
    if not process.wanted or process.disk_fault is not None or process.paused:
        return
    process.wanted = False
    try:
        if await _is_down(cluster, rng, process):
            process.backup = process.fs.copy()
            cluster.note(f"on the disk of {process.name} {done_to(rng, process)}")
            await asyncio.sleep(rng.uniform(0.0, 1.0))
    finally:
        process.wanted = True


async def _is_down(cluster: "Cluster", rng: random.Random, process: Process) -> bool:
    how = rng.choice(("kill", "stop", "power loss"))
    cluster.note(f"{how} of {process.name}, which has a bad disk")
    if how == "kill":
        process.kill()
    elif how == "stop":
        process.stop()
    else:
        process.power_loss(rng)
    for _ in range(round(_STOPS_WITHIN_S / 0.05)):
        if not process.alive:
            return True
        await asyncio.sleep(0.05)
    return False


def _without_beginning(rng: random.Random, process: Process) -> str:
    """The first segment of each log that has others."""
    root, lost = Path(process.settings.log_dir), []
    for name in process.fs.listdir(root):
        if process.fs.is_dir(root / name) and METADATA_TOPIC not in name:
            segments = sorted(found for found in process.fs.listdir(root / name) if found.endswith(".log"))
            if len(segments) > 1:
                process.fs.lose(root / name / segments[0])
                lost.append(f"{name}/{segments[0]}")
    return f"{lost} are lost"


def _damaged(rng: random.Random, process: Process) -> str:
    root = Path(process.settings.log_dir)
    folders = [root / name for name in process.fs.listdir(root) if process.fs.is_dir(root / name)]
    if folders and rng.random() < 0.2:
        folder = rng.choice(folders)
        process.fs.lose(folder)
        return f"{folder.name} is lost"
    paths = [folder / name for folder in folders for name in process.fs.listdir(folder)]
    paths += [root / name for name in process.fs.listdir(root) if root / name not in folders and name != _LOCK]
    paths = [path for path in paths if process.fs.open(path).size()]
    if not paths:
        return "there is nothing to damage"
    path = rng.choice(paths)
    shown = path.relative_to(root)
    if rng.random() < 0.3:
        process.fs.lose(path)
        return f"{shown} is lost"
    at, mask = rng.randrange(process.fs.open(path).size()), 1 << rng.randrange(8)
    process.fs.flip(path, at, mask)
    index = path.with_suffix(".index")
    if path.suffix == ".log" and METADATA_TOPIC not in path.parent.name and process.fs.exists(index):
        process.fs.lose(index)
    return f"byte {at} of {shown} is flipped by {mask}"
