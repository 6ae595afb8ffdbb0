"""Describing: values with their source and synonyms, as Kafka orders them."""

import pytest

from broker_runtime.config import BROKER_KEYS, TOPIC_KEYS, BrokerSettings, broker_key, broker_settings
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.metadata.areas.configs import ConfigRecord
from broker_runtime.metadata.describe_configs import ConfigSource, Described, describe_resource
from broker_runtime.slicing.steps import at_once
from tests.support.worlds.controller import Metadata

BROKER, TOPIC, CLIENT_METRICS, GROUP = 4, 2, 16, 32
RATE = "max.connection.creation.rate"
LISTENER_RATE = f"listener.name.plaintext.{RATE}"


@pytest.fixture
def settings() -> BrokerSettings:
    given = {"node.id": "1", "listeners": "PLAINTEXT://h:1", "log.retention.hours": "1", LISTENER_RATE: "5", RATE: "9"}
    return broker_settings(given)


@pytest.fixture
def metadata() -> Metadata:
    metadata = Metadata()
    metadata.broker(1)
    metadata.topic("orders", [1])
    return metadata


def one(metadata: Metadata, settings: BrokerSettings, resource: tuple[int, str], name: str) -> Described:
    (found,) = at_once(describe_resource(resource, [name], metadata.image, settings))
    return found


def test_all_keys_are_described_when_none_is_named(metadata: Metadata, settings: BrokerSettings) -> None:
    topic = at_once(describe_resource((TOPIC, "orders"), None, metadata.image, settings))
    broker = at_once(describe_resource((BROKER, "1"), None, metadata.image, settings))
    assert {entry.name for entry in topic} == set(TOPIC_KEYS)
    assert {entry.name for entry in broker} == {key for key in BROKER_KEYS if broker_key(key)} | {LISTENER_RATE}


def test_the_synonyms_of_a_broker_key_in_order(metadata: Metadata, settings: BrokerSettings) -> None:
    metadata.write(ConfigRecord(BROKER, "1", RATE, "7"), ConfigRecord(BROKER, "", RATE, "8"))
    found = one(metadata, settings, (BROKER, "1"), LISTENER_RATE)
    assert (found.value, found.source) == ("5", ConfigSource.STATIC_BROKER)
    assert [(s.name, s.value, s.source) for s in found.synonyms] == [
        (LISTENER_RATE, "5", ConfigSource.STATIC_BROKER),
        (RATE, "7", ConfigSource.DYNAMIC_BROKER),
        (RATE, "8", ConfigSource.DYNAMIC_DEFAULT_BROKER),
        (RATE, "9", ConfigSource.STATIC_BROKER),
        (RATE, "2147483647", ConfigSource.DEFAULT),
    ]
    assert one(metadata, settings, (BROKER, "1"), "node.id").read_only
    assert not found.read_only


def test_a_topic_falls_back_to_its_brokers_key(metadata: Metadata, settings: BrokerSettings) -> None:
    found = one(metadata, settings, (TOPIC, "orders"), "segment.bytes")
    assert (found.value, found.source) == ("1073741824", ConfigSource.DEFAULT)
    metadata.write(ConfigRecord(BROKER, "", "log.segment.bytes", "2000"))
    found = one(metadata, settings, (TOPIC, "orders"), "segment.bytes")
    assert (found.value, found.source) == ("2000", ConfigSource.DYNAMIC_DEFAULT_BROKER)
    metadata.write(ConfigRecord(TOPIC, "orders", "segment.bytes", " 3000 "))
    found = one(metadata, settings, (TOPIC, "orders"), "segment.bytes")
    assert (found.value, found.source) == ("3000", ConfigSource.DYNAMIC_TOPIC)
    assert one(metadata, settings, (TOPIC, "orders"), "retention.ms").value == "3600000"


def test_a_group_falls_back_to_its_brokers_key(metadata: Metadata, settings: BrokerSettings) -> None:
    key, synonym = "consumer.session.timeout.ms", "group.consumer.session.timeout.ms"
    found = one(metadata, settings, (GROUP, "readers"), key)
    assert (found.value, found.source, found.read_only) == ("45000", ConfigSource.DEFAULT, False)
    metadata.write(ConfigRecord(GROUP, "readers", key, "50000"))
    found = one(metadata, settings, (GROUP, "readers"), key)
    assert (found.value, found.source) == ("50000", ConfigSource.GROUP)
    assert [(s.name, s.value, s.source) for s in found.synonyms] == [
        (key, "50000", ConfigSource.GROUP),
        (synonym, "45000", ConfigSource.DEFAULT),
    ]


def test_keys_of_a_group_that_are_not_used_are_described_where_they_are_set(
    metadata: Metadata, settings: BrokerSettings
) -> None:
    metadata.write(ConfigRecord(GROUP, "readers", "share.auto.offset.reset", "earliest"))
    metadata.write(ConfigRecord(GROUP, "readers", "of.another.version", "1"))
    names = [entry.name for entry in at_once(describe_resource((GROUP, "readers"), None, metadata.image, settings))]
    assert names == [
        "consumer.session.timeout.ms",
        "consumer.heartbeat.interval.ms",
        "consumer.assignment.interval.ms",
        "share.auto.offset.reset",
    ]


