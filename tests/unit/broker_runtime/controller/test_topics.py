"""Creating, growing and deleting topics: Kafka's rules and codes."""

from uuid import UUID

import pytest

from broker_runtime.controller.partitions.reassignments import reassign
from broker_runtime.controller.topics import (
    NewTopic,
    TakenNames,
    TopicDefaults,
    create_topic,
    delete_topic,
    grow_topic,
)
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.metadata.areas.brokers import StopBroker
from broker_runtime.slicing.steps import at_once
from tests.support.worlds.controller import Metadata

ID = UUID(int=42)


def metadata_with(*names: str) -> Metadata:
    metadata = Metadata()
    metadata.broker(1)
    metadata.broker(2, fenced=True)
    for name in names:
        metadata.topic(name, [1])
    return metadata


def new(name: str = "orders", partitions: int = 1, factor: int = 1, **more: object) -> NewTopic:
    return NewTopic(name, partitions, factor, more.get("assignments", ()), more.get("configs", ()))  # type: ignore[arg-type]


def create(metadata: Metadata, topic: NewTopic, taken: str | None = None, topic_id: UUID = ID) -> None:
    names = TakenNames(metadata.image)
    if taken is not None:
        names.add(taken)
    metadata.commit(at_once(create_topic(topic, metadata.image, TopicDefaults(3, 1), lambda: topic_id, names)))


def test_a_topic_gets_its_partitions_configuration_and_id() -> None:
    metadata = metadata_with()
    create(metadata, new(partitions=2, configs=[("retention.ms", "5")]))
    topic = metadata.image.topics["orders"]
    assert topic.id == ID
    assert [p.leader for p in topic.partitions.values()] == [1, 1]
    assert metadata.image.configs.of_topic("orders") == {"retention.ms": "5"}


def test_defaults_come_from_the_controller() -> None:
    metadata = metadata_with()
    create(metadata, new(partitions=-1, factor=-1))
    assert len(metadata.image.topics["orders"].partitions) == 3


def test_replicas_by_hand() -> None:
    metadata = metadata_with()
    create(metadata, new(partitions=-1, factor=-1, assignments=[(1, [1]), (0, [1])]))
    assert [p.replicas for p in metadata.image.topics["orders"].partitions.values()] == [(1,), (1,)]


@pytest.mark.parametrize(
    ("topic", "code", "message"),
    [
        (new(""), ErrorCode.INVALID_TOPIC_EXCEPTION, "the empty string is not allowed"),
        (new("."), ErrorCode.INVALID_TOPIC_EXCEPTION, "'.' is not allowed"),
        (new("a b"), ErrorCode.INVALID_TOPIC_EXCEPTION, "ASCII alphanumerics"),
        (new("x\n"), ErrorCode.INVALID_TOPIC_EXCEPTION, "ASCII alphanumerics"),
        (new("x" * 250), ErrorCode.INVALID_TOPIC_EXCEPTION, "longer than the max allowed length 249"),
        (new("__cluster_metadata"), ErrorCode.INVALID_REQUEST, "prohibited"),
        (new("pay.ments"), ErrorCode.TOPIC_ALREADY_EXISTS, "Topic 'pay.ments' already exists."),
        (new("pay_ments"), ErrorCode.INVALID_TOPIC_EXCEPTION, "collides with existing topic: pay.ments"),
        (new("o.ther"), ErrorCode.INVALID_TOPIC_EXCEPTION, "collides with existing topic: o_ther"),
        (new(partitions=0), ErrorCode.INVALID_PARTITIONS, "non-positive"),
        (new(factor=0), ErrorCode.INVALID_REPLICATION_FACTOR, "larger than 0"),
        (new(factor=3), ErrorCode.INVALID_REPLICATION_FACTOR, "only 2 broker(s) are registered"),
        (new(configs=[("foo", "1")]), ErrorCode.INVALID_CONFIG, "Unknown topic config name: foo"),
        (new(configs=[("retention.ms", "x")]), ErrorCode.INVALID_CONFIG, "Invalid value x"),
        (new(configs=[("retention.ms", None)]), ErrorCode.INVALID_CONFIG, "Null value not supported"),
        (new(assignments=[(0, [1])]), ErrorCode.INVALID_REQUEST, "replication factor was not set to -1"),
        (new(factor=-1, assignments=[(0, [1])]), ErrorCode.INVALID_REQUEST, "numPartitions was not set to -1"),
        (
            new(partitions=-1, factor=-1, assignments=[(0, [1]), (2, [1])]),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "consecutive 0-based",
        ),
        (
            new(partitions=-1, factor=-1, assignments=[(0, [1]), (0, [1])]),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "multiple manual partition assignments for partition 0",
        ),
        (
            new(partitions=-1, factor=-1, assignments=[(0, [2])]),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "are fenced or in controlled shutdown",
        ),
    ],
)
def test_topics_that_are_refused(topic: NewTopic, code: ErrorCode, message: str) -> None:
    metadata = metadata_with("pay.ments")
    with pytest.raises(KafkaError) as refused:
        create(metadata, topic, taken="o_ther")
    assert refused.value.code == code
    assert message in str(refused.value)


