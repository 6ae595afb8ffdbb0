"""`sluicegate groups` for groups of both protocols, against this project's broker and against Apache Kafka."""

import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from typer.testing import CliRunner, Result

from sluicegate_operator.cli.groups import groups as command
from tests.support.processes.apache_kafka import ApacheKafka
from tests.support.processes.broker_process import BrokerProcess

PARTITIONS = 3
RECORDS = 10
"""Number of records in each partition."""
OLD_MS = 1_600_000_000_000
"""Time of the first half of them; the other half is an hour later."""
DEADLINE_S = 60.0
SETTINGS = {"num.partitions": str(PARTITIONS), "group.initial.rebalance.delay.ms": "0", "log.retention.ms": "-1"}


@pytest.fixture(scope="module", params=["sluicegate", pytest.param("apache", marks=pytest.mark.full)])
def bootstrap(request: pytest.FixtureRequest) -> Iterator[str]:
    kind = {"sluicegate": BrokerProcess, "apache": ApacheKafka}[request.param]
    with kind(properties=SETTINGS) as broker:
        yield broker.bootstrap


@pytest.fixture(scope="module")
def topic(bootstrap: str) -> str:
    producer = Producer({"bootstrap.servers": bootstrap})
    for partition in range(PARTITIONS):
        for number in range(RECORDS):
            written_ms = OLD_MS + (3_600_000 if number >= RECORDS // 2 else 0)
            producer.produce("orders", b"%d" % number, partition=partition, timestamp=written_ms)
    assert producer.flush(60) == 0
    return "orders"


def run(bootstrap: str, *arguments: str) -> Result:
    """Run in this process, which has already loaded the modules of the command."""
    return CliRunner().invoke(command.groups, [*arguments, "--bootstrap-server", bootstrap])


def groups(bootstrap: str, *arguments: str) -> Any:
    """Return the command's JSON output. A command that fails fails the test with its output."""
    done = run(bootstrap, *arguments, "--output", "json")
    assert done.exit_code == 0, done.stderr
    return json.loads(done.stdout)


def refused(bootstrap: str, *arguments: str) -> tuple[int, str]:
    done = run(bootstrap, *arguments)
    assert done.stdout == ""
    return done.exit_code, done.stderr


def commit(bootstrap: str, group: str, topic: str, offsets: dict[int, int]) -> None:
    """Commit as a client that only stores its offsets in the group."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    places = [TopicPartition(topic, partition, offset) for partition, offset in offsets.items()]
    consumer.commit(offsets=places, asynchronous=False)
    consumer.close()


def until(consumer: Consumer, holds: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + DEADLINE_S
    while not holds():
        assert time.monotonic() < deadline_s, "it does not happen"
        message = consumer.poll(0.05)
        assert message is None or message.error() is None, message.error()


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_with_a_member_is_shown_and_held_to_its_own_offsets(bootstrap: str, topic: str, protocol: str) -> None:
    group = f"billing-{protocol}"
    settings = {"group.id": group, "group.protocol": protocol, "auto.offset.reset": "earliest", "client.id": "till"}
    consumer = Consumer({"bootstrap.servers": bootstrap, **settings, "enable.auto.commit": False})
    consumer.subscribe([topic])
    until(consumer, lambda: len(consumer.assignment()) == PARTITIONS)
    consumer.commit(offsets=[TopicPartition(topic, 0, 4)], asynchronous=False)

    listed = {one["id"]: one for one in groups(bootstrap, "list")["groups"]}
    assert listed[group] == {"id": group, "state": "Stable", "type": protocol, "protocol_type": "consumer"}
    (shown,) = groups(bootstrap, "describe", group)["groups"]
    (member,) = shown["members"]
    assert (shown["state"], shown["type"], shown["lag"]) == ("Stable", protocol, RECORDS - 4)
    assert (member["client_id"], member["partitions"]) == ("till", PARTITIONS)
    assert "127.0.0.1" in member["host"]
    rows = [(row["partition"], row["committed"], row["log_end"], row["lag"]) for row in shown["offsets"]]
    assert rows == [(0, 4, RECORDS, RECORDS - 4), (1, None, RECORDS, None), (2, None, RECORDS, None)]
    assert {row["member_id"] for row in shown["offsets"]} == {member["id"]}

    code, said = refused(bootstrap, "reset-offsets", group, "--topic", topic, "--to-earliest", "--execute")
    assert (code, "is Stable with members (till)" in said) == (1, True), said
    code, said = refused(bootstrap, "delete", group)
    assert (code, "the group has members; stop them first" in said) == (1, True), said

    consumer.close()
    plan = groups(bootstrap, "reset-offsets", group, "--topic", topic, "--to-latest", "--execute")
    assert plan["executed"]
    (shown,) = groups(bootstrap, "describe", group)["groups"]
    assert (shown["state"], shown["members"], shown["lag"]) == ("Empty", [], 0)
    assert groups(bootstrap, "delete", group)["groups"][0]["deleted"]
    assert group not in {one["id"] for one in groups(bootstrap, "list")["groups"]}


@pytest.mark.parametrize(
    ("way", "after"),
    [
        (("--to-earliest",), [0, 0, 0]),
        (("--to-offset", "7"), [7, 7, 7]),
        (("--shift-by", "-3"), [0, 3, 6]),
        (("--shift-by", "5"), [7, 10, 10]),
        (("--by-duration", "PT1H"), [RECORDS] * 3),
        (("--to-datetime", "2020-09-13T12:30:00"), [5, 5, 5]),
    ],
)
def test_offsets_are_planned_and_nothing_is_changed(
    bootstrap: str, topic: str, way: tuple[str, ...], after: list[int]
) -> None:
    before = {0: 2, 1: 6, 2: 9}
    commit(bootstrap, "planned", topic, before)
    plan = groups(bootstrap, "reset-offsets", "planned", "--all-topics", *way)
    assert not plan["executed"]
    assert [(row["before"], row["after"]) for row in plan["offsets"]] == list(zip(before.values(), after, strict=True))
    (shown,) = groups(bootstrap, "describe", "planned")["groups"]
    assert [row["committed"] for row in shown["offsets"]] == list(before.values())


def test_a_group_that_is_not_there_yet_is_said_and_made(bootstrap: str, topic: str) -> None:
    reset = ("reset-offsets", "coming", "--topic", topic, "--to-latest")
    assert run(bootstrap, *reset).stderr == "group coming does not exist yet; --execute creates it\n"
    assert run(bootstrap, *reset, "--execute").stderr == "group coming did not exist; the offsets created it\n"
    assert run(bootstrap, *reset).stderr == ""
    assert groups(bootstrap, "delete", "coming")["groups"][0]["deleted"]


def test_tables_are_for_people(bootstrap: str, topic: str) -> None:
    commit(bootstrap, "read", topic, {1: 6})
    shown = run(bootstrap, "describe", "read").stdout
    assert "Group read: Empty" in shown
    assert [cell.strip() for cell in shown.splitlines()[-2].split("│")[1:6]] == [topic, "1", "6", "10", "4"], shown
    plan = run(bootstrap, "reset-offsets", "read", "--topic", f"{topic}:1", "--to-latest").stdout
    assert "nothing was changed; --execute commits the new offsets" in plan


def test_what_cannot_be_is_refused_in_a_sentence(bootstrap: str, topic: str) -> None:
    code, said = refused(bootstrap, "describe", "nobody")
    assert (code, "group nobody does not exist" in said) == (1, True), said
    commit(bootstrap, "somebody", topic, {1: 6})
    both = run(bootstrap, "describe", "nobody", "somebody")
    assert (both.exit_code, "Group somebody" in both.stdout, "nobody does not exist" in both.stderr) == (1, True, True)
    code, said = refused(bootstrap, "delete", "nobody")
    assert (code, said) == (1, "group nobody was not deleted: the group does not exist\n")
    for arguments, sentence in (
        (("--topic", "none", "--to-earliest"), "the topic does not exist"),
        (("--topic", f"{topic}:9", "--to-earliest"), "partition 9 does not exist"),
        (("--all-topics", "--to-earliest"), "group nobody has no committed offsets"),
    ):
        code, said = refused(bootstrap, "reset-offsets", "nobody", *arguments)
        assert (code, sentence in said, said.count("\n")) == (2, True, 1), said
