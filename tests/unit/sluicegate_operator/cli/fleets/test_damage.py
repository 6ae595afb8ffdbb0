"""`sluicegate damage`: the shown damage, and that a loss is accepted only for that."""

import json

import pytest
from typer.testing import CliRunner, Result

from sluicegate_operator.cli.fleets.damage import damage
from sluicegate_operator.kafka_admin.api import AdminApi
from sluicegate_operator.kafka_admin.client import BrokerHandle
from sluicegate_operator.kafka_admin.errors import AdminConnectionError
from sluicegate_operator.kafka_admin.views import (
    BrokerView,
    ClusterView,
    DamagedRange,
    DamagedReplica,
    LogDamage,
    PartitionView,
    TopicView,
)

NOWHERE = ("--bootstrap-server", "127.0.0.1:1")
ORDERS = DamagedReplica(
    "orders",
    0,
    1,
    "it is the only replica",
    (DamagedRange(15, 19, "000.log, byte 9855: \x1b[31mbad"), DamagedRange(30, 30, "lost")),
)
FOLLOWED = DamagedReplica("orders", 1, 1, "the repair begins soon", (DamagedRange(3, 3, "a checksum"),))


class Cluster:
    """Broker 1 leads both partitions, broker 2 follows; broker 3, which also has replicas, is away."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.told: dict[int, LogDamage | Exception] = {1: LogDamage(1, 2, (ORDERS,)), 2: LogDamage(2, 1, (FOLLOWED,))}
        self.replicas: tuple[int, ...] = (1, 2)
        self.fenced: tuple[BrokerView, ...] = ()
        self.accepted: list[tuple[int, str, int, int, int]] = []

        async def serving(_: AdminApi) -> ClusterView:
            return ClusterView("c", 1, (BrokerView(1, "b", 1), BrokerView(2, "b", 2)))

        async def registered(_: AdminApi) -> ClusterView:
            return ClusterView("c", 1, (BrokerView(1, "b", 1), BrokerView(2, "b", 2), *self.fenced))

        async def topics(_: AdminApi, names: list[str]) -> dict[str, TopicView]:
            parts = tuple(PartitionView(index, 1, self.replicas, (1,)) for index in (0, 1))
            return {"orders": TopicView("orders", None, parts)} if "orders" in names else {}

        async def describe(handle: BrokerHandle) -> LogDamage:
            told = self.told[handle.address[1]]
            if isinstance(told, Exception):
                raise told
            return told

        async def accept(handle: BrokerHandle, topic: str, partition: int, first: int, last: int) -> None:
            self.accepted.append((handle.address[1], topic, partition, first, last))

        for name, answer in (
            ("describe_cluster", serving),
            ("describe_cluster_with_fenced", registered),
            ("describe_topics", topics),
            ("describe_log_damage", describe),
            ("accept_log_loss", accept),
        ):
            monkeypatch.setattr(AdminApi, name, answer)


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    return Cluster(monkeypatch)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(damage, [*arguments, *NOWHERE], env={"COLUMNS": "200"})


def test_a_fenced_broker_is_named_because_its_logs_are_not_known(cluster: Cluster) -> None:
    cluster.told, cluster.fenced = (
        {1: LogDamage(1, 0, ()), 2: LogDamage(2, 0, ())},
        (BrokerView(3, "b", 3, fenced=True),),
    )
    done = run("list")
    assert done.exit_code == 1
    assert done.stderr.splitlines() == [
        "2 brokers can read all of their logs",
        "broker 3 is fenced: whether it can read its logs is not known until it is started",
    ]


def test_each_range_has_a_line_and_each_leader_a_way_to_give_it_up(cluster: Cluster) -> None:
    done = run("list")
    assert done.exit_code == 0, done.output
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in done.stdout.splitlines() if "│" in line]
    assert rows == [
        ["orders-0", "1 (leads)", "15-19", "000.log, byte 9855: \\x1b[31mbad", "it is the only replica"],
        ["orders-0", "1 (leads)", "30-30", "lost", "it is the only replica"],
        ["orders-1", "2 (follows)", "3-3", "a checksum", "the repair begins soon"],
    ]
    assert done.stderr == "if no replica has these offsets: sluicegate damage accept orders-0 --offsets 15-30\n"
    assert json.loads(run("list", "-o", "json").stdout)["brokers"][1]["replicas"][0]["ranges"][0]["first"] == 3


def test_ranges_that_an_answer_has_no_room_for_are_counted(cluster: Cluster) -> None:
    cluster.told[1] = LogDamage(1, 5, (ORDERS,))
    assert "broker 1 has 3 more ranges" in run("list").stderr


def test_a_replica_that_is_not_served_is_shown(cluster: Cluster) -> None:
    cluster.told = {
        1: LogDamage(1, 0, (DamagedReplica("orders", 0, 1, "it is not served: its end is lost", ()),)),
        2: LogDamage(2, 0, ()),
    }
    done = run("list")
    assert "it is not served: its end is lost" in done.stdout
    assert done.stderr == ""


def test_without_damage_that_is_said(cluster: Cluster) -> None:
    cluster.told = {1: LogDamage(1, 0, ()), 2: LogDamage(2, 0, ())}
    done = run("list")
    assert (done.exit_code, done.stdout, done.stderr) == (0, "", "2 brokers can read all of their logs\n")


def test_a_broker_that_does_not_answer_is_named(cluster: Cluster) -> None:
    cluster.told[2] = AdminConnectionError(("b", 2), "it hung up")
    done = run("list")
    assert done.exit_code == 1
    assert "broker 2 did not report its damaged offsets: broker b:2: it hung up" in done.stderr


def test_a_loss_is_only_shown_without_execute(cluster: Cluster) -> None:
    cluster.replicas = (1, 2, 3)
    done = run("accept", "orders-0", "--offsets", "15-30")
    assert (done.exit_code, cluster.accepted) == (0, [])
    assert done.stderr.splitlines() == [
        "offsets 15 to 19 of orders-0 (5 in all) are lost: 000.log, byte 9855: \\x1b[31mbad",
        "offsets 30 to 30 of orders-0 (1 in all) are lost: lost",
        "the replicas on brokers 3, which are offline, may still have them",
        "repair: it is the only replica",
        "nothing was changed; --execute accepts the loss of these offsets, which cannot be undone",
    ]


def test_with_execute_the_leader_is_told(cluster: Cluster) -> None:
    done = run("accept", "orders-0", "--offsets", "15-19", "--execute")
    assert (done.exit_code, cluster.accepted) == (0, [(1, "orders", 0, 15, 19)])
    assert done.stderr.splitlines()[-1] == (
        "the loss is accepted: consumers of orders-0 skip these offsets from now on"
    )
    assert run("accept", "orders-0", "--offsets", "30", "--execute").exit_code == 0


@pytest.mark.parametrize(
    ("partition", "offsets", "said"),
    [
        ("orders-0", "15-20", "are not the damaged offsets of its leader, which are 15-19, 30-30"),
        ("orders-0", "14-19", "which are 15-19, 30-30"),
        ("orders-1", "3-3", "which are none"),
        ("orders-7", "3", "partition 7 of topic orders does not exist"),
        ("others-0", "3", "partition 0 of topic others does not exist"),
    ],
)
def test_what_is_not_damaged_is_not_given_up(cluster: Cluster, partition: str, offsets: str, said: str) -> None:
    done = run("accept", partition, "--offsets", offsets, "--execute")
    assert (done.exit_code, cluster.accepted) == (1, [])
    assert said in done.stderr


@pytest.mark.usefixtures("cluster")
@pytest.mark.parametrize(
    ("partition", "offsets"), [("orders", "1-2"), ("orders-0", "2-1"), ("orders-0", "x"), ("-", "1")]
)
def test_invalid_arguments_are_rejected_before_any_broker_is_asked(partition: str, offsets: str) -> None:
    assert run("accept", "--offsets", offsets, "--", partition).exit_code == 2
