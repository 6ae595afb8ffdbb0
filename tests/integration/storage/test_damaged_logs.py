"""A damaged segment loses only its own offsets: other replicas repair it, or an administrator accepts the loss.

See decision 46.
"""

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from typer.testing import CliRunner

from kafka_bytes.batches import encode_batch
from sluicegate_operator.cli.fleets.damage import damage
from tests.support.processes.broker_process import BrokerGroup, BrokerProcess
from tests.support.processes.clients.acknowledged import Partitions, create_topic
from tests.support.processes.clients.broker_admin import until
from tests.support.processes.clients.wire_client import WireClient

RECORDS = 70
SEGMENT_BYTES = "20000"
"""Ten records of 1.9 kB fit in, so there are seven segments."""
CORRUPT_MESSAGE = KafkaError.INVALID_MSG


@pytest.fixture
def lone() -> Iterator[BrokerProcess]:
    with BrokerProcess() as broker:
        yield broker


def produce(bootstrap: str, topic: str, first: int, count: int) -> None:
    """Produce each record as a separate batch; a resent batch keeps its place in the order."""
    producer = Producer(
        {"bootstrap.servers": bootstrap, "enable.idempotence": True, "batch.num.messages": 1, "log_level": 2}
    )
    for number in range(first, first + count):
        producer.produce(topic, value_of(number), partition=0)
    assert producer.flush(60) == 0


