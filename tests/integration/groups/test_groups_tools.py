"""Kafka's tools for groups, of release 4.3.0, and its console and verifiable consumers, with this project's broker."""

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer

from tests.support.processes.broker_process import BrokerProcess
from tests.support.processes.kafka_tools import KafkaTools

pytestmark = pytest.mark.full

GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
VERIFIABLE = "org.apache.kafka.tools.VerifiableConsumer"
PARTITIONS, RECORDS = 3, 10
TOPIC = "lines"
LINES = sorted(f"{partition}:{number}" for partition in range(PARTITIONS) for number in range(RECORDS))
PROTOCOLS = ("classic", "consumer")
ENDS = [[TOPIC, str(partition), "10", "10", "0"] for partition in range(PARTITIONS)]
"""Topic, partition, committed offset, end and lag, after all records were read."""
DEADLINE_S = 60.0
SETTINGS = {"num.partitions": str(PARTITIONS), "group.initial.rebalance.delay.ms": "0"}


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    with BrokerProcess(properties=SETTINGS) as broker:
        producer = Producer({"bootstrap.servers": broker.bootstrap})
        for line in LINES:
            producer.produce(TOPIC, line.encode(), partition=int(line[0]))
        assert producer.flush(60) == 0
        yield broker.bootstrap


@pytest.fixture(scope="module")
def tools(bootstrap: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaTools]:
    with KafkaTools(bootstrap, tmp_path_factory.mktemp("tools")) as tools:
        yield tools


@contextmanager
def consuming(bootstrap: str, group: str, protocol: str) -> Iterator[None]:
    """Run a member that owns all partitions and has committed their ends, inside the block."""
    settings = {"group.id": group, "group.protocol": protocol, "auto.offset.reset": "earliest", "client.id": "till"}
    consumer = Consumer({"bootstrap.servers": bootstrap, **settings, "enable.auto.commit": False})
    consumer.subscribe([TOPIC])
    read, stop, deadline_s = 0, threading.Event(), time.monotonic() + DEADLINE_S
    while read < len(LINES):
        assert time.monotonic() < deadline_s, f"{read} of {len(LINES)} records came"
        read += len(consumer.consume(len(LINES), timeout=0.1))
    consumer.commit(asynchronous=False)

    def poll() -> None:
        while not stop.is_set():
            consumer.poll(0.05)

    polling = threading.Thread(target=poll)
    polling.start()
    try:
        yield
    finally:
        stop.set()
        polling.join()
        consumer.close()


