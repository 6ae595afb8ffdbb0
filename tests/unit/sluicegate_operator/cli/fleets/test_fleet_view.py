"""The controller's brokers beside the processes of this machine."""

import io
from dataclasses import replace
from typing import Any

from rich.console import Console
from rich.table import Table

from sluicegate_operator.cli.asking.quota_rows import QuotaRow
from sluicegate_operator.cli.fleets.fleet_tables import brokers_table, quotas_table
from sluicegate_operator.cli.fleets.fleet_view import ShownCluster, broker_rows
from sluicegate_operator.fleet.kafka.controllers import ControllerView
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
