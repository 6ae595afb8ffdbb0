"""Asks the nodes of the clusters in a Kubernetes namespace for their state, through the API server.

Only a kubeconfig is needed: the API server forwards each request to a pod (pods/proxy). If a node does not answer, its
view has the reason in place of the answer.
"""

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sluicegate_operator.cli.asking.brokers_asked import (
    ANSWER_TIMEOUT_S,
    ASKED_AT_A_TIME,
    AskingError,
    NobodyToAskError,
    NoSuchAnswerError,
    broker_in_pod,
    is_node,
    proxied,
)
from sluicegate_operator.cli.asking.limits_asked import AskLimits, ask_limits
from sluicegate_operator.cli.asking.quota_rows import BrokerLimits, quota_rows
from sluicegate_operator.cli.fleets.fleet_view import BrokerRow, ShownCluster, ShownNode, broker_row
from sluicegate_operator.fleet.kafka.controllers import VIEW_PATH
from sluicegate_operator.kube.cache.cached_object import cluster_of
from sluicegate_operator.kube.client.client import KubeClient
from sluicegate_operator.kube.http.errors import KubeError
from sluicegate_operator.kube.http.kinds import BROKER_CLUSTER, POD, USER_KINDS, Kind, kind_of
from sluicegate_operator.planning.layout.cluster_layout import (
    CONTROLLER,
    CONTROLLER_PORT,
    FIRST_CONTROLLER_ID,
    HTTP_PORT,
    INTERNAL,
    INTERNAL_PORT,
    Role,
    role_of,
)
from sluicegate_operator.planning.registrations.overview import ClusterOverview, OverviewError, parse_overview
from sluicegate_operator.resources.labels import CLUSTER_LABEL, MANAGED_BY_LABEL, MANAGER

Json = dict[str, Any]
_UNLISTED = (403, 404)
"""Status codes for a kind that the user may not list, and for one without a CRD."""


@dataclass(frozen=True, slots=True)
class _Objects:
    """The objects of a namespace. `unlisted`: rows for kinds that the API server does not list to this user."""

    pods: Sequence[Json]
    resources: Sequence[Json]
    unlisted: Sequence[Json] = ()

    def listeners(self, cluster: str) -> dict[str, int]:
        """Return the ports of a cluster's client listeners, by Kafka's name."""
        found = (body["spec"] for body in self.resources if body["kind"] == "BrokerListener")
        return {spec["name"]: spec["port"] for spec in found if spec["clusterRef"]["name"] == cluster}


class KubernetesView:
    """The clusters of one Kubernetes namespace, or one of them."""

    def __init__(self, kube: KubeClient, namespace: str, cluster: str | None, ask: AskLimits = ask_limits) -> None:
        self._kube = kube
        self._namespace = namespace
        self._cluster = cluster
        self._ask = ask
        self._slots = asyncio.Semaphore(ASKED_AT_A_TIME)

    async def read_clusters(self) -> list[ShownCluster]:
        """Return the clusters in Kubernetes as `status` shows them.

        Raises KubeError, and NobodyToAskError if the cluster does not exist.
        """
        of_one = f"={self._cluster}" if self._cluster is not None else ""
        pods = await self._kube.list(POD, self._namespace, f"{CLUSTER_LABEL}{of_one},{MANAGED_BY_LABEL}={MANAGER}")
        bodies: list[Json] = []
        unlisted: list[Json] = []
        for kind in USER_KINDS:
            try:
                bodies += await self._kube.list(kind, self._namespace)
            except KubeError as error:
                if kind == BROKER_CLUSTER or error.status not in _UNLISTED:
                    raise
                unlisted.append(_unlisted_row(kind, error))
        objects = _Objects([pod for pod in pods if is_node(pod)], bodies, unlisted)
        clusters = [body for body in bodies if body["kind"] == BROKER_CLUSTER.kind]
        wanted = [one for one in clusters if self._cluster in (None, one["metadata"]["name"])]
        if not wanted:
            which = f"no BrokerCluster {self._cluster}" if self._cluster is not None else "no BrokerCluster"
            raise NobodyToAskError(f"namespace {self._namespace} has {which}; set the namespace with -n NAMESPACE")
        return [await self._view(one, objects) for one in wanted]

    async def _view(self, cluster: Json, objects: _Objects) -> ShownCluster:
        name = cluster["metadata"]["name"]
        pods = [pod for pod in objects.pods if pod["metadata"]["labels"][CLUSTER_LABEL] == name]
        answers, seen = await asyncio.gather(
            asyncio.gather(*(self._node(pod, objects.listeners(name)) for pod in pods)),
            self._overview([pod for pod in pods if role_of(pod) is Role.CONTROLLER]),
        )
        nodes = sorted((node for node, _ in answers), key=lambda node: (node.role, node.id))
        overview, unseen = seen
        return ShownCluster(
            name=name,
            nodes=tuple(nodes),
            brokers=_broker_rows(overview, nodes),
            unseen=unseen if pods else "",
            progress=_progress(cluster),
            quotas=tuple(quota_rows(limits for _, limits in answers if limits is not None)),
            resources=(
                *(_resource_row(body) for body in objects.resources if _cluster_of(body) == name),
                *objects.unlisted,
            ),
        )

    async def _node(self, pod: Json, listeners: Mapping[str, int]) -> tuple[ShownNode, BrokerLimits | None]:
        node, limits = node_view(pod, listeners), None
        if node.problem is None and role_of(pod) is Role.BROKER:
            try:
                async with self._slots, asyncio.timeout(ANSWER_TIMEOUT_S):
                    limits = await self._ask(broker_in_pod(self._kube, self._namespace, pod))
            except NoSuchAnswerError as error:
                node = replace(node, limits_unseen=str(error))
            except (AskingError, TimeoutError) as error:
                node = node_view(pod, listeners, str(error) or "no answer in time")
        return node, limits

    async def _overview(self, controllers: Sequence[Json]) -> tuple[ClusterOverview | None, str]:
        """Return the newest view of the controllers, or the reason why there is none."""
        problems, found = [], []
        for pod in controllers:
            name = pod["metadata"]["name"]
            try:
                document = await proxied(self._kube, self._namespace, pod)(VIEW_PATH)
                found.append(parse_overview(json.dumps(document)))
            except (AskingError, OverviewError) as error:
                problems.append(f"{name}: {error}")
        if found:
            return max(found, key=lambda one: (one.controller_epoch, one.metadata_offset)), ""
        return None, "; ".join(problems) or "no controller pod exists"


