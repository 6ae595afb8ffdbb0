"""DescribeLogDamage and AcceptLogLoss: the damage that users see, and their acceptance of exactly that loss."""

import asyncio
import logging
from types import SimpleNamespace
from typing import Any, cast

import pytest

from broker_runtime.apis.partitions import accept_log_loss, describe_log_damage
from broker_runtime.config import TopicConfig
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.metadata.areas.topics import PartitionRecord, TopicRecord
from broker_runtime.metadata.image import MetadataImage
from broker_runtime.wire.messages import decode_request, decode_response, encode_request_body, encode_response_body
from kafka_bytes.own_keys import ACCEPT_LOG_LOSS, DESCRIBE_LOG_DAMAGE
from tests.support.logs.logs import TOPIC_ID, LogHouse, values_of
from tests.support.requests.calls import a_call

COUNT = 40


class Node:
    """Leads orders-0, whose offsets 7, 8, 20 and 30 are damaged; 7, 8 and 10 are in the first of its segments."""

    def __init__(self, *offsets: int) -> None:
        self.house = LogHouse(TopicConfig(segment_bytes=1000))
        for number in range(COUNT):
            self.house.append(b"%02d" % number)
        log = self.house.log
        places = []
        for offset in offsets:
            segment = next(each for each in log.segments if each.base_offset <= offset < each.next_offset)
            position = segment.position_of(offset)
            assert position is not None
            places.append((segment.path, position))
        for path, position in places:
            self.house.fs.flip(path, position + 16, 1)
        for offset in offsets:
            with pytest.raises(KafkaError):
                log.read(offset, 80, min_one=True, up_to=COUNT)
        self.leads = True
        self.leader_epochs = iter([3] * 100)
        self.context: Any = SimpleNamespace(
            logs=self.house.logs,
            image=MetadataImage(),
            settings=SimpleNamespace(node_id=4),
            led=self._led,
            offline_replicas={},
            repair_state=lambda topic, index: f"{topic}-{index} is waiting",
        )
        self.context.image.apply(TopicRecord("orders", TOPIC_ID), 0)
        self.context.image.apply(PartitionRecord(TOPIC_ID, 0, (4,), (4,), 4, 0, 0), 1)

    def _led(self, topic: str, index: int) -> Any:
        if not self.leads or (topic, index) != ("orders", 0):
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "not here")
        return SimpleNamespace(log=self.house.log, leader_epoch=next(self.leader_epochs))

    def describe(self) -> Any:
        request = decode_request(DESCRIBE_LOG_DAMAGE, 0, memoryview(b""))
        answer = describe_log_damage.handle(request, a_call(describe_log_damage.API, 0), self.context)
        return decode_response(DESCRIBE_LOG_DAMAGE, 0, memoryview(encode_response_body(DESCRIBE_LOG_DAMAGE, 0, answer)))

    def accept(self, first_offset: int, next_offset: int, partition: int = 0) -> tuple[ErrorCode, str | None]:
        named = {"topic": "orders", "partition": partition, "first_offset": first_offset, "next_offset": next_offset}
        body = encode_request_body(ACCEPT_LOG_LOSS, 0, named)
        request = decode_request(ACCEPT_LOG_LOSS, 0, memoryview(body))

        async def handled() -> Any:
            answer = accept_log_loss.handle(request, a_call(accept_log_loss.API, 0), self.context)
            return answer if isinstance(answer, dict) else await cast("Any", answer)

        encoded = encode_response_body(ACCEPT_LOG_LOSS, 0, asyncio.run(handled()))
        told = decode_response(ACCEPT_LOG_LOSS, 0, memoryview(encoded))
        return ErrorCode(int(told.error_code)), told.error_message

    @property
    def unreadable(self) -> list[tuple[int, int]]:
        return [(each.first_offset, each.next_offset) for each in self.house.log.damage]


def test_a_broker_without_damage_says_so() -> None:
    told = Node().describe()
    assert (told.broker_id, told.ranges_total, told.partitions) == (4, 0, ())


def test_each_damaged_range_is_described() -> None:
    told = Node(7, 8, 20).describe()
    (partition,) = told.partitions
    assert (partition.topic, partition.partition, partition.leader_id) == ("orders", 0, 4)
    assert partition.repair == "orders-0 is waiting"
    assert [(each.first_offset, each.next_offset) for each in partition.ranges] == [(7, 9), (20, 21)]
    assert "no record batch" in partition.ranges[0].reason


