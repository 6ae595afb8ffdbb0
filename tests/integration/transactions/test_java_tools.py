"""Apache Kafka's Java client and tools of release 4.3.0 with transactions of this project's broker."""

import re
from collections.abc import Iterator

import pytest

from tests.support.processes.broker_process import BrokerProcess
from tests.support.processes.console_tools import ConsoleTools
from tests.support.transactions.clients import ConfluentProducer

pytestmark = pytest.mark.full

TOPICS, PRODUCER = "org.apache.kafka.tools.TopicCommand", "org.apache.kafka.tools.ProducerPerformance"
CONSUMER, TRANSACTIONS = "org.apache.kafka.tools.consumer.ConsoleConsumer", "org.apache.kafka.tools.TransactionsCommand"
RECORDS = 2_000


@pytest.fixture(scope="module")
def broker() -> Iterator[BrokerProcess]:
    with BrokerProcess() as process:
        yield process


@pytest.fixture(scope="module")
def tool(broker: BrokerProcess, tmp_path_factory: pytest.TempPathFactory) -> ConsoleTools:
    return ConsoleTools(broker.bootstrap, tmp_path_factory.mktemp("tools"))


def test_the_java_client_commits_many_small_transactions(tool: ConsoleTools) -> None:
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


def test_an_open_transaction_is_listed_described_found_and_aborted(tool: ConsoleTools, broker: BrokerProcess) -> None:
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
