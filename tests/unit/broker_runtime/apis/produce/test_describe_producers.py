"""DescribeProducers (KIP-664): each partition once, a limit on all producers of the response, and few objects."""

import sys
from types import SimpleNamespace
from typing import Any, cast

import pytest

from broker_runtime.apis.produce.describe_producers import API, handle
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.slicing.steps import Steps, at_once
from broker_runtime.storage.records.producers import ProducerStates, StoredBatch
from broker_runtime.wire.header import response_prefix
from broker_runtime.wire.limits import RequestLimits, ResponseTooLargeError
from broker_runtime.wire.messages import decode_response
from broker_runtime.wire.reply import Reply
from broker_runtime.wire.requests import DescribeProducersRequest
from kafka_bytes.control import Marker
from tests.support.requests.calls import a_call

PRODUCERS = 1_000


def steps_of(
    indexes: list[int], response_bytes_max: int = 1_000_000, known: ProducerStates | None = None
) -> Steps[Reply]:
    log = SimpleNamespace(producers=ProducerStates() if known is None else known)
    for number in range(PRODUCERS if known is None else 0):
        log.producers.record(number, 0, StoredBatch(0, 0, 0, 0, 0), 0)

    def led_log(topic: str, index: int) -> tuple[SimpleNamespace, int]:
        if index < 0:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"another broker leads {topic}-{index}")
        return log, 4

    call = a_call(API, 0)
    call.completion.limits = RequestLimits(response_bytes_max=response_bytes_max)
    request = SimpleNamespace(topics=[SimpleNamespace(name="orders", partition_indexes=indexes)])
    context: Any = SimpleNamespace(led_log=led_log)
    return handle(cast("DescribeProducersRequest", request), call, context)


def asked(indexes: list[int], response_bytes_max: int = 1_000_000, known: ProducerStates | None = None) -> Reply:
    return at_once(steps_of(indexes, response_bytes_max, known))


def described(indexes: list[int], known: ProducerStates | None = None) -> list[Any]:
    whole = b"".join(bytes(cast("bytes", chunk)) for chunk in asked(indexes, known=known))
    answer: Any = decode_response(API.key, 0, memoryview(whole)[len(response_prefix(API.key, 0, 0, 0)) :])
    (topic,) = answer.topics
    assert topic.name == "orders"
    return list(topic.partitions)


def test_a_partition_that_is_named_again_is_described_once() -> None:
    found = described([3, 3, 5, 3])
    assert [partition.partition_index for partition in found] == [3, 5]
    assert [len(partition.active_producers) for partition in found] == [PRODUCERS, PRODUCERS]


def test_a_response_that_would_be_too_large_ends_at_the_limit() -> None:
    with pytest.raises(ResponseTooLargeError):
        asked(list(range(100)), 50_000)


def test_an_error_belongs_to_its_partition() -> None:
    one, other = described([-1, 3])
    code, text = ErrorCode.NOT_LEADER_OR_FOLLOWER, "another broker leads orders--1"
    assert (int(one.error_code), one.error_message, one.active_producers) == (code, text, ())
    assert (int(other.error_code), other.error_message, len(other.active_producers)) == (0, None, PRODUCERS)


def test_partitions_with_errors_are_described_in_steps() -> None:
    steps = steps_of(list(range(-1_000, 0)))
    assert sum(1 for _ in steps) > 1_000


def test_an_open_transaction_and_the_last_marker_are_shown() -> None:
    known = ProducerStates()
    known.end(Marker(7, 3, True, 11), 4, 500, 500)
    known.record(7, 3, StoredBatch(0, 4, 5, 9, 600), 600, is_transactional=True)
    known.end(Marker(8, 1, False, 12), 10, 700, 700)
    (partition,) = described([0], known=known)
    assert [
        (
            producer.producer_id,
            producer.producer_epoch,
            producer.last_sequence,
            producer.last_timestamp,
            producer.coordinator_epoch,
            producer.current_txn_start_offset,
        )
        for producer in partition.active_producers
    ] == [(7, 3, 4, 600, 11, 5), (8, 1, -1, 700, 12, -1)]


def test_a_large_answer_takes_few_objects() -> None:
    asked([0])  # The first call makes codecs, which stay.
    before = sys.getallocatedblocks()
    reply = asked(list(range(20)))
    assert sys.getallocatedblocks() - before < PRODUCERS * 2, "without fields for each of 20,000 producers"
    assert reply
