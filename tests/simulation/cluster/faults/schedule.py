"""The faults of a cluster, and their times: all of it follows from the seed."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from tests.simulation.cluster import check, topic_changes
from tests.simulation.cluster.faults import damage, disk_faults, member_faults, releases
from tests.simulation.cluster.logins import USERS
from tests.simulation.cluster.machine.kube import API_SERVER
from tests.simulation.cluster.machine.process import Process
from tests.simulation.cluster.operator_word import CONTROLLER_PORT

if TYPE_CHECKING:
    from tests.simulation.cluster.cluster import Cluster


async def run(cluster: "Cluster") -> None:
    rng = random.Random(f"{cluster.seed}/schedule")
    end_s = cluster.loop.time() + cluster.shape.faults_s
    # A seed has its own few kinds of faults: with all of them together, interesting events are rare.
    chosen = list(cluster.shape.faults) or rng.sample(list(_ACTIONS), rng.randint(2, 6))
    weights = [_BY_NAME[name][1] for name in chosen]
    supervisor = asyncio.ensure_future(keep_alive(cluster))
    pending: set[asyncio.Future[None]] = set()
    while cluster.loop.time() < end_s:
        action = _BY_NAME[rng.choices(chosen, weights)[0]][0]
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
    """Restart processes that ended or were stopped, as a kubelet does."""
    while True:
        await asyncio.sleep(0.5)
        for process in cluster.processes:
            if process.backup is not None and check.serves(process):
                process.backup = None
            if process.wanted and not process.alive:
                cluster.note(f"{process.name} starts")
                process.start()


def heal(cluster: "Cluster") -> None:
    cluster.network.heal()
    member_faults.heal(cluster)
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


async def _kill_all_brokers(cluster: "Cluster", rng: random.Random) -> None:
    await asyncio.gather(*(_kill_one(cluster, rng, process) for process in cluster.brokers))


async def _kill_controller(cluster: "Cluster", rng: random.Random) -> None:
    await _kill_one(cluster, rng, rng.choice(cluster.controllers))


async def _kill_one(cluster: "Cluster", rng: random.Random, process: Process) -> None:
    if not process.alive:
        return
    cluster.note(f"kill {process.name}")
    process.wanted = False
    process.kill()
    await disk_faults.start_later(cluster, rng, process)


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
    """Cut one node off from all other nodes, while clients still reach it."""
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


async def _password(cluster: "Cluster", rng: random.Random) -> None:
    """Change a user's password, if clients authenticate."""
    if cluster.shape.secured:
        user = rng.choice(USERS)
        cluster.note(f"{user} gets a new password: {await cluster.passwords.change(user)}")


async def _refuse_controller(cluster: "Cluster", rng: random.Random) -> None:
    """Refuse connections to a controller, as if its process had ended, while it continues."""
    process = cluster.active_controller() or rng.choice(cluster.controllers)
    address = (process.host, CONTROLLER_PORT)
    cluster.network.refuse(address)
    cluster.note(f"{process.name} refuses, and {cluster.network.reset(process.host, 1.0)} of its connections are reset")
    await asyncio.sleep(rng.uniform(0.2, 3.0))
    cluster.network.refuse(address, refuse=False)


_ACTIONS: dict[str, tuple[Callable[["Cluster", random.Random], Awaitable[None]], int]] = {
    "kill": (_kill, 4),
    "kill_controller": (_kill_controller, 2),
    "power_loss": (disk_faults.power_loss, 3),
    "power_loss_of_controller": (disk_faults.power_loss_of_controller, 1),
    "disk_fails": (disk_faults.disk_fails, 3),
    "damage": (damage.damage, 3),
    "damage_of_controller": (damage.damage_of_controller, 1),
    "pause": (_pause, 3),
    "cut_two": (_cut_two, 3),
    "isolate": (_isolate, 2),
    "cut_off_from_controllers": (_cut_off_from_controllers, 2),
    "cut_off_from_api_server": (_cut_off_from_api_server, 2),
    "slow": (_slow, 2),
    "reset": (_reset, 2),
    "jump": (_jump, 1),
    "controlled_restart": (_controlled_restart, 3),
    "new_topic": (topic_changes.new_topic, 1),
    "temporary_topic": (topic_changes.temporary_topic, 2),
    "topic_made_again": (topic_changes.topic_made_again, 2),
    "delete_records": (topic_changes.delete_records, 2),
    "reassign": (topic_changes.reassign, 2),
    "elect_preferred": (topic_changes.elect_preferred, 1),
}
_BY_NAME = _ACTIONS | {
    "grow": (topic_changes.grow, 2),
    "member_pauses": (member_faults.member_pauses, 3),
    "member_cut_off": (member_faults.member_cut_off, 3),
    "in_rebalance": (member_faults.in_rebalance, 6),
    "coordinator_falls_silent": (member_faults.coordinator_falls_silent, 3),
    "kill_all_brokers": (_kill_all_brokers, 3),
    "refuse_controller": (_refuse_controller, 3),
    "password": (_password, 6),
    "lost_beginning": (damage.lost_beginning, 3),
    "damaged_end": (damage.damaged_end, 3),
    "old_damage": (damage.old_damage, 3),
    "rot": (damage.rot, 3),
    "change_release": (releases.change_release, 20),
    "roll": (releases.roll, 1),
}
"""All faults, including those that only a shape asks for; a seed does not choose those."""
FAULTS = tuple(_BY_NAME)
