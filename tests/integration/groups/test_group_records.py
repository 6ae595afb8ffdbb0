"""This project's __consumer_offsets equals Apache Kafka's: its tool reads our segment, and we read its segment."""

import json
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from broker_runtime.clock import SystemClock
from broker_runtime.config import TopicConfig
from broker_runtime.groups.record_codec import decode, encode
from broker_runtime.groups.records import (
    ClassicMember,
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
    GroupMetadataKey,
    GroupMetadataValue,
    GroupRecord,
    OffsetCommitKey,
    OffsetCommitValue,
)
from broker_runtime.storage.disk.filesystem import OsFileSystem
from broker_runtime.storage.log_dir.manager import LogManager
from broker_runtime.storage.records.batch import iter_batches, iter_records
from kafka_bytes.batches import encode_batch
from tests.support.obtain.java import java
from tests.support.obtain.kafka_libs import kafka_libs
from tests.support.processes.apache_kafka import ApacheKafka

pytestmark = pytest.mark.full

OFFSETS = "__consumer_offsets"
PARTITIONS = 3
DEADLINE_S = 60.0
SETTINGS = {
    "offsets.topic.num.partitions": "1",
    "num.partitions": str(PARTITIONS),
    # Members are notified soon of partitions that they have to revoke.
    "group.consumer.heartbeat.interval.ms": "200",
    "group.consumer.min.heartbeat.interval.ms": "200",
    "group.consumer.assignment.interval.ms": "0",
}
ORDERS = UUID(int=7)
ORDERS_JSON = "AAAAAAAAAAAAAAAAAAAABw"
ORDER_0 = OffsetCommitKey("g", "orders", 0)
ORDER_0_JSON = {"group": "g", "topic": "orders", "partition": 0}
CLASSIC = GroupMetadataKey("g")
CLASSIC_MEMBER = ClassicMember("m-1", "i-1", "till", "/127.0.0.1", 20, 10, b"s", b"a")
OF_CLASSIC = ClassicMemberMetadata(45_000, (ClassicProtocol("range", b"meta"),))
MEMBER_JSON = {"groupId": "k", "memberId": "m"}

Shown = tuple[int, Any, int, Any]
"""Type and fields of a key, version and fields of a value, as printed by the tool."""

