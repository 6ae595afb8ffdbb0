"""Views of tools on groups of the push protocol, with and without members.

The tools are Apache Kafka's of release 4.3.0, librdkafka's AdminClient and `sluicegate groups`. Groups also change
their protocol and keep their offsets.
"""

import json
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from confluent_kafka import Consumer, ConsumerGroupType, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from typer.testing import CliRunner

from kafka_bytes import own_keys
from kafka_bytes.push import layouts
from kafka_bytes.push.messages import (
    ClusterMetadataRequest,
    PartitionOffset,
    PingResponse,
    RegisterConsumerRequest,
    StartFetcherResponse,
    StopFetcherResponse,
)
from kafka_bytes.push.partition_text import read_partition
from sluicegate_operator.cli.groups import groups as command
from tests.support.processes.broker_process import BrokerProcess
from tests.support.processes.clients.wire_client import WireClient
from tests.support.processes.kafka_tools import KafkaTools

GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
TOPIC, PARTITIONS, RECORDS = "lines", 3, 10
ENDS = [[TOPIC, str(partition), "10", "10", "0"] for partition in range(PARTITIONS)]
"""Topic, partition, committed offset, end and lag, after all records were read."""
DEADLINE_S = 60.0
NONE, UNKNOWN_MEMBER, ILLEGAL_GENERATION = "none", "unknown_member_id", "illegal_generation"
INCONSISTENT_GROUP_PROTOCOL = 23
SETTINGS = {
    "num.partitions": str(PARTITIONS),
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "100",
    "offsets.topic.num.partitions": "2",
}


@pytest.fixture(scope="module")
def broker() -> Iterator[BrokerProcess]:
    with BrokerProcess(properties=SETTINGS) as process:
        producer = Producer({"bootstrap.servers": process.bootstrap})
        for partition in range(PARTITIONS):
            for number in range(RECORDS):
                producer.produce(TOPIC, b"%d" % number, partition=partition)
        assert producer.flush(60) == 0
        yield process


@pytest.fixture(scope="module")
def tools(broker: BrokerProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaTools]:
    with KafkaTools(broker.bootstrap, tmp_path_factory.mktemp("tools")) as tools:
        yield tools


class PushConsumer:
    """A consumer that answers its coordinator on a thread.

    It reports that it has read all its partitions to `offset`.
    """

    def __init__(self, broker: BrokerProcess, group: str, *, auto_commit: bool, name: str = "till-1") -> None:
        self._name = name
        self.started_at: dict[int, int] = {}
        self.has_started, self._leaving = threading.Event(), threading.Event()
        self._told = tuple(PartitionOffset(TOPIC, str(number), RECORDS) for number in range(PARTITIONS))
        self._told_with = self._told if auto_commit else None
        self._client = WireClient(("127.0.0.1", broker.port()))
        self._asked = RegisterConsumerRequest(group, name, f'{{"{TOPIC}": 1}}', auto_commit, "smallest", 600)
        self._answering = threading.Thread(target=self._answer)

    def start(self) -> None:
        while True:
            self._client.send(layouts.CLUSTER_METADATA_REQUEST.write(ClusterMetadataRequest(self._asked.group_id)))
            if not layouts.CLUSTER_METADATA_RESPONSE.read(self._receive()).error_code:
                self._client.send(layouts.REGISTER_CONSUMER_REQUEST.write(self._asked))
                if not layouts.REGISTER_CONSUMER_RESPONSE.read(self._receive()).error_code:
                    break
        self._answering.start()
        assert self.has_started.wait(DEADLINE_S)

    def error_of_registration(self) -> int:
        self._client.send(layouts.REGISTER_CONSUMER_REQUEST.write(self._asked))
        with self._client:
            return layouts.REGISTER_CONSUMER_RESPONSE.read(self._receive()).error_code

    def leave(self) -> None:
        """Leave as documented: after two more pings the coordinator has the last offsets."""
        self._leaving.set()
        self._answering.join()
        self._client.close()

    def _answer(self) -> None:
        pings_left = 2
        while pings_left:
            frame = self._receive()
            (kind,) = struct.unpack_from(">h", frame)
            if kind == own_keys.PING:
                self._client.send(layouts.PING_RESPONSE.write(PingResponse(0, self._name, self._told_with)))
                pings_left -= self._leaving.is_set()
            elif kind == own_keys.STOP_FETCHER:
                told = StopFetcherResponse(0, self._name, self._told_with)
                self._client.send(layouts.STOP_FETCHER_RESPONSE.write(told))
            else:
                start = layouts.START_FETCHER_REQUEST.read(frame)
                parts = [part for thread in start.ownership_info for part in thread.assigned_parts]
                self.started_at = {read_partition(part.partition)[1]: part.offset for part in parts}
                self._client.send(layouts.START_FETCHER_RESPONSE.write(StartFetcherResponse(0, self._name)))
                self.has_started.set()

    def _receive(self) -> memoryview:
        frame = self._client.receive()
        assert frame is not None, "the broker has hung up"
        return memoryview(frame)