def test_a_replica_that_is_not_served_is_described_without_ranges() -> None:
    node = Node()
    node.context.offline_replicas["orders", 0] = "its newest records are damaged"
    told = node.describe()
    (partition,) = told.partitions
    assert (partition.topic, partition.leader_id, partition.ranges) == ("orders", 4, ())
    assert partition.repair == "it is not served: its newest records are damaged"


def test_more_ranges_than_fit_into_an_answer_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(describe_log_damage, "RANGES_MAX", 1)
    told = Node(7, 20, 30).describe()
    assert (told.ranges_total, len(told.partitions[0].ranges)) == (3, 1)


def test_a_loss_is_accepted_for_the_offsets_that_are_damaged(caplog: pytest.LogCaptureFixture) -> None:
    node = Node(7, 8, 20)
    with caplog.at_level(logging.ERROR):
        assert node.accept(7, 9) == (ErrorCode.NONE, None)
    assert "orders-0: the loss of offsets 7 to 8 was accepted by client " in caplog.text
    assert node.unreadable == [(20, 21)]
    assert node.accept(20, 21) == (ErrorCode.NONE, None)
    assert values_of(node.house.log) == [b"%02d" % number for number in range(COUNT) if number not in (7, 8, 20)]
    assert node.house.logs.damage.accepted_ranges == 2


def test_a_damage_that_nobody_has_seen_is_not_given_up() -> None:
    node = Node(7)
    segment = node.house.log.segments[0]
    position = segment.position_of(3)
    assert position is not None
    node.house.fs.flip(segment.path, position + 16, 1)
    code, message = node.accept(7, 8)
    assert (code, "more damage than was known" in (message or "")) == (ErrorCode.KAFKA_STORAGE_ERROR, True)
    assert node.unreadable == [(3, 4), (7, 8)]
    assert node.accept(3, 8) == (ErrorCode.NONE, None)


def test_several_ranges_are_accepted_at_once() -> None:
    node = Node(7, 20, 30)
    assert node.accept(7, 31) == (ErrorCode.NONE, None)
    assert node.unreadable == []
    assert values_of(node.house.log) == [b"%02d" % number for number in range(COUNT) if number not in (7, 20, 30)]


@pytest.mark.parametrize(
    ("first_offset", "next_offset", "said"),
    [
        (6, 9, "offsets 6 to 8 of orders-0 are not exactly the damaged ranges: 7 to 8, 20 to 20"),
        (7, 10, "damaged ranges: 7 to 8, 20 to 20"),
        (8, 9, "damaged ranges: 7 to 8"),
        (0, 40, "damaged ranges: 7 to 8"),
        (9, 7, "damaged ranges: 7 to 8"),
    ],
)
def test_accepting_the_loss_of_undamaged_offsets_is_rejected(first_offset: int, next_offset: int, said: str) -> None:
    node = Node(7, 8, 20)
    code, message = node.accept(first_offset, next_offset)
    assert code == ErrorCode.INVALID_REQUEST
    assert said in (message or "")
    assert node.unreadable == [(7, 9), (20, 21)]


def test_the_ranges_of_one_segment_go_together() -> None:
    node = Node(7, 10)
    code, message = node.accept(7, 8)
    assert code == ErrorCode.INVALID_REQUEST
    assert message == "the damaged offsets 7 to 10 of orders-0 are in one segment: accept the loss of all of them"
    assert node.accept(7, 11) == (ErrorCode.NONE, None)


def test_only_a_leader_takes_it_and_only_where_something_is_damaged() -> None:
    node = Node(7)
    assert node.accept(7, 8, partition=1)[0] == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert node.accept(7, 8) == (ErrorCode.NONE, None)
    assert node.accept(7, 8) == (ErrorCode.INVALID_REQUEST, "the leader of orders-0 has no damaged offsets")


def test_a_disk_that_fails_leaves_it_damaged() -> None:
    node = Node(7)
    node.house.fs.capacity_bytes = 0
    code, message = node.accept(7, 8)
    assert code == ErrorCode.KAFKA_STORAGE_ERROR
    assert "orders-0 is still damaged" in (message or "")
    assert node.unreadable == [(7, 8)]
    node.house.fs.capacity_bytes = None
    assert node.accept(7, 8) == (ErrorCode.NONE, None)


def test_a_broker_that_leads_in_another_epoch_by_then_gives_up_nothing() -> None:
    node = Node(7)
    node.leader_epochs = iter([3, 4])
    assert node.accept(7, 8) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, "orders-0 has a new leader epoch; try again")
    assert node.unreadable == [(7, 8)]