def test_client_metrics_have_no_synonym_where_they_are_not_set(metadata: Metadata, settings: BrokerSettings) -> None:
    metadata.write(ConfigRecord(CLIENT_METRICS, "all", "metrics", "*"))
    found = at_once(describe_resource((CLIENT_METRICS, "all"), None, metadata.image, settings))
    assert [(entry.name, entry.value, entry.source, len(entry.synonyms)) for entry in found] == [
        ("interval.ms", "300000", ConfigSource.DEFAULT, 0),
        ("match", "", ConfigSource.DEFAULT, 0),
        ("metrics", "*", ConfigSource.CLIENT_METRICS, 1),
    ]


def test_advertised_listeners_are_shown_as_read_only_as_in_kafka(metadata: Metadata, settings: BrokerSettings) -> None:
    assert one(metadata, settings, (BROKER, "1"), "advertised.listeners").read_only
    assert not one(metadata, settings, (BROKER, "1"), "listeners").read_only


def test_the_cluster_default_shows_what_is_set_there_only(metadata: Metadata, settings: BrokerSettings) -> None:
    metadata.write(ConfigRecord(BROKER, "", RATE, "8"), ConfigRecord(BROKER, "", "of.another.version", "8"))
    (found,) = at_once(describe_resource((BROKER, ""), None, metadata.image, settings))
    assert (found.name, found.value, found.source) == (RATE, "8", ConfigSource.DYNAMIC_DEFAULT_BROKER)


def test_an_unused_key_is_described_where_it_is_set_and_marked_as_unused(metadata: Metadata) -> None:
    given = {"node.id": "1", "queued.max.requests": "50", "listener.name.plaintext.ssl.key.password": "secret"}
    settings = broker_settings(given)
    metadata.write(ConfigRecord(BROKER, "", "log.cleaner.threads", "2"))
    metadata.write(ConfigRecord(TOPIC, "orders", "preallocate", "TRUE"))
    found = one(metadata, settings, (BROKER, "1"), "queued.max.requests")
    assert (found.value, found.source, found.read_only) == ("50", ConfigSource.STATIC_BROKER, True)
    assert "not used by this broker" in found.key.doc
    found = one(metadata, settings, (BROKER, "1"), "log.cleaner.threads")
    assert (found.value, found.source, found.read_only) == ("2", ConfigSource.DYNAMIC_DEFAULT_BROKER, False)
    password = one(metadata, settings, (BROKER, "1"), "listener.name.plaintext.ssl.key.password")
    assert (password.value, password.key.sensitive) == (None, True)
    assert one(metadata, settings, (TOPIC, "orders"), "preallocate").value == "true"
    assert at_once(describe_resource((BROKER, "1"), ["telemetry.max.bytes"], metadata.image, settings)) == []


@pytest.mark.parametrize(
    ("resource", "code", "message"),
    [
        ((BROKER, "9"), ErrorCode.INVALID_REQUEST, "Unexpected broker id, expected 1 or empty string, but received 9"),
        ((BROKER, "x"), ErrorCode.INVALID_REQUEST, "Broker id must be an integer, but it is: x"),
        ((TOPIC, "nope"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "does not exist"),
        ((TOPIC, ""), ErrorCode.INVALID_TOPIC_EXCEPTION, "the empty string is not allowed"),
        ((64, "1"), ErrorCode.INVALID_REQUEST, "Unknown resource type 64"),
        ((GROUP, ""), ErrorCode.INVALID_REQUEST, "Group name must not be empty"),
        ((CLIENT_METRICS, ""), ErrorCode.INVALID_REQUEST, "Client metrics subscription name must not be empty"),
    ],
)
def test_resources_that_are_refused(
    metadata: Metadata, settings: BrokerSettings, resource: tuple[int, str], code: ErrorCode, message: str
) -> None:
    with pytest.raises(KafkaError) as refused:
        at_once(describe_resource(resource, None, metadata.image, settings))
    assert refused.value.code == code
    assert message in str(refused.value)


def test_an_empty_list_of_keys_asks_for_all(metadata: Metadata, settings: BrokerSettings) -> None:
    asked = at_once(describe_resource((BROKER, "1"), [], metadata.image, settings))
    assert asked == at_once(describe_resource((BROKER, "1"), None, metadata.image, settings))


def test_values_are_shown_as_they_are_understood(metadata: Metadata, settings: BrokerSettings) -> None:
    metadata.write(ConfigRecord(TOPIC, "orders", "unclean.leader.election.enable", " TRUE"))
    assert one(metadata, settings, (TOPIC, "orders"), "unclean.leader.election.enable").value == "true"
