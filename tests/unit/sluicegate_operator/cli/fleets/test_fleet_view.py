"""The controller's brokers beside the processes of this machine."""

import asyncio
import io
import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from rich.table import Table

from sluicegate_operator.cli.asking.brokers_asked import ASKED_AT_A_TIME, BrokerAsked
from sluicegate_operator.cli.asking.quota_rows import BrokerLimits, QuotaRow
from sluicegate_operator.cli.fleets import fleet_view
from sluicegate_operator.cli.fleets.fleet_tables import brokers_table, quotas_table
from sluicegate_operator.cli.fleets.fleet_view import ANSWER_TIMEOUT_S, FleetView, ShownCluster, broker_rows
from sluicegate_operator.fleet.kafka.controllers import ControllerView
from sluicegate_operator.fleet.kafka.http_get import HttpAnswer
from sluicegate_operator.planning.registrations.overview import BrokerOverview, BrokerState, ClusterOverview

ONLINE = BrokerOverview(0, 5, "", BrokerState.ONLINE, heartbeat_age_s=0.25, leaders=3, replicas=7, out_of_sync=1)
GONE = BrokerOverview(2, 9, "", BrokerState.OFFLINE, replicas=4, out_of_sync=4)
VIEW = ControllerView(ClusterOverview("id", 1000, 1, 9, (ONLINE, GONE)))
NODES: list[dict[str, Any]] = [
    {"id": 0, "role": "broker", "pid": 42, "listeners": {"INTERNAL": "127.0.0.1:1", "EXTERNAL": "127.0.0.1:2"}},
    {"id": 1000, "role": "controller", "pid": 43, "listeners": {"CONTROLLER": "127.0.0.1:3"}},
]


def printed(table: Table, width: int) -> str:
    console = Console(width=width, file=io.StringIO(), record=True)
    console.print(table)
    return console.export_text()


def shown(progress: dict[str, Any], view: ControllerView = VIEW, width: int = 160) -> str:
    cluster = ShownCluster("shop", (), broker_rows(view.overview, NODES), view.unseen, progress, (), ())
    return printed(brokers_table(cluster), width)


def test_a_terminal_of_80_columns_shows_whole_headings() -> None:
    rows = (QuotaRow(0, "listener EXTERNAL", 50, None, 2690.5, 1234, 0.91, 40961), QuotaRow(0, "ip 127.0.1.7", 5))
    quotas = printed(quotas_table([ShownCluster("shop", (), (), "", {}, rows, ())]), 80)
    assert "2690.5" in quotas
    assert "…" not in quotas
    assert all(heading in quotas for heading in ("limit", "rate/s", "blocked", "max", "open", "held"))
    stopping = replace(ONLINE, id=100, state=BrokerState.STOPPING, epoch=1_000_000)
    brokers = shown({}, ControllerView(ClusterOverview("id", 1000, 1, 9, (ONLINE, stopping))), 80)
    assert "…" not in brokers
    assert "heartbeat" in brokers


def test_a_broker_is_shown_with_its_process_and_the_address_of_clients() -> None:
    row, _ = broker_rows(VIEW.overview, NODES)
    assert (row.pid, row.address, row.state, row.epoch) == (42, "127.0.0.1:2", "Online", 5)
    assert "0.2 s" in shown({})
    assert "1/7" in shown({})


def test_a_broker_that_is_registered_and_does_not_run_here_is_shown_too() -> None:
    _, row = broker_rows(VIEW.overview, NODES)
    assert (row.id, row.state, row.pid, row.address, row.heartbeat_age_s) == (2, "Offline", None, None, None)


def test_progress_and_a_silent_controller_are_said() -> None:
    progress = {
        "roll": {"phase": "Blocked", "message": "broker 1 does not start", "waiting": []},
        "scale": {"phase": "", "message": "", "waiting": []},
    }
    text = shown(progress, ControllerView(unseen="controller 1000 does not answer within 3 s"))
    assert "roll Blocked: broker 1 does not start" in text
    assert "scale" not in text
    assert "no view of the controller: controller 1000 does not answer within 3 s" in text


NONE: dict[str, Any] = {"connection_creation_rate": None, "max_connections": None, "held": {}}
LIMITS: dict[str, Any] = {"broker": NONE, "listeners": {}, "default_ip": NONE}


class Nodes:
    """The HTTP listeners of nodes, by port. `silent` ports never answer. `most` is the peak of requests under way."""

    def __init__(self, silent: frozenset[int] = frozenset()) -> None:
        self.silent = silent
        self.under_way = self.most = 0

    async def http_get(self, address: tuple[str, int], path: str, timeout_s: float) -> HttpAnswer:
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        try:
            async with asyncio.timeout(timeout_s):
                await asyncio.sleep(3600 if address[1] in self.silent else 0.01)
        finally:
            self.under_way -= 1
        return HttpAnswer(200, "")

    async def ask(self, broker: BrokerAsked) -> BrokerLimits:
        await self.http_get(("127.0.0.1", broker.broker_id), "/connection-limits", ANSWER_TIMEOUT_S)
        return BrokerLimits(broker.broker_id, LIMITS)


def hundred_brokers(folder: Path) -> Path:
    nodes = [
        {
            "id": one,
            "role": "broker",
            "pid": 4000 + one,
            "restarts": 0,
            "failing": "",
            "listeners": {},
            "http": f"127.0.0.1:{one}",
        }
        for one in range(100)
    ]
    (folder / "lock").write_text(str(os.getpid()))
    state = {"clusters": {"shop": {"nodes": nodes, "progress": {}, "resources": []}}}
    (folder / "state.json").write_text(json.dumps(state))
    return folder


@pytest.mark.virtual_time
async def test_of_a_hundred_brokers_some_are_asked_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = Nodes()
    monkeypatch.setattr(fleet_view, "http_get", nodes.http_get)
    [seen] = await FleetView(hundred_brokers(tmp_path), nodes.ask).read_clusters()
    assert nodes.most == ASKED_AT_A_TIME
    assert [(node.id, node.problem) for node in seen.nodes] == [(one, None) for one in range(100)]


@pytest.mark.virtual_time
async def test_silent_brokers_take_no_answer_from_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker that waits for a slot has its whole deadline afterwards."""
    nodes = Nodes(silent=frozenset(range(0, 100, 3)))
    monkeypatch.setattr(fleet_view, "http_get", nodes.http_get)
    began_s = asyncio.get_running_loop().time()
    [seen] = await FleetView(hundred_brokers(tmp_path), nodes.ask).read_clusters()
    assert {node.id for node in seen.nodes if node.problem} == nodes.silent
    assert asyncio.get_running_loop().time() - began_s < 4 * ANSWER_TIMEOUT_S
