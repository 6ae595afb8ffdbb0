"""A simulated machine with its disk and clock, and the process that runs on it: the real composition root, `Node`.

The parts of that composition from the operating system (files, threads, sockets, random bytes) are replaced during a
simulation. The owner of the running callback decides which machine's parts are used.
"""

import asyncio
import os
import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

from broker_runtime.apis.sasl.authenticator import Authenticator
from broker_runtime.clock import Clock
from broker_runtime.cluster import reactions
from broker_runtime.cluster.reactions import Reactions
from broker_runtime.config import broker_settings
from broker_runtime.network.settings import NetworkLimits
from broker_runtime.node import node as composition
from broker_runtime.node.node_parts import NodeParts
from broker_runtime.wire.answer_memory import AnswerMemory
from broker_runtime.wire.handler import FrameHandler
from tests.simulation.cluster.faults.endless_logs import EndlessLogs
from tests.simulation.cluster.logins import Sessions
from tests.simulation.cluster.machine.kube import SimulatedStore
from tests.simulation.cluster.machine.loop import START_S, Owner, VirtualLoop, current_owner
from tests.simulation.cluster.machine.network import Network
from tests.simulation.cluster.machine.release import THIS, Release
from tests.simulation.cluster.machine.server import SimulatedServer
from tests.simulation.cluster.machine.sockets import SimulatedDialler
from tests.support.fakes.disks.memory_filesystem import MemoryFileSystem
from tests.support.fakes.inline_executor import InlineExecutor
from tests.support.fakes.journal_store import SharedObjects
from tests.support.oracles.imports_on_demand import import_all

import_all()
_EPOCH_MS = 1_700_000_000_000


class NodeClock:
    """The clock of one machine: monotonic time is the loop's with another origin; wall time may jump."""

    def __init__(self, loop: VirtualLoop, boot_s: float) -> None:
        self.jumped_ms = 0
        self._loop = loop
        self._boot_s = boot_s

    def monotonic(self) -> float:
        return self._loop.time() - self._boot_s

    def wall_ms(self) -> int:
        return _EPOCH_MS + self.jumped_ms + int((self._loop.time() - START_S) * 1000)


class Surroundings:
    """The parts that all processes of one simulation share, including the list of mistakes."""

    def __init__(self, loop: VirtualLoop, network: Network, note: Callable[[str], None]) -> None:
        self.loop = loop
        self.network = network
        self.note = note
        self.mistakes: list[str] = []
        self.by_owner: dict[Owner, Process] = {}
        self.sessions = Sessions(loop.time, self.mistake)
        self.objects = SharedObjects()
        """Objects of the API server."""

    def wall_ms(self) -> int:
        return _EPOCH_MS + int((self.loop.time() - START_S) * 1000)

    def mistake(self, text: str) -> None:
        """Note a mistake: an event that no fault of the surroundings excuses."""
        owner = current_owner()
        line = f"{owner.name if owner else 'simulation'}: {text}"
        self.note(f"MISTAKE {line}")
        self.mistakes.append(line)


class Process:
    """One broker or controller, and its machine. `start` after `kill` finds the disk as the fault has left it."""

    def __init__(self, around: Surroundings, name: str, host: str, properties: Mapping[str, str]) -> None:
        self.name = name
        self.host = host
        self.properties = dict(properties)
        self.settings = broker_settings(self.properties)
        self.fs = _with_folder(Path(self.settings.log_dir))
        self.clock = NodeClock(around.loop, boot_s=START_S - 10.0 * len(around.by_owner))
        self.release = THIS
        """The code that the next start runs."""
        self.runs = THIS
        """The code of the last start."""
        self.broker: NodeParts | None = None
        self.owner: Owner | None = None
        self.boots = 0
        """Number of starts of its machine."""
        self.wanted = True
        """Whether the process's supervisor (kubelet, `sluicegate up`) restarts the process when it ends."""
        self.disk_fault: Callable[[MemoryFileSystem], None] | None = None
        """The current fault of the disk, for every process that uses it."""
        self.backup: MemoryFileSystem | None = None
        """Copy of a damaged disk, until the process serves with what is left."""
        self._around = around
        self._stop: asyncio.Event | None = None
        self._disk_has_failed = False

    @property
    def alive(self) -> bool:
        return self.owner is not None and self.owner.alive

    @property
    def paused(self) -> bool:
        return self.owner is not None and self.owner.paused

    @property
    def node_id(self) -> int:
        return self.settings.node_id

    @property
    def boot_id(self) -> str:
        return f"{self.host}/{self.boots}"

    def start(self) -> None:
        assert not self.alive
        self._around.network.power_back(self.host)
        self._disk_has_failed = self.disk_fault is not None
        owner = self.owner = Owner(self.name, self.host)
        self._around.by_owner[owner] = self
        release = self.runs = self.release
        run_until, self.broker = release.create(self.properties, self.clock)
        stop = self._stop = asyncio.Event()
        task = self._around.loop.create_task(run_until(stop), name=self.name, context=owner.context)
        task.add_done_callback(lambda done: self._ended(owner, done, release), context=owner.context)

    def _ended(self, owner: Owner, task: asyncio.Task[None], release: Release) -> None:
        """Handle an end without a kill: after `stop` or by a failure."""
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self._around.note(f"{self.name} ends: {error}")
            refuses = isinstance(error, release.start_error)
            if refuses and self.backup is not None:
                self._restore(owner, str(error))
                return
            if not refuses and not (self._disk_has_failed and isinstance(error, release.disk_errors)):
                self._around.mistake(f"ended by {error!r}")
        else:
            self._around.note(f"{self.name} has stopped")
        self._bury(owner)

    def _restore(self, owner: Owner, last_words: str) -> None:
        if "metadata" not in last_words:
            self._around.mistake(f"refuses to start over more than its metadata: {last_words}")
        self._bury(owner)
        assert self.backup is not None
        self._have_disk(self.backup.copy())

    def _bury(self, owner: Owner) -> None:
        owner.alive = False
        self._around.network.process_ended(owner)
        self._have_disk(self.fs.process_killed())
        self.broker = None

    def stop(self) -> None:
        """Send SIGTERM."""
        if self._stop is not None:
            self._stop.set()

    def kill(self) -> None:
        """Send SIGKILL: the page cache stays."""
        assert self.owner is not None
        self._bury(self.owner)

    def power_loss(self, rng: random.Random) -> None:
        """Lose the power: unsynced data is lost, in part or completely, and peers are not notified."""
        assert self.owner is not None
        self.owner.alive = False
        self._around.network.power_lost(self.host)
        self._have_disk(self.fs.power_loss(rng))
        self.boots += 1
        self.broker = None

    def _have_disk(self, fs: MemoryFileSystem) -> None:
        self.fs = fs
        if self.disk_fault is not None:
            self.disk_fault(fs)

    @property
    def needs_restart(self) -> bool:
        """Return whether the process's disk has failed since the process was started."""
        return self._disk_has_failed

    def break_disk(self, fault: Callable[[MemoryFileSystem], None]) -> None:
        self.disk_fault, self._disk_has_failed = fault, True
        fault(self.fs)

    def mend_disk(self) -> None:
        """End the disk's fault; a process that has seen it continues unchanged."""
        self.disk_fault = None
        self.fs.mend()

    def pause(self) -> None:
        assert self.owner is not None
        self.owner.paused = True

    def resume(self) -> None:
        assert self.owner is not None
        self._around.loop.resume(self.owner)


