"""Limits on what one request may create, and on the replicas of a broker."""

from collections import Counter

import pytest

from broker_runtime.config import broker_settings
from broker_runtime.controller.capacity import Capacity, check_partitions, check_records, replicas_by_broker
from broker_runtime.controller.partitions.reassignments import reassign
from broker_runtime.controller.topics import grow_topic
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.metadata.image import ElectionDefaults
from broker_runtime.node.process.open_files import replicas_for, with_replicas_max
from broker_runtime.slicing.steps import at_once
from tests.support.worlds.controller import Metadata


@pytest.fixture
def metadata() -> Metadata:
    metadata = Metadata()
    for broker in (1, 2):
        metadata.broker(broker)
    metadata.topic("orders", [1], [1], [1, 2])
    metadata.image.defaults = ElectionDefaults(replicas_max=5)
    return metadata


def test_partitions_of_a_request_are_limited() -> None:
    check_partitions(10_000)
    with pytest.raises(KafkaError, match="Excessively large number of partitions per request") as refused:
        check_partitions(10_001)
    assert refused.value.code == ErrorCode.POLICY_VIOLATION


def test_records_of_a_request_are_limited() -> None:
    check_records(10_000)
    with pytest.raises(KafkaError, match="excessively large batch operation"):
        check_records(10_001)


def test_replicas_are_counted_by_broker(metadata: Metadata) -> None:
    assert at_once(replicas_by_broker(metadata.image)) == Counter({1: 3, 2: 1})


def test_a_topic_beyond_a_brokers_capacity_is_rejected_and_takes_no_room(metadata: Metadata) -> None:
    capacity = Capacity(metadata.image)
    with pytest.raises(KafkaError, match=r"Broker 1 would have 6 replicas .* at most 5 .*replicas\.max") as refused:
        at_once(capacity.take(at_once(grow_topic("orders", 6, [[1], [1], [1]], metadata.image))))
    assert refused.value.code == ErrorCode.POLICY_VIOLATION
    at_once(capacity.take(at_once(grow_topic("orders", 5, [[1], [1]], metadata.image))))
    with pytest.raises(KafkaError, match="Broker 1 would have 6 replicas"):
        at_once(capacity.take(at_once(grow_topic("orders", 4, [[1]], metadata.image))))


def test_a_reassignment_takes_room_at_its_destination(metadata: Metadata) -> None:
    metadata.image.defaults = ElectionDefaults(replicas_max=2)
    capacity = Capacity(metadata.image)
    at_once(capacity.take(reassign("orders", 2, [2, 1], metadata.image)))
    at_once(capacity.take(reassign("orders", 0, [2], metadata.image)))
    with pytest.raises(KafkaError, match="Broker 2 would have 3 replicas"):
        at_once(capacity.take(reassign("orders", 1, [2], metadata.image)))


def test_without_a_limit_there_is_room(metadata: Metadata) -> None:
    metadata.image.defaults = ElectionDefaults(replicas_max=None)
    assert at_once(Capacity(metadata.image).take(at_once(grow_topic("orders", 900, None, metadata.image))))


@pytest.mark.parametrize(("open_files", "replicas"), [(256, 1), (1_024, 256), (20_000, 5_000), (1_048_576, 262_144)])
def test_the_limit_follows_from_the_files_that_may_be_open(open_files: int, replicas: int) -> None:
    assert replicas_for(open_files) == replicas
    settings = with_replicas_max(broker_settings({"node.id": "1"}), open_files)
    assert settings.config.sluicegate_broker_replicas_max == replicas


def test_the_files_replica_limit_wins_and_none_means_no_limit() -> None:
    given = broker_settings({"node.id": "1", "sluicegate.broker.replicas.max": "9"})
    assert with_replicas_max(given, 20_000) is given
    endless = with_replicas_max(broker_settings({"node.id": "1"}), None)
    assert endless.config.sluicegate_broker_replicas_max is None
