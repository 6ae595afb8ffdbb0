"""Apache Kafka's keys without a meaning here: existing configuration works, and typing errors stay refused."""

import pytest

from broker_runtime.config import BROKER_KEYS, TOPIC_KEYS, TopicConfig, broker_key, broker_settings, parse_properties
from broker_runtime.config.declaring.unused import unused_keys
from broker_runtime.config.in_force.effective import effective_config
from broker_runtime.errors import ConfigError

KAFKAS_FILE = """
# What Apache Kafka 4.3 comes with.
process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers=localhost:9093
listeners=PLAINTEXT://:9092,CONTROLLER://:9093
inter.broker.listener.name=PLAINTEXT
advertised.listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL
num.network.threads=3
num.io.threads=8
socket.send.buffer.bytes=102400
socket.receive.buffer.bytes=102400
socket.request.max.bytes=104857600
log.dirs=/tmp/kraft-combined-logs
num.partitions=1
num.recovery.threads.per.data.dir=1
offsets.topic.replication.factor=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
log.retention.hours=168
log.segment.bytes=1073741824
log.retention.check.interval.ms=300000
"""
ONE = {"node.id": "1"}


def test_apache_kafkas_own_file_is_fine_and_what_it_does_not_change_is_known() -> None:
    settings = broker_settings(parse_properties(KAFKAS_FILE, "server.properties"))
    assert settings.log_dir == "/tmp/kraft-combined-logs"
    assert [endpoint.listener for endpoint in settings.client_listeners] == ["PLAINTEXT"]
    assert settings.unused == (
        "num.recovery.threads.per.data.dir",
        "share.coordinator.state.topic.min.isr",
        "share.coordinator.state.topic.replication.factor",
    )


def test_a_key_is_used_or_not() -> None:
    assert not BROKER_KEYS.keys() & unused_keys("broker").keys()
    assert not TOPIC_KEYS.keys() & unused_keys("topic").keys()
    assert all(key.used for key in (*BROKER_KEYS.values(), *TOPIC_KEYS.values()))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("offsets.topic.replication.facto", "1"),
        ("offsets.topic.replication.factor", "one"),
        ("log.cleaner.enable", "maybe"),
        ("listener.name.plaintext.offsets.topic.num.partitions", "3"),
        ("listener.name.nope.ssl.keystore.location", "/k"),
        ("controller.quorum.voters", "localhost:9093"),
        ("controller.quorum.voters", "one@localhost:9093"),
        ("listener.security.protocol.map", "SSL"),
    ],
)
def test_mistakes_are_refused_as_before(key: str, value: str) -> None:
    with pytest.raises(ConfigError):
        broker_settings({**ONE, key: value})


@pytest.mark.parametrize("key", ["ssl.provider", "sasl.login.class", "gssapi.sasl.login.class"])
def test_keys_of_a_listener(key: str) -> None:
    assert broker_settings({**ONE, f"listener.name.plaintext.{key}": "x"}).unused == (f"listener.name.plaintext.{key}",)


def test_passwords_are_sensitive() -> None:
    sensitive = {key.name for key in BROKER_KEYS.values() if key.sensitive}
    assert sensitive >= {"ssl.key.password", "ssl.keystore.key", "ssl.truststore.certificates"}
    jaas = broker_key("listener.name.x.plain.sasl.jaas.config")
    assert jaas is not None
    assert jaas.sensitive


def test_keys_of_kafka_that_say_the_same_as_another() -> None:
    assert broker_settings({**ONE, "log.dir": "/d"}).log_dir == "/d"
    assert broker_settings({**ONE, "log.dir": "/d", "log.dirs": "/e"}).log_dir == "/e"
    voters = {**ONE, "process.roles": "broker", "controller.quorum.voters": "1@a:9093,2@[::1]:9094"}
    assert [str(server) for server in broker_settings(voters).quorum] == ["a:9093", "[::1]:9094"]
    both = {**voters, "controller.quorum.bootstrap.servers": "b:1"}
    assert [str(server) for server in broker_settings(both).quorum] == ["b:1"]


def test_stored_values_of_keys_that_are_not_used_are_no_problem() -> None:
    effective = effective_config(broker_settings(ONE), {"num.replica.fetchers": "2"}, {"ssl.provider": "/k"})
    assert effective.ignored == ()
    assert "num.replica.fetchers" not in effective.values


def test_topics_may_have_keys_that_are_not_used() -> None:
    assert TopicConfig.of({"segment.jitter.ms": "1", "retention.ms": "5"}).retention_ms == 5
    with pytest.raises(ConfigError, match=r"segment\.jitter\.ms"):
        TopicConfig.of({"segment.jitter.ms": "much"})
