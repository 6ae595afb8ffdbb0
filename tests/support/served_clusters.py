"""Many clusters played by one process, for measurements of the operator: pods of a real API server that are Ready at
once, brokers that answer the admin protocol on real sockets, controllers that show their view.

A pod is placed at `127.20.<cluster>.<node>`; nothing runs in it.
"""

import asyncio
import json
import struct
from collections.abc import Mapping
from datetime import UTC, datetime
from uuid import UUID

from kio.schema.describe_cluster.v0.response import DescribeClusterResponse
from kio.schema.errors import ErrorCode
from kio.schema.types import BrokerId

from sluicegate_operator.planning.cluster_layout import FIRST_CONTROLLER_ID, HTTP_PORT, INTERNAL_PORT
from sluicegate_operator.resources.labels import CLUSTER_LABEL, READINESS_GATE, ROLE_LABEL
from tests.support.process_kubelet.api import ApiRefused, Json, KubeApi
from tests.support.scripted_cluster import ScriptedCluster
from tests.support.scripted_peer import NO_THROTTLE, PeerRequest, ScriptedPeer

LOOK_EVERY_S = 0.3
INCARNATION = UUID(int=0)


class ServedClusters:
    """Use as `async with`. `clusters` by name; what a broker enforces is in its ScriptedCluster."""

    def __init__(self, api: KubeApi, namespace: str, names: list[str], brokers: int) -> None:
        self._api = api
        self._namespace = namespace
        self._brokers = brokers
        self.clusters: Mapping[str, ScriptedCluster] = {name: ScriptedCluster(brokers) for name in names}
        self._numbers = {name: number for number, name in enumerate(names, 1)}
        self._servers: list[asyncio.Server] = []
        self._placing: asyncio.Task[None] | None = None
        self._placed: set[str] = set()

    async def __aenter__(self) -> "ServedClusters":
        for name, cluster in self.clusters.items():
            for broker_id, peer in enumerate(cluster.peers):
                peer.answer(_described(name))
                await self._listen(self.host(name, broker_id), INTERNAL_PORT, _Broker(peer))
            await self._listen(self.host(name, FIRST_CONTROLLER_ID), HTTP_PORT, _Controller(self._view(name)))
        self._placing = asyncio.create_task(self._place())
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._placing is not None:
            self._placing.cancel()
            await asyncio.gather(self._placing, return_exceptions=True)
        for server in self._servers:
            server.close()

    def host(self, name: str, node_id: int) -> str:
        own = node_id + 1 if node_id < FIRST_CONTROLLER_ID else 201 + node_id - FIRST_CONTROLLER_ID
        return f"127.20.{self._numbers[name]}.{own}"

    async def _listen(self, host: str, port: int, serve: "_Broker | _Controller") -> None:
        self._servers.append(await asyncio.start_server(serve, host, port))

    def _view(self, name: str) -> bytes:
        brokers = [
            {
                "id": broker_id,
                "epoch": broker_id + 1,
                "incarnation": str(INCARNATION),
                "state": "Online",
                "rack": None,
                "heartbeatAgeSeconds": 0.1,
                "leaders": 0,
                "replicas": 0,
                "outOfSync": 0,
                "metadataLag": 0,
                "host": self.host(name, broker_id),
            }
            for broker_id in range(self._brokers)
        ]
        view = {
            "clusterId": name,
            "controllerId": FIRST_CONTROLLER_ID,
            "controllerEpoch": 1,
            "metadataOffset": 1,
            "brokers": brokers,
        }
        return json.dumps(view).encode()

    async def _place(self) -> None:
        while True:
            await asyncio.to_thread(self._place_new)
            await asyncio.sleep(LOOK_EVERY_S)

    def _place_new(self) -> None:
        path = f"/api/v1/namespaces/{self._namespace}/pods"
        for pod in self._api.get(path)["items"]:
            meta = pod["metadata"]
            if meta["uid"] in self._placed or meta["labels"].get(CLUSTER_LABEL) not in self._numbers:
                continue
            try:
                self._api.patch(f"{path}/{meta['name']}/status", self._running(meta))
            except ApiRefused:
                continue
            self._placed.add(meta["uid"])

    def _running(self, meta: Json) -> Json:
        role, ordinal = meta["labels"][ROLE_LABEL], int(meta["name"].rpartition("-")[2])
        node_id = ordinal if role == "broker" else FIRST_CONTROLLER_ID + ordinal
        now = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
        kinds = ("PodScheduled", "Initialized", "ContainersReady", READINESS_GATE, "Ready")
        conditions = [{"type": kind, "status": "True", "lastTransitionTime": now} for kind in kinds]
        host = self.host(meta["labels"][CLUSTER_LABEL], node_id)
        container = {"name": role, "image": "none", "imageID": "none", "ready": True, "restartCount": 0}
        return {
            "status": {
                "phase": "Running",
                "podIP": host,
                "podIPs": [{"ip": host}],
                "startTime": now,
                "conditions": conditions,
                "containerStatuses": [{**container, "state": {"running": {"startedAt": now}}}],
            }
        }


def _described(cluster_id: str) -> DescribeClusterResponse:
    return DescribeClusterResponse(
        throttle_time=NO_THROTTLE,
        error_code=ErrorCode.none,
        cluster_id=cluster_id,
        controller_id=BrokerId(FIRST_CONTROLLER_ID),
        brokers=(),
    )


class _Broker:
    def __init__(self, peer: ScriptedPeer) -> None:
        self._peer = peer

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                (size,) = struct.unpack(">i", await reader.readexactly(4))
                frame = await reader.readexactly(size)
                api_key, version, correlation_id = struct.unpack_from(">hhi", frame, 0)
                answer = self._peer.answer_to(PeerRequest(api_key, version, correlation_id, frame))
                if answer is not None:
                    writer.write(answer)
        except (asyncio.IncompleteReadError, ConnectionError):
            return
        finally:
            writer.close()


class _Controller:
    def __init__(self, view: bytes) -> None:
        self._answer = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%b" % (len(view), view)

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(self._answer)
            await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            return
        finally:
            writer.close()
