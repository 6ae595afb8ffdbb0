"""Data inside the requests of classic members, against kio's messages, which are made of Kafka's schemas."""

import io
import struct
from importlib import import_module
from typing import Any

import pytest
from kio.serial import entity_reader, entity_writer

from broker_runtime.groups.consumer.embedded import (
    EmbeddedAssignment,
    EmbeddedSubscription,
    read_assignment,
    read_subscription,
    subscription_version,
    write_assignment,
)
from broker_runtime.slicing.steps import at_once


def kind(message: str, version: int) -> Any:
    module = import_module(f"kio.schema.consumer_protocol_{message}.v{version}.data")
    return module, getattr(module, f"ConsumerProtocol{message.title()}")


def written(version: int, entity: Any) -> bytes:
    buffer = io.BytesIO()
    entity_writer(type(entity))(buffer, entity)
    return struct.pack(">h", version) + buffer.getvalue()


@pytest.mark.parametrize("version", range(4))
def test_subscriptions_of_all_versions(version: int) -> None:
    module, subscription = kind("subscription", version)
    fields: dict[str, Any] = {"topics": ("b", "a"), "user_data": b"own"}
    if version >= 1:
        fields["owned_partitions"] = (module.TopicPartition(topic="a", partitions=(1, 0)),)
    if version >= 2:
        fields["generation_id"] = 5
    if version >= 3:
        fields["rack_id"] = "r"
    owned = {"a": (0, 1)} if version >= 1 else None
    wanted = EmbeddedSubscription(version, ("b", "a"), owned, "r" if version >= 3 else None)
    said = written(version, subscription(**fields))
    assert at_once(read_subscription(said)) == wanted
    assert subscription_version(said) == version


@pytest.mark.parametrize("version", range(4))
def test_assignments_of_all_versions(version: int) -> None:
    _, assignment = kind("assignment", version)
    data = write_assignment(version, {"a": (0, 2), "b": (1,)})
    entity, size = entity_reader(assignment)(memoryview(data), 2)
    assert size == len(data) - 2
    assert struct.unpack_from(">h", data) == (version,)
    assert {part.topic: part.partitions for part in entity.assigned_partitions} == {"a": (0, 2), "b": (1,)}
    assert at_once(read_assignment(data)) == EmbeddedAssignment({"a": (0, 2), "b": (1,)}, b"")
    own = written(version, assignment(assigned_partitions=(), user_data=b"own"))
    assert at_once(read_assignment(own)) == EmbeddedAssignment({}, b"own")


def test_no_bytes_are_no_partitions() -> None:
    assert at_once(read_assignment(b"")) == EmbeddedAssignment({}, b"")


@pytest.mark.parametrize("data", [b"", b"\x00", b"\x00\x01\x00\x00\x00\x01\x00\x09a", b"\x00\x00\x7f\xff\xff\xff"])
def test_bytes_that_end_too_early_are_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="bytes"):
        at_once(read_subscription(data))


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"\xff\xff\x00\x00\x00\x00\xff\xff\xff\xff", id="a negative version"),
        pytest.param(b"\x00\x00\xff\xff\xff\xff\xff\xff\xff\xff", id="no array of topics"),
        pytest.param(b"\x00\x00\x00\x00\x00\x01\xff\xff\xff\xff\xff\xff", id="a topic without a name"),
        pytest.param(b"\x00\x01\x00\x00\x00\x00\xff\xff\xff\xff\xff\xff\xff\xff", id="no array of owned partitions"),
    ],
)
def test_what_may_not_be_null_in_a_subscription_is_refused_as_in_kafka(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"version -1|has -1 items|has no name"):
        at_once(read_subscription(data))


def test_an_assignment_without_its_array_of_partitions_is_refused() -> None:
    with pytest.raises(ValueError, match="has -1 items"):
        at_once(read_assignment(b"\x00\x01\xff\xff\xff\xff\xff\xff\xff\xff"))
