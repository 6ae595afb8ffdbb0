"""This project's __transaction_state equals Apache Kafka's: its tool reads our segment, and we read its segment."""

import json
import subprocess
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from broker_runtime.clock import SystemClock
from broker_runtime.config import TopicConfig
from broker_runtime.storage.disk.filesystem import OsFileSystem
from broker_runtime.storage.log_dir.manager import LogManager
from broker_runtime.storage.records.batch import iter_batches, iter_records
from broker_runtime.transactions.ids.codec import decode, encode
from broker_runtime.transactions.ids.metadata import Transaction
from broker_runtime.transactions.ids.partition_set import NO_PARTITIONS, PartitionSet
from broker_runtime.transactions.ids.records import TransactionRecord
from broker_runtime.transactions.ids.states import TransactionState
from kafka_bytes.batches import encode_batch
from tests.support.obtain.java import java
from tests.support.obtain.kafka_libs import kafka_libs
from tests.support.processes.apache_kafka import ApacheKafka
from tests.support.processes.console_tools import ConsoleTools
from tests.support.transactions.clients import ConfluentProducer

pytestmark = pytest.mark.full

TOPIC = "__transaction_state"
PARTITIONS = PartitionSet({"orders": 0b101, "payments": 0b10}, 3)
IN_PARTITIONS = [{"topic": "orders", "partitionIds": [0, 2]}, {"topic": "payments", "partitionIds": [1]}]
OPEN_STATES = (TransactionState.ONGOING, TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT)


def _transaction(state: TransactionState) -> Transaction:
    """A transaction in this state, in which each number differs from every other one."""
    partitions = PARTITIONS if state in OPEN_STATES else NO_PARTITIONS
    return Transaction(2**40, 7, 60_000, state, partitions, 1_700_000_000_001, 1_700_000_000_000, 41, 43, 2)


def _dumped(segment: Path) -> list[str]:
    """The records that Apache Kafka's tool shows of this file."""
    tool = ["org.apache.kafka.tools.DumpLogSegments", "--transaction-log-decoder", "--files", str(segment)]
    command = [java(), "-Xmx128m", "-cp", f"{kafka_libs()}/*", *tool]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", timeout=180, check=True)
    return [line for line in done.stdout.splitlines() if line.startswith("| offset:")]


def _shown(line: str) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """The key and the value of a record; None for a tombstone."""
    key, _, payload = line.partition(" key: ")[2].partition(" payload: ")
    return json.loads(key), None if payload == "<DELETE>" else json.loads(payload)


@pytest.mark.parametrize("flexible", [False, True], ids=["version 0", "version 1"])
def test_apache_kafkas_tool_reads_every_state_of_ours(tmp_path: Path, flexible: bool) -> None:
    states = [state for state in TransactionState if state is not TransactionState.DEAD]
    records = [TransactionRecord(f"id-{state.name}", _transaction(state)) for state in states]
    records.append(TransactionRecord("gone", None))
    logs = LogManager(tmp_path, fs=OsFileSystem(), clock=SystemClock())
    logs.open(lambda _: TopicConfig())
    log = logs.create(TOPIC, 0, UUID(int=7), TopicConfig())
    for record in records:
        log.append(memoryview(encode_batch([encode(record, flexible=flexible)], 1000)), leader_epoch=0)
    logs.close()

    found = [_shown(line) for line in _dumped(tmp_path / f"{TOPIC}-0" / "00000000000000000000.log")]
    assert [key for key, _ in found] == [
        {"type": "0", "data": {"transactionalId": record.transactional_id}} for record in records
    ]
    assert found[-1][1] is None
    tagged = {"previousProducerId": 41, "nextProducerId": 43, "clientTransactionVersion": 2} if flexible else {}
    for state, (_, value) in zip(states, found, strict=False):
        partitions = None if state is TransactionState.EMPTY else IN_PARTITIONS if state in OPEN_STATES else []
        numbers = {
            "producerId": 2**40,
            "producerEpoch": 7,
            "transactionTimeoutMs": 60_000,
            "transactionStatus": int(state),
            "transactionPartitions": partitions,
            "transactionLastUpdateTimestampMs": 1_700_000_000_001,
            "transactionStartTimestampMs": 1_700_000_000_000,
        }
        assert value == {"version": str(int(flexible)), "data": numbers | tagged}, state.name


@pytest.mark.parametrize("transaction_version", [0, 2])
def test_what_apache_kafka_wrote_is_read_and_written_again_byte_by_byte(
    tmp_path: Path, transaction_version: int
) -> None:
    with ApacheKafka(properties={"transaction.state.log.num.partitions": "1"}) as kafka:
        tool = ConsoleTools(kafka.bootstrap, tmp_path)
        feature = f"transaction.version={transaction_version}"
        direction = "upgrade" if transaction_version else "downgrade"
        tool("org.apache.kafka.tools.FeatureCommand", direction, "--feature", feature)
        tool("org.apache.kafka.tools.TopicCommand", "--create", "--topic", "orders", "--partitions", "3")
        for is_commit in (True, False):
            producer = ConfluentProducer(kafka.bootstrap, f"librdkafka-{is_commit}")
            producer.begin()
            producer.send("orders", ["a", "b"])
            producer.commit() if is_commit else producer.abort()
        load = ("--topic", "orders", "--num-records", "200", "--record-size", "20", "--throughput", "-1")
        once = ("--transactional-id", "java", "--transaction-duration-ms", "20")
        tool("org.apache.kafka.tools.ProducerPerformance", *load, *once)
        kafka.stop()
        (segment,) = (kafka.folder / "data" / f"{TOPIC}-0").glob("*.log")
        data = segment.read_bytes()
    seen, versions = set[TransactionState](), set[int]()
    for _, batch in iter_batches(data):
        for item in iter_records(batch):
            record = decode(item.key, item.value)
            assert record is not None, item
            assert record.transaction is not None, item
            assert item.value is not None, item
            versions.add(int.from_bytes(item.value[:2], "big"))
            assert encode(record, flexible=item.value[1] == 1) == (item.key, item.value), record
            seen.add(record.transaction.state)
    assert versions == {min(transaction_version, 1)}
    assert seen == set(TransactionState) - {TransactionState.DEAD}
