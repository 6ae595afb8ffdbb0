"""The tags of a broker, from its registration and from dynamic configurations."""

from uuid import UUID

import pytest

from broker_runtime.metadata.areas.brokers import BrokerEndpoint, RegisterBroker
from broker_runtime.metadata.areas.configs import ConfigRecord, ResourceType
from broker_runtime.metadata.broker_tags import broker_tags
from broker_runtime.metadata.codec import decode_record, encode_record
from broker_runtime.metadata.image import MetadataImage
from broker_runtime.slicing.steps import at_once

ENDPOINTS = (
    BrokerEndpoint("PLAINTEXT", "host", 9092),
    BrokerEndpoint("SECURE", "::1", 9192, 1),
    BrokerEndpoint("ODD", "host", 1, 77),
)
TOLD = (("message.max.bytes", "1000"), ("broker.version", "0.1.0-sluicegate"), ("rack", "file"), ("zone", "file"))


def image(*configs: tuple[str, str, str], tags: tuple[tuple[str, str], ...] = TOLD) -> MetadataImage:
    found = MetadataImage()
    found.apply(RegisterBroker(3, UUID(int=1), 0, ENDPOINTS, protocol_versions=(1, 2), tags=tags), 0)
    for offset, (name, key, value) in enumerate(configs, 1):
        found.apply(ConfigRecord(int(ResourceType.BROKER), name, key, value), offset)
    return found


def tags(found: MetadataImage) -> list[tuple[str, str]]:
    return list(broker_tags(found.brokers[3], found.configs))


def test_built_in_tags_come_first_and_in_their_order() -> None:
    assert tags(image()) == [
        ("broker.id", "3"),
        ("broker.version", "0.1.0-sluicegate"),
        ("message.max.bytes", "1000"),
        ("endpoints", "plaintext://host:9092,ssl://[::1]:9192,77://host:1"),
        ("rack", "file"),
        ("zone", "file"),
    ]


def test_dynamic_values_come_before_those_of_the_file() -> None:
    found = dict(
        tags(
            image(
                ("", "tag.rack", "all"),
                ("3", "tag.rack", " own "),
                ("", "tag.cluster", "kafka3"),
                ("4", "tag.zone", "of another"),
                ("", "message.max.bytes", "2000"),
                ("3", "message.max.bytes", "3000"),
            )
        )
    )
    assert [found[name] for name in ("rack", "cluster", "zone", "message.max.bytes")] == [
        "own",
        "kafka3",
        "file",
        "3000",
    ]


@pytest.mark.parametrize("value", ["many", "-5"])
def test_a_stored_value_that_is_none_is_left_out_as_brokers_do(value: str) -> None:
    assert dict(tags(image(("3", "message.max.bytes", value))))["message.max.bytes"] == "1000"


def test_a_broker_of_an_earlier_release_has_the_tags_of_its_registration() -> None:
    record = RegisterBroker(3, UUID(int=1), 0, ENDPOINTS[:1])
    found = MetadataImage()
    found.apply(record, 0)
    assert tags(found) == [("broker.id", "3"), ("endpoints", "plaintext://host:9092")]
    assert found.brokers[3].protocol_versions == (-1, -1)


def test_tags_and_versions_survive_the_journal_and_snapshots() -> None:
    before = image()
    records = [decode_record(encode_record(record)) for record in before.brokers.records()]
    after = at_once(MetadataImage.of_snapshot(records, before.next_offset))
    assert after.brokers[3] == before.brokers[3]
    assert after.brokers[3].tags == TOLD
    assert after.brokers[3].protocol_versions == (1, 2)


def test_the_same_incarnation_says_other_things_in_another_registration() -> None:
    found = image()
    found.apply(RegisterBroker(3, UUID(int=1), 0, ENDPOINTS, protocol_versions=(2, 3), tags=()), 1)
    assert (found.brokers[3].protocol_versions, found.brokers[3].tags) == ((2, 3), ())
