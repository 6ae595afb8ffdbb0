"""Asks the running brokers of a local fleet what they do: admin protocol for limits, HTTP for readiness and metrics.

What a broker does not answer in time is missing from its view, with the reason beside it; the others are not held up.
"""

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from sluicegate_operator.cli.quota_rows import BrokerQuotas, QuotaRow, parse_metrics, quota_keys, quota_rows
from sluicegate_operator.fleet.controllers import ControllerPlace, ControllerView, controller_view
from sluicegate_operator.fleet.http_get import http_get
from sluicegate_operator.fleet.local_data import read_state
from sluicegate_operator.kafka_admin.client import AdminClient
from sluicegate_operator.kafka_admin.errors import KafkaAdminError
from sluicegate_operator.planning.cluster_layout import CONTROLLER, INTERNAL, Role

ANSWER_TIMEOUT_S = 3.0


@dataclass(frozen=True, slots=True)
class NodeView:
    """`problem` is None for a node that answers and is ready."""

    id: int
    role: str
    pid: int | None
    restarts: int
    listeners: Mapping[str, str]
    http: str
    problem: str | None


@dataclass(frozen=True, slots=True)
class BrokerRow:
    """A broker as its controller sees it; `pid` and `address` are None for one that does not run here."""

    id: int
    state: str
    epoch: int
    heartbeat_age_s: float | None
    leaders: int
    replicas: int
    out_of_sync: int
    metadata_lag: int | None
    pid: int | None
    address: str | None


@dataclass(frozen=True, slots=True)
class ClusterView:
    """`unseen` says why there are no `brokers`. `progress`: what `up` is doing (roll, scale, config), each with phase,
    message and the nodes that wait."""

    name: str
    nodes: tuple[NodeView, ...]
    brokers: tuple[BrokerRow, ...]
    unseen: str
    progress: Mapping[str, Mapping[str, Any]]
    quotas: tuple[QuotaRow, ...]
    resources: tuple[Mapping[str, Any], ...]
    """What `up` says of each resource: kind, name, ready, message."""


def as_dict(clusters: list[ClusterView]) -> dict[str, Any]:
    return {"clusters": [asdict(cluster) for cluster in clusters]}


class FleetView:
    """Keeps its admin connections between two looks, so that watching quotas opens no connection each second."""

    def __init__(self, data_dir: Path) -> None:
        self._data_dir = data_dir
        self._clients: dict[tuple[str, int], AdminClient] = {}

    async def look(self) -> list[ClusterView]:
        """Raises DataDirError when no `up` runs there."""
        state = read_state(self._data_dir)
        return [await self._cluster(name, cluster) for name, cluster in sorted(state["clusters"].items())]

    async def aclose(self) -> None:
        for client in self._clients.values():
            await client.aclose()

    async def _cluster(self, name: str, state: Mapping[str, Any]) -> ClusterView:
        answers, view = await asyncio.gather(
            asyncio.gather(*(self._node(node) for node in state["nodes"])),
            controller_view(_controllers(state["nodes"]), ANSWER_TIMEOUT_S),
        )
        rows = [row for _, quotas in answers if quotas is not None for row in quota_rows(quotas)]
        rows.sort(key=lambda row: (TARGET_ORDER.index(row.target.split()[0]), row.target, row.broker_id))
        return ClusterView(
            name=name,
            nodes=tuple(node for node, _ in answers),
            brokers=broker_rows(view, state["nodes"]),
            unseen=view.unseen,
            progress=state["progress"],
            quotas=tuple(rows),
            resources=tuple(state["resources"]),
        )

    async def _node(self, node: Mapping[str, Any]) -> tuple[NodeView, BrokerQuotas | None]:
        quotas: BrokerQuotas | None = None
        problem: str | None = node["failing"] or "not running"
        if node["pid"] is not None:
            try:
                async with asyncio.timeout(ANSWER_TIMEOUT_S):
                    problem = await self._readiness(node)
                    # A broker that is not ready yet answers no clients: its readiness says all there is.
                    if problem is None and node["role"] == Role.BROKER:
                        quotas = await self._quotas(node)
            except (OSError, KafkaAdminError, ValueError) as error:
                problem = str(error) or "no answer in time"
        view = NodeView(
            node["id"], node["role"], node["pid"], node["restarts"], node["listeners"], node["http"], problem
        )
        return view, quotas

    async def _readiness(self, node: Mapping[str, Any]) -> str | None:
        answer = await http_get(_address(node["http"]), "/readyz", timeout_s=ANSWER_TIMEOUT_S)
        return None if answer.status == 200 else answer.body.strip() or f"HTTP {answer.status}"

    async def _quotas(self, node: Mapping[str, Any]) -> BrokerQuotas:
        at = _address(node["listeners"][INTERNAL])
        client = self._clients.setdefault(at, AdminClient([at], client_id="sluicegate-status"))
        listeners = tuple(sorted(name for name in node["listeners"] if name != INTERNAL))
        configs = await client.describe_broker_configs(node["id"], quota_keys(listeners))
        metrics = await http_get(_address(node["http"]), "/metrics", timeout_s=ANSWER_TIMEOUT_S)
        return BrokerQuotas(
            node["id"],
            listeners,
            {name: entry.value for name, entry in configs.items()},
            await client.describe_ip_quotas(),
            parse_metrics(metrics.body),
        )


def _controllers(nodes: Iterable[Mapping[str, Any]]) -> tuple[ControllerPlace, ...]:
    return tuple(
        ControllerPlace(node["id"], *_address(node["listeners"][CONTROLLER]), _address(node["http"])[1])
        for node in nodes
        if node["role"] == Role.CONTROLLER
    )


def broker_rows(view: ControllerView, nodes: Iterable[Mapping[str, Any]]) -> tuple[BrokerRow, ...]:
    """`nodes` as state.json has them. A broker that has not registered yet is not among the rows."""
    running = {node["id"]: node for node in nodes if node["role"] == Role.BROKER}
    rows = []
    for broker in view.overview.brokers if view.overview else ():
        node = running.get(broker.id)
        rows.append(
            BrokerRow(
                id=broker.id,
                state=str(broker.state),
                epoch=broker.epoch,
                heartbeat_age_s=broker.heartbeat_age_s,
                leaders=broker.leaders,
                replicas=broker.replicas,
                out_of_sync=broker.out_of_sync,
                metadata_lag=broker.metadata_lag,
                pid=node["pid"] if node else None,
                address=_shown_address(node["listeners"]) if node else None,
            )
        )
    return tuple(rows)


def _shown_address(listeners: Mapping[str, str]) -> str:
    """Where clients go; the brokers' own listener when they have none."""
    return next((at for name, at in sorted(listeners.items()) if name != INTERNAL), listeners[INTERNAL])


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    return host, int(port)


TARGET_ORDER = ("broker", "listener", "defaultIp", "ip")
