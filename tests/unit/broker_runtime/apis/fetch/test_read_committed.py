"""Fetch and ListOffsets by isolation level (KIP-98): the last stable offset, and aborted transactions."""

from types import SimpleNamespace
from typing import Any

import pytest

from broker_runtime.apis.fetch import fetch, list_offsets
from broker_runtime.errors import ErrorCode
from broker_runtime.storage.records.batch import iter_batches
from broker_runtime.wire.messages import decode_response
from broker_runtime.wire.reply import FileRegion, PendingReply, Reply
from tests.support.logs.logs import LogHouse
from tests.support.logs.replicas import LeadingNode, leading
from tests.support.logs.transactions import end, write
from tests.support.requests.calls import a_call, fields_of, handled
from tests.support.requests.request_frames import encode_request

FETCH = 1
HOUR_MS = 3_600_000
COMMITTED, UNCOMMITTED = 1, 0


class Node:
    """A broker that leads one partition, in which some transactions are open or ended."""

    def __init__(self, *replicas: int) -> None:
        self.house = LogHouse()
        self.log = self.house.log
        self.leader = leading(self.log, *(replicas or (1,)), epoch=4)
        self.node: Any = LeadingNode(self.leader, self.house.clock)

    def ask(
        self, offset: int, isolation: int, version: int = 12, *, wait_ms: int = 0, min_bytes: int = 0, session: int = -1
    ) -> Reply | PendingReply:
        part = {"partition": 0, "fetch_offset": offset, "partition_max_bytes": 1 << 20}
        topic = {"topic": "orders"} if version < 13 else {"topic_id": self.leader.topic_id}
        content = {
            "max_wait": wait_ms,
            "min_bytes": min_bytes,
            "isolation_level": isolation,
            "session_epoch": session,
            "topics": [topic | {"partitions": [part]}],
            "forgotten_topics_data": [],
        }
        frame = memoryview(encode_request(FETCH, version, 1, content))[4:]
        reply = handled(fetch.API, frame, self.node)
        assert isinstance(reply, tuple | PendingReply)
        return reply

    def fetched(self, offset: int, isolation: int, version: int = 12) -> Any:
        reply = self.ask(offset, isolation, version)
        assert not isinstance(reply, PendingReply)
        return partition_of(reply, version)

    def listed(self, timestamp: int, isolation: int, version: int = 11) -> tuple[int, int]:
        """Return the error code and the offset that ListOffsets answers."""
        part = SimpleNamespace(partition_index=0, current_leader_epoch=-1, timestamp=timestamp)
        topic = SimpleNamespace(name="orders", partitions=[part])
        request: Any = SimpleNamespace(replica_id=-1, isolation_level=isolation, topics=[topic])
        answer: Any = fields_of(list_offsets.handle(request, a_call(list_offsets.API, version), self.node))
        (found,) = answer["topics"][0]["partitions"]
        return found["error_code"], found["offset"]


def partition_of(reply: Reply, version: int) -> Any:
    whole = b"".join(chunk.read() if isinstance(chunk, FileRegion) else bytes(chunk) for chunk in reply)
    return decode_response(FETCH, version, memoryview(whole)[9 if version >= 12 else 8 :]).responses[0].partitions[0]


@pytest.mark.parametrize("version", range(4, 19))
def test_every_version_tells_the_stable_offset_and_the_aborted_transactions(version: int) -> None:
    node = Node()
    write(node.log, b"a", producer_id=2**40)
    write(node.log, b"b", producer_id=2)
    end(node.log, producer_id=2**40, is_commit=False)
    write(node.log, b"c", producer_id=3)
    end(node.log, producer_id=2, is_commit=False)
    part = node.fetched(0, COMMITTED, version)
    assert (part.high_watermark, part.last_stable_offset) == (5, 3)
    assert [(each.producer_id, each.first_offset) for each in part.aborted_transactions] == [(2**40, 0), (2, 1)]
    assert len(part.records) == node.log.segments[0].position_of(3)
    other = node.fetched(0, UNCOMMITTED, version)
    assert (other.last_stable_offset, other.aborted_transactions) == (3, None)
    assert len(other.records) == node.log.size
    assert node.fetched(3, COMMITTED, version).aborted_transactions == ()


def test_very_many_aborted_transactions_have_a_long_count() -> None:
    node = Node()
    for number in range(300):
        write(node.log, b"a", producer_id=number)
    for number in range(300):
        end(node.log, producer_id=number, is_commit=False)
    for version in (4, 5, 11, 12):
        found = node.fetched(0, COMMITTED, version).aborted_transactions
        assert [(each.producer_id, each.first_offset) for each in found] == [(number, number) for number in range(300)]


def test_a_fetch_of_committed_records_waits_until_its_transaction_is_ended() -> None:
    node = Node()
    house = node.house
    pending = node.ask(0, COMMITTED, wait_ms=HOUR_MS, min_bytes=1)
    assert isinstance(pending, PendingReply)
    replies: list[Reply | None] = []
    pending.on_complete(replies.append)
    write(house.log, b"a")
    house.append(b"later")
    assert not replies
    end(house.log, is_commit=False)
    (reply,) = replies
    assert reply is not None
    part = partition_of(reply, 12)
    assert [(each.producer_id, each.first_offset) for each in part.aborted_transactions] == [(1, 0)]
    assert len(part.records) == house.log.size


