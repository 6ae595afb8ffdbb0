"""Apache Spark as a client: its own connector reads, writes and follows topics of a broker process."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from confluent_kafka import TIMESTAMP_CREATE_TIME, Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from tests.support.obtain.spark_kafka import spark_kafka_libs
from tests.support.processes.broker_process import ROOT, BrokerProcess
from tests.support.transactions.clients import ConfluentProducer

pytestmark = pytest.mark.full

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
PARTITIONS = 3
START_MS = 1_700_000_000_000
FOR_EVER = {"retention.ms": "-1"}
"""Retention is off, because these tests use records from the year 2023."""
EACH = 40
"""Records of each codec and partition, a second apart."""
DEADLINE_S = 120.0


class Record(NamedTuple):
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    timestamp_ms: int
    headers: list[tuple[str, bytes | None]] | None


@pytest.fixture(scope="module")
def broker() -> Iterator[BrokerProcess]:
    spark_kafka_libs()
    with BrokerProcess(properties={"num.partitions": str(PARTITIONS)}) as process:
        yield process


@pytest.fixture(scope="module")
def several(broker: BrokerProcess) -> list[Record]:
    """Records of the topic `several`: batches of all codecs, with null keys, values and headers."""
    create(broker, "several")
    found: list[Any] = []
    for at, codec in enumerate(CODECS):
        producer = Producer({"bootstrap.servers": broker.bootstrap, "compression.type": codec, "linger.ms": 50})
        for number in range(PARTITIONS * EACH):
            partition, place = number % PARTITIONS, at * EACH + number // PARTITIONS
            key = None if number % 4 == 0 else b"%s-%d" % (codec.encode(), number)
            value = None if number % 10 == 3 else b"value %d " % number * (number % 30 + 1)
            headers: list[tuple[str, bytes | None]] = [("codec", codec.encode()), ("codec", None), ("h", b"\xff")]
            record = Record(partition, place, key, value, START_MS + place * 1000, headers if number % 2 else None)
            found.append(record)
            producer.produce(
                "several", value, key, partition, timestamp=record.timestamp_ms, headers=record.headers or []
            )
        assert producer.flush(60) == 0
    return found


def create(broker: BrokerProcess, *topics: str) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    for future in admin.create_topics([NewTopic(topic, PARTITIONS, 1, config=FOR_EVER) for topic in topics]).values():
        future.result(60)


def reading(spark: SparkSession, broker: BrokerProcess, **options: str) -> DataFrame:
    return (
        spark.read.format("kafka")
        .option("kafka.bootstrap.servers", broker.bootstrap)
        .options(**{"subscribe": "several", **options})
        .load()
    )


def records(frame: DataFrame) -> list[Record]:
    rows = frame.selectExpr("*", "unix_millis(timestamp) as ms").collect()
    return sorted(
        Record(row.partition, row.offset, plain(row.key), plain(row.value), row.ms, headers(row)) for row in rows
    )


def plain(value: bytearray | None) -> bytes | None:
    return None if value is None else bytes(value)


def headers(row: Any) -> list[tuple[str, bytes | None]] | None:
    given = row.asDict().get("headers")
    return None if given is None else [(header.key, plain(header.value)) for header in given]


def from_place(found: Sequence[Record], first: Sequence[int], end: Sequence[int]) -> list[Record]:
    """Return the records of each partition from one offset to another, without their headers."""
    return sorted(
        each._replace(headers=None) for each in found if first[each.partition] <= each.offset < end[each.partition]
    )


def test_a_batch_has_every_record_once_with_all_of_it(
    spark: SparkSession, broker: BrokerProcess, several: list[Record]
) -> None:
    frame = reading(spark, broker, includeHeaders="true", minPartitions="5")
    assert frame.count() == len(several)
    assert records(frame) == sorted(several)


def test_offsets_and_times_say_which_records_are_read(
    spark: SparkSession, broker: BrokerProcess, several: list[Record]
) -> None:
    whole = [len(CODECS) * EACH] * PARTITIONS
    by_offset = {
        "startingOffsets": json.dumps({"several": {"0": 7, "1": -2, "2": 199}}),
        "endingOffsets": json.dumps({"several": {"0": 100, "1": 3, "2": -1}}),
    }
    assert records(reading(spark, broker, **by_offset)) == from_place(several, (7, 0, 199), (100, 3, 200))
    since = {"startingTimestamp": str(START_MS + 149_500)}
    assert records(reading(spark, broker, **since)) == from_place(several, [150] * PARTITIONS, whole)
    by_time = {
        "startingOffsetsByTimestamp": json.dumps(
            {"several": {"0": START_MS + 20_000, "1": START_MS + 1, "2": START_MS + 10_000_000}}
        ),
        "startingOffsetsByTimestampStrategy": "latest",
        "endingOffsetsByTimestamp": json.dumps(
            {"several": {"0": START_MS + 30_000, "1": START_MS + 100_000, "2": START_MS + 10_000_001}}
        ),
    }
    assert records(reading(spark, broker, **by_time)) == from_place(several, (20, 1, 200), (30, 100, 200))


def test_other_clients_read_the_records_that_spark_writes(spark: SparkSession, broker: BrokerProcess) -> None:
    create(broker, "written")
    rows = [(f"key {n}" if n % 3 else None, f"value {n}" * 20, n % PARTITIONS, [("n", b"%d" % n)]) for n in range(300)]
    schema = "key string, value string, partition int, headers array<struct<key: string, value: binary>>"
    spark.createDataFrame(rows, schema).write.format("kafka").options(
        **{"kafka.bootstrap.servers": broker.bootstrap, "topic": "written", "includeHeaders": "true"},
        **{"kafka.compression.type": "zstd"},
    ).save()
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "unused", "enable.auto.commit": False})
    consumer.assign([TopicPartition("written", partition, 0) for partition in range(PARTITIONS)])
    found: list[Any] = []
    while len(found) < len(rows):
        messages = consumer.consume(len(rows), timeout=60)
        assert messages, f"only {len(found)} of {len(rows)} records came"
        assert {message.timestamp()[0] for message in messages} == {TIMESTAMP_CREATE_TIME}
        found += [
            (message.key() and message.key().decode(), message.value().decode(), message.partition(), message.headers())
            for message in messages
        ]
    consumer.close()
    assert sorted(found, key=lambda row: row[1]) == sorted(rows, key=lambda row: row[1])


def test_a_batch_and_a_stream_have_only_the_records_of_committed_transactions(
    spark: SparkSession, broker: BrokerProcess, tmp_path: Path
) -> None:
    create(broker, "transacted")
    producer, committed = ConfluentProducer(broker.bootstrap, "spark", timeout_ms=600_000), list[str]()
    for number in range(40):
        producer.begin()
        values = [f"{number}-{each}" for each in range(5)]
        producer.send("transacted", values)
        if number % 3:
            producer.commit()
            committed += values
        else:
            producer.abort()
    producer.begin()
    producer.send("transacted", ["of an open transaction"])
    options = {"subscribe": "transacted", "kafka.isolation.level": "read_committed", "startingOffsets": "earliest"}
    in_order = [(each.value or b"").decode() for each in records(reading(spark, broker, **options))]
    assert in_order == committed
    stream = spark.readStream.format("kafka").options(
        **{"kafka.bootstrap.servers": broker.bootstrap, "maxOffsetsPerTrigger": "37", **options}
    )
    rows = stream.load().selectExpr("cast(value as string) as value")
    out, checkpoint = str(tmp_path / "out"), str(tmp_path / "checkpoint")
    writer = rows.writeStream.format("parquet").option("path", out).option("checkpointLocation", checkpoint)
    writer.trigger(availableNow=True).start().awaitTermination(int(DEADLINE_S))
    assert sorted(row.value for row in spark.read.parquet(out).collect()) == sorted(committed)
    producer.abort()


STREAM = """
import sys
from audit_pipeline.jobs.session import spark_session
from tests.integration.audit.test_spark_client import follow
from tests.support.audit.spark_session import connector
with spark_session("stream", {"spark.master": "local[2]", **connector()}) as spark:
    print(spark.sparkContext._jvm.java.lang.ProcessHandle.current().pid(), flush=True)
    follow(spark, *sys.argv[1:]).awaitTermination()
