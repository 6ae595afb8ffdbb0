"""Produce with a transactional id: what is appended at once, what waits for the coordinator, and what is refused."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from broker_runtime.apis.produce import produce
from broker_runtime.apis.request.call import Call
from broker_runtime.config import TopicConfig, broker_settings
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.metadata.topic_names import GROUPS_TOPIC
from broker_runtime.wire.messages import decode_response
from broker_runtime.wire.reply import PendingReply, Reply
from kafka_bytes.batches import TRANSACTIONAL, ProducerStamp, encode_batch
from kafka_bytes.control import Marker
from tests.support.fakes.scripted_verifier import Question
from tests.support.logs.logs import LogHouse, values_of
from tests.support.logs.replicas import LeadingNode, leading
from tests.support.requests.calls import NotedConnection, handled
from tests.support.requests.request_frames import encode_request

PRODUCE = 0
ADDS_SINCE, BY_ID_SINCE = 12, 13
ALL = -1
PRODUCER, EPOCH = 7, 3
PLACE = "orders", 0
OLD = 9
"""A version whose clients add their partitions themselves."""


class Producer:
    """Produces in transactions to a leader, which is the only replica unless there are others."""

    def __init__(self, *replicas: int, config: TopicConfig | None = None) -> None:
        self.house = LogHouse(config or TopicConfig())
        self.leader = leading(self.house.log, *(replicas or (1,)))
        self.node = LeadingNode(self.leader, self.house.clock)
        self.verifier = self.node.transaction_verifier

    def batch(self, *values: str, sequence: int = 0, epoch: int = EPOCH, producer: int = PRODUCER) -> bytes:
        stamp = ProducerStamp(producer, epoch, sequence)
        records = [(b"k", value.encode()) for value in values]
        return encode_batch(records, self.house.clock.wall_ms(), stamp, attributes=TRANSACTIONAL)

    def send(
        self, *batches: bytes, version: int = OLD, acks: int = ALL, topic: str = "orders", **more: Any
    ) -> Reply | PendingReply:
        node: Any = self.node
        named = {"topic_id": self.house.log.topic_id} if version >= BY_ID_SINCE else {"name": topic}
        partitions = [{"index": 0, "records": records} for records in batches]
        content = {"transactional_id": "payments", "acks": acks, "timeout": 1000}
        content |= {"topic_data": [named | {"partition_data": partitions}]}
        return handled(produce.API, memoryview(encode_request(PRODUCE, version, 1, content | more))[4:], node)

    async def sent(self, *batches: bytes, version: int = OLD, **more: Any) -> Sequence[int]:
        """The error code of each batch."""
        return codes_of(await answered(self.send(*batches, version=version, **more)), version)

    def end(self, *, epoch: int = EPOCH, version: int = 0, is_commit: bool = True) -> None:
        marker = Marker(PRODUCER, epoch, is_commit, 0, version)
        self.house.log.append_marker(marker, leader_epoch=self.leader.leader_epoch)

    @property
    def values(self) -> list[bytes]:
        """The values of all records, without markers."""
        return [value for value in values_of(self.house.log) if value and not value.startswith(b"\x00\x00")]


async def answered(reply: Reply | PendingReply) -> Reply:
    if not isinstance(reply, PendingReply):
        return reply
    done: asyncio.Future[Reply | None] = asyncio.get_running_loop().create_future()
    reply.on_complete(done.set_result)
    found = await asyncio.wait_for(done, 10)
    assert found is not None, "the connection was closed"
    return found


def codes_of(reply: Reply, version: int = OLD) -> Sequence[int]:
    whole = b"".join(bytes(chunk) for chunk in reply if isinstance(chunk, bytes))
    head = 9 if version >= OLD else 8
    answer: Any = decode_response(PRODUCE, version, memoryview(whole)[head:])
    return [int(part.error_code) for topic in answer.responses for part in topic.partition_responses]


async def loops() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


@pytest.mark.parametrize("version", [3, OLD, 11, ADDS_SINCE, BY_ID_SINCE])
async def test_the_first_batch_of_a_transaction_is_verified_and_the_next_ones_are_not(version: int) -> None:
    on = Producer()
    first = on.send(on.batch("a", "b"), version=version)
    assert isinstance(first, PendingReply)
    assert on.values == []
    assert codes_of(await answered(first), version) == [0]
    adds = version >= ADDS_SINCE
    assert on.verifier.questions == [Question("payments", PRODUCER, EPOCH, (PLACE,), adds)]
    second = on.send(on.batch("c", sequence=2), version=version)
    assert not isinstance(second, PendingReply), "an open transaction needs no question"
    assert (codes_of(second, version), on.values) == ([0], [b"a", b"b", b"c"])
    assert on.house.log.last_stable_offset == 0
    on.end(epoch=EPOCH + 1 if adds else EPOCH, version=2 if adds else 0)
    assert on.house.log.last_stable_offset == 4
    next_epoch, sequence = (EPOCH + 1, 0) if adds else (EPOCH, 3)
    assert await on.sent(on.batch("d", sequence=sequence, epoch=next_epoch), version=version) == [0]
    assert len(on.verifier.questions) == 2


@pytest.mark.parametrize(
    ("version", "code", "sent"),
    [
        (10, ErrorCode.TRANSACTION_ABORTABLE, ErrorCode.INVALID_TXN_STATE),
        (11, ErrorCode.TRANSACTION_ABORTABLE, ErrorCode.TRANSACTION_ABORTABLE),
        (OLD, ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH),
        (OLD, ErrorCode.NOT_COORDINATOR, ErrorCode.NOT_ENOUGH_REPLICAS),
        (OLD, ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.NOT_ENOUGH_REPLICAS),
        (OLD, ErrorCode.INVALID_PRODUCER_ID_MAPPING, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
    ],
)
async def test_a_transaction_that_is_not_verified_appends_nothing(
    version: int, code: ErrorCode, sent: ErrorCode
) -> None:
    on = Producer()
    on.verifier.answers = [code]
    assert await on.sent(on.batch("a"), version=version) == [sent]
    assert (on.values, on.node.timers) == ([], [])
    assert await on.sent(on.batch("a"), version=version) == [0]


async def test_an_error_of_the_question_is_the_error_of_all_partitions() -> None:
    on = Producer()
    on.verifier.error = KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "no broker")
    assert await on.sent(on.batch("a")) == [ErrorCode.NOT_ENOUGH_REPLICAS]


async def test_a_coordinator_that_still_ends_the_last_transaction_is_asked_again_for_a_while() -> None:
    on = Producer()
    on.verifier.answers = [ErrorCode.CONCURRENT_TRANSACTIONS] * 2
    pending = on.send(on.batch("a"), version=ADDS_SINCE)
    for _ in range(2):
        await loops()
        (again,) = on.node.timers
        on.node.timers.clear()
        on.house.clock.advance(0.02)
        again()
    assert codes_of(await answered(pending), ADDS_SINCE) == [0]
    assert (len(on.verifier.questions), on.values) == (3, [b"a"])


async def test_the_client_is_asked_to_retry_if_the_last_transaction_takes_longer_to_end() -> None:
    on = Producer()
    on.verifier.answer = ErrorCode.CONCURRENT_TRANSACTIONS
    pending = on.send(on.batch("a"), version=ADDS_SINCE)
    while not pending.done:  # type: ignore[union-attr]
        await loops()
        timers, on.node.timers = on.node.timers, []
        on.house.clock.advance(0.02)
        for again in timers:
            again()
    assert codes_of(await answered(pending), ADDS_SINCE) == [ErrorCode.CONCURRENT_TRANSACTIONS]
    assert (len(on.verifier.questions), on.values) == (6, [])


@pytest.mark.parametrize("version", [OLD, ADDS_SINCE])
async def test_an_append_that_was_verified_before_the_marker_opens_no_transaction(version: int) -> None:
    on = Producer()
    on.verifier.holds = True
    late = on.send(on.batch("late"), version=version)
    is_v2 = version >= ADDS_SINCE
    on.end(epoch=EPOCH + 1 if is_v2 else EPOCH, version=2 if is_v2 else 0, is_commit=False)
    on.verifier.answer_next()
    code = ErrorCode.INVALID_PRODUCER_EPOCH if is_v2 else ErrorCode.INVALID_TXN_STATE
    assert codes_of(await answered(late), version) == [code]
    assert on.values == []
    assert on.house.log.last_stable_offset == on.house.log.high_watermark


async def test_a_batch_of_an_old_epoch_is_refused_without_a_question() -> None:
    on = Producer()
    on.end(epoch=EPOCH + 1)
    assert await on.sent(on.batch("a")) == [ErrorCode.INVALID_PRODUCER_EPOCH]
    assert on.verifier.questions == []


async def test_without_verification_older_clients_append_at_once_and_newer_ones_are_added_all_the_same() -> None:
    on = Producer()
    on.verifier.is_enabled = False
    assert await on.sent(on.batch("a")) == [0]
    assert on.verifier.questions == []
    on.end()
    assert await on.sent(on.batch("b", sequence=1), version=ADDS_SINCE) == [ErrorCode.NONE]
    assert [each.add for each in on.verifier.questions] == [True]


async def test_the_batches_of_a_request_have_one_producer() -> None:
    on = Producer()
    for other in (on.batch("b", epoch=EPOCH + 1), on.batch("b", producer=PRODUCER + 1)):
        code = ErrorCode.INVALID_PRODUCER_ID_MAPPING
        assert await on.sent(on.batch("a"), other) == [code] * 2
    assert (on.values, on.verifier.questions) == ([], [])


async def test_a_partition_that_is_not_in_the_transaction_refuses_its_own_batch_only() -> None:
    on = Producer()
    plain = encode_batch([(b"k", b"plain")], on.house.clock.wall_ms())
    on.verifier.codes[PLACE] = ErrorCode.TRANSACTION_ABORTABLE
    assert await on.sent(on.batch("a"), plain, b"short", version=11) == [
        ErrorCode.TRANSACTION_ABORTABLE,
        0,
        ErrorCode.CORRUPT_MESSAGE,
    ]
    assert on.values == [b"plain"]


async def test_a_batch_outside_of_the_open_transaction_is_refused() -> None:
    on = Producer()
    assert await on.sent(on.batch("a")) == [0]
    outside = encode_batch([(b"k", b"b")], on.house.clock.wall_ms(), ProducerStamp(PRODUCER, EPOCH, 1))
    assert await on.sent(outside) == [ErrorCode.INVALID_TXN_STATE]


async def test_unknown_and_internal_topics_are_not_verified() -> None:
    on = Producer()
    assert await on.sent(on.batch("a"), topic="nope") == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert await on.sent(on.batch("a"), topic=GROUPS_TOPIC) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert on.verifier.questions == []


async def test_verified_records_wait_for_the_replicas() -> None:
    on = Producer(1, 2)
    pending = on.send(on.batch("a"))
    assert isinstance(pending, PendingReply)
    assert pending.admits is None, "batches of a partition stay in their order"
    await loops()
    assert (on.house.log.log_end_offset, pending.done) == (1, False)
    on.leader.on_fetch(2, -1, 1, 0.0)
    assert codes_of(await answered(pending)) == [0]
    more = on.send(on.batch("b", sequence=1))
    assert isinstance(more, PendingReply)
    assert more.admits is not None
    on.leader.on_fetch(2, -1, 2, 0.0)
    assert codes_of(await answered(more)) == [0]


@pytest.mark.parametrize("replicas", [(1,), (1, 2)])
async def test_the_copy_of_an_unverified_batch_counts_as_memory_of_requests_until_it_is_appended(
    replicas: tuple[int, ...],
) -> None:
    on = Producer(*replicas)
    on.verifier.holds = True
    batch = on.batch("a" * 1_000)
    pending = on.send(batch)
    assert isinstance(pending, Call)
    connection = pending.connection
    assert isinstance(connection, NotedConnection)
    assert connection.copied_bytes == len(batch)
    on.verifier.answer_next()
    await loops()
    assert (on.house.log.log_end_offset, connection.copied_bytes) == (1, 0)


async def test_a_leader_that_resigns_meanwhile_appends_nothing() -> None:
    on = Producer()
    on.verifier.holds = True
    pending = on.send(on.batch("a"))
    on.leader.resign()
    on.verifier.answer_next()
    assert codes_of(await answered(pending)) == [ErrorCode.NOT_LEADER_OR_FOLLOWER]


async def test_a_client_that_disconnects_before_the_answer_appends_nothing() -> None:
    on = Producer()
    on.verifier.holds = True
    pending = on.send(on.batch("a"))
    assert isinstance(pending, PendingReply)
    pending.cancel()
    await loops()
    on.verifier.answer_next()
    await loops()
    assert on.values == []


async def test_records_that_another_thread_checks_are_verified_first() -> None:
    on = Producer(config=TopicConfig(cleanup_policy=("compact",)))
    batch = on.batch(*["v" * 1000] * 200)
    pending = on.send(batch)
    await loops()
    (work, checked) = on.node.aside.pop()
    assert on.values == []
    checked.set_result(work())
    assert codes_of(await answered(pending)) == [0]
    assert len(on.values) == 200


async def test_a_transactional_batch_needs_a_transactional_id() -> None:
    on = Producer()
    code = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert await on.sent(on.batch("a"), transactional_id=None) == [code]
    assert (on.values, on.verifier.questions) == ([], [])


async def test_a_request_with_many_partitions_is_verified_in_steps() -> None:
    on = Producer()
    batches = [on.batch("a", sequence=number) for number in range(80)]
    assert await on.sent(*batches) == [0] * 80
    assert len(on.verifier.questions) == 1
    assert await on.sent(*[on.batch("b", sequence=80 + number) for number in range(80)]) == [0] * 80
    assert on.values == [b"a"] * 80 + [b"b"] * 80


async def test_the_coordinator_is_asked_about_a_limited_number_of_batches_at_a_time() -> None:
    on = Producer()
    assert await on.sent(*[on.batch("a", sequence=number) for number in range(2_100)]) == [0] * 2_100
    assert len(on.verifier.questions) == 3
    assert on.values == [b"a"] * 2_100


async def test_a_refusal_of_the_first_batches_does_not_end_the_questions_about_the_later_ones() -> None:
    on = Producer()
    on.verifier.answers = [ErrorCode.TRANSACTION_ABORTABLE]
    codes = await on.sent(*[on.batch("a") for _ in range(1_001)], version=11)
    assert codes == [*[ErrorCode.TRANSACTION_ABORTABLE] * 1_000, 0]
    assert on.values == [b"a"]


async def test_a_partition_has_room_for_a_limited_number_of_open_transactions() -> None:
    on = Producer()
    on.node.settings = broker_settings({"node.id": "1", "sluicegate.partition.transactions.max": "1"})
    assert await on.sent(on.batch("a")) == [0]
    assert await on.sent(on.batch("b", producer=PRODUCER + 1)) == [ErrorCode.NOT_ENOUGH_REPLICAS]
    assert await on.sent(on.batch("c", sequence=1)) == [0]
    on.end()
    assert await on.sent(on.batch("d", producer=PRODUCER + 1)) == [0]
    assert on.values == [b"a", b"c", b"d"]
