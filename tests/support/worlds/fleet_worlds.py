"""Both fleets with simulated nodes: pods in an API server in memory, and children without a process.

A node that was restarted is not ready before `settle`. The controller's view is made of the nodes.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any, Protocol

import pytest

from sluicegate_operator.api import BrokerCluster, Manifests
from sluicegate_operator.api.manifests import read_stored
from sluicegate_operator.engine.context.context import FleetContext, now
from sluicegate_operator.fleet.kafka.controllers import ControllerPlace, ControllerView
from sluicegate_operator.fleet.local.local import LocalFleet
from sluicegate_operator.fleet.local.local_data import DataDir
from sluicegate_operator.fleet.local.local_process import BackOff, ChildSpec, Watcher
from sluicegate_operator.handlers.context import Context
from sluicegate_operator.kube.http.kinds import BROKER_LISTENER
from sluicegate_operator.local.context import LocalContext
from sluicegate_operator.local.objects import LocalObjects
from sluicegate_operator.local.secrets import LocalSecrets
from sluicegate_operator.planning.registrations.overview import BrokerOverview, BrokerState, ClusterOverview
from sluicegate_operator.settings import read_settings
from tests.support.fakes.kube.memory_kube import Json, MemoryKube
from tests.support.fakes.scripted_cluster import ScriptedCluster
from tests.support.manifests.bad_manifests import cluster

SHOP = ("default", "shop")
CONTROLLER = 1000
Node = tuple[int, int]
"""A node's id, and the number of its incarnation in the world."""


class FleetWorld(Protocol):
    """A cluster `shop` in one of the fleets."""

    replicas: dict[int, int]
    """Number of replicas that the controller counts on each broker."""
    says: bool
    """Whether a controller is active."""

    @property
    def context(self) -> FleetContext: ...

    async def put(self, *others: Json, **spec: Any) -> None:
        """Apply this spec and these objects as a user does, then the nodes as the clusters' queue does."""

    def settle(self) -> None:
        """Start all nodes that should exist, and make them ready."""

    def replace(self, node_id: int) -> None:
        """Give the node another incarnation, which is ready."""

    def down(self) -> set[int]:
        """Nodes that should exist and are not ready."""

    def started(self) -> list[Node]:
        """Every incarnation that existed, in order."""


def view_of(world: FleetWorld, running: Mapping[int, int], ready: set[int]) -> ControllerView:
    """The controller's view; `running` has the incarnation's number by node id."""
    if not world.says or CONTROLLER not in ready:
        return ControllerView(unseen="no controller is active")
    brokers = tuple(
        BrokerOverview(
            broker_id,
            epoch,
            "",
            BrokerState.ONLINE if broker_id in ready else BrokerState.OFFLINE,
            replicas=world.replicas.get(broker_id, 0),
        )
        for broker_id, epoch in sorted(running.items())
        if broker_id != CONTROLLER
    )
    return ControllerView(ClusterOverview("c", CONTROLLER, 1, 9, brokers), ControllerPlace(CONTROLLER, "c0"))


