"""The ends of leader epochs: the leaders that are asked, how often, and the cost of one that does not answer."""

import asyncio
from collections.abc import Callable
from uuid import UUID

import pytest

from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.groups.epoch_ends import EpochEnds
from broker_runtime.groups.partition_leaders import PAGE, PartitionLeaders
from broker_runtime.groups.push.state.log_ends import Asked, End, Ends
from broker_runtime.metadata.areas.topics import PartitionRecord, TopicRecord
from broker_runtime.metadata.image import MetadataImage
from broker_runtime.wire.messages import decode_request, encode_response_body
from broker_runtime.wire.versions import OFFSET_FOR_LEADER_EPOCH

pytestmark = pytest.mark.virtual_time

T = UUID(int=7)
ME, OTHER, THIRD = 1, 2, 3
EPOCH = 5
TIMEOUT_S = 2.0


class Leader:
    """A broker whose logs end at 100 in the current epoch, and at ten times the number of an earlier one."""

    def __init__(self) -> None:
        self.asked: list[list[tuple[int, int]]] = []
        self.epoch = EPOCH
        self.away = self.silent = self.confused = self.broken = False
        self.closed = 0

    async def exchange(self, api_key: int, version: int, body: bytes | memoryview) -> memoryview:
        assert api_key == OFFSET_FOR_LEADER_EPOCH
        request = decode_request(api_key, version, memoryview(body))
        (topic,) = request.topics
        self.asked.append([(part.partition, part.leader_epoch) for part in topic.partitions])
        await asyncio.sleep(0.1)
        if self.silent:
            await asyncio.Event().wait()
        if self.away:
            raise KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, "broker 2 is away")
        if self.broken:
            raise RuntimeError("a mistake of ours")
        if self.confused:
            return memoryview(b"nonsense")
        parts = []
        for part in topic.partitions:
            code = ErrorCode.NONE if part.current_leader_epoch == self.epoch else ErrorCode.FENCED_LEADER_EPOCH
            end = 100 if part.leader_epoch >= self.epoch else 10 * part.leader_epoch
            parts.append(
                {
                    "error_code": code,
                    "partition": part.partition,
                    "leader_epoch": part.leader_epoch,
                    "end_offset": -1 if code else end,
                }
            )
        answer = {"topics": [{"topic": topic.topic, "partitions": parts}]}
        return memoryview(encode_response_body(api_key, version, answer))

    def close(self) -> None:
        self.closed += 1


class Coordinator:
    """Broker 1 leads t-0, broker 2 an uneven partition, broker 3 an even one; t-8 has no leader."""

    def __init__(self) -> None:
        self.leaders = {OTHER: Leader(), THIRD: Leader()}
        self.image = MetadataImage()
        self.image.apply(TopicRecord("t", T), 0)
        for index in range(2_000):
            leader = {0: ME, 8: -1}.get(index, OTHER if index % 2 else THIRD)
            self.image.apply(PartitionRecord(T, index, (1, 2), (1, 2), leader, EPOCH, 0), self.image.next_offset)
        own = {("t", 0, EPOCH): 70, ("t", 0, 3): 30}
        leaders = PartitionLeaders(self.image, self.leaders.__getitem__, TIMEOUT_S)
        self.ends = EpochEnds(ME, self.image, lambda *asked: own.get(asked), leaders)


@pytest.fixture
def coordinator() -> Coordinator:
    return Coordinator()


def of(*indexes: int, epoch: int = EPOCH) -> Asked:
    return {("t", index): epoch for index in indexes}


async def test_own_logs_and_other_leaders(coordinator: Coordinator) -> None:
    found = await coordinator.ends.of({**of(0, 1, 2, 8), ("gone", 0): 1})
    assert found == {("t", 0): End(EPOCH, 70), ("t", 1): End(EPOCH, 100), ("t", 2): End(EPOCH, 100)}
    found = await coordinator.ends.of(of(0, 1, epoch=3))
    assert found == {("t", 0): End(3, 30), ("t", 1): End(3, 30)}
    assert coordinator.leaders[OTHER].asked == [[(1, EPOCH)], [(1, 3)]]
    await coordinator.ends.close()
    assert coordinator.leaders[OTHER].closed == coordinator.leaders[THIRD].closed == 1


