"""`sluicegate brokers`: as a table, with tags, as JSON, and without an answer."""

import json
from collections.abc import Collection

import pytest
import typer
from typer.testing import CliRunner, Result

from sluicegate_operator.cli.fleets.brokers import brokers
from sluicegate_operator.kafka_admin.api import BrokerAdmin
from sluicegate_operator.kafka_admin.errors import AdminConnectionError, KafkaAdminError, UnsupportedApiError
from sluicegate_operator.kafka_admin.views import BrokerDescription, BrokerView, ClusterView

NOWHERE = ("--bootstrap-server", "127.0.0.1:1")
ADDRESS = ("127.0.0.1", 1)
SERVING = BrokerDescription(1, "fd00::1", 9092, 1, 2, {"broker.version": "0.1.0-x", "rack": "r8\x1b[31m"})
AWAY = BrokerDescription(2, "", -1, -1, -1, {})


def run(*arguments: str) -> Result:
    app = typer.Typer()
    app.command()(brokers)
    return CliRunner().invoke(app, [*arguments, *NOWHERE], env={"COLUMNS": "200"})


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    async def serving(_: BrokerAdmin) -> ClusterView:
        return ClusterView("c", 1, (BrokerView(1, "fd00::1", 9092, None),))

    async def told(_: BrokerAdmin, broker_ids: Collection[int] = ()) -> tuple[BrokerDescription, ...]:
        return tuple(one for one in (SERVING, AWAY) if not broker_ids or one.id in broker_ids)

    monkeypatch.setattr(BrokerAdmin, "describe_cluster", serving)
    monkeypatch.setattr(BrokerAdmin, "describe_brokers", told)


@pytest.mark.usefixtures("cluster")
def test_a_table_has_a_line_for_each_broker() -> None:
    done = run()
    assert done.exit_code == 0, done.output
    first, second = (line.split("│")[1:-1] for line in done.stdout.splitlines() if line.startswith("│"))
    assert [cell.strip() for cell in first] == ["1", "[fd00::1]:9092", "serving", "0.1.0-x", "1 to 2"]
    assert [cell.strip() for cell in second] == ["2", "-", "away", "-", "-"]


@pytest.mark.usefixtures("cluster")
def test_tags_have_a_line_each_and_move_no_cursor() -> None:
    lines = [line for line in run("--tags").stdout.splitlines() if line.startswith("│")]
    assert [cell.strip() for cell in lines[1].split("│")[1:-1]] == ["1", "rack", "r8\\x1b[31m"]


@pytest.mark.usefixtures("cluster")
def test_json_has_all_of_it() -> None:
    (first, second) = json.loads(run("-o", "json").stdout)["brokers"]
    assert first == {
        "id": 1,
        "host": "fd00::1",
        "port": 9092,
        "protocol_version_min": 1,
        "protocol_version_max": 2,
        "tags": {"broker.version": "0.1.0-x", "rack": "r8\x1b[31m"},
        "serves": True,
    }
    assert (second["id"], second["serves"]) == (2, False)


@pytest.mark.usefixtures("cluster")
def test_a_broker_that_there_is_not_is_named() -> None:
    done = run("7", "2", "-o", "json")
    assert [one["id"] for one in json.loads(done.stdout)["brokers"]] == [2]
    assert (done.exit_code, done.stderr) == (1, "broker 7 does not exist\n")
    assert run("--", "-1").exit_code == 2
    assert run(str(2**31)).exit_code == 2


@pytest.mark.usefixtures("cluster")
@pytest.mark.parametrize(
    "error",
    [
        UnsupportedApiError(ADDRESS, "BrokerMetadata", 0, None),
        AdminConnectionError(ADDRESS, "the broker closed the connection"),
    ],
)
def test_brokers_of_other_products_are_reported_as_not_describing_themselves(
    error: KafkaAdminError, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(_: BrokerAdmin, broker_ids: Collection[int] = ()) -> tuple[BrokerDescription, ...]:
        raise error

    monkeypatch.setattr(BrokerAdmin, "describe_brokers", refuse)
    done = run()
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr == f"{error}; only brokers of Sluicegate describe themselves\n"


def test_an_unreachable_broker_is_reported_in_one_line() -> None:
    done = run()
    assert (done.exit_code, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert "cannot connect" in done.stderr
