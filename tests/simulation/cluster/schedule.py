"""Which faults befall a cluster, and when: all of it follows from the seed."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from tests.simulation.cluster import check
from tests.simulation.cluster.kube import API_SERVER
from tests.simulation.cluster.process import Process
from tests.support.memory_filesystem import MemoryFileSystem

if TYPE_CHECKING:
    from tests.simulation.cluster.cluster import Cluster


async def run(cluster: "Cluster") -> None:
    rng = random.Random(f"{cluster.seed}/schedule")
    end_s = cluster.loop.time() + cluster.shape.faults_s
    # A seed has its own few kinds of faults: all of them together rarely let anything interesting happen.
    chosen = list(cluster.shape.faults) or rng.sample(list(_ACTIONS), rng.randint(2, 6))
    weights = [_ACTIONS[name][1] for name in chosen]
    supervisor = asyncio.ensure_future(keep_alive(cluster))
    pending: set[asyncio.Future[None]] = set()
    while cluster.loop.time() < end_s:
        action = _ACTIONS[rng.choices(chosen, weights)[0]][0]
        pending.add(asyncio.ensure_future(action(cluster, rng)))
        mean_s = cluster.shape.fault_interval_s
        await asyncio.sleep(rng.choice((rng.uniform(0.0, mean_s / 3), rng.uniform(0.3 * mean_s, 3.0 * mean_s))))
    supervisor.cancel()
    for waiting in pending:
        waiting.cancel()
    for ended in await asyncio.gather(*pending, return_exceptions=True):
        if isinstance(ended, Exception):
            raise ended


async def keep_alive(cluster: "Cluster") -> None:
    """A process that ended by itself, or was stopped, is started again, as by a kubelet."""
    while True:
        await asyncio.sleep(0.5)
        for process in cluster.processes:
            if process.wanted and not process.alive:
                cluster.note(f"{process.name} starts")
                process.start()


def heal(cluster: "Cluster") -> None:
    cluster.network.heal()
    for process in cluster.processes:
        process.wanted = True
        if process.alive and process.paused:
            process.resume()
        if process.disk_fault is not None:
            process.mend_disk()
        if process.alive and process.needs_restart:
            process.stop()


# Faults


async def _kill(cluster: "Cluster", rng: random.Random) -> None:
    await _kill_one(cluster, rng, rng.choice(cluster.brokers))


async def _kill_controller(cluster: "Cluster", rng: random.Random) -> None:
    await _kill_one(cluster, rng, rng.choice(cluster.controllers))


async def _kill_one(cluster: "Cluster", rng: random.Random, process: Process) -> None:
    if not process.alive:
        return
    cluster.note(f"kill {process.name}")
    process.wanted = False
    process.kill()
    await _start_later(cluster, rng, process)


async def _start_later(cluster: "Cluster", rng: random.Random, process: Process) -> None:
    await asyncio.sleep(rng.choice((rng.uniform(0.05, 0.5), rng.uniform(0.5, 6.0))))
    process.wanted = True


async def _power_loss(cluster: "Cluster", rng: random.Random) -> None:
    """Brokers rely on replicas instead of fsync: the next one only when all are in sync again, else at any time."""
    process = rng.choice(cluster.brokers)
    if process.alive and _may_lose(cluster, process):
        await _power_loss_of(cluster, rng, process)
        await _until_in_sync(cluster, process)


def _may_lose(cluster: "Cluster", process: Process) -> bool:
    """Whether this broker may lose what it has not synced; from now on it is the only one."""
    if process not in cluster.brokers or cluster.shape.flush_messages == 1:
        return True
    if cluster.lossy not in (None, process):
        return False
    cluster.lossy = process
    return True


async def _until_in_sync(cluster: "Cluster", process: Process) -> None:
    while cluster.lossy is process:
        await asyncio.sleep(0.1)
        if check.everybody_serves(cluster) is True and check.in_sync(cluster) is True:
            cluster.lossy = None


async def _power_loss_of_controller(cluster: "Cluster", rng: random.Random) -> None:
    """At any time, for what it answers for is synced."""
    process = rng.choice(cluster.controllers)
    if process.alive and process not in cluster.brokers:
        await _power_loss_of(cluster, rng, process)


async def _power_loss_of(cluster: "Cluster", rng: random.Random, process: Process) -> None:
    cluster.note(f"power loss of {process.name}")
    process.wanted = False
    process.power_loss(rng)
    await _start_later(cluster, rng, process)


async def _disk_fails(cluster: "Cluster", rng: random.Random) -> None:
    """For a while; then somebody mends it and restarts what ran on it. What an fsync could not write is lost."""
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
    await _until_in_sync(cluster, process)


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


async def _pause(cluster: "Cluster", rng: random.Random) -> None:
    process = rng.choice(cluster.processes)
    if not process.alive or process.paused:
        return
    cluster.note(f"pause {process.name}")
    owner = process.owner
    process.pause()
    await asyncio.sleep(rng.choice((rng.uniform(0.1, 1.0), rng.uniform(1.0, 7.0))))
    if process.owner is owner and process.alive and process.paused:
        cluster.note(f"resume {process.name}")
        process.resume()


async def _cut_two(cluster: "Cluster", rng: random.Random) -> None:
    one, other = rng.sample([process.host for process in cluster.processes], 2)
    await _cut(cluster, rng, [(one, other)] if rng.random() < 0.5 else [(one, other), (other, one)])


async def _isolate(cluster: "Cluster", rng: random.Random) -> None:
    """One node from all other nodes, while clients still reach it."""
    one = rng.choice(cluster.processes)
    others = [process.host for process in cluster.processes if process is not one]
    await _cut(cluster, rng, [pair for host in others for pair in ((one.host, host), (host, one.host))])


async def _cut_off_from_controllers(cluster: "Cluster", rng: random.Random) -> None:
    broker = rng.choice(cluster.brokers).host
    pairs = [(broker, controller.host) for controller in cluster.controllers if controller.host != broker]
    if rng.random() < 0.5:
        pairs = [(target, source) for source, target in pairs]
    await _cut(cluster, rng, pairs)


async def _cut_off_from_api_server(cluster: "Cluster", rng: random.Random) -> None:
    controller = rng.choice(cluster.controllers).host
    pairs = [(controller, API_SERVER), (API_SERVER, controller)]
    await _cut(cluster, rng, pairs if rng.random() < 0.5 else [rng.choice(pairs)])


async def _cut(cluster: "Cluster", rng: random.Random, pairs: list[tuple[str, str]]) -> None:
    cluster.note("cut " + ", ".join(f"{source} -> {target}" for source, target in pairs))
    for source, target in pairs:
        cluster.network.cut(source, target)
    await asyncio.sleep(rng.uniform(0.2, 6.0))
    cluster.note("links heal")
    cluster.network.heal()
    if rng.random() < 0.5:
        for source, _ in pairs[:1]:
            cluster.network.reset(source, 0.7)


async def _slow(cluster: "Cluster", rng: random.Random) -> None:
    host, extra_s = rng.choice(cluster.processes).host, rng.choice((0.02, 0.1, 0.4))
    cluster.note(f"{host} is slower by {extra_s:g} s")
    cluster.network.slow(host, extra_s)
    await asyncio.sleep(rng.uniform(0.5, 5.0))
    cluster.network.slow(host, 0.0)


async def _reset(cluster: "Cluster", rng: random.Random) -> None:
    host = rng.choice(cluster.processes).host
    cluster.note(f"{cluster.network.reset(host, rng.choice((0.3, 1.0)))} connections of {host} are reset")


async def _jump(cluster: "Cluster", rng: random.Random) -> None:
    process = rng.choice(cluster.processes)
    process.clock.jumped_ms = rng.choice((-3_600_000, -5_000, 0, 7_000, 3_600_000))
    cluster.note(f"the clock of {process.name} is off by {process.clock.jumped_ms} ms")


async def _controlled_restart(cluster: "Cluster", rng: random.Random) -> None:
    process = rng.choice(cluster.brokers)
    if process.alive:
        cluster.note(f"stop {process.name}")
        process.stop()
        await asyncio.sleep(0)


async def _new_topic(cluster: "Cluster", rng: random.Random) -> None:
    name = f"later-{rng.randrange(3)}"
    if await cluster.admin.create_topic(name, 1) and not any(lane.key[0] == name for lane in cluster.lanes):
        cluster.note(f"topic {name} is made")
        cluster.add_clients(name, 1)


async def _temporary_topic(cluster: "Cluster", rng: random.Random) -> None:
    """Made and deleted, perhaps under a name that was deleted before, while brokers come and go."""
    name = f"temporary-{rng.randrange(2)}"
    if await cluster.admin.create_topic(name, rng.randint(1, 3)):
        cluster.note(f"topic {name} is made")
    await asyncio.sleep(rng.uniform(0.0, 3.0))
    if await cluster.admin.delete_topic(name):
        cluster.note(f"topic {name} is deleted")


async def _reassign(cluster: "Cluster", rng: random.Random) -> None:
    topic, index = "orders", rng.randrange(cluster.shape.partitions)
    replicas = rng.sample([broker.node_id for broker in cluster.brokers], cluster.shape.replication_factor)
    said = await cluster.admin.reassign(topic, index, replicas)
    cluster.note(f"{topic}-{index} is to be on {replicas}: {said}")


async def _elect_preferred(cluster: "Cluster", rng: random.Random) -> None:
    cluster.note(f"preferred leaders are elected: {await cluster.admin.elect_preferred()}")


_ACTIONS: dict[str, tuple[Callable[["Cluster", random.Random], Awaitable[None]], int]] = {
    "kill": (_kill, 4),
    "kill_controller": (_kill_controller, 2),
    "power_loss": (_power_loss, 3),
    "power_loss_of_controller": (_power_loss_of_controller, 1),
    "disk_fails": (_disk_fails, 3),
    "pause": (_pause, 3),
    "cut_two": (_cut_two, 3),
    "isolate": (_isolate, 2),
    "cut_off_from_controllers": (_cut_off_from_controllers, 2),
    "cut_off_from_api_server": (_cut_off_from_api_server, 2),
    "slow": (_slow, 2),
    "reset": (_reset, 2),
    "jump": (_jump, 1),
    "controlled_restart": (_controlled_restart, 3),
    "new_topic": (_new_topic, 1),
    "temporary_topic": (_temporary_topic, 2),
    "reassign": (_reassign, 2),
    "elect_preferred": (_elect_preferred, 1),
}