def node_view(pod: Json, listeners: Mapping[str, int], problem: str | None = None) -> ShownNode:
    """Return a node from its pod; `listeners` are the listeners for clients."""
    status = pod.get("status") or {}
    host, role = status.get("podIP") or "-", role_of(pod)
    ordinal = int(pod["metadata"]["name"].rpartition("-")[2])
    ports = {INTERNAL: INTERNAL_PORT, **listeners} if role is Role.BROKER else {CONTROLLER: CONTROLLER_PORT}
    return ShownNode(
        id=ordinal if role is Role.BROKER else FIRST_CONTROLLER_ID + ordinal,
        role=role,
        pid=None,
        restarts=sum(one.get("restartCount", 0) for one in status.get("containerStatuses") or ()),
        listeners={name: f"{host}:{port}" for name, port in ports.items()},
        http=f"{host}:{HTTP_PORT}",
        problem=problem or _why_not_ready(status),
        pod=pod["metadata"]["name"],
    )


def _why_not_ready(status: Json) -> str | None:
    for one in status.get("containerStatuses") or ():
        waiting = (one.get("state") or {}).get("waiting")
        if waiting:
            return ": ".join(part for part in (waiting.get("reason"), waiting.get("message")) if part)
    conditions = {one["type"]: one for one in status.get("conditions") or ()}
    for kind in ("PodScheduled", "Ready"):
        condition = conditions.get(kind)
        if condition is not None and condition["status"] != "True":
            return condition.get("message") or condition.get("reason") or f"{kind} is {condition['status']}"
    return None if "Ready" in conditions else status.get("phase") or "Pending"


def _broker_rows(overview: ClusterOverview | None, nodes: Sequence[ShownNode]) -> tuple[BrokerRow, ...]:
    pods = {node.id: node for node in nodes if node.role == Role.BROKER}
    found = overview.brokers if overview is not None else ()
    return tuple(broker_row(broker, None, _clients_address(pods.get(broker.id))) for broker in found)


def _clients_address(node: ShownNode | None) -> str | None:
    if node is None:
        return None
    return next((at for name, at in sorted(node.listeners.items()) if name != INTERNAL), node.listeners[INTERNAL])


def _progress(cluster: Json) -> dict[str, Json]:
    """Return the operator's current actions on the cluster, from its status."""
    status = cluster.get("status") or {}
    rollout = status.get("rollout") or {}
    if not rollout.get("message"):
        return {}
    return {"roll": {"phase": rollout["reason"], "message": rollout["message"], "waiting": rollout.get("waiting", [])}}


def _resource_row(body: Json) -> Json:
    conditions = (body.get("status") or {}).get("conditions") or ()
    ready = next((one for one in conditions if one["type"] == "Ready"), None)
    return {
        "kind": body["kind"],
        "name": body["metadata"]["name"],
        "ready": ready is not None and ready["status"] == "True",
        "message": "the operator has not reconciled it yet"
        if ready is None
        else ready.get("message") or ready["reason"],
    }


def _unlisted_row(kind: Kind, error: KubeError) -> Json:
    return {"kind": kind.kind, "name": "-", "ready": False, "message": f"cannot be listed: {error}"}


def _cluster_of(body: Json) -> str:
    return cluster_of(kind_of(body), body)
