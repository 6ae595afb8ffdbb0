"""A leader's reaction to the controller's answer to AlterPartition: success counts once the metadata log has it."""

from types import SimpleNamespace

import pytest

from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.metadata.areas.topics import Partition
from broker_runtime.replication import isr_changes
from broker_runtime.replication.leader import LeaderReplica
from broker_runtime.replication.wanted_isr import wanted_change
from broker_runtime.wire.messages import Entity, Fields
from tests.support.logs.logs import LogHouse
from tests.support.logs.replicas import brokers, leading


class Answering:
    """A controller that answers for one partition."""

    def __init__(self, leader: LeaderReplica, code: ErrorCode, partition_epoch: int) -> None:
        self._answer = SimpleNamespace(
            partition_index=leader.index,
            error_code=code,
            leader_epoch=leader.leader_epoch,
            isr=(1,),
            partition_epoch=partition_epoch,
        )
        self._topic_id = leader.topic_id
        self.refuses = ErrorCode.NONE
        self.asked: list[Fields] = []

    async def request(self, api_key: int, version: int, content: Fields) -> Entity:
        self.asked.append(content)
        topic = SimpleNamespace(topic_id=self._topic_id, partitions=[self._answer])
        return SimpleNamespace(error_code=self.refuses, topics=[topic])


def shrinking() -> tuple[LogHouse, LeaderReplica]:
    """Broker 1 leads and asks for 2, which has one record of two, to leave."""
    house = LogHouse()
    leader = leading(house.log, 1, 2)
    house.append(b"a")
    house.append(b"b")
    leader.on_fetch(2, 12, 1, 0.0)
    change = wanted_change(leader, brokers(1, 2), 100.0, 30.0, 11)
    assert change is not None
    leader.begin(change)
    return house, leader


def shown(leader: LeaderReplica) -> tuple[tuple[int, ...], bool, int]:
    return leader.isr, leader.pending is not None, leader.log.high_watermark


async def test_an_accepted_isr_change_counts_once_the_metadata_log_has_it() -> None:
    house, leader = shrinking()
    await isr_changes.send(Answering(leader, ErrorCode.NONE, 1), 1, 11, [leader])
    house.append(b"c")
    leader.advance()
    assert shown(leader) == ((1, 2), True, 1)
    leader.update(Partition((1, 2), (1,), 1, 0, 1, elr=(2,)), brokers(1, 2), 100.0)
    assert shown(leader) == ((1,), False, 1)


async def test_an_unchanged_isr_does_not_wait_for_metadata() -> None:
    _, leader = shrinking()
    await isr_changes.send(Answering(leader, ErrorCode.NONE, 0), 1, 11, [leader])
    assert shown(leader) == ((1, 2), False, 1)


@pytest.mark.parametrize(
    ("code", "still_asks"),
    [(ErrorCode.INELIGIBLE_REPLICA, False), (ErrorCode.INVALID_UPDATE_VERSION, True), (ErrorCode.NOT_CONTROLLER, True)],
)
async def test_a_refusal_ends_the_change_where_it_cannot_have_been_taken(code: ErrorCode, still_asks: bool) -> None:
    _, leader = shrinking()
    await isr_changes.send(Answering(leader, code, 0), 1, 11, [leader])
    assert shown(leader) == ((1, 2), still_asks, 1)


async def test_a_request_that_is_refused_as_a_whole_is_told() -> None:
    _, leader = shrinking()
    controller = Answering(leader, ErrorCode.NONE, 1)
    controller.refuses = ErrorCode.STALE_BROKER_EPOCH
    with pytest.raises(KafkaError) as refused:
        await isr_changes.send(controller, 1, 11, [leader])
    assert refused.value.code == ErrorCode.STALE_BROKER_EPOCH
    assert leader.pending is not None
    assert controller.asked[0]["broker_epoch"] == 11
