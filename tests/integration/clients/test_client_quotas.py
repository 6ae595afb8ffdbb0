"""Client quotas against a running broker: throttle times, muted connections, and ordinary clients that are slowed."""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from kafka import KafkaProducer

from tests.integration.differential.scripts.batches import Batch
from tests.support.processes.broker_process import BrokerGroup, BrokerProcess
from tests.support.processes.clients.wire_client import WireClient

WINDOWS = {"quota.window.num": "2", "controller.quota.window.num": "10"}
TOPIC, FETCHED, CONSUMED = "quotas", "fetched", "consumed"
NOW_MS = int(time.time() * 1000)
Answer = dict[str, Any]


@pytest.fixture(scope="module")
def broker() -> Iterator[BrokerProcess]:
    with BrokerProcess(properties={"num.partitions": "1", **WINDOWS}) as process:
        with WireClient(("127.0.0.1", process.port())) as client:
            create(client, 7, TOPIC, 1, FETCHED, 1, CONSUMED, 1)
            for name in (TOPIC, FETCHED, CONSUMED):
                metadata(client, name)
        yield process


def connect(broker: BrokerProcess, client_id: str) -> WireClient:
    return WireClient(("127.0.0.1", broker.port()), client_id=client_id)


def limit(broker: BrokerProcess, key: str, value: float | None, **entity: str | None) -> None:
    """Set a quota of the entity, whose types have an underscore for a hyphen, and wait until it is in force."""
    parts = [{"entity_type": kind.replace("_", "-"), "entity_name": name} for kind, name in entity.items()]
    entry = {"entity": parts, "ops": [{"key": key, "value": value or 0.0, "remove": value is None}]}
    with connect(broker, "admin") as client:
        (result,) = client.ask("alter_client_quotas", 1, entries=[entry], validate_only=False)["entries"]
        assert result["error_code"] == "none", result
        while True:
            found = client.ask("describe_client_quotas", 1, components=[], strict=False)["entries"]
            values = {
                frozenset((part["entity_type"], part["entity_name"]) for part in one["entity"]): {
                    value["key"]: value["value"] for value in one["values"]
                }
                for one in found
            }
            key_of = frozenset((part["entity_type"], part["entity_name"]) for part in parts)
            if values.get(key_of, {}).get(key) == value:
                return


def create(client: WireClient, version: int, *names: str | int) -> Answer:
    """Create topics, each given by its name and its number of partitions."""
    topics: list[dict[str, Any]] = [
        {
            "name": name,
            "num_partitions": count,
            "replication_factor": 1,
            "assignments": [],
            "configs": [],
        }
        for name, count in zip(names[::2], names[1::2], strict=True)
    ]
    return client.ask("create_topics", version, topics=topics, timeout=30_000, validate_only=False)


def codes(answer: Answer, field: str) -> list[str]:
    return [each["error_code"] for each in answer[field]]


def metadata(client: WireClient, topic: str = TOPIC) -> Answer:
    """Return the metadata once the topic has a leader."""
    while True:
        fields: dict[str, Any] = {"topics": [{"name": topic}], "allow_auto_topic_creation": False}
        answer = client.ask("metadata", 7, **fields)
        (found,) = answer["topics"]
        if found["partitions"] and all(part["error_code"] == "none" for part in found["partitions"]):
            return answer


def produce(client: WireClient, size: int, topic: str = TOPIC, index: int = 0) -> Answer:
    """Produce one batch of about `size` bytes. A broker leads a new partition a moment after it has announced it."""
    records = Batch(NOW_MS, value=b"x" * size).encode()
    data = {"name": topic, "partition_data": [{"index": index, "records": records}]}
    while True:
        answer = client.ask("produce", 9, transactional_id=None, acks=1, timeout=30_000, topic_data=[data])
        if answer["responses"][0]["partition_responses"][0]["error_code"] == "none":
            return answer