@contextmanager
def consuming(
    broker: BrokerProcess, group: str, *, auto_commit: bool = True, name: str = "till-1"
) -> Iterator[PushConsumer]:
    """Run a consumer that owns all partitions, inside the block."""
    consumer = PushConsumer(broker, group, auto_commit=auto_commit, name=name)
    consumer.start()
    try:
        yield consumer
    finally:
        consumer.leave()
        until(lambda: state_of(broker, group) in ("Empty", "Dead"))


def state_of(broker: BrokerProcess, group: str) -> str:
    with WireClient(("127.0.0.1", broker.port())) as client:
        answer = client.ask("describe_groups", 0, groups=[group])
    return str(answer["groups"][0]["group_state"])


def until(holds: Any) -> None:
    deadline_s = time.monotonic() + DEADLINE_S
    while not holds():
        assert time.monotonic() < deadline_s, "it does not happen"


def rows(printed: str, group: str) -> list[list[str]]:
    """Return the cells of a table's lines about the group, sorted by the third cell, the partition if there is one."""
    found = [line.split() for line in printed.splitlines()]
    return sorted((cells for cells in found if cells[:1] == [group]), key=lambda cells: cells[2:3])


def committed(broker: BrokerProcess, group: str) -> dict[int, int]:
    with WireClient(("127.0.0.1", broker.port())) as client:
        answer = client.ask("offset_fetch", 5, group_id=group, topics=None)
    return {
        part["partition_index"]: part["committed_offset"] for each in answer["topics"] for part in each["partitions"]
    }


def commit(broker: BrokerProcess, group: str, member_id: str, offset: int, generation: int = -1) -> str:
    partition = {"partition_index": 0, "committed_offset": offset, "committed_metadata": ""}
    with WireClient(("127.0.0.1", broker.port())) as client:
        answer = client.ask(
            "offset_commit",
            5,
            group_id=group,
            generation_id_or_member_epoch=generation,
            member_id=member_id,
            topics=[{"name": TOPIC, "partitions": [partition]}],
        )
    return str(answer["topics"][0]["partitions"][0]["error_code"])


def everywhere(offset: int) -> dict[int, int]:
    return dict.fromkeys(range(PARTITIONS), offset)


@pytest.mark.full
def test_kafkas_tools_describe_a_live_group_and_cannot_modify_it(broker: BrokerProcess, tools: KafkaTools) -> None:
    group, chosen = "live", ("--group", "live")
    with consuming(broker, group):
        until(lambda: committed(broker, group) == everywhere(10))
        assert group in tools(GROUPS, "--list").split()
        assert rows(tools(GROUPS, "--list", "--state"), group) == [[group, "Stable"]]
        assert [row[1] for row in rows(tools(GROUPS, "--list", "--type"), group)] == ["Classic"]
        offsets = rows(tools(GROUPS, "--describe", *chosen), group)
        assert [row[1:6] for row in offsets] == ENDS
        assert {tuple(row[-3:]) for row in offsets} == {("till-1", "/127.0.0.1", "till-1")}
        (member,) = rows(tools(GROUPS, "--describe", *chosen, "--members", "--verbose"), group)
        assert {"till-1", "/127.0.0.1", str(PARTITIONS), f"{TOPIC}:0,1,2"} <= set(member), member
        (state,) = rows(tools(GROUPS, "--describe", *chosen, "--state", "--verbose"), group)
        assert {"Stable", "push", "1"} <= set(state), state
        reset = ("--reset-offsets", *chosen, "--topic", TOPIC, "--to-earliest", "--execute")
        assert "the current state is Stable" in tools.ended(GROUPS, *reset)[1]
        assert "GroupNotEmptyException" in tools.ended(GROUPS, "--delete", *chosen)[1]
        refused = tools.ended(GROUPS, "--delete-offsets", *chosen, "--topic", TOPIC)[1]
        assert "GroupSubscribedToTopicException" in refused
    (state,) = rows(tools(GROUPS, "--describe", *chosen, "--state"), group)
    assert {"Empty", "0"} <= set(state), state
    tools(GROUPS, "--reset-offsets", *chosen, "--topic", TOPIC, "--to-offset", "4", "--execute")
    assert committed(broker, group) == everywhere(4)
    with consuming(broker, group) as consumer:
        assert consumer.started_at == everywhere(4)
    tools(GROUPS, "--delete-offsets", *chosen, "--topic", f"{TOPIC}:2")
    assert committed(broker, group) == {0: 10, 1: 10}
    assert "successful" in tools(GROUPS, "--delete", *chosen)
    assert group not in tools(GROUPS, "--list").split()


