"""WriteTxnMarkers as bytes and back."""

from collections.abc import Mapping

from broker_runtime.errors import ErrorCode
from broker_runtime.slicing.steps import at_once
from broker_runtime.transactions.markers.requests import answer_of, markers_in, request_of, results_in
from broker_runtime.transactions.seam import TopicPartition
from broker_runtime.wire.messages import (
    Entity,
    decode_request,
    decode_response,
    encode_request_body,
    encode_response_body,
)
from broker_runtime.wire.versions import WRITE_TXN_MARKERS
from kafka_bytes.control import Marker

A, B, C = ("orders", 0), ("orders", 4), ("bills", 1)
SENT = [(Marker(7, 3, True, 11, 2), (A, C, B)), (Marker(8, 0, False, 2, 1), (A,))]


def received(version: int) -> Entity:
    body = encode_request_body(WRITE_TXN_MARKERS, version, at_once(request_of(SENT)))
    return decode_request(WRITE_TXN_MARKERS, version, memoryview(body))


def test_a_request_brings_each_marker_with_its_partitions() -> None:
    (first, places), second = at_once(markers_in(received(2), 2))
    assert (first, set(places)) == (SENT[0][0], {A, B, C})
    assert second == SENT[1]


def test_version_1_has_no_transaction_version() -> None:
    found = at_once(markers_in(received(1), 1))
    assert [marker.transaction_version for marker, _ in found] == [0, 0]


def test_an_answer_brings_the_code_of_each_partition() -> None:
    results: list[Mapping[TopicPartition, int]] = [
        {A: ErrorCode.NONE, B: ErrorCode.INVALID_PRODUCER_EPOCH, C: ErrorCode.REQUEST_TIMED_OUT},
        {A: 0},
    ]
    body = encode_response_body(WRITE_TXN_MARKERS, 2, at_once(answer_of(SENT, results)))
    answer = decode_response(WRITE_TXN_MARKERS, 2, memoryview(body))
    assert at_once(results_in(answer, SENT)) == results


def test_a_partition_that_the_answer_lacks_has_an_unknown_error() -> None:
    body = encode_response_body(WRITE_TXN_MARKERS, 2, at_once(answer_of([(SENT[0][0], (A,))], [{A: 0}])))
    answer = decode_response(WRITE_TXN_MARKERS, 2, memoryview(body))
    unknown = ErrorCode.UNKNOWN_SERVER_ERROR
    assert at_once(results_in(answer, SENT)) == [{A: 0, B: unknown, C: unknown}, {A: unknown}]