def _with_folder(folder: Path) -> MemoryFileSystem:
    """An empty disk, durably mounted at that folder."""
    fs = MemoryFileSystem()
    fs.mkdir(folder)
    for parent in folder.parents:
        fs.fsync_dir(parent)
    return fs


@contextmanager
def replaced_operating_system(around: Surroundings, cluster_id: str, seed: int) -> Iterator[None]:
    entropy = random.Random(f"{seed}/entropy")

    def mine() -> Process:
        owner = current_owner()
        assert owner is not None
        return around.by_owner[owner]

    def server(
        handler: FrameHandler, limits: NetworkLimits, clock: Clock, _: object, *, answers: AnswerMemory
    ) -> SimulatedServer:
        owner = current_owner()
        assert owner is not None
        return SimulatedServer(handler, limits, clock, (around.network, owner), around.mistake, answers)

    def dialler(*_: object) -> SimulatedDialler:
        owner = current_owner()
        assert owner is not None
        return SimulatedDialler(around.network, owner)

    def store(*_: object, **_options: object) -> SimulatedStore:
        owner = current_owner()
        assert owner is not None
        return SimulatedStore(around.objects, around.network, owner, random.Random(entropy.random()))

    def authenticator(inner: FrameHandler, *rest: Any) -> Authenticator:
        return Authenticator(around.sessions.watching(inner), *rest)

    between_slices = random.Random(f"{seed}/turns")

    def schedule_later(theirs: Reactions) -> None:
        """Schedule a time slice.

        Work takes no virtual time, so each piece has its own time slice, with time for other tasks in between.
        """
        if not theirs._scheduled:
            theirs._scheduled = True
            around.loop.call_later(between_slices.uniform(0.0001, 0.01), theirs._slice)

    with ExitStack() as stack:
        for target, name, value in (
            (composition, "OsFileSystem", lambda: mine().fs),
            (composition, "ThreadPoolExecutor", lambda *_: InlineExecutor()),
            (composition, "boot_id", lambda: mine().boot_id),
            (composition, "claim_folder", lambda *_: cluster_id),
            (composition, "make_data_folder", lambda path: Path(path)),
            (composition, "SocketDialler", dialler),
            ("broker_runtime.groups.service", "ThreadPoolExecutor", lambda *_: InlineExecutor()),
            ("broker_runtime.groups.service", "EpochEnds", EndlessLogs),
            ("broker_runtime.apis.sasl.authentication", "Authenticator", authenticator),
            ("broker_runtime.node.broker_node", "SocketDialler", dialler),
            ("broker_runtime.node.broker_node", "SocketServer", server),
            ("broker_runtime.node.controller_node", "SocketServer", server),
            ("broker_runtime.controller.journal.kube_store", "KubeStore", store),
            (reactions, "SLICE_S", 0.0),
            (Reactions, "_schedule", schedule_later),
            (os, "urandom", entropy.randbytes),
        ):
            if isinstance(target, str):
                stack.enter_context(mock.patch(f"{target}.{name}", value))
            else:
                stack.enter_context(mock.patch.object(target, name, value))
        yield
