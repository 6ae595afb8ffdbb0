"""Produce with a check of every record: at once, or in another thread before anything is appended."""

import asyncio
from collections.abc import Sequence
from typing import Any, cast
from uuid import UUID

import pytest

from broker_runtime.apis.produce import produce
from broker_runtime.apis.request.call import Call
from broker_runtime.config import TopicConfig
from broker_runtime.errors import ErrorCode, KafkaError, ProtocolError
from broker_runtime.wire.messages import decode_response
from broker_runtime.wire.reply import PendingReply, Reply
from kafka_bytes.batches import encode_batch
from tests.support.logs.logs import TOPIC_ID, LogHouse
from tests.support.logs.packed_batches import packed
from tests.support.logs.replicas import LeadingNode, leading
from tests.support.oracles.circles import no_circles
from tests.support.requests.calls import handled
from tests.support.requests.request_frames import encode_request

GZIP = 1
PRODUCE = 0
KEYED = encode_batch([(b"k", b"v"), (b"l", b"v")], 5)
UNKEYED = encode_batch([(b"k", b"v"), (None, b"v")], 5)
LONG = encode_batch([(b"k", b"v")] * 1_000, 5)
COMPACT = TopicConfig(cleanup_policy=("compact",))


class Node(LeadingNode):
    def __init__(self, config: TopicConfig = COMPACT, *replicas: int) -> None:
        self.house = LogHouse(config)
        chosen = replicas or (1,)
        super().__init__(leading(self.house.log, *chosen, isr=chosen), self.house.clock)

    @property
    def end(self) -> int:
        return self.house.log.log_end_offset

    def send(self, batches: Sequence[bytes], version: int = 9, acks: int = -1) -> Reply | PendingReply:
        parts = [{"index": 0, "records": batch} for batch in batches]
        content = {
            "transactional_id": None,
            "acks": acks,
            "timeout": 1_000,
            "topic_data": [{"name": "orders", "topic_id": TOPIC_ID, "partition_data": parts}],
        }
        frame = memoryview(bytearray(encode_request(PRODUCE, version, 1, content)))[4:]
        reply = handled(produce.API, frame, self)
        # The request's bytes are valid during the call only.
        frame[:] = bytes(len(frame))
        return reply

    async def look(self) -> None:
        for work, done in self.aside:
            done.set_result(work())
        self.aside.clear()
        await asyncio.sleep(0)


def kept(pending: Reply | PendingReply) -> list[Reply | None]:
    assert isinstance(pending, PendingReply)
    found: list[Reply | None] = []
    pending.on_complete(found.append)
    return found


def results(reply: Reply | None, version: int = 9) -> Sequence[Any]:
    assert reply is not None
    whole = memoryview(b"".join(cast("Sequence[bytes]", reply)))
    return cast(
        "Sequence[Any]",
        decode_response(PRODUCE, version, whole[9 if version >= 9 else 8 :]).responses[0].partition_responses,
    )


@pytest.mark.parametrize("version", [7, 8, 9, 12])
def test_bad_records_of_a_short_batch_are_named_at_once(version: int) -> None:
    node = Node()
    reply = node.send([UNKEYED], version)
    assert not isinstance(reply, PendingReply)
    (result,) = results(reply, version)
    assert (result.error_code, node.end) == (ErrorCode.INVALID_RECORD, 0)
    if version >= 8:
        assert [error.batch_index for error in result.record_errors] == [1]
        assert "key" in result.record_errors[0].batch_index_error_message
        assert "record 1" in result.error_message


@pytest.mark.parametrize("version", [3, 8, 9])
async def test_compressed_batches_are_appended_when_another_thread_has_looked_at_them(version: int) -> None:
    node = Node()
    answered = kept(node.send([packed(GZIP, KEYED), KEYED, packed(GZIP, UNKEYED)], version))
    assert (node.end, answered) == (2, [])
    await node.look()
    first, second, third = results(answered[0], version)
    assert (first.error_code, first.base_offset) == (ErrorCode.NONE, 2)
    assert (second.error_code, second.base_offset) == (ErrorCode.NONE, 0)
    assert (third.error_code, third.base_offset, node.end) == (ErrorCode.INVALID_RECORD, -1, 4)
    if version >= 8:
        assert [error.batch_index for error in third.record_errors] == [1]


async def refuse_and_answer(node: Node) -> None:
    node.send([packed(GZIP, UNKEYED), packed(GZIP, KEYED)])
    await node.look()
    assert node.end == 2


async def test_a_batch_rejected_after_its_check_leaves_no_references() -> None:
    """Neither the batch nor its decompressed records: the frames of the check have both."""
    node = Node()
    with no_circles():
        await refuse_and_answer(node)