def test_librdkafkas_admin_client_takes_it_for_a_group_of_the_classic_protocol(broker: BrokerProcess) -> None:
    admin, group = AdminClient({"bootstrap.servers": broker.bootstrap}), "admin"

    def listed(kind: ConsumerGroupType) -> set[str]:
        return {each.group_id for each in admin.list_consumer_groups(types={kind}).result().valid}

    with consuming(broker, group):
        assert group in listed(ConsumerGroupType.CLASSIC)
        assert group not in listed(ConsumerGroupType.CONSUMER)
        described = admin.describe_consumer_groups([group])[group].result()
        assert (described.state.name, described.partition_assignor) == ("STABLE", "push")
        (member,) = described.members
        parts = {(each.topic, each.partition) for each in member.assignment.topic_partitions}
        assert (member.member_id, parts) == ("till-1", {(TOPIC, number) for number in range(PARTITIONS)})
        with pytest.raises(KafkaException, match="NON_EMPTY_GROUP"):
            admin.delete_consumer_groups([group])[group].result()
    admin.delete_consumer_groups([group])[group].result()
    assert group not in listed(ConsumerGroupType.CLASSIC)


def test_our_own_command_shows_it_and_resets_it_when_it_is_empty(broker: BrokerProcess) -> None:
    group = "own"

    def run(*arguments: str) -> tuple[int, str, str]:
        done = CliRunner().invoke(command.groups, [*arguments, "--bootstrap-server", broker.bootstrap])
        return done.exit_code, done.stdout, done.stderr

    with consuming(broker, group):
        code, shown, problem = run("describe", group, "--output", "json")
        assert code == 0, problem
        assert "till-1" in json.dumps(json.loads(shown))
        code, _, problem = run("reset", group, "--topic", TOPIC, "--to", "earliest", "--yes")
        assert code != 0, problem
    until(lambda: committed(broker, group) == everywhere(10))
    code, shown, problem = run("list", "--output", "json")
    assert code == 0, problem
    assert group in shown


def test_only_its_consumers_may_commit_for_a_group_and_none_that_has_left(broker: BrokerProcess) -> None:
    group = "commits"
    with consuming(broker, group, auto_commit=False):
        assert commit(broker, group, "till-1", 3) == NONE
        assert commit(broker, group, "till-1", 4, generation=1) == ILLEGAL_GENERATION
        assert commit(broker, group, "till-2", 4) == UNKNOWN_MEMBER
        assert commit(broker, group, "", 4) == UNKNOWN_MEMBER
        assert committed(broker, group) == {0: 3}
    with consuming(broker, group, auto_commit=False, name="till-2") as consumer:
        assert consumer.started_at == {0: 3, 1: -2, 2: -2}
        assert commit(broker, group, "till-1", 6) == UNKNOWN_MEMBER
        assert commit(broker, group, "till-2", 7) == NONE
    until(lambda: commit(broker, group, "", 5) == NONE)
    assert committed(broker, group) == {0: 5}, "an empty group takes what it is given, as in Kafka"


@pytest.mark.full
def test_a_group_goes_from_push_to_classic_to_consumer_and_back_with_its_offsets(broker: BrokerProcess) -> None:
    group = "wanderers"
    with consuming(broker, group):
        until(lambda: committed(broker, group) == everywhere(10))
        for protocol in ("classic", "consumer"):
            other = subscribed(broker, group, protocol)
            with pytest.raises(KafkaException):
                refused_by(other)
            other.close()
    for number, protocol in ((RECORDS - 1, "classic"), (RECORDS - 2, "consumer")):
        other = subscribed(broker, group, protocol)
        until(lambda other=other: other.poll(0.05) is None and len(other.assignment()) == PARTITIONS)
        assert {each.offset for each in other.committed(other.assignment())} == {number + 1}
        newcomer = PushConsumer(broker, group, auto_commit=True)
        assert newcomer.error_of_registration() == INCONSISTENT_GROUP_PROTOCOL
        other.commit(offsets=[TopicPartition(TOPIC, each, number) for each in range(PARTITIONS)], asynchronous=False)
        other.close()
    with consuming(broker, group) as consumer:
        assert consumer.started_at == everywhere(RECORDS - 2)


def subscribed(broker: BrokerProcess, group: str, protocol: str) -> Consumer:
    settings = {"group.id": group, "group.protocol": protocol, "enable.auto.commit": False}
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, **settings})
    consumer.subscribe([TOPIC])
    return consumer


def refused_by(consumer: Consumer) -> None:
    """Poll until the consumer receives the error that the group has other members."""
    deadline_s = time.monotonic() + DEADLINE_S
    while time.monotonic() < deadline_s:
        message = consumer.poll(0.1)
        if message is not None and message.error() is not None:
            raise KafkaException(message.error())
