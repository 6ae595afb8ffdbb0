"""Kafka's console tools of release 4.3.0, with default settings, against this project's broker."""

import re
import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.support.processes.broker_process import BrokerProcess
from tests.support.processes.clients.wire_client import ConnectionEnded, WireClient
from tests.support.processes.console_tools import ConsoleTools

pytestmark = pytest.mark.full

TOPICS = "org.apache.kafka.tools.TopicCommand"
PRODUCER = "org.apache.kafka.tools.ConsoleProducer"
CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
OFFSETS = "org.apache.kafka.tools.GetOffsetShell"
CONFIGS = "kafka.admin.ConfigCommand"

IP_RATE = "connection_creation_rate"
LIMITED, FREE = "127.0.44.1", "127.0.44.2"
RATE = 2
BURST = 10 * RATE
"""Number of connections that the default window of eleven samples admits at once."""
ATTEMPTS = 3 * BURST


@pytest.fixture(scope="module")
def broker() -> Iterator[BrokerProcess]:
    with BrokerProcess() as process:
        yield process


@pytest.fixture(scope="module")
def tool(broker: BrokerProcess, tmp_path_factory: pytest.TempPathFactory) -> ConsoleTools:
    return ConsoleTools(broker.bootstrap, tmp_path_factory.mktemp("tools"))


def test_topics_are_created_listed_described_grown_and_deleted(tool: ConsoleTools) -> None:
    made = ("--topic", "orders", "--partitions", "3", "--replication-factor", "1", "--config", "retention.ms=60000")
    assert "Created topic orders." in tool(TOPICS, "--create", *made)
    assert "orders" in tool(TOPICS, "--list").split()
    described = tool(TOPICS, "--describe", "--topic", "orders")
    assert re.search(r"PartitionCount: 3\s+ReplicationFactor: 1\s+Configs: .*retention.ms=60000", described), described
    assert len(re.findall(r"Partition: \d\s+Leader: 1\s+Replicas: 1\s+Isr: 1", described)) == 3, described
    tool(TOPICS, "--alter", "--topic", "orders", "--partitions", "5")
    assert "PartitionCount: 5" in tool(TOPICS, "--describe", "--topic", "orders")
    tool(TOPICS, "--delete", "--topic", "orders")
    assert "orders" not in tool(TOPICS, "--list").split()


def test_records_are_produced_consumed_by_partition_and_counted(tool: ConsoleTools) -> None:
    told = [f"key-{number}:value {number}" for number in range(200)]
    asked = ("--topic", "lines", "--reader-property", "parse.key=true", "--reader-property", "key.separator=:")
    tool(PRODUCER, *asked, lines="\n".join(told) + "\n")
    assert tool(OFFSETS, "--topic", "lines").split() == ["lines:0:200"]
    keyed = ("--formatter-property", "print.key=true", "--formatter-property", "key.separator=:")
    assigned = ("--topic", "lines", "--partition", "0")
    everything = tool(CONSUMER, *assigned, *keyed, "--offset", "earliest", "--max-messages", "200")
    assert everything.splitlines() == told
    some = tool(CONSUMER, *assigned, *keyed, "--offset", "150", "--max-messages", "7")
    assert some.splitlines() == told[150:157]


def test_a_broker_configuration_is_altered_described_and_taken_back(tool: ConsoleTools) -> None:
    for entity in (("--entity-name", "1"), ("--entity-default",)):
        where = ("--entity-type", "brokers", *entity)
        tool(
            CONFIGS,
            "--alter",
            *where,
            "--add-config",
            "max.connections.per.ip=5000,log.cleanup.policy=[compact,delete]",
        )
        described = tool(CONFIGS, "--describe", *where)
        assert "max.connections.per.ip=5000" in described, described
        assert "log.cleanup.policy=compact,delete" in described, described
        tool(CONFIGS, "--alter", *where, "--delete-config", "max.connections.per.ip,log.cleanup.policy")
        assert "max.connections.per.ip=5000" not in tool(CONFIGS, "--describe", *where)


def test_an_ip_quota_that_kafka_configs_sets_is_enforced_and_lifted(broker: BrokerProcess, tool: ConsoleTools) -> None:
    where = ("--entity-type", "ips", "--entity-name", LIMITED)
    assert admitted(broker, LIMITED) == ATTEMPTS
    tool(CONFIGS, "--alter", *where, "--add-config", f"{IP_RATE}={RATE}")
    assert f"{IP_RATE}={RATE:.1f}" in tool(CONFIGS, "--describe", *where)
    began_s = time.monotonic()
    in_time = admitted(broker, LIMITED)
    took_s = time.monotonic() - began_s
    assert BURST <= in_time <= BURST + RATE * (took_s + 1), f"{in_time} of {ATTEMPTS} in {took_s:.1f} s"
    assert admitted(broker, FREE) == ATTEMPTS
    tool(CONFIGS, "--alter", *where, "--delete-config", IP_RATE)
    assert IP_RATE not in tool(CONFIGS, "--describe", *where)
    assert admitted(broker, LIMITED) == ATTEMPTS


def test_connection_groups_disturb_no_tool_that_lists_ip_quotas(broker: BrokerProcess, tool: ConsoleTools) -> None:
    group, member = (
        {"entity_type": "connection-group", "entity_name": "shop/a"},
        {"entity_type": "ip", "entity_name": FREE},
    )
    limit = {"key": "max_connections", "value": 1_000.0, "remove": False}
    entries = [
        {"entity": [group], "ops": [limit]},
        {"entity": [group, member], "ops": [{"key": "member", "value": 1.0, "remove": False}]},
    ]
    with WireClient((broker.host, broker.port())) as client:
        answer = client.ask("alter_client_quotas", 1, entries=entries, validate_only=False)
    assert [entry["error_message"] for entry in answer["entries"]] == [None, None]
    where = ("--entity-type", "ips", "--entity-name", LIMITED)
    tool(CONFIGS, "--alter", *where, "--add-config", f"{IP_RATE}={RATE}")
    listed = tool(CONFIGS, "--describe", "--entity-type", "ips")
    assert LIMITED in listed, listed
    assert FREE not in listed, listed
    tool(CONFIGS, "--alter", *where, "--delete-config", IP_RATE)


def admitted(broker: BrokerProcess, source: str) -> int:
    """Return how many of simultaneous connections get an answer; the others are closed without one."""
    with ExitStack() as opened:
        address = (broker.host, broker.port())
        clients = [opened.enter_context(WireClient(address, source=source)) for _ in range(ATTEMPTS)]
        return sum(answers(client) for client in clients)


def answers(client: WireClient) -> bool:
    try:
        client.ask("api_versions", 0)
    except ConnectionEnded:
        return False
    return True
