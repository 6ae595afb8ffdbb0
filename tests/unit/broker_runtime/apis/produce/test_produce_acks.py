"""The answers to a producer: nothing before replication, then the offsets, or the error."""

from typing import Any

import pytest

from broker_runtime.apis.produce import produce
from broker_runtime.config import TopicConfig
from broker_runtime.errors import ErrorCode, ProtocolError
from broker_runtime.metadata.areas.topics import Partition
from broker_runtime.wire.messages import decode_response, frame_request
from broker_runtime.wire.reply import PendingReply, Reply
from kafka_bytes.batches import NO_PRODUCER, ProducerStamp, encode_batch
from tests.support.fakes.disks.manual_disk import ManualDisk
from tests.support.logs.logs import LogHouse, values_of
from tests.support.logs.packed_batches import packed
from tests.support.logs.replicas import LeadingNode, brokers, leading
from tests.support.requests.calls import handled
from tests.support.requests.request_frames import encode_request

PRODUCE, VERSION = 0, 9
LIST_OFFSETS = 2
ALL = -1


class Producer:
    """Produces to a leader with followers 2 and 3."""

    def __init__(self, *isr: int, min_isr: int = 1) -> None:
        self.house = LogHouse(TopicConfig(min_insync_replicas=min_isr))
        self.leader = leading(self.house.log, 1, 2, 3, isr=isr or None)
        self.node = LeadingNode(self.leader, self.house.clock)

    def send(
        self, acks: int = ALL, partitions: int = 1, *, value: bytes = b"v", stamp: ProducerStamp = NO_PRODUCER
    ) -> Reply | PendingReply:
        node: Any = self.node
        return handled(produce.API, self.frame(acks, partitions, value=value, stamp=stamp), node)

    def frame(
        self,
        acks: int,
        partitions: int,
        version: int = VERSION,
        *,
        value: bytes = b"v",
        stamp: ProducerStamp = NO_PRODUCER,
        records: bytes | None = None,
    ) -> memoryview:
        records = records or encode_batch([(b"k", value)], self.house.clock.wall_ms(), stamp)
        content = {
            "transactional_id": None,
            "acks": acks,
            "timeout": 1000,
            "topic_data": [
                {"name": "orders", "partition_data": [{"index": 0, "records": records} for _ in range(partitions)]}
            ],
        }
        return memoryview(encode_request(PRODUCE, version, 1, content))[4:]


