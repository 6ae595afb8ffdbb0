"""Kafka's tools for partitions, of release 4.3.0, and UnregisterBroker, with four brokers."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.clients.test_console_tools import TOPICS
from tests.support.processes.broker_process import BrokerGroup
from tests.support.processes.clients.broker_admin import until
from tests.support.processes.clients.wire_client import WireClient
from tests.support.processes.console_tools import ConsoleTools

REASSIGN = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
QUORUM = "org.apache.kafka.tools.MetadataQuorumCommand"
ELECT = "org.apache.kafka.tools.LeaderElectionCommand"
WAIT_S = 120.0


@pytest.fixture(scope="module")
def group() -> Iterator[BrokerGroup]:
    with BrokerGroup(4) as group:
        yield group


@pytest.fixture
def tool(group: BrokerGroup, tmp_path: Path) -> ConsoleTools:
    return ConsoleTools(group.bootstrap, tmp_path)


def shown(tool: ConsoleTools, topic: str) -> list[tuple[int, list[int], set[int]]]:
    """Return leader, replicas and in-sync set of each partition."""
    text = tool(TOPICS, "--describe", "--topic", topic)
    found = re.findall(r"Leader: (\S+)\s+Replicas: (\S+)\s+Isr: (\S+)", text)
    return [
        (int(leader), [int(r) for r in replicas.split(",")], {int(r) for r in isr.split(",")})
        for leader, replicas, isr in found
    ]


@pytest.mark.full
def test_a_partition_moves_and_its_preferred_leader_is_elected(tool: ConsoleTools, tmp_path: Path) -> None:
    tool(TOPICS, "--create", "--topic", "moved", "--replica-assignment", "0:1,1:2")
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps({"version": 1, "partitions": [{"topic": "moved", "partition": 0, "replicas": [2, 3]}]}))
    tool(REASSIGN, "--reassignment-json-file", str(plan), "--execute")
    until(lambda: shown(tool, "moved")[0][1:] == ([2, 3], {2, 3}), "the partition has moved", WAIT_S)
    verified = tool(REASSIGN, "--reassignment-json-file", str(plan), "--verify")
    assert "Reassignment of partition moved-0 is completed." in verified
    assert "No partition reassignments found." in tool(REASSIGN, "--list")
    tool(ELECT, "--election-type", "preferred", "--all-topic-partitions")
    until(lambda: [leader for leader, _, _ in shown(tool, "moved")] == [2, 1], "the preferred replicas lead", WAIT_S)


@pytest.mark.full
def test_the_metadata_quorum_is_the_active_controller_with_brokers_observing(
    group: BrokerGroup, tool: ConsoleTools
) -> None:
    text = tool(QUORUM, "describe", "--status")
    shown_as = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
    assert shown_as["LeaderId"].strip() == str(group.controller.node_id)
    assert int(shown_as["HighWatermark"]) > 0
    voters = re.findall(r'"id":\s*(\d+)', shown_as["CurrentVoters"])
    observers = re.findall(r'"id":\s*(\d+)', shown_as["CurrentObservers"])
    assert (voters, observers) == ([str(group.controller.node_id)], ["0", "1", "2", "3"])
    replicas = tool(QUORUM, "describe", "--replication")
    assert len(re.findall(r"\bObserver\b", replicas)) == 4


def test_a_broker_that_has_stopped_is_unregistered_through_any_other(group: BrokerGroup) -> None:
    group.brokers[3].stop()
    assert group.controller.brokers()[3]["state"] == "Offline"
    with WireClient(("127.0.0.1", group.brokers[0].port())) as client:
        codes = [client.ask("unregister_broker", 0, broker_id=3)["error_code"] for _ in range(2)]
    assert codes == ["none", "broker_id_not_registered"]
    assert sorted(group.controller.brokers()) == [0, 1, 2]