def test_replicas_that_are_not_active_start_outside_the_in_sync_set() -> None:
    metadata = metadata_with()
    create(metadata, new(factor=2))
    metadata.broker(3)
    metadata.write(StopBroker(3, metadata.image.brokers[3].epoch, metadata.image.offset + 1))
    create(metadata, new("by-hand", -1, -1, assignments=[(0, [3, 2, 1])]), topic_id=UUID(int=43))
    found = [metadata.image.topics[name].partitions[0] for name in ("orders", "by-hand")]
    assert [(p.replicas, p.isr, p.leader) for p in found] == [((1, 2), (1,), 1), ((3, 2, 1), (1,), 1)]


def test_a_topic_that_is_moved_grows_by_what_it_will_have() -> None:
    metadata = metadata_with("orders")
    metadata.broker(3)
    metadata.write(*reassign("orders", 0, [1, 3], metadata.image))
    metadata.write(*reassign("orders", 0, [3], metadata.image))
    metadata.write(*at_once(grow_topic("orders", 2, None, metadata.image)))
    assert len(metadata.image.topics["orders"].partitions[1].replicas) == 1


def test_growing_keeps_what_is_there() -> None:
    metadata = metadata_with("orders")
    metadata.write(*at_once(grow_topic("orders", 3, None, metadata.image)))
    assert list(metadata.image.topics["orders"].partitions) == [0, 1, 2]
    metadata.write(*at_once(grow_topic("orders", 4, [[1]], metadata.image)))
    assert len(metadata.image.topics["orders"].partitions) == 4


@pytest.mark.parametrize(
    ("name", "count", "assignments", "code"),
    [
        ("nope", 2, None, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("orders", 1, None, ErrorCode.INVALID_PARTITIONS),
        ("orders", 0, None, ErrorCode.INVALID_PARTITIONS),
        ("orders", 3, [[1]], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ("orders", 2, [[1], [1]], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ("orders", 2, [[9]], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ("orders", 2, [[2]], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ("orders", 10_002, None, ErrorCode.POLICY_VIOLATION),
    ],
)
def test_growth_that_is_refused(name: str, count: int, assignments: list[list[int]] | None, code: ErrorCode) -> None:
    with pytest.raises(KafkaError) as refused:
        at_once(grow_topic(name, count, assignments, metadata_with("orders").image))
    assert refused.value.code == code


def test_deleting_by_name_or_id() -> None:
    metadata = metadata_with("a", "b")
    metadata.commit(delete_topic("a", None, metadata.image))
    metadata.commit(delete_topic(None, metadata.image.topics["b"].id, metadata.image))
    assert metadata.image.topics == {}


@pytest.mark.parametrize(
    ("name", "topic_id", "code"),
    [
        ("nope", None, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (None, ID, ErrorCode.UNKNOWN_TOPIC_ID),
        (None, None, ErrorCode.INVALID_REQUEST),
        ("a", ID, ErrorCode.INVALID_REQUEST),
    ],
)
def test_deletions_that_are_refused(name: str | None, topic_id: UUID | None, code: ErrorCode) -> None:
    with pytest.raises(KafkaError) as refused:
        delete_topic(name, topic_id, metadata_with("a").image)
    assert refused.value.code == code
