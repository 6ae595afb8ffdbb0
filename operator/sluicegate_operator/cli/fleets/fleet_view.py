"""Asks the running nodes of `sluicegate up` over HTTP for readiness, limits and the controller's view.

If a node does not answer in time, its view has the reason in place of the answer. At most 16 nodes are asked at a
time: with more nodes that are silent, the others wait for them.
"""

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from sluicegate_operator.cli.asking.brokers_asked import (
    ASKED_AT_A_TIME,
    AskingError,
    NoSuchAnswerError,
    broker_here,
)
from sluicegate_operator.cli.asking.limits_asked import AskLimits, ask_limits
from sluicegate_operator.cli.asking.quota_rows import BrokerLimits, QuotaRow, quota_rows
from sluicegate_operator.fleet.kafka.controllers import ControllerPlace, controller_view
from sluicegate_operator.fleet.kafka.http_get import http_get
from sluicegate_operator.fleet.local.local_data import read_state
from sluicegate_operator.planning.layout.cluster_layout import CONTROLLER, INTERNAL, Role
from sluicegate_operator.planning.registrations.overview import BrokerOverview, ClusterOverview

ANSWER_TIMEOUT_S = 3.0


@dataclass(frozen=True, slots=True)
class ShownNode:
    """One node. `problem` is None for a node that answers and is ready.

    `pid` is None in Kubernetes, where there is a `pod`. `limits_unseen` is why the limits of a ready broker are
    missing.
    """

    id: int
    role: str
    pid: int | None
    restarts: int
    listeners: Mapping[str, str]
    http: str
    problem: str | None
    pod: str | None = None
    limits_unseen: str | None = None


@dataclass(frozen=True, slots=True)
class BrokerRow:
    """A broker as its controller sees it. `pid` and `address` are None for a broker that does not run here."""

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
class ShownCluster:
    """One cluster. `unseen` is the reason why there are no `brokers`.

    `progress` has the actions of `up` (roll, scale, config), each with phase, message and the nodes that wait.
    """

    name: str
    nodes: tuple[ShownNode, ...]
    brokers: tuple[BrokerRow, ...]
    unseen: str
    progress: Mapping[str, Mapping[str, Any]]
    quotas: tuple[QuotaRow, ...]
    resources: tuple[Mapping[str, Any], ...]
    """The state of each resource as `up` reports it: kind, name, ready, message."""


def silent_brokers(clusters: Iterable[ShownCluster]) -> list[str]:
    """Return a sentence for each broker whose limits are missing from the view."""
    return [
        f"broker {node.id} of {cluster.name} did not report its limits: {node.problem or node.limits_unseen}"
        for cluster in clusters
        for node in cluster.nodes
        if node.role == Role.BROKER and (node.problem or node.limits_unseen)
    ]


def as_dict(clusters: list[ShownCluster]) -> dict[str, Any]:
    return {"clusters": [asdict(cluster) for cluster in clusters]}


class FleetView:
    """The clusters of `sluicegate up`."""

    def __init__(self, data_dir: Path, ask: AskLimits = ask_limits) -> None:
        self._data_dir = data_dir
        self._ask = ask
        self._slots = asyncio.Semaphore(ASKED_AT_A_TIME)

    async def read_clusters(self) -> list[ShownCluster]:
        """Return the clusters of `sluicegate up` as `status` shows them. Raises DataDirError if no `up` runs there."""
        state = read_state(self._data_dir)
        return [await self._cluster(name, cluster) for name, cluster in sorted(state["clusters"].items())]

    async def _cluster(self, name: str, state: Mapping[str, Any]) -> ShownCluster:
        answers, view = await asyncio.gather(
            asyncio.gather(*(self._node(name, node) for node in state["nodes"])),
            controller_view(_controllers(state["nodes"]), ANSWER_TIMEOUT_S),
        )
        return ShownCluster(
            name=name,
            nodes=tuple(node for node, _ in answers),
            brokers=broker_rows(view.overview, state["nodes"]),
            unseen=view.unseen,
            progress=state["progress"],
            quotas=tuple(quota_rows(limits for _, limits in answers if limits is not None)),
            resources=tuple(state["resources"]),
        )

    async def _node(self, cluster: str, node: Mapping[str, Any]) -> tuple[ShownNode, BrokerLimits | None]:
        limits: BrokerLimits | None = None
        unseen: str | None = None
        problem: str | None = node["failing"] or "not running"
        if node["pid"] is not None:
            try:
                async with self._slots, asyncio.timeout(ANSWER_TIMEOUT_S):
                    problem = await self._readiness(node)
                    # A broker that is not ready answers no clients: its readiness is the whole answer.
                    if problem is None and node["role"] == Role.BROKER:
                        limits = await self._ask(broker_here(cluster, node))
            except NoSuchAnswerError as error:
                unseen = str(error)
            except (OSError, AskingError, ValueError) as error:
                problem = str(error) or "no answer in time"
        view = ShownNode(
            node["id"],
            node["role"],
            node["pid"],
            node["restarts"],
            node["listeners"],
            node["http"],
            problem,
            limits_unseen=unseen,
        )
        return view, limits

    async def _readiness(self, node: Mapping[str, Any]) -> str | None:
        answer = await http_get(_address(node["http"]), "/readyz", timeout_s=ANSWER_TIMEOUT_S)
        return None if answer.status == 200 else answer.body.strip() or f"HTTP {answer.status}"


def _controllers(nodes: Iterable[Mapping[str, Any]]) -> tuple[ControllerPlace, ...]:
    return tuple(
        ControllerPlace(node["id"], *_address(node["listeners"][CONTROLLER]), _address(node["http"])[1])
        for node in nodes
        if node["role"] == Role.CONTROLLER
    )


def broker_rows(overview: ClusterOverview | None, nodes: Iterable[Mapping[str, Any]]) -> tuple[BrokerRow, ...]:
    """Return the rows of `status` about registered brokers. `nodes` are those of state.json."""
    running = {node["id"]: node for node in nodes if node["role"] == Role.BROKER}
    rows = []
    for broker in overview.brokers if overview else ():
        node = running.get(broker.id)
        address = _shown_address(node["listeners"]) if node else None
        rows.append(broker_row(broker, node["pid"] if node else None, address))
    return tuple(rows)


def broker_row(broker: BrokerOverview, pid: int | None, address: str | None) -> BrokerRow:
    return BrokerRow(
        id=broker.id,
        state=str(broker.state),
        epoch=broker.epoch,
        heartbeat_age_s=broker.heartbeat_age_s,
        leaders=broker.leaders,
        replicas=broker.replicas,
        out_of_sync=broker.out_of_sync,
        metadata_lag=broker.metadata_lag,
        pid=pid,
        address=address,
    )


def _shown_address(listeners: Mapping[str, str]) -> str:
    """Return the address for clients; that of the brokers' own listener if there are no listeners for clients."""
    return next((at for name, at in sorted(listeners.items()) if name != INTERNAL), listeners[INTERNAL])


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    return host, int(port)