"""


def follow(spark: SparkSession, bootstrap: str, out: str, checkpoint: str, mode: str) -> StreamingQuery:
    """Follow the topic `followed` from the checkpoint on, and write its records to files, a few in each batch."""
    stream = spark.readStream.format("kafka").options(
        **{"kafka.bootstrap.servers": bootstrap, "subscribe": "followed", "startingOffsets": "earliest"},
        **({} if mode == "once" else {"maxOffsetsPerTrigger": "60"}),
    )
    rows = stream.load().selectExpr("partition", "offset", "cast(value as string) as value")
    writer = rows.writeStream.format("parquet").option("path", out).option("checkpointLocation", checkpoint)
    return (writer.trigger(availableNow=True) if mode == "once" else writer.trigger(processingTime="0 seconds")).start()


def produce(broker: BrokerProcess, first: int, end: int) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap, "compression.type": "lz4"})
    for number in range(first, end):
        producer.produce("followed", str(number), partition=number % PARTITIONS)
    assert producer.flush(60) == 0


def test_a_stream_that_is_stopped_and_killed_goes_on_without_loss_or_repetition(
    spark: SparkSession, broker: BrokerProcess, tmp_path: Path
) -> None:
    create(broker, "followed")
    out, checkpoint = tmp_path / "out", tmp_path / "checkpoint"
    places = (broker.bootstrap, str(out), str(checkpoint))
    produce(broker, 0, 600)
    follow(spark, *places, "once").awaitTermination(int(DEADLINE_S))
    assert written(spark, out) == list(range(600))
    produce(broker, 600, 3000)
    commits = len(list((checkpoint / "commits").glob("[0-9]*")))
    with killed_later(*places, "on") as process:
        await_commits(process, checkpoint, commits + 2)
    produce(broker, 3000, 3600)
    assert len(written(spark, out)) < 3000, "it was not killed in the middle of anything"
    follow(spark, *places, "once").awaitTermination(int(DEADLINE_S))
    assert written(spark, out) == list(range(3600))


def written(spark: SparkSession, out: Path) -> list[int]:
    return sorted(int(row.value) for row in spark.read.parquet(str(out)).collect())


class killed_later:  # noqa: N801 - a context
    """A separate Spark process; at the end, its JVM is killed at an arbitrary moment."""

    def __init__(self, *arguments: str) -> None:
        environment = {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'operator'}"}
        command = [sys.executable, "-c", STREAM, *arguments]
        self._process = subprocess.Popen(
            command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )

    def __enter__(self) -> subprocess.Popen[str]:
        assert self._process.stdout is not None
        self._jvm = int(self._process.stdout.readline() or 0)
        return self._process

    def __exit__(self, *_: object) -> None:
        if self._jvm:
            os.kill(self._jvm, signal.SIGKILL)
        self._process.kill()
        self._process.communicate()


def await_commits(process: subprocess.Popen[str], checkpoint: Path, wanted: int) -> None:
    deadline_s = time.monotonic() + DEADLINE_S
    while len(list((checkpoint / "commits").glob("[0-9]*"))) < wanted:
        assert process.poll() is None, "Spark ended by itself"
        assert time.monotonic() < deadline_s, "Spark did not get on"
        try:
            process.wait(0.01)
        except subprocess.TimeoutExpired:
            continue