@pytest.mark.parametrize(
    ("version", "codec", "code"),
    [
        (3, 4, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
        (6, 4, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
        (6, 1, ErrorCode.NONE),
        (7, 4, ErrorCode.NONE),
    ],
)
def test_batches_that_zstd_has_compressed_are_refused_before_version_7(
    version: int, codec: int, code: ErrorCode
) -> None:
    producer = Producer(1)
    plain = encode_batch([(b"k", b"v")], producer.house.clock.wall_ms(), NO_PRODUCER)
    node: Any = producer.node
    sent = handled(produce.API, producer.frame(ALL, 1, version, records=packed(codec, plain)), node)
    assert [part.error_code for part in parts_of(sent, version)] == [code]


class Answer:
    """The answer of a request that waits; empty until it arrives."""

    def __init__(self, pending: Reply | PendingReply) -> None:
        assert isinstance(pending, PendingReply), "the answer came before the followers had the records"
        self.pending = pending
        self.replies: list[Reply | None] = []
        pending.on_complete(self.replies.append)

    @property
    def parts(self) -> Any:
        (reply,) = self.replies
        assert reply is not None
        return parts_of(reply)


def parts_of(reply: Reply | PendingReply, version: int = VERSION) -> Any:
    assert not isinstance(reply, PendingReply), "the answer was expected at once"
    whole = b"".join(bytes(chunk) for chunk in reply if isinstance(chunk, bytes))
    head = 9 if version >= VERSION else 8
    return decode_response(PRODUCE, version, memoryview(whole)[head:]).responses[0].partition_responses


def test_acks_all_answers_when_all_in_sync_replicas_have_the_records() -> None:
    producer = Producer()
    answer = Answer(producer.send())
    producer.leader.on_fetch(2, -1, 1, 0.0)
    assert not answer.replies
    producer.leader.on_fetch(3, -1, 1, 0.0)
    assert (answer.parts[0].error_code, answer.parts[0].base_offset) == (ErrorCode.NONE, 0)


def test_batches_after_a_waiting_one_may_be_appended_but_no_other_request_overtakes() -> None:
    producer = Producer()
    waiting = producer.send()
    assert isinstance(waiting, PendingReply)
    assert waiting.admits is not None
    assert waiting.admits(memoryview(frame_request(PRODUCE, VERSION, 2, b""))[4:])
    assert not waiting.admits(memoryview(frame_request(LIST_OFFSETS, 7, 2, b""))[4:])


def test_acks_all_of_a_leader_that_is_alone_answers_at_once() -> None:
    assert parts_of(Producer(1).send())[0].error_code == ErrorCode.NONE


@pytest.mark.parametrize("acks", [0, 1])
def test_the_leaders_own_append_is_enough_for_acks_0_and_1(acks: int) -> None:
    producer = Producer()
    reply = producer.send(acks)
    assert not isinstance(reply, PendingReply)
    assert producer.house.log.log_end_offset == 1


def test_time_is_limited_and_the_records_stay() -> None:
    producer = Producer()
    answer = Answer(producer.send())
    producer.node.timers[0]()
    assert answer.parts[0].error_code == ErrorCode.REQUEST_TIMED_OUT
    assert producer.house.log.log_end_offset == 1


def test_a_leader_that_is_replaced_does_not_say_yes() -> None:
    producer = Producer()
    answer = Answer(producer.send())
    producer.leader.resign()
    assert answer.parts[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_too_few_in_sync_replicas_take_nothing() -> None:
    producer = Producer(1, min_isr=2)
    assert parts_of(producer.send())[0].error_code == ErrorCode.NOT_ENOUGH_REPLICAS
    assert producer.house.log.log_end_offset == 0
    assert parts_of(producer.send(acks=1))[0].error_code == ErrorCode.NONE


def test_a_producer_with_a_new_epoch_may_repeat_unacknowledged_batches() -> None:
    """As with Apache Kafka: librdkafka takes a new epoch when replicas recover between batches in flight."""
    producer = Producer(1, 2, min_isr=2)

    def code(sequence: int, epoch: int = 0) -> ErrorCode:
        stamp = ProducerStamp(9, epoch, sequence)
        return ErrorCode(parts_of(producer.send(value=b"%d" % sequence, stamp=stamp))[0].error_code)

    Answer(producer.send(value=b"0", stamp=ProducerStamp(9, 0, 0))).pending.cancel()
    producer.leader.update(Partition((1, 2, 3), (1,), 1, 0, 1), brokers(1, 2, 3), 0.0)
    assert [code(0), code(1)] == [ErrorCode.NOT_ENOUGH_REPLICAS] * 2
    producer.leader.update(Partition((1, 2, 3), (1, 2), 1, 0, 2), brokers(1, 2, 3), 0.0)
    assert code(2) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert code(0) == ErrorCode.NONE
    assert values_of(producer.house.log) == [b"0"]
    Answer(producer.send(value=b"0", stamp=ProducerStamp(9, 1, 0)))
    producer.leader.on_fetch(2, -1, 2, 0.0)
    assert values_of(producer.house.log) == [b"0", b"0"]
    assert code(1) == ErrorCode.INVALID_PRODUCER_EPOCH


def test_an_in_sync_set_that_shrinks_meanwhile_is_told() -> None:
    producer = Producer(1, 2, min_isr=2)
    answer = Answer(producer.send())
    producer.leader.update(Partition((1, 2, 3), (1,), 1, 0, 1), brokers(1, 2, 3), 0.0)
    assert answer.parts[0].error_code == ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND


def test_a_request_waits_for_all_of_its_partitions() -> None:
    producer = Producer(1, 2)
    answer = Answer(producer.send(partitions=2))
    producer.leader.on_fetch(2, -1, 1, 0.0)
    assert not answer.replies
    producer.leader.on_fetch(2, -1, 2, 0.0)
    assert [part.base_offset for part in answer.parts] == [0, 1]


def test_no_answer_is_sent_after_the_client_disconnected() -> None:
    producer = Producer()
    answer = Answer(producer.send())
    answer.pending.cancel()
    producer.leader.on_fetch(2, -1, 1, 0.0)
    producer.leader.on_fetch(3, -1, 1, 0.0)
    assert not answer.replies


def test_a_failure_with_acks_0_ends_the_connection() -> None:
    producer = Producer()
    producer.node.leader.log.end()
    with pytest.raises(ProtocolError, match="acks=0"):
        producer.send(acks=0)


class FlushingProducer(Producer):
    """Produces to a topic with flush.messages=1 on a disk that is as slow as a test likes."""

    def __init__(self, *isr: int) -> None:
        self.disk = ManualDisk()
        self.house = LogHouse(TopicConfig(flush_messages=1), self.disk)
        self.leader = leading(self.house.log, 1, 2, 3, isr=isr or None)
        self.node = LeadingNode(self.leader, self.house.clock)


@pytest.mark.parametrize("acks", [1, ALL])
def test_flush_messages_is_answered_after_the_sync(acks: int) -> None:
    producer = FlushingProducer(1)
    first, second = Answer(producer.send(acks)), Answer(producer.send(acks))
    assert not first.replies
    producer.disk.finish_one()
    assert (first.parts[0].error_code, first.parts[0].base_offset) == (ErrorCode.NONE, 0)
    assert not second.replies
    producer.disk.finish_one()
    assert second.parts[0].base_offset == 1


def test_acks_all_waits_for_the_leaders_own_disk_as_for_the_followers() -> None:
    producer = FlushingProducer()
    answer = Answer(producer.send())
    producer.leader.on_fetch(2, -1, 1, 0.0)
    producer.leader.on_fetch(3, -1, 1, 0.0)
    assert not answer.replies
    producer.disk.finish_one()
    assert answer.parts[0].error_code == ErrorCode.NONE


@pytest.mark.parametrize("acks", [1, ALL])
def test_a_disk_that_fails_is_told(acks: int) -> None:
    producer = FlushingProducer(1)
    answer = Answer(producer.send(acks))
    producer.house.fs.failing_fsync = True
    producer.disk.finish_one()
    assert answer.parts[0].error_code == ErrorCode.KAFKA_STORAGE_ERROR


@pytest.mark.parametrize("acks", [1, ALL])
def test_a_disk_that_fails_at_once_is_told(acks: int) -> None:
    producer = FlushingProducer(1)
    producer.disk.slow = False
    producer.house.fs.failing_fsync = True
    assert Answer(producer.send(acks)).parts[0].error_code == ErrorCode.KAFKA_STORAGE_ERROR


@pytest.mark.parametrize("acks", [1, ALL])
def test_pending_produce_requests_fail_when_the_leader_resigns(acks: int) -> None:
    producer = FlushingProducer(1)
    answer = Answer(producer.send(acks))
    producer.leader.resign()
    assert answer.parts[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_with_acks_1_the_time_out_of_the_request_is_not_for_the_disk() -> None:
    producer = FlushingProducer(1)
    answer = Answer(producer.send(acks=1))
    for timer in producer.node.timers:
        timer()
    assert not answer.replies
    producer.disk.finish_one()
    assert answer.parts[0].error_code == ErrorCode.NONE


def test_acks_0_sends_no_answer() -> None:
    assert FlushingProducer(1).send(acks=0) == ()


def test_a_partition_whose_disk_has_failed_is_counted_once() -> None:
    """The partition is counted once even if its leader resigns while another partition of the request still waits."""
    failing, slow = FlushingProducer(1), FlushingProducer(1)
    failing.disk.slow = False
    failing.house.fs.failing_fsync = True
    leaders = iter([failing.leader, slow.leader])
    node: Any = slow.node
    node.led = lambda _topic, _index: next(leaders)
    answer = Answer(slow.send(acks=1, partitions=2))
    failing.leader.resign()
    assert not answer.replies
    slow.disk.finish_one()
    assert [part.error_code for part in answer.parts] == [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NONE]


@pytest.mark.parametrize("version", [7, VERSION])
def test_a_request_that_breaks_off_has_appended_nothing(version: int) -> None:
    producer = Producer(1)
    frame = producer.frame(acks=1, partitions=2, version=version)
    node: Any = producer.node
    for end in range(20, len(frame)):
        with pytest.raises(ProtocolError):
            handled(produce.API, frame[:end], node)
    assert producer.house.log.log_end_offset == 0
    handled(produce.API, frame, node)
    assert producer.house.log.log_end_offset == 2