async def test_the_fault_of_a_batch_leaves_its_thread_without_frames() -> None:
    node = Node()
    node.send([packed(GZIP, UNKEYED)])
    ((work, _),) = node.aside
    fault = work()
    assert isinstance(fault, KafkaError)
    assert (fault.__traceback__, fault.__context__, fault.__cause__) == (None, None, None)


@pytest.mark.parametrize(
    ("version", "code"), [(12, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), (13, ErrorCode.UNKNOWN_TOPIC_ID)]
)
async def test_records_for_a_topic_that_is_made_anew_meanwhile_do_not_reach_its_namesake(
    version: int, code: ErrorCode
) -> None:
    node, namesake = Node(), Node()
    answered = kept(node.send([packed(GZIP, KEYED)], version))
    namesake.leader.topic_id = UUID(int=8)
    node.leader = namesake.leader
    await node.look()
    (result,) = results(answered[0], version)
    assert (result.error_code, result.base_offset) == (code, -1)
    assert (node.end, namesake.end) == (0, 0)


async def test_a_long_batch_is_checked_in_a_thread_if_all_records_are_validated() -> None:
    assert not isinstance(Node(TopicConfig()).send([LONG]), PendingReply)
    node = Node(TopicConfig(sluicegate_record_validation="all"))
    answered = kept(node.send([LONG]))
    await node.look()
    assert results(answered[0])[0].base_offset == 0
    assert node.end == 1_000


async def test_acks_all_waits_for_the_replicas_after_the_look() -> None:
    node = Node(COMPACT, 1, 2)
    answered = kept(node.send([packed(GZIP, KEYED)]))
    await node.look()
    assert (node.end, answered) == (2, [])
    for timer in node.timers:
        timer()
    assert results(answered[0])[0].error_code == ErrorCode.REQUEST_TIMED_OUT


async def test_a_failing_batch_with_acks_0_does_not_prevent_the_others_from_being_appended() -> None:
    node = Node()
    pending = node.send([UNKEYED, packed(GZIP, KEYED)], acks=0)
    ended = kept(pending)
    assert (node.end, ended) == (0, [])
    await node.look()
    assert (node.end, ended) == (2, [None])
    assert isinstance(pending, Call)
    connection: Any = pending.connection
    ((kind, _),) = connection.refusals
    assert kind == "acks-0-failed"


async def test_records_replicated_during_the_check_are_answered_at_once() -> None:
    node = Node(COMPACT, 1, 2)
    answered = kept(node.send([KEYED, packed(GZIP, UNKEYED)]))
    node.leader.on_fetch(2, -1, 2, 0.0)
    await node.look()
    assert [part.error_code for part in results(answered[0])] == [ErrorCode.NONE, ErrorCode.INVALID_RECORD]


async def test_a_leadership_that_ended_during_the_check_is_reported_at_once() -> None:
    node = Node(COMPACT, 1, 2)
    answered = kept(node.send([KEYED, packed(GZIP, KEYED)]))
    node.leader.resign()
    await node.look()
    assert [part.error_code for part in results(answered[0])] == [ErrorCode.NOT_LEADER_OR_FOLLOWER] * 2


async def test_without_acks_bad_records_end_the_connection_and_good_ones_are_not_answered() -> None:
    node = Node()
    good, refused = kept(node.send([packed(GZIP, KEYED)], acks=0)), node.send([packed(GZIP, UNKEYED)], acks=0)
    bad = kept(refused)
    await node.look()
    assert (good, bad, node.end) == ([()], [None], 2)
    assert isinstance(refused, Call)
    assert refused.refusal == "acks-0-failed"
    with pytest.raises(ProtocolError):
        node.send([UNKEYED], acks=0)


async def test_records_of_a_client_that_disconnects_meanwhile_are_appended() -> None:
    node = Node()
    pending = node.send([packed(GZIP, KEYED)])
    assert isinstance(pending, PendingReply)
    pending.cancel()
    await node.look()
    assert node.end == 2


async def test_a_leader_that_resigned_meanwhile_appends_nothing() -> None:
    node = Node()
    answered = kept(node.send([packed(GZIP, KEYED)]))
    node.leader.resign()
    await node.look()
    assert results(answered[0])[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert node.end == 0


async def test_a_produce_request_times_out_while_the_check_queue_is_full() -> None:
    node = Node()
    answered = kept(node.send([packed(GZIP, KEYED)]))
    node.aside_is_full = True
    assert results(kept(node.send([packed(GZIP, KEYED)]))[0])[0].error_code == ErrorCode.REQUEST_TIMED_OUT
    await node.look()
    assert results(answered[0])[0].error_code == ErrorCode.NONE
    assert node.end == 2