OURS: list[tuple[GroupRecord, Shown]] = [
    (
        GroupRecord(ORDER_0, OffsetCommitValue(42, 9, "mé", 1000)),
        (1, ORDER_0_JSON, 4, {"offset": 42, "leaderEpoch": 9, "metadata": "mé", "commitTimestamp": 1000}),
    ),
    (
        GroupRecord(ORDER_0, OffsetCommitValue(42, -1, "m" * 200, 1000, None, ORDERS)),
        (
            1,
            ORDER_0_JSON,
            4,
            {"offset": 42, "leaderEpoch": -1, "metadata": "m" * 200, "commitTimestamp": 1000, "topicId": ORDERS_JSON},
        ),
    ),
    (
        GroupRecord(ORDER_0, OffsetCommitValue(42, -1, "", 1000, 2000)),
        (1, ORDER_0_JSON, 1, {"offset": 42, "metadata": "", "commitTimestamp": 1000, "expireTimestamp": 2000}),
    ),
    (
        GroupRecord(CLASSIC, GroupMetadataValue("consumer", 3, "range", "m-1", 99, (CLASSIC_MEMBER,))),
        (
            2,
            {"group": "g"},
            3,
            {
                "protocolType": "consumer",
                "generation": 3,
                "protocol": "range",
                "leader": "m-1",
                "currentStateTimestamp": 99,
                "members": [
                    {
                        "memberId": "m-1",
                        "groupInstanceId": "i-1",
                        "clientId": "till",
                        "clientHost": "/127.0.0.1",
                        "rebalanceTimeout": 20,
                        "sessionTimeout": 10,
                        "subscription": "cw==",
                        "assignment": "YQ==",
                    }
                ],
            },
        ),
    ),
    (
        GroupRecord(CLASSIC, GroupMetadataValue("", 0, None, None, -1, ())),
        (
            2,
            {"group": "g"},
            3,
            {
                "protocolType": "",
                "generation": 0,
                "protocol": None,
                "leader": None,
                "currentStateTimestamp": -1,
                "members": [],
            },
        ),
    ),
    (
        GroupRecord(ConsumerGroupMetadataKey("k"), ConsumerGroupMetadataValue(4, -77)),
        (3, {"groupId": "k"}, 0, {"epoch": 4, "metadataHash": -77}),
    ),
    (
        GroupRecord(
            ConsumerGroupMemberMetadataKey("k", "m"),
            ConsumerGroupMemberMetadataValue("i", "r", "c", "/h", ("a", "b"), "^o.*", 9, "uniform", OF_CLASSIC),
        ),
        (
            5,
            MEMBER_JSON,
            0,
            {
                "instanceId": "i",
                "rackId": "r",
                "clientId": "c",
                "clientHost": "/h",
                "subscribedTopicNames": ["a", "b"],
                "subscribedTopicRegex": "^o.*",
                "rebalanceTimeoutMs": 9,
                "serverAssignor": "uniform",
                "classicMemberMetadata": {
                    "sessionTimeoutMs": 45_000,
                    "supportedProtocols": [{"name": "range", "metadata": "bWV0YQ=="}],
                },
            },
        ),
    ),
    (
        GroupRecord(ConsumerGroupTargetAssignmentMetadataKey("k"), ConsumerGroupTargetAssignmentMetadataValue(4, 1234)),
        (6, {"groupId": "k"}, 0, {"assignmentEpoch": 4, "assignmentTimestamp": 1234}),
    ),
    (
        GroupRecord(
            ConsumerGroupTargetAssignmentMemberKey("k", "m"), ConsumerGroupTargetAssignmentMemberValue({ORDERS: (0, 1)})
        ),
        (7, MEMBER_JSON, 0, {"topicPartitions": [{"topicId": ORDERS_JSON, "partitions": [0, 1]}]}),
    ),
    (
        GroupRecord(
            ConsumerGroupCurrentMemberAssignmentKey("k", "m"),
            ConsumerGroupCurrentMemberAssignmentValue(4, 3, 1, {ORDERS: (0,)}, {ORDERS: (1,)}, {ORDERS: (3,)}),
        ),
        (
            8,
            MEMBER_JSON,
            0,
            {
                "memberEpoch": 4,
                "previousMemberEpoch": 3,
                "state": 1,
                "assignedPartitions": [{"topicId": ORDERS_JSON, "partitions": [0], "assignmentEpochs": [3]}],
                "partitionsPendingRevocation": [{"topicId": ORDERS_JSON, "partitions": [1]}],
            },
        ),
    ),
    (
        GroupRecord(
            ConsumerGroupRegularExpressionKey("k", "^o.*"), ConsumerGroupRegularExpressionValue(("orders",), 5, 1000)
        ),
        (
            16,
            {"groupId": "k", "regularExpression": "^o.*"},
            0,
            {"topics": ["orders"], "version": 5, "timestamp": 1000},
        ),
    ),
]


def test_apache_kafkas_tool_reads_every_type_of_ours(tmp_path: Path) -> None:
    tombstones = [GroupRecord(record.key, None) for record, _ in OURS]
    tombstones.append(GroupRecord(ConsumerGroupPartitionMetadataKey("k"), None))
    logs = LogManager(tmp_path, fs=OsFileSystem(), clock=SystemClock())
    logs.open(lambda _: TopicConfig())
    log = logs.create(OFFSETS, 0, ORDERS, TopicConfig())
    for record in (*(record for record, _ in OURS), *tombstones):
        log.append(memoryview(encode_batch([encode(record)], 1000)), leader_epoch=0)
    logs.close()

    segment = tmp_path / f"{OFFSETS}-0" / "00000000000000000000.log"
    tool = ["org.apache.kafka.tools.DumpLogSegments", "--offsets-decoder", "--files", str(segment)]
    command = [
        java(),
        "-Xmx128m",
        "-Dfile.encoding=UTF-8",
        "-Dstdout.encoding=UTF-8",
        "-cp",
        f"{kafka_libs()}/*",
        *tool,
    ]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", timeout=180, check=True)
    lines = [line for line in done.stdout.splitlines() if line.startswith("| offset:")]
    assert [shown(line) for line in lines[: len(OURS)]] == [expected for _, expected in OURS], done.stdout
    gone = [(expected[0], expected[1]) for _, expected in OURS] + [(4, {"groupId": "k"})]
    assert [shown(line)[:2] for line in lines[len(OURS) :]] == gone
    assert all(line.endswith("payload: <DELETE>") for line in lines[len(OURS) :])