def value_of(number: int) -> bytes:
    return b"%d" % number * (1_900 // len(str(number)))


def segments(broker: BrokerProcess, topic: str) -> list[Path]:
    return sorted((broker.data / f"{topic}-0").glob("*.log"))


def flip(path: Path, batch: int, at: int) -> None:
    """Flip a bit in one byte of a batch of this file."""
    content, position = path.read_bytes(), 0
    for _ in range(batch):
        position += 12 + int.from_bytes(content[position + 8 : position + 12], "big")
    with path.open("r+b") as file:
        file.seek(position + at)
        file.write(bytes([content[position + at] ^ 4]))


def consumed(bootstrap: str, topic: str, first: int, end: int) -> tuple[list[int], int | None]:
    """Return the offsets that a consumer reads from `first` to `end` - 1, and the error that ended it earlier."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "unused", "log_level": 2, "check.crcs": True})
    found: list[int] = []
    try:
        consumer.assign([TopicPartition(topic, 0, first)])
        while not found or found[-1] < end - 1:
            got = consumer.poll(60)
            assert isinstance(got, Message), "nothing for a minute"
            error = got.error()
            if error is not None:
                return found, error.code()
            assert got.value() == (b"one more" if got.offset() == RECORDS else value_of(got.offset() or 0))
            found.append(got.offset() or 0)
    finally:
        consumer.close()
    return found, None


def asked_once(broker: BrokerProcess, offsets: dict[str, int]) -> tuple[list[str], list[str]]:
    """Return the error codes of one Produce and one Fetch for partition 0 of these topics, without retries."""
    batch = encode_batch([(None, b"one more")], int(time.time() * 1000))
    written = [{"name": topic, "partition_data": [{"index": 0, "records": batch}]} for topic in offsets]
    read = [
        {"topic": topic, "partitions": [{"partition": 0, "fetch_offset": offset, "partition_max_bytes": 1 << 20}]}
        for topic, offset in offsets.items()
    ]
    with WireClient(("127.0.0.1", broker.port()), source="") as client:
        produced = client.ask("produce", 9, transactional_id=None, acks=-1, timeout=30_000, topic_data=written)
        fetched = client.ask("fetch", 12, max_wait=0, min_bytes=0, topics=read, forgotten_topics_data=[])
    return (
        [topic["partition_responses"][0]["error_code"] for topic in produced["responses"]],
        [topic["partitions"][0]["error_code"] for topic in fetched["responses"]],
    )


def command(bootstrap: str, *arguments: str) -> tuple[int, str]:
    """Run a command in this process, and return its exit code and output."""
    done = CliRunner().invoke(damage, [*arguments, "--bootstrap-server", bootstrap])
    return done.exit_code, done.output


def listed(bootstrap: str) -> list[tuple[str, int, int]]:
    code, output = command(bootstrap, "list", "--output", "json")
    assert code == 0, output
    replicas = [replica for broker in json.loads(output)["brokers"] for replica in broker["replicas"]]
    return [(each["topic"], one["first"], one["last"]) for each in replicas for one in each["ranges"]]


@pytest.mark.full
def test_of_the_only_copy_all_other_offsets_are_served_until_a_person_accepts_the_loss(lone: BrokerProcess) -> None:
    for topic in ("bad", "good"):
        create_topic(lone.bootstrap, topic, 1, 1, segment_bytes=SEGMENT_BYTES)
        produce(lone.bootstrap, topic, 0, RECORDS)
    files = segments(lone, "bad")
    assert len(files) == 7
    lone.stop()
    flip(files[1], 5, 500)
    files[1].with_suffix(".index").unlink()
    lone.start()
    both = {"bad": 15, "good": 0}
    assert asked_once(lone, both) == (["none", "none"], ["corrupt_message", "none"]), "the other topic has no error"
    produce(lone.bootstrap, "bad", RECORDS + 1, 4)
    assert consumed(lone.bootstrap, "bad", 0, RECORDS + 5) == (list(range(15)), CORRUPT_MESSAGE)
    assert consumed(lone.bootstrap, "bad", 16, RECORDS + 5) == (list(range(16, RECORDS + 5)), None)
    assert consumed(lone.bootstrap, "good", 0, RECORDS) == (list(range(RECORDS)), None)
    assert listed(lone.bootstrap) == [("bad", 15, 15)]
    assert lone.metrics()["sluicegate_log_damaged_ranges"] == 1
    status, body = lone.get("/readyz")
    assert (status, "bad-0 is damaged at offsets 15 to 15" in body) == (200, True)
    code, output = command(lone.bootstrap, "accept", "bad-0", "--offsets", "15-15")
    assert (code, "offsets 15 to 15 of bad-0 (1 in all) are lost" in output) == (0, True)
    assert listed(lone.bootstrap) == [("bad", 15, 15)], "it was only shown"
    code, output = command(lone.bootstrap, "accept", "bad-0", "--offsets", "15-15", "--execute")
    assert code == 0, output
    everything = [*range(15), *range(16, RECORDS + 5)]
    assert consumed(lone.bootstrap, "bad", 0, RECORDS + 5) == (everything, None)
    lone.kill()
    lone.start()
    assert consumed(lone.bootstrap, "bad", 0, RECORDS + 5) == (everything, None)
    assert listed(lone.bootstrap) == []


def test_replicas_mend_each_other() -> None:
    """A follower that was down repairs its log, and so does the leader while it runs."""
    with BrokerGroup(3) as group:
        create_topic(group.bootstrap, "orders", 1, 3, segment_bytes=SEGMENT_BYTES, min_insync_replicas="2")
        produce(group.bootstrap, "orders", 0, RECORDS)
        partitions = Partitions(group.bootstrap, "orders")
        leads = partitions.leaders()[0]
        leader, follower = group.brokers[leads], group.brokers[(leads + 1) % 3]
        until(lambda: partitions.all_in_sync(3), "all replicas are in sync")
        right = [path.read_bytes() for path in segments(leader, "orders")]
        follower.stop()
        damaged = segments(follower, "orders")[1]
        flip(damaged, 5, 500)
        damaged.with_suffix(".index").unlink()
        follower.start()
        until(lambda: follower.metrics()["sluicegate_log_mended_ranges_total"] == 1, "the follower is mended")
        until(lambda: partitions.all_in_sync(3), "it is in sync")
        assert [path.read_bytes() for path in segments(follower, "orders")] == right
        flip(segments(leader, "orders")[3], 2, 16)
        until(
            lambda: consumed(group.bootstrap, "orders", 32, RECORDS) == (list(range(32, RECORDS)), None),
            "the leader is mended when a consumer has asked for the damaged offset",
        )
        assert leader.metrics()["sluicegate_log_mended_ranges_total"] == 1
        assert [path.read_bytes() for path in segments(leader, "orders")] == right
        assert (partitions.leaders()[0], listed(group.bootstrap)) == (leads, [])
