"""Many clusters simulated by one process, for measurements and tests of the operator.

The pods of a real API server are Ready at once, brokers answer the admin protocol on real sockets, and controllers show
their view. A pod has the address `<network>.<cluster>.<node>`, and no process runs in it. The broker registers when its
pod is placed, and its session ends when the pod is removed.
"""

import asyncio
import json
import os
import socket
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from urllib.parse import parse_qsl, urlsplit

from sluicegate_operator.api import API_VERSION, BrokerCluster
from sluicegate_operator.planning.layout.cluster_layout import (
    FIRST_CONTROLLER_ID,
    HTTP_PORT,
    INTERNAL_PORT,
    Role,
    cluster_id,
)
from sluicegate_operator.resources.labels import CLUSTER_LABEL, READINESS_GATE, ROLE_LABEL
from tests.support.fakes.scripted_peer import PeerRequest
from tests.support.processes.kube_watch import KubeWatch
from tests.support.processes.process_kubelet.api import Access, ApiRefused, ApiUnavailable, Json, KubeApi
from tests.support.worlds.served_cluster import ServedCluster

PLACERS = 4
NETWORK_MIN, NETWORK_MAX = 30, 250
"""Other networks, such as those of the process kubelet, are below."""
CHANGES = {
    19: "CreateTopics",
    20: "DeleteTopics",
    37: "CreatePartitions",
    44: "IncrementalAlterConfigs",
    45: "AlterPartitionReassignments",
    49: "AlterClientQuotas",
    64: "UnregisterBroker",
}
"""Requests by which the operator changes something."""


def take_network() -> tuple[socket.socket, str]:
    """The first half of loopback addresses that are ours while the socket is open: all networks use the same ports."""
    for number in range(NETWORK_MIN + os.getpid() % 100, NETWORK_MAX):
        taken = socket.socket()
        try:
            taken.bind((f"127.{number}.0.1", INTERNAL_PORT))
        except OSError:
            taken.close()
            continue
        return taken, f"127.{number}"
    raise RuntimeError("no network of loopback addresses is free for played brokers")


def _pass(_: str) -> bool:
    return True


