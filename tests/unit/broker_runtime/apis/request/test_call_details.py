"""The details of Produce and Fetch partitions for an observer that asks for them."""

from typing import Any
from uuid import UUID

import pytest

from broker_runtime.apis.fetch import fetch
from broker_runtime.apis.produce import produce
from broker_runtime.apis.request.call import NO_ACKS, Call
from broker_runtime.config import TopicConfig
from broker_runtime.errors import ErrorCode
from broker_runtime.wire.reply import PendingReply
from kafka_bytes.batches import encode_batch
from tests.support.logs.logs import LogHouse
from tests.support.logs.replicas import LeadingNode, leading
from tests.support.requests.calls import handled_call
from tests.support.requests.request_frames import encode_request

PRODUCE, FETCH = 0, 1


class Node(LeadingNode):
    def __init__(self, *isr: int) -> None:
        self.house = LogHouse(TopicConfig())
        super().__init__(leading(self.house.log, 1, 2, isr=isr), self.house.clock)

    def produce(self, acks: int, *, index: int = 0, details: bool = True) -> tuple[Call, Any]:
        self.batch = encode_batch([(b"k", b"v"), (b"k", b"w")], self.house.clock.wall_ms())
        content = {
            "transactional_id": None,
            "acks": acks,
            "timeout": 1000,
            "topic_data": [{"name": "orders", "partition_data": [{"index": index, "records": self.batch}]}],
        }
        frame = memoryview(encode_request(PRODUCE, 9, 1, content))[4:]
        return handled_call(produce.API, frame, self, details=details)

    def fetch(self, offset: int, topic_id: UUID | None = None, max_bytes: int = 1 << 20) -> Call:
        part = {"partition": 0, "current_leader_epoch": -1, "fetch_offset": offset, "partition_max_bytes": max_bytes}
        content: dict[str, Any] = {
            "max_wait": 0,
            "min_bytes": 0,
            "isolation_level": 0,
            "topics": [{"topic_id": topic_id} if topic_id else {"topic": "orders"}],
            "forgotten_topics_data": [],
        }
        content["topics"][0]["partitions"] = [part]
        frame = memoryview(encode_request(FETCH, 13 if topic_id else 11, 1, content))[4:]
        return handled_call(fetch.API, frame, self, details=True)[0]


@pytest.mark.parametrize("acks", [0, 1, -1])
def test_a_batch_is_told_with_its_size_records_offsets_and_times(acks: int) -> None:
    node = Node(1)
    node.produce(acks)
    call, _ = node.produce(acks)
    at_ms = node.house.clock.wall_ms()
    assert call.partitions == [("orders", 0, len(node.batch), 2, 2, 3, at_ms, at_ms, 0)]
    assert (call.acks, call.replica_id) == (acks, -1)


def test_no_details_are_kept_unless_requested() -> None:
    call, _ = Node(1).produce(1, details=False)
    assert call.partitions is None


def test_a_partition_that_failed_is_told_with_its_error() -> None:
    call, _ = Node(1).produce(1, index=7)
    assert call.partitions is not None
    ((topic, index, size, *_, error),) = call.partitions
    assert (topic, index, size) == ("orders", 7, 0)
    assert error == call.error != 0


def test_invalid_acks_are_recorded_as_none() -> None:
    """A number of two bytes is the client's own: the audit log's row has one."""
    call, _ = Node(1).produce(200)
    assert (call.acks, call.error) == (NO_ACKS, ErrorCode.INVALID_REQUIRED_ACKS)


def test_a_produce_that_times_out_waiting_for_replicas_is_recorded_once_with_its_error() -> None:
    node = Node(1, 2)
    call, pending = node.produce(-1)
    assert isinstance(pending, PendingReply)
    assert [facts[-1] for facts in call.partitions or ()] == [0]
    node.timers[0]()
    assert [facts[-1] for facts in call.partitions or ()] == [ErrorCode.REQUEST_TIMED_OUT]


def test_a_fetchs_details_have_only_the_partitions_sent() -> None:
    node = Node(1)
    node.produce(1)
    assert node.fetch(0).partitions == [("orders", 0, len(node.batch), 2, 0, -1, -1, -1, 0)]
    assert node.fetch(2).partitions == []
    assert [facts[-1] for facts in node.fetch(99).partitions or ()] == [ErrorCode.OFFSET_OUT_OF_RANGE]


def records_of(call: Call) -> list[int]:
    return [facts[3] for facts in call.partitions or ()]


def test_records_of_a_fetch_count_from_its_offset_by_the_headers_of_batches() -> None:
    node = Node(1)
    for _ in range(3):
        node.produce(1)
    assert records_of(node.fetch(0)) == [6]
    assert records_of(node.fetch(3)) == [3], "the client skips the first record of the batch"
    assert records_of(node.fetch(0, max_bytes=2 * len(node.batch))) == [4]
    assert records_of(node.fetch(99)) == [-1]


def test_records_of_a_fetch_are_unknown_where_offsets_may_be_missing() -> None:
    node = Node(1)
    node.produce(1)
    node.house.log.files.swaps.allow_gaps("a test has compacted it")
    assert records_of(node.fetch(0)) == [-1]


def test_an_unknown_topic_is_recorded_by_its_requested_id() -> None:
    call = Node(1).fetch(0, UUID(int=9))
    assert call.partitions is not None
    ((topic, *_, error),) = call.partitions
    assert (topic, error) == ("AAAAAAAAAAAAAAAAAAAACQ", ErrorCode.UNKNOWN_TOPIC_ID)
