"""Apache Kafka's Java client and tools of release 4.3.0 with transactions of this project's broker."""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.obtain.java import java
from tests.support.obtain.kafka_libs import kafka_libs
from tests.support.processes.apache_kafka import LOG4J
from tests.support.processes.broker_process import BrokerProcess
from tests.support.transactions.clients import ConfluentProducer

pytestmark = pytest.mark.full

TOPICS, PRODUCER = "org.apache.kafka.tools.TopicCommand", "org.apache.kafka.tools.ProducerPerformance"
CONSUMER, TRANSACTIONS = "org.apache.kafka.tools.consumer.ConsoleConsumer", "org.apache.kafka.tools.TransactionsCommand"
TOOL_TIMEOUT_S = 180
RECORDS = 2_000


class JavaTools:
    """Runs the tools with a log configuration that limits their output to what they print."""

    def __init__(self, bootstrap: str, folder: Path) -> None:
        self._bootstrap = bootstrap
        self._log4j = folder / "log4j2.xml"
        self._log4j.write_text(LOG4J)

    def __call__(self, main_class: str, *arguments: str) -> str:
        """Run a tool and return its output. A tool that fails fails the test with its output."""
        options = ["-Xmx128m", "-XX:TieredStopAtLevel=1", f"-Dlog4j2.configurationFile={self._log4j}"]
        command = [java(), *options, "-cp", f"{kafka_libs()}/*", main_class, "--bootstrap-server", self._bootstrap]
        done = subprocess.run(
            [*command, *arguments], capture_output=True, text=True, timeout=TOOL_TIMEOUT_S, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


@pytest.fixture(scope="module")
def broker() -> Iterator[BrokerProcess]:
    with BrokerProcess() as process:
        yield process


@pytest.fixture(scope="module")
def tool(broker: BrokerProcess, tmp_path_factory: pytest.TempPathFactory) -> JavaTools:
    return JavaTools(broker.bootstrap, tmp_path_factory.mktemp("tools"))


def test_the_java_client_commits_many_small_transactions(tool: JavaTools) -> None:
    tool(TOPICS, "--create", "--topic", "java", "--partitions", "3", "--replication-factor", "1")
    tool(
        PRODUCER,
        *("--topic", "java", "--num-records", str(RECORDS), "--record-size", "20", "--throughput", "-1"),
        *("--transactional-id", "performance", "--transaction-duration-ms", "20"),
    )
    read = ("--topic", "java", "--from-beginning", "--timeout-ms", "8000", "--isolation-level", "read_committed")
    found = tool(CONSUMER, *read, "--max-messages", str(RECORDS)).split()
    assert len(found) == RECORDS
    described = tool(TRANSACTIONS, "describe", "--transactional-id", "performance")
    assert re.search(r"performance\s+\d+\s+\d+\s+CompleteCommit", described), described


def test_an_open_transaction_is_listed_described_found_and_aborted(tool: JavaTools, broker: BrokerProcess) -> None:
    tool(TOPICS, "--create", "--topic", "open", "--partitions", "1", "--replication-factor", "1")
    producer = ConfluentProducer(broker.bootstrap, "hangs")
    producer.begin()
    producer.send("open", ["a"])
    listed = tool(TRANSACTIONS, "list")
    assert re.search(r"hangs\s+\d+\s+\d+\s+Ongoing", listed), listed
    described = tool(TRANSACTIONS, "describe", "--transactional-id", "hangs")
    assert "open-0" in described
    producers = tool(TRANSACTIONS, "describe-producers", "--topic", "open", "--partition", "0")
    assert re.search(r"\n\d+\s+\d+\s+-?\d+\s+0\s", producers), producers
    tool(TRANSACTIONS, "abort", "--topic", "open", "--partition", "0", "--start-offset", "0")
    again = tool(TRANSACTIONS, "describe-producers", "--topic", "open", "--partition", "0")
    assert re.search(r"None\s*$", again), again
    hanging = tool(
        TRANSACTIONS, "find-hanging", "--topic", "open", "--partition", "0", "--max-transaction-timeout", "1"
    )
    assert "hangs" not in hanging