def rows(printed: str, group: str) -> list[list[str]]:
    """Return the cells of a table's lines about the group, sorted by the third cell, the partition if there is one."""
    found = [line.split() for line in printed.splitlines()]
    return sorted((cells for cells in found if cells[:1] == [group]), key=lambda cells: cells[2:3])


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_the_console_consumer_continues_at_its_groups_offsets(tools: KafkaTools, protocol: str) -> None:
    asked = ("--topic", TOPIC, "--group", f"console-{protocol}", "--command-property", f"group.protocol={protocol}")
    first = tools(CONSUMER, *asked, "--from-beginning", "--max-messages", "20").splitlines()
    rest = tools(CONSUMER, *asked, "--from-beginning", "--max-messages", "10").splitlines()
    assert sorted(line for line in first + rest if ":" in line and line[0].isdigit()) == LINES


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_the_verifiable_consumer_reads_and_commits_all(tools: KafkaTools, protocol: str) -> None:
    group = f"verifiable-{protocol}"
    options = ("--reset-policy", "earliest", "--group-protocol", protocol, "--max-messages", str(len(LINES)))
    told = tools(VERIFIABLE, "--topic", TOPIC, "--group-id", group, *options)
    events = [json.loads(line) for line in told.splitlines() if line.startswith("{")]
    assert sum(event["count"] for event in events if event["name"] == "records_consumed") == len(LINES)
    assert all(event["success"] for event in events if event["name"] == "offsets_committed")
    assert events[-1]["name"] == "shutdown_complete"
    offsets = rows(tools(GROUPS, "--describe", "--group", group), group)
    assert [row[1:6] for row in offsets] == ENDS


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_group_with_a_member_is_shown_in_all_ways_and_refused_what_would_disturb_it(
    bootstrap: str, tools: KafkaTools, protocol: str
) -> None:
    group = f"live-{protocol}"
    chosen = ("--group", group)
    with consuming(bootstrap, group, protocol):
        assert group in tools(GROUPS, "--list").split()
        assert rows(tools(GROUPS, "--list", "--state"), group) == [[group, "Stable"]]
        (typed,) = rows(tools(GROUPS, "--list", "--type"), group)
        assert typed[1].lower() == protocol
        offsets = rows(tools(GROUPS, "--describe", "--all-groups"), group)
        assert [row[1:6] for row in offsets] == ENDS
        assert {tuple(row[-2:]) for row in offsets} == {("/127.0.0.1", "till")}
        (member,) = rows(tools(GROUPS, "--describe", *chosen, "--members", "--verbose"), group)
        assert {"/127.0.0.1", "till", str(PARTITIONS), f"{TOPIC}:0,1,2"} <= set(member), member
        (state,) = rows(tools(GROUPS, "--describe", *chosen, "--state", "--verbose"), group)
        assert {"Stable", "1"} <= set(state), state
        reset = ("--reset-offsets", *chosen, "--topic", TOPIC, "--to-earliest", "--execute")
        assert "the current state is Stable" in tools.ended(GROUPS, *reset)[1]
        assert "GroupNotEmptyException" in tools.ended(GROUPS, "--delete", *chosen)[1]
        assert (
            "GroupSubscribedToTopicException" in tools.ended(GROUPS, "--delete-offsets", *chosen, "--topic", TOPIC)[1]
        )
    (state,) = rows(tools(GROUPS, "--describe", *chosen, "--state"), group)
    assert {"Empty", "0"} <= set(state), state


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_offsets_of_an_empty_group_are_reset_and_deleted_and_then_the_group(
    bootstrap: str, tools: KafkaTools, tmp_path: Path, protocol: str
) -> None:
    group = f"empty-{protocol}"
    with consuming(bootstrap, group, protocol):
        pass

    def after(*way: str, only: str = TOPIC) -> list[str]:
        shown = rows(tools(GROUPS, "--reset-offsets", "--group", group, "--topic", only, *way), group)
        return [row[-1] for row in shown]

    def committed() -> list[str]:
        return [row[3] for row in rows(tools(GROUPS, "--describe", "--group", group), group)]

    assert after("--to-earliest", "--dry-run") == ["0", "0", "0"]
    assert committed() == ["10", "10", "10"]
    assert after("--to-offset", "4", "--execute") == ["4", "4", "4"]
    assert after("--shift-by", "2", "--execute", only=f"{TOPIC}:1") == ["6"]
    assert committed() == ["4", "6", "4"]
    assert after("--by-duration", "PT1H", "--dry-run") == ["0", "0", "0"]
    assert after("--to-datetime", "2038-01-01T00:00:00.000", "--dry-run") == ["10", "10", "10"]
    plan = tmp_path / "plan.csv"
    exported = tools(GROUPS, "--reset-offsets", "--group", group, "--topic", TOPIC, "--to-offset", "3", "--export")
    plan.write_text("".join(line for line in exported.splitlines(keepends=True) if TOPIC in line))
    assert after("--from-file", str(plan), "--execute") == ["3", "3", "3"]
    assert committed() == ["3", "3", "3"]
    assert after("--to-latest", "--execute") == ["10", "10", "10"]
    tools(GROUPS, "--delete-offsets", "--group", group, "--topic", f"{TOPIC}:2")
    assert committed() == ["10", "10"]
    assert "successful" in tools(GROUPS, "--delete", "--group", group)
    assert group not in tools(GROUPS, "--list").split()