def test_a_fetch_counts_only_stable_bytes_for_its_minimum() -> None:
    node = Node()
    node.house.append(b"stable")
    stable_bytes = node.log.size
    write(node.log, b"open" * 100)
    pending = node.ask(0, COMMITTED, wait_ms=HOUR_MS, min_bytes=stable_bytes + 1)
    assert isinstance(pending, PendingReply)
    assert not isinstance(node.ask(0, COMMITTED, wait_ms=HOUR_MS, min_bytes=stable_bytes), PendingReply)
    assert not isinstance(node.ask(0, UNCOMMITTED, wait_ms=HOUR_MS, min_bytes=stable_bytes + 1), PendingReply)


def test_a_waiting_fetch_is_answered_when_the_marker_is_replicated() -> None:
    node = Node(1, 2)
    write(node.log, b"a")
    end(node.log)
    node.log.advance_high_watermark(1)
    pending = node.ask(0, COMMITTED, wait_ms=HOUR_MS, min_bytes=1)
    assert isinstance(pending, PendingReply)
    replies: list[Reply | None] = []
    pending.on_complete(replies.append)
    node.log.advance_high_watermark(2)
    assert len(replies) == 1


def test_a_session_tells_a_moved_stable_offset() -> None:
    node = Node()
    write(node.log, b"a")
    first = node.ask(0, COMMITTED, session=0)
    assert not isinstance(first, PendingReply)
    assert partition_of(first, 12).last_stable_offset == 0
    end(node.log)
    (session,) = node.node.fetch_sessions._sessions.values()
    assert [part.has_news for part in session.partitions.values()] == [True]


def test_the_newest_offset_is_the_stable_one_for_those_who_read_committed_records() -> None:
    node = Node()
    node.house.append(b"a", timestamp_ms=100)
    write(node.log, b"b")
    newest_ms = node.house.clock.wall_ms()
    assert node.listed(-1, COMMITTED) == (ErrorCode.NONE, 1)
    assert node.listed(-1, UNCOMMITTED) == (ErrorCode.NONE, 2)
    assert node.listed(-1, COMMITTED, version=1) == (ErrorCode.NONE, 2), "the version has no isolation level"
    assert node.listed(-2, COMMITTED) == (ErrorCode.NONE, 0)
    assert node.listed(50, COMMITTED) == (ErrorCode.NONE, 0)
    assert node.listed(newest_ms, COMMITTED) == (ErrorCode.NONE, -1)
    assert node.listed(newest_ms, UNCOMMITTED) == (ErrorCode.NONE, 1)
    end(node.log)
    assert node.listed(newest_ms, COMMITTED) == (ErrorCode.NONE, 1)
    assert node.listed(-1, COMMITTED) == (ErrorCode.NONE, 3)


def test_a_damaged_index_fails_only_those_who_read_committed_records() -> None:
    node = Node()
    write(node.log, b"a")
    end(node.log, is_commit=False)
    index = node.log.segments[0].indexes.aborted
    assert index is not None
    file = node.house.fs.open(index.path)
    file.write_at([b"\xff"], 5)
    index.release()
    index.release()
    part = node.fetched(0, COMMITTED)
    assert (part.error_code, part.records) == (ErrorCode.KAFKA_STORAGE_ERROR, b"")
    assert node.fetched(0, UNCOMMITTED).error_code == ErrorCode.NONE


def test_an_answer_lists_a_limited_number_of_aborted_transactions_and_comes_at_once() -> None:
    """A list of all aborted transactions in one answer of 50 MB would block the event loop for half a second."""
    node, count = Node(), 2_500
    for producer_id in range(count):
        write(node.log, b"a", producer_id=producer_id)
        end(node.log, producer_id=producer_id, is_commit=False)
    offset, listed = 0, list[int]()
    while offset < node.log.last_stable_offset:
        reply = node.ask(offset, COMMITTED, wait_ms=1_000, min_bytes=1 << 20)
        assert not isinstance(reply, PendingReply), "it does not wait for more records"
        part = partition_of(reply, 12)
        assert len(part.aborted_transactions) <= 1_000
        listed += [each.producer_id for each in part.aborted_transactions]
        offset += sum(header.last_offset_delta + 1 for header, _ in iter_batches(part.records))
    assert listed == list(range(count))


def test_the_partitions_after_one_with_many_aborted_transactions_follow_in_the_next_answer() -> None:
    node = Node()
    for producer_id in range(150):
        write(node.log, b"a", producer_id=producer_id)
        end(node.log, producer_id=producer_id, is_commit=False)
    part = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20}
    asked = [{"topic": topic, "partitions": [part]} for topic in ("orders", "bills")]
    node.node.led_log = lambda topic, index: (node.log, 4)
    content = {"max_wait": 0, "min_bytes": 0, "isolation_level": COMMITTED, "session_epoch": -1, "topics": asked}
    frame = memoryview(encode_request(FETCH, 12, 1, content | {"forgotten_topics_data": []}))[4:]
    reply = handled(fetch.API, frame, node.node)
    assert isinstance(reply, tuple)
    whole = b"".join(chunk.read() if isinstance(chunk, FileRegion) else bytes(chunk) for chunk in reply)
    first, second = (topic.partitions[0] for topic in decode_response(FETCH, 12, memoryview(whole)[9:]).responses)
    assert (len(first.aborted_transactions), len(second.records or b""), second.error_code) == (150, 0, 0)