def fetch(client: WireClient, session: tuple[int, int] = (0, -1), offset: int = 0) -> Answer:
    part = {"partition": 0, "fetch_offset": offset, "partition_max_bytes": 1 << 20, "current_leader_epoch": -1}
    return client.ask(
        "fetch",
        12,
        max_wait=0,
        min_bytes=0,
        max_bytes=1 << 20,
        session_id=session[0],
        session_epoch=session[1],
        isolation_level=0,
        topics=[{"topic": FETCHED, "partitions": [part]}] if session[1] <= 0 else [],
        forgotten_topics_data=[],
    )


def test_produce_over_the_quota_is_appended_and_the_connection_muted(broker: BrokerProcess) -> None:
    limit(broker, "producer_byte_rate", 20_000, client_id="heavy")
    with connect(broker, "heavy") as client, connect(broker, "light") as other:
        answer = produce(client, 30_000)
        # (30,000 - 20,000) / 20,000 of the window of a second, and some bytes for the headers.
        assert answer["throttle_time"] == pytest.approx(500, abs=30)
        began_s = time.monotonic()
        metadata(client)
        assert time.monotonic() - began_s == pytest.approx(0.5, abs=0.3)
        assert produce(other, 60_000)["throttle_time"] == 0
    limit(broker, "producer_byte_rate", None, client_id="heavy")


def test_a_fetch_over_the_quota_is_empty_and_its_session_continues(broker: BrokerProcess) -> None:
    with connect(broker, "filler") as client:
        for _ in range(3):
            produce(client, 60_000, FETCHED)
    limit(broker, "consumer_byte_rate", 80_000, client_id=None)
    with connect(broker, "reader") as client:
        first = fetch(client, (0, 0))
        assert first["throttle_time"] == 0
        session = first["session_id"]
        assert session
        # A fetch is limited to the bytes of one window: it has one batch.
        assert 60_000 < sum(len(part["records"]) for one in first["responses"] for part in one["partitions"]) <= 80_000
        second = fetch(client, (session, 1))
        assert second["throttle_time"] > 0
        assert (second["error_code"], second["session_id"], second["responses"]) == ("none", session, [])
        third = fetch(client, (session, 2))
        assert third["error_code"] == "none"
        while not third["responses"]:
            third = fetch(client, (0, -1))
        (part,) = third["responses"][0]["partitions"]
        assert len(part["records"]) > 60_000
    limit(broker, "consumer_byte_rate", None, client_id=None)


@pytest.mark.parametrize("with_session", [False, True])
def test_a_fetch_of_many_partitions_is_throttled_as_a_whole(broker: BrokerProcess, with_session: bool) -> None:
    topic, count, client_id = f"many-{with_session}", 60, f"reader of many, {with_session}"
    with connect(broker, "filler") as client:
        create(client, 7, topic, count)
        metadata(client, topic)
        for index in (3, 50):
            produce(client, 30_000, topic, index)

    def read(client: WireClient, session: tuple[int, int]) -> tuple[Answer, dict[int, int]]:
        parts = [
            {"partition": index, "fetch_offset": 0, "partition_max_bytes": 1 << 20, "current_leader_epoch": -1}
            for index in range(count)
        ]
        names = [{"topic": topic, "partitions": parts}] if session[1] <= 0 else []
        answer = client.ask(
            "fetch",
            12,
            max_wait=0,
            min_bytes=0,
            max_bytes=1 << 20,
            session_id=session[0],
            session_epoch=session[1],
            isolation_level=0,
            topics=names,
            forgotten_topics_data=[],
        )
        sizes = {
            part["partition_index"]: len(part["records"] or b"")
            for one in answer["responses"]
            for part in one["partitions"]
        }
        return answer, sizes

    limit(broker, "consumer_byte_rate", 80_000, client_id=client_id)
    with connect(broker, client_id) as client:
        first, sizes = read(client, (0, 0 if with_session else -1))
        assert (len(sizes), {index for index, size in sizes.items() if size}) == (count, {3, 50})
        epoch = 1 if with_session else -1
        throttled, sizes = read(client, (first["session_id"], epoch))
        assert (throttled["error_code"], sizes) == ("none", {})
        assert throttled["throttle_time"] > 0
        while not sizes:
            epoch = epoch + 1 if with_session else -1
            answer, sizes = read(client, (first["session_id"], epoch))
            assert answer["error_code"] == "none"
        assert len(sizes) == (2 if with_session else count)
        assert {index for index, size in sizes.items() if size} == {3, 50}
    limit(broker, "consumer_byte_rate", None, client_id=client_id)


