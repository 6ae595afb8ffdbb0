"""Disks that fail, and machines that lose power: data that was not synced is lost, in part or completely."""

import asyncio
import random
from typing import TYPE_CHECKING

from tests.simulation.cluster import check
from tests.simulation.cluster.machine.process import Process
from tests.support.fakes.disks.memory_filesystem import MemoryFileSystem

if TYPE_CHECKING:
    from tests.simulation.cluster.cluster import Cluster


async def power_loss(cluster: "Cluster", rng: random.Random) -> None:
    """Let a broker lose power.

    Brokers rely on replicas instead of fsync: another one may follow only when all are in sync again. With
    flush.messages=1 any broker may lose power at any time.
    """
    process = rng.choice(cluster.brokers)
    if process.alive and _may_lose(cluster, process):
        await _power_loss_of(cluster, rng, process)
        await until_in_sync(cluster, process)


def _may_lose(cluster: "Cluster", process: Process) -> bool:
    """Whether this broker may lose its unsynced data; from now on it is the only one."""
    if process not in cluster.brokers or cluster.shape.flush_messages == 1:
        return True
    return is_the_only_lossy(cluster, process)


def is_the_only_lossy(cluster: "Cluster", process: Process) -> bool:
    if cluster.lossy not in (None, process):
        return False
    cluster.lossy = process
    return True


async def until_in_sync(cluster: "Cluster", process: Process) -> None:
    while cluster.lossy is process:
        await asyncio.sleep(0.1)
        if check.everybody_serves(cluster) is True and check.is_mended(process) and check.in_sync(cluster) is True:
            cluster.lossy = None


async def power_loss_of_controller(cluster: "Cluster", rng: random.Random) -> None:
    """Let a controller lose power, at any time: everything that it answered for is synced."""
    process = rng.choice(cluster.controllers)
    if process.alive and process not in cluster.brokers:
        await _power_loss_of(cluster, rng, process)


async def _power_loss_of(cluster: "Cluster", rng: random.Random, process: Process) -> None:
    cluster.note(f"power loss of {process.name}")
    process.wanted = False
    process.power_loss(rng)
    await start_later(cluster, rng, process)


async def disk_fails(cluster: "Cluster", rng: random.Random) -> None:
    """Let a disk fail for a while, then mend it and restart what ran on it.

    Data that an fsync could not write is lost.
    """
    process = rng.choice(cluster.processes)
    if not process.alive or process.disk_fault is not None or not _may_lose(cluster, process):
        return
    name, fault = rng.choice(_DISK_FAULTS)
    cluster.note(f"the disk of {process.name} {name}")
    process.break_disk(fault)
    await asyncio.sleep(rng.choice((rng.uniform(0.0, 0.3), rng.uniform(0.3, 6.0))))
    if rng.random() < 0.5:
        _end(cluster, rng, process)
        await asyncio.sleep(rng.uniform(0.0, 2.0))
    cluster.note(f"the disk of {process.name} is mended")
    process.mend_disk()
    await asyncio.sleep(rng.uniform(0.0, 1.0))
    _end(cluster, rng, process)
    await until_in_sync(cluster, process)


def _end(cluster: "Cluster", rng: random.Random, process: Process) -> None:
    if not process.alive:
        return
    if rng.random() < 0.5:
        cluster.note(f"stop {process.name}")
        process.stop()
    else:
        cluster.note(f"kill {process.name}")
        process.kill()


def _no_fsync(fs: MemoryFileSystem) -> None:
    fs.failing_fsync = True


def _no_writes(fs: MemoryFileSystem) -> None:
    fs.read_only = True


def _nothing_works(fs: MemoryFileSystem) -> None:
    fs.failing_fsync = fs.read_only = fs.failing_truncate = True


def _full(fs: MemoryFileSystem) -> None:
    fs.capacity_bytes = fs.used_bytes() + 200


_DISK_FAULTS = (
    ("fails to sync", _no_fsync),
    ("fails to write", _no_writes),
    ("fails", _nothing_works),
    ("is full", _full),
)


async def start_later(cluster: "Cluster", rng: random.Random, process: Process) -> None:
    await asyncio.sleep(rng.choice((rng.uniform(0.05, 0.5), rng.uniform(0.5, 6.0))))
    process.wanted = True