async def test_own_logs_need_no_other_broker(coordinator: Coordinator) -> None:
    assert coordinator.ends.known_ends(of(0)) == ({("t", 0): End(EPOCH, 70)}, {})
    assert await coordinator.ends.of(of(0)) == {("t", 0): End(EPOCH, 70)}
    assert await coordinator.ends.of(of(8)) == {}
    assert not coordinator.leaders[OTHER].asked


async def test_questions_that_arrive_during_a_request_to_a_leader_are_sent_together(coordinator: Coordinator) -> None:
    many = [coordinator.ends.of(of(index)) for index in range(1, 400, 2)]
    found = await asyncio.gather(*many, coordinator.ends.of(of(1)))
    assert all(len(each) == 1 for each in found)
    assert [len(each) for each in coordinator.leaders[OTHER].asked] == [200]


async def test_a_request_has_so_many_partitions_at_most_and_no_partition_twice(coordinator: Coordinator) -> None:
    asked = of(*range(1, 1_200, 2))
    both, earlier = await asyncio.gather(coordinator.ends.of(asked), coordinator.ends.of(of(1, epoch=3)))
    assert len(both) == 600
    assert earlier == {("t", 1): End(3, 30)}
    assert [len(each) for each in coordinator.leaders[OTHER].asked] == [PAGE, PAGE, 101]
    await coordinator.ends.of(of(1))
    first, again = await asyncio.gather(coordinator.ends.of(of(1)), coordinator.ends.of(of(1, epoch=3)))
    assert (first, again) == ({("t", 1): End(EPOCH, 100)}, {("t", 1): End(3, 30)})


async def test_a_leader_of_another_epoch_than_the_metadata_has_says_nothing(coordinator: Coordinator) -> None:
    coordinator.leaders[OTHER].epoch = EPOCH + 1
    assert await coordinator.ends.of(of(1, 2)) == {("t", 2): End(EPOCH, 100)}


@pytest.mark.parametrize("trouble", ["away", "silent", "confused", "broken"])
async def test_a_silent_leader_delays_its_own_partitions_for_one_time_limit_only(
    coordinator: Coordinator, trouble: str
) -> None:
    setattr(coordinator.leaders[OTHER], trouble, True)
    loop = asyncio.get_running_loop()
    began_s = loop.time()
    others = asyncio.create_task(coordinator.ends.of(of(*range(1, 1_500, 2))))
    assert await coordinator.ends.of(of(2)) == {("t", 2): End(EPOCH, 100)}
    assert loop.time() - began_s < TIMEOUT_S / 2
    assert await others == {}
    assert loop.time() - began_s <= TIMEOUT_S + 0.1
    setattr(coordinator.leaders[OTHER], trouble, False)
    assert await coordinator.ends.of(of(1)) == {("t", 1): End(EPOCH, 100)}
    assert coordinator.leaders[OTHER].closed == (trouble in ("silent", "confused"))


async def test_the_trouble_with_each_leader_is_logged_once(
    coordinator: Coordinator, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "broker_runtime.groups.epoch_ends")
    coordinator.leaders[OTHER].away = True
    for _ in range(3):
        await coordinator.ends.of(of(1, 2))
    coordinator.leaders[OTHER].away = False
    for _ in range(3):
        await coordinator.ends.of(of(1, 2))
    assert [record.getMessage() for record in caplog.records] == [
        "the log end offsets of broker 2 cannot be checked: BROKER_NOT_AVAILABLE: broker 2 is away",
        "the log end offsets of broker 2 can be checked again",
    ]


async def test_answers_come_in_a_later_iteration_and_none_after_the_end(coordinator: Coordinator) -> None:
    told: list[Ends] = []
    then: Callable[[Ends], None] = told.append
    coordinator.ends.ask_ends(of(8), then)
    assert told == []
    await asyncio.sleep(0)
    assert told == [{}]
    coordinator.ends.ask_ends(of(1), then)
    await asyncio.sleep(0)
    await coordinator.ends.close()
    await asyncio.sleep(1)
    assert told == [{}]
