"""Consumers of many partitions without a session: the answers are the same as if nothing were kept between requests."""

import random
import sys
from typing import Any
from uuid import UUID

import pytest

from broker_runtime.apis.fetch import fetch
from broker_runtime.apis.fetch_sessions.fetch_partition import AskedPartition
from broker_runtime.apis.fetch_sessions.repeated_fetch import PARTITIONS_MIN, RepeatedFetch, RepeatedFetches
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.replication.leader import LeaderReplica
from broker_runtime.slicing.steps import at_once
from broker_runtime.wire.messages import decode_response
from broker_runtime.wire.reply import FileRegion, PendingReply, Reply
from kafka_bytes.batches import encode_batch
from tests.support.logs.logs import TOPIC_ID, LogHouse
from tests.support.logs.replicas import LeadingNode, brokers, lag_of, leading
from tests.support.requests.calls import handled
from tests.support.requests.request_frames import encode_request

FETCH = 1
PARTITIONS = 50


class Node(LeadingNode):
    """Leads fifty partitions of each of two topics."""

    def __init__(self) -> None:
        self.house = LogHouse()
        logs = {
            (topic, index): self.house.logs.create(topic, index, TOPIC_ID, self.house.config)
            for topic in ("orders", "returns")
            for index in range(PARTITIONS)
        }
        self.of = {key: leading(log, 1, epoch=4) for key, log in logs.items()}
        super().__init__(self.of["orders", 0], self.house.clock)
        self.looked_at = 0

    def led(self, topic: str, partition: int) -> LeaderReplica:
        self.looked_at += 1
        leader = self.of.get((topic, partition))
        if leader is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "not here")
        return leader

    @property
    def is_watched(self) -> bool:
        """Whether something is kept for a consumer."""
        return any(leader.log.readers.members for leader in self.of.values())

    def append(self, topic: str, partition: int) -> None:
        batch = encode_batch([(b"k", b"v")], self.house.clock.wall_ms())
        self.of[topic, partition].log.append(memoryview(batch), leader_epoch=4)


Asked = dict[tuple[str, int], int]
Told = dict[tuple[str, int], tuple[int, int, int, bytes | None]]


def frame_of(asked: Asked, version: int, *, wait_ms: int = 0, isolation: int = 0, replica: int = -1) -> memoryview:
    """A request; neighbouring partitions of one topic share an entry, so a topic may have several."""
    topics: list[dict[str, Any]] = []
    for (topic, index), offset in asked.items():
        if not topics or topics[-1]["topic"] != topic:
            topics.append({"topic": topic, "partitions": []})
        part = {"partition": index, "current_leader_epoch": 4, "fetch_offset": offset, "partition_max_bytes": 1 << 20}
        topics[-1]["partitions"].append(part)
    content = {
        "replica_id": replica,
        "max_wait": wait_ms,
        "min_bytes": 1,
        "max_bytes": 1 << 24,
        "isolation_level": isolation,
        "session_epoch": -1,
        "topics": topics,
        "forgotten_topics_data": [],
    }
    return memoryview(encode_request(FETCH, version, 1, content))[4:]


def read(reply: Reply, version: int) -> Told:
    whole = b"".join(chunk.read() if isinstance(chunk, FileRegion) else bytes(chunk) for chunk in reply)
    assert int.from_bytes(whole[:4], "big") == len(whole) - 4
    answer = decode_response(FETCH, version, memoryview(whole)[9 if version >= 12 else 8 :])
    return {
        (topic.topic, part.partition_index): (
            int(part.error_code),
            part.high_watermark,
            part.log_start_offset,
            part.records,
        )
        for topic in answer.responses
        for part in topic.partitions
    }


def ask(node: Node, asked: Asked, version: int, **more: Any) -> Told:
    context: Any = node
    reply = handled(fetch.API, frame_of(asked, version, **more), context)
    assert not isinstance(reply, PendingReply)
    return read(reply, version)


ALL: Asked = {(topic, index): 0 for topic in ("orders", "returns") for index in range(PARTITIONS)}


@pytest.mark.parametrize("version", [5, 9, 11, 12])
@pytest.mark.parametrize("seed", range(5))
def test_cached_fetches_give_the_same_answers(version: int, seed: int) -> None:
    chance = random.Random(seed)
    node = Node()
    asked = dict(ALL)
    nothing_kept, kept = RepeatedFetches(0), node.repeated_fetches
    for _ in range(60):
        for _ in range(chance.randrange(4)):
            node.append(*chance.choice(list(ALL)))
        key = chance.choice(list(ALL))
        match chance.randrange(8):
            case 0:
                asked.pop(key, None)
            case 1:
                asked[key] = 0
            case 2:
                asked[key] = 99
            case 3:
                log = node.of[key].log
                log.delete_records(log.high_watermark)
            case 4:
                asked["orders", 77] = 0
            case 5:
                turn = chance.randrange(len(asked))
                asked = dict([*list(asked.items())[turn:], *list(asked.items())[:turn]])
        isolation = int(chance.random() < 0.1)
        node.repeated_fetches = nothing_kept
        wanted = ask(node, asked, version, isolation=isolation)
        node.repeated_fetches = kept
        told = ask(node, asked, version, isolation=isolation)
        assert told == wanted
        for part, (code, high_watermark, _, records) in told.items():
            if records and not code and chance.random() < 0.8:
                asked[part] = high_watermark
    assert node.is_watched


def test_unchanged_partitions_are_not_read() -> None:
    node = Node()
    ask(node, ALL, 11)
    ask(node, ALL, 11)
    node.append("orders", 7)
    node.looked_at = 0
    told = ask(node, dict(reversed(ALL.items())), 11)
    assert node.looked_at == 1
    assert [part for part, (_, _, _, records) in told.items() if records] == [("orders", 7)]