class ServedClusters:
    """Simulated clusters: their sockets and the watch, used with `async with`.

    `brokers` by the name of the cluster, one controller each. `before` and `after` are called for each changing request
    with Kafka's name of it. If `before` returns False the request is not executed, if `after` does it is not answered.
    """

    def __init__(self, access: Access, namespace: str, brokers: Mapping[str, int]) -> None:
        self.before: Callable[[str], bool] = _pass
        self.after: Callable[[str], bool] = _pass
        self.nodes: Sequence[str] = ()
        """Nodes for the pods, by their ordinals in turn; if empty, pods run without a node."""
        self._taken, self._network = take_network()
        self._access = access
        self._namespace = namespace
        self._numbers = {name: number for number, name in enumerate(brokers, 1)}
        self.clusters: Mapping[str, ServedCluster] = {
            name: ServedCluster(name, count, lambda node_id, name=name: self.host(name, node_id))  # type: ignore[misc]
            for name, count in brokers.items()
        }
        self._servers: list[asyncio.Server] = []
        self._serving: set[asyncio.Task[None]] = set()
        self._placers = ThreadPoolExecutor(PLACERS, thread_name_prefix="placing")
        self._placed: set[str] = set()
        self._pods = KubeWatch(access, f"/api/v1/namespaces/{namespace}/pods", self._heard)
        self._loop: asyncio.AbstractEventLoop | None = None

    async def __aenter__(self) -> "ServedClusters":
        self._loop = asyncio.get_running_loop()
        for name, cluster in self.clusters.items():
            for broker_id in range(cluster.brokers):
                await self._listen(self.host(name, broker_id), INTERNAL_PORT, _Broker(self, cluster, broker_id))
            await self._listen(self.host(name, FIRST_CONTROLLER_ID), HTTP_PORT, _Controller(cluster))
        self._pods.__enter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.to_thread(self._pods.__exit__, None, None, None)
        self._placers.shutdown(cancel_futures=True)
        for server in self._servers:
            server.close()
        serving = list(self._serving)
        for task in serving:
            task.cancel()
        await asyncio.gather(*serving, return_exceptions=True)
        self._taken.close()

    def host(self, name: str, node_id: int) -> str:
        own = node_id + 1 if node_id < FIRST_CONTROLLER_ID else 201 + node_id - FIRST_CONTROLLER_ID
        return f"{self._network}.{self._numbers[name]}.{own}"

    async def _listen(self, host: str, port: int, serve: "_Broker | _Controller") -> None:
        def begin(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.create_task(serve(reader, writer))
            self._serving.add(task)
            task.add_done_callback(self._serving.discard)

        self._servers.append(await asyncio.start_server(begin, host, port))

    def start(self, name: str) -> None:
        """Register all brokers of a cluster without pods."""
        if self._loop is not None:
            for broker_id in range(self.clusters[name].brokers):
                self._loop.call_soon_threadsafe(self.clusters[name].begin, broker_id)

    def _heard(self, event: str, pod: Json) -> None:
        meta = pod["metadata"]
        labels = meta.get("labels") or {}
        if labels.get(CLUSTER_LABEL) not in self._numbers or ROLE_LABEL not in labels:
            return
        if event == "DELETED":
            self._say(meta, begins=False)
        elif meta["uid"] not in self._placed and not meta.get("deletionTimestamp"):
            self._placed.add(meta["uid"])
            self._placers.submit(self._place, pod)
        elif pod["spec"].get("nodeName") and meta.get("deletionTimestamp"):
            self._placers.submit(self._end, meta)

    def _end(self, meta: Json) -> None:
        """Delete a pod's object, as the kubelet of its node does once the pod has ended."""
        api = KubeApi(self._access)
        try:
            options = {"gracePeriodSeconds": 0, "preconditions": {"uid": meta["uid"]}}
            api.delete(f"/api/v1/namespaces/{self._namespace}/pods/{meta['name']}", options)
        except (ApiRefused, ApiUnavailable):
            # It is gone; otherwise the next event of it tries again.
            return
        finally:
            api.close()

    def _place(self, pod: Json) -> None:
        api, meta = KubeApi(self._access), pod["metadata"]
        path = f"/api/v1/namespaces/{self._namespace}/pods/{meta['name']}"
        try:
            if meta["labels"][ROLE_LABEL] == Role.CONTROLLER:
                self._take_id(api, meta["labels"][CLUSTER_LABEL])
            if self.nodes and not pod["spec"].get("nodeName"):
                target = {"apiVersion": "v1", "kind": "Node", "name": self.nodes[_ordinal(meta) % len(self.nodes)]}
                about = {"name": meta["name"], "uid": meta["uid"]}
                binding = {"apiVersion": "v1", "kind": "Binding", "metadata": about, "target": target}
                api.create(f"{path}/binding", binding)
            api.patch(f"{path}/status", self._running(meta))
        except (ApiRefused, ApiUnavailable):
            # The next event of it tries again.
            self._placed.discard(meta["uid"])
            return
        finally:
            api.close()
        self._say(meta, begins=True)

    def _take_id(self, api: KubeApi, name: str) -> None:
        """Let the cluster report the id of its BrokerCluster, which is another one after it was created again."""
        resource = api.get(f"/apis/{API_VERSION}/namespaces/{self._namespace}/brokerclusters/{name}")
        self.clusters[name].id = cluster_id(BrokerCluster.model_validate(resource, strict=False))

    def _say(self, meta: Json, *, begins: bool) -> None:
        if meta["labels"][ROLE_LABEL] != "broker" or self._loop is None:
            return
        cluster = self.clusters[meta["labels"][CLUSTER_LABEL]]
        self._loop.call_soon_threadsafe(cluster.begin if begins else cluster.end, _ordinal(meta))

    def _running(self, meta: Json) -> Json:
        role, ordinal = meta["labels"][ROLE_LABEL], _ordinal(meta)
        node_id = ordinal if role == "broker" else FIRST_CONTROLLER_ID + ordinal
        now = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
        kinds = ("PodScheduled", "Initialized", "ContainersReady", READINESS_GATE, "Ready")
        conditions = [{"type": kind, "status": "True", "lastTransitionTime": now} for kind in kinds]
        host = self.host(meta["labels"][CLUSTER_LABEL], node_id)
        container = {"name": role, "image": "none", "imageID": "none", "ready": True, "restartCount": 0}
        return {
            "metadata": {"uid": meta["uid"]},
            "status": {
                "phase": "Running",
                "podIP": host,
                "podIPs": [{"ip": host}],
                "startTime": now,
                "conditions": conditions,
                "containerStatuses": [{**container, "state": {"running": {"startedAt": now}}}],
            },
        }


def _ordinal(meta: Json) -> int:
    return int(meta["name"].rpartition("-")[2])


def make_sick(clusters: Iterable[ServedCluster], late_s: float = 0.0) -> None:
    """Make brokers and controller stop answering, or answer `late_s` later."""
    for cluster in clusters:
        cluster.silent, cluster.late_s = not late_s, late_s


def make_well(clusters: Iterable[ServedCluster]) -> None:
    """Let the clusters answer again; earlier unanswered requests stay so, as their connections were dropped."""
    for cluster in clusters:
        cluster.silent, cluster.late_s = False, 0.0


class _Broker:
    def __init__(self, played: ServedClusters, cluster: ServedCluster, broker_id: int) -> None:
        self._played = played
        self._cluster = cluster
        self._peer = cluster.peers[broker_id]

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                (size,) = struct.unpack(">i", await reader.readexactly(4))
                frame = await reader.readexactly(size)
                if self._cluster.late_s:
                    await asyncio.sleep(self._cluster.late_s)
                if self._cluster.silent:
                    continue
                api_key, version, correlation_id = struct.unpack_from(">hhi", frame, 0)
                change = CHANGES.get(api_key)
                if change is not None and not self._played.before(change):
                    return
                answer = self._peer.answer_to(PeerRequest(api_key, version, correlation_id, frame))
                if change is not None and not self._played.after(change):
                    return
                if answer is not None:
                    writer.write(answer)
        except (asyncio.IncompleteReadError, ConnectionError):
            return
        finally:
            writer.close()


class _Controller:
    def __init__(self, cluster: ServedCluster) -> None:
        self._cluster = cluster

    async def _wait(self, after: str | None, wait_s: float) -> None:
        changed = self._cluster.changed
        if after != self._cluster.version or self._cluster.silent:
            return
        try:
            async with asyncio.timeout(wait_s):
                await changed.wait()
        except TimeoutError:
            return

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            query = dict(parse_qsl(urlsplit(head.split(b" ", 2)[1].decode()).query))
            await self._wait(query.get("after"), float(query.get("wait", "0")))
            if self._cluster.late_s:
                await asyncio.sleep(self._cluster.late_s)
            if self._cluster.silent:
                await reader.read()
                return
            view = json.dumps(self._cluster.view()).encode()
            words = (
                b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\nConnection: close\r\n\r\n"
            )
            writer.write(words % len(view) + view)
            await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            return
        finally:
            writer.close()
