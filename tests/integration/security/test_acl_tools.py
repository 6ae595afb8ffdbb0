"""kafka-acls of Apache Kafka 4.3.0 with our brokers: ACLs are added, listed by filters, and removed."""

from collections.abc import Iterator

import pytest

from tests.integration.security.test_acls import PROPERTIES
from tests.support.processes.broker_process import BrokerProcess
from tests.support.processes.kafka_tools import KafkaTools

pytestmark = pytest.mark.full

ACLS = "org.apache.kafka.tools.AclCommand"
ALICE = ("--allow-principal", "User:alice")


@pytest.fixture
def tools(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaTools]:
    folder = tmp_path_factory.mktemp("tools")
    properties = PROPERTIES | {"super.users": "User:ANONYMOUS"}
    with BrokerProcess(properties=properties) as broker, KafkaTools(broker.bootstrap, folder) as running:
        yield running


def listed(tools: KafkaTools, *wanted: str) -> list[str]:
    text = tools(ACLS, "--list", *wanted)
    return sorted(line.strip() for line in text.splitlines() if "principal=" in line or "ResourcePattern(" in line)


def test_acls_of_producers_and_consumers_are_added_listed_and_removed(tools: KafkaTools) -> None:
    tools(ACLS, "--add", *ALICE, "--producer", "--topic", "orders")
    tools(ACLS, "--add", *ALICE, "--consumer", "--topic", "orders", "--group", "billing")
    tools(ACLS, "--add", *ALICE, "--operation", "Read", "--topic", "team-", "--resource-pattern-type", "prefixed")
    tools(ACLS, "--add", "--deny-principal", "User:bob", "--deny-host", "10.0.0.1", "--cluster")
    everything = "\n".join(listed(tools))
    for entry in (
        "(principal=User:alice, host=*, operation=WRITE, permissionType=ALLOW)",
        "(principal=User:bob, host=10.0.0.1, operation=ALL, permissionType=DENY)",
        "ResourcePattern(resourceType=TOPIC, name=team-, patternType=PREFIXED)",
        "ResourcePattern(resourceType=GROUP, name=billing, patternType=LITERAL)",
        "ResourcePattern(resourceType=CLUSTER, name=kafka-cluster, patternType=LITERAL)",
    ):
        assert entry in everything
    matching = listed(tools, "--topic", "team-red", "--resource-pattern-type", "match")
    assert len(matching) == 2
    tools(ACLS, "--remove", "--force", *ALICE, "--producer", "--topic", "orders")
    assert "operation=WRITE" not in "\n".join(listed(tools))
    tools(ACLS, "--remove", "--force", "--topic", "team-", "--resource-pattern-type", "prefixed")
    assert not listed(tools, "--topic", "team-red", "--resource-pattern-type", "match")