def shown(line: str) -> Shown:
    key, _, payload = line.partition(" key: ")[2].partition(" payload: ")
    found = json.loads(key)
    value: dict[str, Any] = json.loads(payload) if payload != "<DELETE>" else {"version": "-1", "data": None}
    return int(found["type"]), found["data"], int(value["version"]), value["data"]


def test_what_apache_kafka_wrote_is_read_and_written_again_byte_by_byte() -> None:
    with ApacheKafka(properties=SETTINGS) as kafka:
        use_groups(kafka.bootstrap)
        kafka.stop()
        (segment,) = (kafka.folder / "data" / f"{OFFSETS}-0").glob("*.log")
        data = segment.read_bytes()
    seen: Counter[tuple[str, bool]] = Counter()
    for _, batch in iter_batches(data):
        for item in iter_records(batch):
            record = decode(item.key, item.value)
            assert record is not None, item
            assert encode(record) == (item.key, item.value), record
            seen[type(record.key).__name__, record.value is None] += 1
    alive = {name for name, is_tombstone in seen if not is_tombstone}
    assert alive == {type(record.key).__name__ for record, _ in OURS}
    assert {name for name, is_tombstone in seen if is_tombstone} >= alive - {"ConsumerGroupRegularExpressionKey"}


def use_groups(bootstrap: str) -> None:
    """Make Apache Kafka write records of each type, and their tombstones."""
    producer = Producer({"bootstrap.servers": bootstrap})
    producer.produce("orders", b"1", partition=0)
    assert producer.flush(60) == 0
    classic = joined(bootstrap, "classic", "classic", ["orders"], **{"group.instance.id": "till-1"})
    classic.commit(offsets=[TopicPartition("orders", 0, 1, metadata="half a line")], asynchronous=False)
    classic.close()
    left = joined(bootstrap, "left", "classic", ["orders"])
    left.commit(offsets=[TopicPartition("orders", 1, 0)], asynchronous=False)
    left.close()

    static = joined(bootstrap, "static", "consumer", ["orders"], **{"group.instance.id": "till-2", "client.rack": "r"})
    static.close()
    modern = joined(bootstrap, "modern", "consumer", ["orders"])
    # A member of the old protocol in a group of the new one, and one with a regular expression.
    old = consumer(bootstrap, "modern", "classic")
    old.subscribe(["orders"])
    other = consumer(bootstrap, "modern", "consumer")
    other.subscribe(["^ord.*"])
    members = (modern, old, other)
    until(members, lambda: sorted(len(member.assignment()) for member in members) == [1, 1, 1])
    (owned,) = modern.assignment()
    modern.commit(offsets=[TopicPartition("orders", owned.partition, 1)], asynchronous=False)
    for member in members:
        member.close()

    admin = AdminClient({"bootstrap.servers": bootstrap})
    for deleted in admin.delete_consumer_groups(["left", "modern"]).values():
        deleted.result(60)
    simple = ConsumerGroupTopicPartitions("simple", [TopicPartition("orders", 2, 5)])
    for altered in admin.alter_consumer_group_offsets([simple]).values():
        altered.result(60)


def consumer(bootstrap: str, group: str, protocol: str, **more: str) -> Consumer:
    settings = {"group.id": group, "group.protocol": protocol, "enable.auto.commit": "false", **more}
    return Consumer({"bootstrap.servers": bootstrap, **settings})


def joined(bootstrap: str, group: str, protocol: str, topics: list[str], **more: str) -> Consumer:
    """Return the first member of its group, with all partitions."""
    member = consumer(bootstrap, group, protocol, **more)
    member.subscribe(topics)
    until((member,), lambda: len(member.assignment()) == PARTITIONS)
    return member


def until(members: tuple[Consumer, ...], holds: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + DEADLINE_S
    while not holds():
        assert time.monotonic() < deadline_s, [member.assignment() for member in members]
        for member in members:
            message = member.poll(0.05)
            assert message is None or message.error() is None, message.error()
