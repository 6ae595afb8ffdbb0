"""The hand-packed fetch of followers, against kio's reading and writing of the same bytes."""

from uuid import UUID

import pytest

from broker_runtime.errors import ErrorCode, KafkaError, ProtocolError
from broker_runtime.replication.following.fetch_messages import (
    FETCH_VERSION,
    Fetched,
    FetchedPartition,
    FetchLimits,
    pack_fetch,
    read_answer,
)
from broker_runtime.wire.messages import decode_request, encode_response
from broker_runtime.wire.versions import FETCH

LIMITS = FetchLimits(wait_max_ms=500, min_bytes=1, partition_max_bytes=1 << 20, response_max_bytes=10 << 20)
A, B = UUID(int=1), UUID(int=2)


def test_a_request_says_what_kafka_reads() -> None:
    wanted = [FetchedPartition(A, 0, 4, 100, 7), FetchedPartition(A, 3, 5, 0, 0), FetchedPartition(B, 0, 1, 2**40, 5)]
    forgotten = [(A, 7), (A, 9), (B, 1)]
    body = pack_fetch(2, 17, (77, 5), wanted, forgotten, LIMITS)
    request = decode_request(FETCH, FETCH_VERSION, memoryview(body))
    assert (request.session_id, request.session_epoch) == (77, 5)
    assert [(t.topic_id, p) for t in request.forgotten_topics_data for p in t.partitions] == forgotten
    assert (request.replica_state.replica_id, request.replica_state.replica_epoch) == (2, 17)
    assert (request.min_bytes, request.max_bytes) == (1, 10 << 20)
    assert request.max_wait.total_seconds() == 0.5
    found = [
        FetchedPartition(
            topic.topic_id, part.partition, part.current_leader_epoch, part.fetch_offset, part.log_start_offset
        )
        for topic in request.topics
        for part in topic.partitions
    ]
    assert found == wanted
    assert {part.partition_max_bytes for topic in request.topics for part in topic.partitions} == {1 << 20}


def answer(code: ErrorCode = ErrorCode.NONE, error: ErrorCode = ErrorCode.NONE) -> memoryview:
    part = {
        "partition_index": 3,
        "error_code": code,
        "high_watermark": 90,
        "last_stable_offset": 90,
        "log_start_offset": 7,
        "aborted_transactions": None,
        "preferred_read_replica": -1,
        "records": b"records",
    }
    content = {"error_code": error, "session_id": 0, "responses": [{"topic_id": A, "partitions": [part, part]}]}
    return memoryview(encode_response(FETCH, FETCH_VERSION, 1, content))[9:]


def test_an_answer_is_read_as_kafka_writes_it() -> None:
    found = list(read_answer(answer(code=ErrorCode.NOT_LEADER_OR_FOLLOWER)).parts)
    assert len(found) == 2
    assert found[0]._replace(records=None) == Fetched(A, 3, 6, 90, 7, None)
    assert bytes(found[1].records or b"") == b"records"


def test_a_refusal_of_the_whole_is_an_error() -> None:
    with pytest.raises(KafkaError) as refused:
        read_answer(answer(error=ErrorCode.FETCH_SESSION_ID_NOT_FOUND))
    assert refused.value.code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_a_cut_answer_is_refused() -> None:
    whole = answer()
    for size in range(len(whole) - 1):
        with pytest.raises(ProtocolError):
            list(read_answer(whole[:size]).parts)