class Pods:
    """A FleetWorld that plays the controller of StatefulSets and the kubelet."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.kube = MemoryKube()
        self.context = Context(self.kube, read_settings({}, None, None, None))  # type: ignore[arg-type]
        self.context.mark = lambda queue, key: None
        self.replicas: dict[int, int] = {}
        self.says = True
        self.brokers = ScriptedCluster(4)
        for number, layer in self.brokers.overrides.items():
            layer["listeners"] = f"INTERNAL://b{number}:9091"
        self._numbers: dict[str, Node] = {}
        monkeypatch.setattr("sluicegate_operator.fleet.kubernetes.kubernetes.controller_view", self._view)

    async def put(self, *others: Json, **spec: Any) -> None:
        for document in (cluster(**spec), *others):
            self.kube.put(document)
        found = await self.context.gather(SHOP, [BROKER_LISTENER])
        assert found.cluster is not None
        if not found.cluster.spec.paused:
            await self.context.fleet.apply(found.cluster, found.listeners)
        for name in self.kube.names("StatefulSet"):
            node_set = self.kube.take("StatefulSet", name)
            node_set["status"] = {"observedGeneration": node_set["metadata"]["generation"]}

    def settle(self) -> None:
        wanted = self._wanted()
        for name in self.kube.names("Pod"):
            if name not in wanted:
                self.kube.remove("Pod", name)
        for name, node_id in wanted.items():
            if name not in self.kube.names("Pod"):
                self._start(name, node_id)

    def replace(self, node_id: int) -> None:
        (name,) = (name for name, wanted in self._wanted().items() if wanted == node_id)
        self.kube.remove("Pod", name)
        self._start(name, node_id)

    def down(self) -> set[int]:
        return {node_id for name, node_id in self._wanted().items() if name not in self.kube.names("Pod")}

    def started(self) -> list[Node]:
        return list(self._numbers.values())

    def _wanted(self) -> dict[str, int]:
        found = {}
        for name in self.kube.names("StatefulSet"):
            first = CONTROLLER if name.endswith("controllers") else 0
            for ordinal in range(self.kube.take("StatefulSet", name)["spec"]["replicas"]):
                found[f"{name}-{ordinal}"] = first + ordinal
        return found

    def _start(self, name: str, node_id: int) -> None:
        template = self.kube.take("StatefulSet", name.rpartition("-")[0])["spec"]["template"]
        host = f"b{node_id}" if node_id != CONTROLLER else "c0"
        status = {"podIP": host, "conditions": [{"type": "Ready", "status": "True"}]}
        meta = {"name": name, **template["metadata"]}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": template["spec"], "status": status}
        uid = self.kube.put(pod)["metadata"]["uid"]
        self._numbers[uid] = (node_id, len(self._numbers) + 1)

    async def _view(self, places: Sequence[ControllerPlace]) -> ControllerView:
        uids = [self.kube.take("Pod", name)["metadata"]["uid"] for name in self.kube.names("Pod")]
        running = dict(self._numbers[uid] for uid in uids)
        return view_of(self, running, set(running))


class PlayedChild:
    """Replaces fleet.local_process.Child."""

    pids = count(1)

    def __init__(self, spec: ChildSpec, watcher: Watcher, back_off: BackOff) -> None:
        self.spec = spec
        self.pid: int | None = None
        self.restarts = self.began_ms = 0
        self.failing = ""
        self.ready = False

    def start(self) -> None:
        self.pid = next(self.pids)

    async def stop(self) -> None:
        self.pid, self.ready = None, False

    async def why_not_ready(self) -> str | None:
        return None if self.ready else "not listening yet"

    async def wait_ready(self, timeout_s: float) -> str | None:
        return await self.why_not_ready()


class Processes:
    """A FleetWorld of simulated child processes."""

    def __init__(self, data: DataDir, monkeypatch: pytest.MonkeyPatch) -> None:
        self.replicas: dict[int, int] = {}
        self.says = True
        self._children: list[tuple[int, PlayedChild]] = []
        self.objects = LocalObjects({}, lambda _: None)
        self.fleet = LocalFleet(data, lambda _: None, lambda: None)
        self.context = LocalContext(
            self.objects, self.fleet, LocalSecrets(data.secrets_dir), lambda _: None, lambda: None
        )
        self.context.mark = lambda queue, key: None
        monkeypatch.setattr("sluicegate_operator.fleet.local.node_processes.Child", self._child)
        monkeypatch.setattr("sluicegate_operator.fleet.local.node_processes.controller_view", self._view)

    def _child(self, spec: ChildSpec, watcher: Watcher, back_off: BackOff) -> PlayedChild:
        child = PlayedChild(spec, watcher, back_off)
        self._children.append((int(spec.log_file.parent.name.removeprefix("node-")), child))
        return child

    async def put(self, *others: Json, **spec: Any) -> None:
        objects = [read_stored(_in_default(document)) for document in (cluster(**spec), *others)]
        self.objects.apply(Manifests.of(objects), now())
        found = await self.context.gather(SHOP, [BROKER_LISTENER])
        assert found.cluster is not None
        if not found.cluster.spec.paused:
            await self.fleet.apply(found.cluster, found.listeners)
        self.context.running.add(SHOP)

    def settle(self) -> None:
        for child in self._running().values():
            child.ready = True

    def replace(self, node_id: int) -> None:
        child = self._running()[node_id]
        child.start()
        child.ready = True

    def down(self) -> set[int]:
        return {node_id for node_id, child in self._running().items() if not child.ready}

    def started(self) -> list[Node]:
        return [(node_id, number) for number, (node_id, _) in enumerate(self._children, 1)]

    def _running(self) -> dict[int, PlayedChild]:
        return {node_id: child for node_id, child in self._children if child.pid is not None}

    async def _view(self, places: Sequence[ControllerPlace]) -> ControllerView:
        ready = {node_id for node_id, child in self._running().items() if child.ready}
        return view_of(self, {node_id: child.pid or 0 for node_id, child in self._running().items()}, ready)


def _in_default(document: Json) -> Json:
    return {**document, "metadata": {"namespace": "default", **document["metadata"]}}


@asynccontextmanager
async def fleet_world(kind: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[FleetWorld]:
    """A world of the fleet `kind`: pods or processes."""
    if kind == "pods":
        pods = Pods(monkeypatch)
        yield pods
        await pods.context.aclose()
        return
    with DataDir(folder) as data:
        processes = Processes(data, monkeypatch)
        yield processes
        await processes.context.aclose()


async def shop(world: FleetWorld) -> BrokerCluster:
    """The cluster as it is stored now."""
    found = (await world.context.gather(SHOP, ())).cluster
    assert found is not None
    return found