def test_creating_topics_is_strict_or_permissive_by_version(broker: BrokerProcess) -> None:
    limit(broker, "controller_mutation_rate", 2, user="ANONYMOUS", client_id="strict")
    limit(broker, "controller_mutation_rate", 2, user="ANONYMOUS", client_id="permissive")
    with connect(broker, "strict") as client:
        answer = create(client, 6, "s1", 30, "s2", 30)
        assert sorted(codes(answer, "topics")) == ["none", "throttling_quota_exceeded"]
        assert answer["throttle_time"] == pytest.approx(5000, abs=200)
    with connect(broker, "permissive") as client:
        answer = create(client, 5, "p1", 30, "p2", 30)
        assert codes(answer, "topics") == ["none", "none"]
        assert answer["throttle_time"] == pytest.approx(20_000, abs=200)
    with connect(broker, "unlimited") as client:
        answer = create(client, 6, "u1", 30, "u2", 30)
        assert (codes(answer, "topics"), answer["throttle_time"]) == (["none", "none"], 0)
        answer = client.ask("delete_topics", 5, topic_names=["u1", "u2"], timeout=30_000)
        assert (codes(answer, "responses"), answer["throttle_time"]) == (["none", "none"], 0)
    for name in ("strict", "permissive"):
        limit(broker, "controller_mutation_rate", None, user="ANONYMOUS", client_id=name)


def test_request_time_over_the_quota_throttles_all_requests(broker: BrokerProcess) -> None:
    limit(broker, "request_percentage", 0.001, user="ANONYMOUS", client_id="busy")
    with connect(broker, "busy") as client:
        found = [metadata(client)["throttle_time"] for _ in range(2)]
        assert 0 < max(found) <= 1000
        versions = client.ask("api_versions", 3, client_software_name="a", client_software_version="1")
        assert versions["throttle_time"] > 0
        fields: dict[str, Any] = {"topics": None, "allow_auto_topic_creation": False}
        assert client.ask("metadata", 7, **fields)["throttle_time"] > 0
        assert create(client, 6, TOPIC, 1)["throttle_time"] > 0
    limit(broker, "request_percentage", None, user="ANONYMOUS", client_id="busy")
    with connect(broker, "busy") as client:
        assert metadata(client)["throttle_time"] == 0


SECONDS = 15.0
RATE = 200_000
Arrived = list[tuple[float, int]]


def produce_with_confluent(broker: BrokerProcess, arrived: Arrived, until_s: float) -> None:
    settings = {"client.id": "confluent", "linger.ms": 5, "batch.size": 20_000, "queue.buffering.max.kbytes": 1024}
    producer = Producer({"bootstrap.servers": broker.bootstrap, **settings})
    while time.monotonic() < until_s:
        try:
            producer.produce(
                TOPIC, b"x" * 1000, partition=0, on_delivery=lambda error, _: None if error else note(arrived)
            )
        except BufferError:
            producer.poll(0.05)
        producer.poll(0)
    producer.purge()
    producer.flush(5)


def produce_with_kafka_python(broker: BrokerProcess, arrived: Arrived, until_s: float) -> None:
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap, client_id="kafka-python", batch_size=20_000)
    while time.monotonic() < until_s:
        sent = [producer.send(TOPIC, b"x" * 1000, partition=0) for _ in range(100)]
        for future in sent:
            future.get(30)
            note(arrived)
    producer.close(timeout=0)