def test_a_request_that_waits_is_answered_by_a_record_of_any_partition_with_all_of_them() -> None:
    node = Node()
    context: Any = node
    ask(node, ALL, 11)
    for part in (("returns", 3), ("orders", 0)):
        asked = ALL | {("returns", 3): node.of["returns", 3].log.high_watermark}
        pending = handled(fetch.API, frame_of(asked, 11, wait_ms=60_000), context)
        assert isinstance(pending, PendingReply)
        replies: list[Reply | None] = []
        pending.on_complete(replies.append)
        node.append(*part)
        (reply,) = replies
        assert reply is not None
        told = read(reply, 11)
        assert len(told) == len(ALL)
        assert [key for key, (_, _, _, records) in told.items() if records] == [part]


@pytest.mark.parametrize("version", [11, 12])
def test_records_that_follow_other_changes_are_sent_once_while_a_request_waits(version: int) -> None:
    node = Node()
    context: Any = node
    for _ in range(2):
        node.append("orders", 5)
    asked = ALL | {("orders", 5): 2}
    ask(node, asked, version)
    pending = handled(fetch.API, frame_of(asked, version, wait_ms=60_000), context)
    assert isinstance(pending, PendingReply)
    replies: list[Reply | None] = []
    pending.on_complete(replies.append)
    node.of["orders", 5].log.delete_records(1)
    assert not replies, "a log start is told with the next answer"
    node.append("orders", 5)
    (reply,) = replies
    assert reply is not None
    assert read(reply, version)["orders", 5][:3] == (0, 3, 1)
    after = ask(node, asked | {("orders", 5): 3}, version)
    assert after["orders", 5] == (0, 3, 1, b"")
    assert len(after) == len(ALL)


def test_a_client_that_hangs_up_leaves_nothing_behind() -> None:
    node = Node()
    context: Any = node
    pending = handled(fetch.API, frame_of(ALL, 11, wait_ms=60_000), context)
    assert isinstance(pending, PendingReply)
    assert node.is_watched
    pending.cancel()
    assert not node.is_watched


def test_a_fetch_of_few_partitions_is_not_cached() -> None:
    node = Node()
    ask(node, dict(list(ALL.items())[: PARTITIONS_MIN - 1]), 11)
    assert not node.is_watched
    ask(node, dict(list(ALL.items())[:PARTITIONS_MIN]), 11)
    assert node.is_watched


def test_a_followers_fetch_is_not_cached_and_reports_its_position() -> None:
    node = Node()
    node.of = {key: leading(leader.log, 1, 2, epoch=4, isr=(1, 2)) for key, leader in node.of.items()}
    assert brokers(2)
    ask(node, ALL, 11, replica=2)
    assert not node.is_watched
    assert {lag_of(leader, 2) for leader in node.of.values()} == {0}


def test_the_least_recently_used_fetch_is_evicted_when_the_cache_is_full() -> None:
    kept = RepeatedFetches(100)
    form = (11, False)

    def use(port: int, partitions: int, now_s: float) -> RepeatedFetch | None:
        fetch = kept.take(("127.0.0.1", port), form, partitions, now_s)
        if fetch is not None:
            said: dict[str | UUID, set[tuple[bytes]]] = {
                "orders": {(index.to_bytes(28, "big"),) for index in range(partitions)}
            }
            assert at_once(fetch.update(said, lambda topic, raw: _asked(topic, int.from_bytes(raw, "big")), now_s))
            kept.keep(("127.0.0.1", port), fetch)
        return fetch

    first, second = use(1, 40, 0.0), use(2, 40, 0.0)
    assert first is not None
    assert use(3, 40, 9.0) is None
    assert use(1, 40, 9.0) is first
    third = use(3, 40, 11.0)
    assert third is not None
    assert use(2, 40, 11.0) is None
    assert use(1, 40, 11.0) is first
    assert second is not first
    assert use(1, 101, 11.0) is None
    assert use(3, 40, 11.0) is third


@pytest.mark.parametrize("later_s", [0.1, 60.0])
def test_waiting_fetches_are_not_evicted(later_s: float) -> None:
    node = Node()
    node.repeated_fetches = RepeatedFetches(len(ALL))
    context: Any = node
    waiting: list[tuple[PendingReply, list[Reply | None]]] = []
    for _ in range(3):
        pending = handled(fetch.API, frame_of(ALL, 11, wait_ms=600_000), context, port=len(waiting) + 1)
        assert isinstance(pending, PendingReply)
        replies: list[Reply | None] = []
        pending.on_complete(replies.append)
        waiting.append((pending, replies))
        node.house.clock.advance(later_s)
    assert not any(replies for _, replies in waiting)
    node.append("orders", 7)
    assert all(len(replies) == 1 for _, replies in waiting)


def _asked(topic: str | UUID, index: int) -> AskedPartition:
    return topic, index, 0, 1, -1, -1, -1


def test_the_topics_of_a_fetch_are_no_long_step() -> None:
    """50,000 pairs made at once took 5 to 8 ms."""
    repeated = RepeatedFetch((18, True), 0.0)

    def read(topic: str | UUID, chunk: bytes) -> AskedPartition:
        return topic, int(chunk), 0, 0, 1 << 20, -1, -1

    asked: dict[str | UUID, set[tuple[bytes]]] = {f"topic-{number}": {(b"0",)} for number in range(5_000)}
    assert at_once(repeated.update(asked, read, 0.0))
    before = sys.getallocatedblocks()
    topics = repeated.topics
    assert sys.getallocatedblocks() - before < 1_000
    assert [(topic, len(parts)) for topic, parts in topics] == [(topic, 1) for topic in asked]
    assert len(topics) == 5_000
