"""Kafka's tools for features, ACLs, groups, client metrics and loggers print the same with both implementations.

Each command runs on both, in the order of the list; later ones show or remove what earlier ones set.
"""

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest

from tests.integration.differential.conftest import Pair
from tests.support.processes.kafka_tools import KafkaTools

pytestmark = pytest.mark.full

FEATURES, ACLS = "org.apache.kafka.tools.FeatureCommand", "org.apache.kafka.tools.AclCommand"
CONFIGS, CLIENT_METRICS = "kafka.admin.ConfigCommand", "org.apache.kafka.tools.ClientMetricsCommand"
NOT_SERVED = ("kraft.version", "share.version", "streams.version")
GROUP = "--entity-type groups --entity-name tooled"
METRICS = "--entity-type client-metrics --entity-name tooled"
LOGGERS = "--entity-type broker-loggers --entity-name 1"
SESSION = "consumer.session.timeout.ms"

COMMANDS = (
    f"{FEATURES} describe",
    f"{ACLS} --list",
    f"{CONFIGS} --describe {GROUP}",
    f"{CONFIGS} --alter {GROUP} --add-config {SESSION}=46000",
    f"{CONFIGS} --alter {GROUP} --add-config {SESSION}=1",
    f"{CONFIGS} --describe --entity-type groups",
    f"{CONFIGS} --alter {GROUP} --delete-config {SESSION}",
    f"{CONFIGS} --alter {METRICS} --add-config interval.ms=30000,metrics=[a.,b.],match=[client_id=x]",
    f"{CONFIGS} --describe --entity-type client-metrics",
    f"{CLIENT_METRICS} --describe",
    f"{CLIENT_METRICS} --delete --name tooled",
    f"{CLIENT_METRICS} --list",
    f"{CONFIGS} --alter {LOGGERS} --add-config root=FATAL",
    f"{CONFIGS} --describe {LOGGERS}",
    f"{CONFIGS} --alter {LOGGERS} --add-config root=LOUD",
    f"{CONFIGS} --alter {LOGGERS} --add-config root=WARN",
)


@pytest.fixture(scope="module")
def both(pair: Pair, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[KafkaTools, KafkaTools]]:
    with ExitStack() as stack:
        kafka, ours = (
            stack.enter_context(KafkaTools(f"127.0.0.1:{node.port()}", tmp_path_factory.mktemp("tools")))
            for node in (pair.kafka, pair.ours)
        )
        yield kafka, ours


def test_kafkas_tools_print_the_same_of_both(both: tuple[KafkaTools, KafkaTools]) -> None:
    with ThreadPoolExecutor(2) as threads:
        kafkas, own = threads.map(_printed, both)
    for command in COMMANDS:
        assert own[command] == kafkas[command], command
    assert "Feature: metadata.version" in own[f"{FEATURES} describe"][1]
    assert "No Authorizer is configured" in own[f"{ACLS} --list"][1]
    assert own[f"{CONFIGS} --describe {LOGGERS}"][1].count("root=FATAL") == 1


def _printed(tools: KafkaTools) -> dict[str, tuple[int, str]]:
    found = {}
    for command in COMMANDS:
        code, text = tools.ended(*command.split())
        found[command] = code, _alike(text)
    return found


def _alike(text: str) -> str:
    """Remove addresses, epochs and times, features that are not served, and loggers that only one node has."""
    text = re.sub(r"127\.0\.0\.1:\d+", "(address)", text)
    text = re.sub(r"Epoch: \d+", "Epoch: (own)", text)
    text = re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d+", "(time)", text)
    lines = [line for line in text.splitlines() if not line.startswith(tuple(f"Feature: {n}" for n in NOT_SERVED))]
    return "\n".join(line for line in lines if "sensitive=false synonyms={}" not in line or "  root=" in line)