def consume_with_confluent(broker: BrokerProcess, arrived: Arrived, until_s: float) -> None:
    settings = {"client.id": "reader", "group.id": "unused", "enable.auto.commit": False}
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "fetch.message.max.bytes": 20_000, **settings})
    consumer.assign([TopicPartition(CONSUMED, 0, 0)])
    while time.monotonic() < until_s:
        message = consumer.poll(0.1)
        if message is not None:
            arrived.append((time.monotonic(), len(message)))
    consumer.close()


def note(arrived: Arrived) -> None:
    arrived.append((time.monotonic(), 1000))


@pytest.mark.full
def test_ordinary_clients_keep_the_quota_within_a_tenth(broker: BrokerProcess) -> None:
    with connect(broker, "filler") as client:
        for _ in range(200):
            produce(client, 20_000, CONSUMED)
    limit(broker, "producer_byte_rate", RATE, client_id=None)
    limit(broker, "consumer_byte_rate", RATE, user=None, client_id="reader")
    clients = (produce_with_confluent, produce_with_kafka_python, consume_with_confluent)
    arrived: list[Arrived] = [[] for _ in clients]
    begin_s = time.monotonic()
    with ThreadPoolExecutor(len(clients)) as threads:
        for run, found in zip(clients, arrived, strict=True):
            threads.submit(run, broker, found, begin_s + SECONDS)
    rates = {run.__name__: kept_rate(found, begin_s) for run, found in zip(clients, arrived, strict=True)}
    assert rates == pytest.approx(dict.fromkeys(rates, RATE), rel=0.1)
    limit(broker, "producer_byte_rate", None, client_id=None)
    limit(broker, "consumer_byte_rate", None, user=None, client_id="reader")


def kept_rate(arrived: Arrived, begin_s: float) -> float:
    """Return bytes a second after the burst that a new bucket admits at once."""
    later = [(at, size) for at, size in arrived if at >= begin_s + 2]
    return sum(size for _, size in later[1:]) / (later[-1][0] - later[0][0])


def test_metrics_show_who_was_throttled(broker: BrokerProcess) -> None:
    limit(broker, "producer_byte_rate", 10_000, client_id="shown")
    with connect(broker, "shown") as client:
        assert produce(client, 60_000)["throttle_time"] > 0
    _, text = broker.get("/metrics")
    assert 'sluicegate_client_quota_throttled_requests_total{quota="produce"}' in text
    shown = [line for line in text.splitlines() if line.startswith("kafka_server_produce_byte_rate{")]
    assert any('client_id="shown"' in line for line in shown), shown
    limit(broker, "producer_byte_rate", None, client_id="shown")


def test_brokers_share_the_tokens_of_their_controller_and_a_restart_keeps_the_quotas() -> None:
    with BrokerGroup(brokers=2) as group:
        one, other = group.brokers
        limit(one, "controller_mutation_rate", 2, client_id=None)
        limit(one, "producer_byte_rate", 20_000, client_id="heavy")
        for broker in group.brokers:
            until_described(broker, 2)
        with connect(one, "app") as client, connect(other, "app") as second:
            answer = create(client, 6, "wide", 30)
            assert (codes(answer, "topics"), answer["throttle_time"]) == (["none"], 0)
            answer = create(second, 6, "wider", 1)
            assert codes(answer, "topics") == ["throttling_quota_exceeded"]
            assert answer["throttle_time"] == pytest.approx(4000, abs=2000)
        with connect(one, "another app") as client:
            assert codes(create(client, 6, TOPIC, 1), "topics") == ["none"]
            (led,) = metadata(client)["topics"][0]["partitions"]
        leader = group.brokers[[broker.node_id for broker in group.brokers].index(led["leader_id"])]
        assert leader.stop() == 0
        leader.start()
        with connect(leader, "heavy") as client:
            metadata(client)
            assert produce(client, 300_000)["throttle_time"] > 0


def until_described(broker: BrokerProcess, count: int) -> None:
    """Wait until the broker has this number of quotas in its metadata."""
    with connect(broker, "admin") as client:
        while len(client.ask("describe_client_quotas", 1, components=[], strict=False)["entries"]) != count:
            pass
