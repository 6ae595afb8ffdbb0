"""Fetches that wait: the events that end the wait, besides records and time."""

from typing import Any

import pytest

from broker_runtime.apis.fetch import fetch, fetch_look
from broker_runtime.errors import ErrorCode
from broker_runtime.metadata.areas.topics import Partition
from broker_runtime.wire.messages import decode_response
from broker_runtime.wire.reply import FileRegion, PendingReply, Reply
from tests.support.logs.logs import LogHouse
from tests.support.logs.replicas import LeadingNode, brokers, leading
from tests.support.requests.calls import handled
from tests.support.requests.request_frames import encode_request

FETCH = 1
HOUR_MS = 3_600_000


class Waiting:
    """A fetch at the end of orders-0, which broker 1 leads in epoch 4 with three records."""

    def __init__(
        self,
        version: int = 12,
        *,
        replica: int = -1,
        offset: int = 3,
        epoch: int = -1,
        min_bytes: int = 1,
        max_bytes: int = 1 << 24,
    ) -> None:
        self.house = LogHouse()
        for value in (b"a", b"b", b"c"):
            self.house.append(value)
        self.leader = leading(self.house.log, 1, 2, epoch=4, isr=(1,))
        self.node = LeadingNode(self.leader, self.house.clock)
        self.version = version
        part = {
            "partition": 0,
            "current_leader_epoch": epoch,
            "fetch_offset": offset,
            "log_start_offset": -1 if replica < 0 else 0,
            "partition_max_bytes": 1 << 20,
        }
        content = {
            "replica_id": replica,
            "max_wait": HOUR_MS,
            "min_bytes": min_bytes,
            "max_bytes": max_bytes,
            "session_epoch": -1,
            "topics": [{"topic": "orders", "partitions": [part]}],
            "forgotten_topics_data": [],
        }
        frame = memoryview(encode_request(FETCH, version, 1, content))[4:]
        node: Any = self.node
        pending = handled(fetch.API, frame, node)
        assert isinstance(pending, PendingReply)
        self.replies: list[Reply | None] = []
        pending.on_complete(self.replies.append)
        assert not self.replies

    @property
    def answer(self) -> Any:
        (reply,) = self.replies
        assert reply is not None
        whole = b"".join(chunk.read() if isinstance(chunk, FileRegion) else bytes(chunk) for chunk in reply)
        return decode_response(FETCH, self.version, memoryview(whole)[9:]).responses[0].partitions[0]


@pytest.mark.parametrize("replica", [-1, 2], ids=["a consumer", "a follower"])
def test_a_broker_that_leads_no_more_says_so_at_once(replica: int) -> None:
    waiting = Waiting(replica=replica)
    waiting.leader.resign()
    assert waiting.answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_waiting_fetch_with_an_old_epoch_is_answered_when_the_epoch_changes() -> None:
    waiting = Waiting(epoch=4)
    waiting.leader.update(Partition((1, 2), (1,), 1, 5, 1), brokers(1, 2), 0.0)
    assert waiting.answer.error_code == ErrorCode.FENCED_LEADER_EPOCH


def test_a_fetch_without_an_epoch_keeps_waiting_under_a_new_epoch() -> None:
    waiting = Waiting()
    waiting.leader.update(Partition((1, 2), (1,), 1, 5, 1), brokers(1, 2), 0.0)
    assert not waiting.replies
    waiting.house.append(b"d")
    assert waiting.answer.records


def test_a_follower_hears_at_once_that_records_are_deleted() -> None:
    waiting = Waiting(replica=2)
    waiting.house.log.delete_records(2)
    assert (waiting.answer.error_code, waiting.answer.log_start_offset) == (ErrorCode.NONE, 2)


def test_a_consumer_waits_on_while_old_records_are_deleted() -> None:
    waiting = Waiting()
    waiting.house.log.delete_records(2)
    assert not waiting.replies


def test_a_consumer_waits_for_no_more_bytes_than_its_answer_may_have() -> None:
    waiting = Waiting(min_bytes=1 << 20, max_bytes=100)
    waiting.house.append(b"d" * 10)
    assert not waiting.replies
    waiting.house.append(b"e" * 10)
    assert waiting.answer.records


@pytest.mark.parametrize("by", ["an append", "time"])
def test_a_fetch_that_fails_is_ended_and_no_append_hears_of_it(by: str, monkeypatch: pytest.MonkeyPatch) -> None:
    waiting = Waiting()

    def fail(*_: object) -> None:
        raise RuntimeError("a mistake")

    monkeypatch.setattr(fetch_look, "pack_answer", fail)
    if by == "time":
        with pytest.raises(RuntimeError):
            waiting.node.timers[0]()
    else:
        assert waiting.house.append(b"d") == 3
    assert waiting.replies == [None], "its connection is closed"
    waiting.leader.resign()
