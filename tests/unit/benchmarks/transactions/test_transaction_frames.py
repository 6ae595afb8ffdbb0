"""Frames that the benchmarks write by hand are those of Kafka's messages."""

import struct
from collections.abc import Mapping
from typing import Any

import pytest

from benchmarks.transactions import frames
from broker_runtime.wire import versions
from broker_runtime.wire.messages import encode_response_body
from tests.support.processes.clients.wire_client import request_frame

CLIENT, NAME, TOPIC = "transact", "a producer", "a topic"
PRODUCER_ID, EPOCH = 4_000, 7
BATCHES = {0: b"x" * 70, 5: b"y" * 300}


def asked(api: str, version: int, **fields: Any) -> bytes:
    return request_frame(api, version, 0, fields, CLIENT)


def answered(key: int, version: int, fields: Mapping[str, Any], *, flexible: bool = False) -> bytes:
    return struct.pack(">i", 1) + (b"\0" if flexible else b"") + encode_response_body(key, version, fields)


@pytest.mark.parametrize("message", [None, "later"])
def test_coordinators_are_found(message: str | None) -> None:
    assert frames.find_coordinator(NAME) == asked("find_coordinator", 2, key=NAME, key_type=1)
    place = {"node_id": 3, "host": "a.host", "port": 9092}
    fields = {"throttle_time_ms": 0, "error_code": 15, "error_message": message, **place}
    found = frames.read_coordinator(answered(versions.FIND_COORDINATOR, 2, fields))
    assert found == frames.Place(15, "a.host", 9092)


def test_producers_are_initialized() -> None:
    expected = asked("init_producer_id", 1, transactional_id=NAME, transaction_timeout=60_000)
    assert frames.init_producer_id(NAME, 60_000) == expected
    fields = {"throttle_time_ms": 0, "error_code": 51, "producer_id": PRODUCER_ID, "producer_epoch": EPOCH}
    found = frames.read_init_producer_id(answered(versions.INIT_PRODUCER_ID, 1, fields))
    assert found == frames.Stamp(51, PRODUCER_ID, EPOCH)


def test_partitions_are_added() -> None:
    producer = {"v3_and_below_transactional_id": NAME, "v3_and_below_producer_id": PRODUCER_ID}
    topics = [{"name": TOPIC, "partitions": [0, 5]}]
    expected = asked(
        "add_partitions_to_txn", 2, **producer, v3_and_below_producer_epoch=EPOCH, v3_and_below_topics=topics
    )
    assert frames.add_partitions(NAME, PRODUCER_ID, EPOCH, TOPIC, [0, 5]) == expected
    results = [{"partition_index": index, "partition_error_code": 51} for index in (0, 5)]
    fields = {
        "throttle_time_ms": 0,
        "results_by_topic_v3_and_below": [{"name": TOPIC, "results_by_partition": results}],
    }
    assert frames.read_add_partitions(answered(versions.ADD_PARTITIONS_TO_TXN, 2, fields)) == 51


@pytest.mark.parametrize(("version", "of_produce"), [(1, 8), (2, 12)])
def test_records_are_produced(version: int, of_produce: int) -> None:
    data = [{"index": index, "records": batch} for index, batch in BATCHES.items()]
    topics = [{"name": TOPIC, "partition_data": data}]
    expected = asked("produce", of_produce, transactional_id=NAME, acks=-1, timeout=30_000, topic_data=topics)
    assert frames.produce(version, NAME, TOPIC, BATCHES) == expected


@pytest.mark.parametrize(("version", "of_produce"), [(1, 8), (2, 12)])
@pytest.mark.parametrize("codes", [(0, 0), (0, 51), (47, 0)])
def test_the_first_error_of_a_partition_is_read(version: int, of_produce: int, codes: tuple[int, int]) -> None:
    offsets = {"base_offset": 1, "log_append_time": None, "log_start_offset": 0, "record_errors": ()}
    parts = [
        {"index": index, "error_code": code, "error_message": "no" if code else None, **offsets}
        for index, code in enumerate(codes)
    ]
    fields = {"responses": [{"name": TOPIC, "partition_responses": parts}], "throttle_time_ms": 0}
    answer = answered(versions.PRODUCE, of_produce, fields, flexible=version > 1)
    assert frames.read_produce(version, TOPIC, answer) == max(codes)


@pytest.mark.parametrize(("version", "of_end"), [(1, 2), (2, 5)])
def test_transactions_are_ended(version: int, of_end: int) -> None:
    producer = {"transactional_id": NAME, "producer_id": PRODUCER_ID, "producer_epoch": EPOCH}
    assert frames.end_txn(version, NAME, PRODUCER_ID, EPOCH) == asked("end_txn", of_end, **producer, committed=True)
    next_one = {"producer_id": PRODUCER_ID, "producer_epoch": EPOCH + 1} if version > 1 else {}
    answer = answered(
        versions.END_TXN, of_end, {"throttle_time_ms": 0, "error_code": 51, **next_one}, flexible=version > 1
    )
    expected = (PRODUCER_ID, EPOCH + 1) if version > 1 else (-1, -1)
    assert frames.read_end_txn(version, answer) == frames.Stamp(51, *expected)
