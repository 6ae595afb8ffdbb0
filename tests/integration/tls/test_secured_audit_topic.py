"""The audit pipeline's clients on a listener with SASL_SSL, by one file of Kafka's client properties."""

import logging
from collections.abc import Iterator
from time import time_ns

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from audit_pipeline.ingest.audit_topic import EventRecord, TopicPlace
from audit_pipeline.ingest.client_config import read_client_properties
from audit_pipeline.ingest.kafka_events import KafkaEvents, TopicReader
from audit_pipeline.jobs.session import spark_session
from audit_pipeline.sources.connector import connector_config
from audit_pipeline.sources.kafka_topic import KafkaRecords
from tests.support.obtain.spark_kafka import spark_kafka_libs
from tests.support.processes.broker_process import BrokerProcess
from tests.support.tls.secure_broker import LISTENER, PREFIX, TlsWorld

PATIENCE_S = 60
MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
PASSWORD = "hidden=password"


@pytest.fixture(scope="module")
def broker(world: TlsWorld) -> Iterator[BrokerProcess]:
    properties = {
        **world.properties(),
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SECURE:SASL_SSL",
        "sasl.enabled.mechanisms": "PLAIN",
        f"{PREFIX}plain.sasl.jaas.config": f'{MODULE} required user_anna="{PASSWORD}";',
    }
    with BrokerProcess(listeners=[LISTENER], properties=properties) as process:
        yield process


@pytest.fixture
def place(broker: BrokerProcess, world: TlsWorld, request: pytest.FixtureRequest) -> TopicPlace:
    """A new topic, and how to connect to it."""
    topic = request.node.name
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(PATIENCE_S)
    path = world.folder / "client.properties"
    path.write_text(
        "security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\n"
        f'sasl.jaas.config={MODULE} required username="anna" password="{PASSWORD}";\n'
        f"ssl.truststore.type=PEM\nssl.truststore.location={world.trusted}\n"
    )
    return TopicPlace.of(f"kafka:{broker.host}:{broker.port(LISTENER)}/{topic}", read_client_properties(path))


def put(place: TopicPlace) -> None:
    topic = KafkaEvents(place, timeout_s=PATIENCE_S)
    topic.put([EventRecord(b"key", b"{}", time_ns() // 1_000_000)] * 3)
    topic.flush()


def test_events_are_put_and_read(place: TopicPlace, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    put(place)
    with TopicReader(place) as reader:
        assert reader.bounds() == {0: (0, 3)}
    assert PASSWORD not in caplog.text


@pytest.mark.full
def test_spark_reads_them(place: TopicPlace, capfd: pytest.CaptureFixture[str]) -> None:
    spark_kafka_libs()
    put(place)
    with spark_session("secured topic", connector_config()) as spark:
        frame = KafkaRecords(spark, place).frame({0: 0}, {0: 3})
        frame.explain(extended=True)
        assert [row.value for row in frame.collect()] == ["{}"] * 3
    shown = capfd.readouterr()
    assert PASSWORD not in shown.out + shown.err
