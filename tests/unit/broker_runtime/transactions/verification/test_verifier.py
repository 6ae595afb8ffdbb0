"""Leaders ask the coordinator of a transaction, on this broker or on another, and always get a code."""

import asyncio
from collections.abc import AsyncIterator, Collection, Mapping
from uuid import UUID

import pytest

from broker_runtime.config import BrokerConfig
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.metadata.areas.brokers import RegisterBroker, UnfenceBroker
from broker_runtime.metadata.areas.topics import PartitionRecord, TopicRecord
from broker_runtime.metadata.image import MetadataImage
from broker_runtime.metadata.record import MetadataRecord
from broker_runtime.metadata.topic_names import TRANSACTIONS_TOPIC
from broker_runtime.slicing.slices import Slices
from broker_runtime.transactions.seam import TopicPartition
from broker_runtime.transactions.verification.verifier import TransactionVerifier
from broker_runtime.wire.messages import Entity, decode_request, encode_response_body
from tests.support.fakes.manual_clock import ManualClock

pytestmark = pytest.mark.virtual_time
ME, OTHER = 1, 2
A, B = ("orders", 0), ("orders", 1)
ID = UUID(int=9)
NONE, ABORTABLE, LOST = ErrorCode.NONE, ErrorCode.TRANSACTION_ABORTABLE, ErrorCode.NETWORK_EXCEPTION


class Coordinator:
    """A coordinator on this or the other broker, with the partitions of each transaction."""

    def __init__(self) -> None:
        self.partitions: dict[str, set[TopicPartition]] = {"pay": {A}}
        self.requests: list[list[str]] = []
        """The transactional ids of each request."""
        self.down = self.silent = False
        self.top_code = NONE
        self.garbled = False

    def partition_of(self, transactional_id: str) -> int | None:
        return 0

    async def verify(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Collection[TopicPartition],
        *,
        add: bool,
    ) -> Mapping[TopicPartition, ErrorCode]:
        await asyncio.sleep(0.01)
        known = self.partitions.setdefault(transactional_id, set())
        if add:
            known.update(partitions)
        return {place: NONE if place in known else ABORTABLE for place in partitions}

    def link_to(self, broker_id: int) -> "Coordinator":
        assert broker_id == OTHER
        return self

    async def exchange(self, api_key: int, version: int, body: bytes | memoryview) -> memoryview:
        if self.down:
            raise KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, "broker 2: connection refused")
        request = decode_request(api_key, version, memoryview(body))
        self.requests.append([each.transactional_id for each in request.transactions])
        if self.silent:
            await asyncio.get_running_loop().create_future()
        results = [await self._result(each) for each in request.transactions]
        if self.garbled:
            return memoryview(b"\x00")
        answer = {"error_code": self.top_code, "results_by_transaction": [] if self.top_code else results}
        return memoryview(encode_response_body(api_key, version, answer))

    async def _result(self, each: Entity) -> dict[str, object]:
        places = [(topic.name, index) for topic in each.topics for index in topic.partitions]
        codes = await self.verify(
            each.transactional_id, each.producer_id, each.producer_epoch, places, add=not each.verify_only
        )
        topics = [
            {"name": name, "results_by_partition": [{"partition_index": index, "partition_error_code": code}]}
            for (name, index), code in codes.items()
        ]
        return {"transactional_id": each.transactional_id, "topic_results": topics}

    def close(self) -> None:
        """Keep answering: the next link is the same."""


class Leader:
    """Broker 1, which asks. Broker `leader` leads the only partition of `__transaction_state`."""

    def __init__(self, config: BrokerConfig | None = None) -> None:
        self.image = MetadataImage()
        self.here, self.there = Coordinator(), Coordinator()
        self.config = config or BrokerConfig()
        loop = asyncio.get_running_loop()
        self.verifier = TransactionVerifier(
            ME, self.image, lambda: self.here, lambda: self.config, self.there.link_to, Slices(loop.time), ManualClock()
        )

    def coordinated_by(self, leader: int) -> None:
        for broker_id in (ME, OTHER):
            self.apply(RegisterBroker(broker_id, ID, self.image.next_offset, ()))
            self.apply(UnfenceBroker(broker_id, self.image.next_offset - 1))
        self.apply(TopicRecord(TRANSACTIONS_TOPIC, ID))
        self.apply(PartitionRecord(ID, 0, (ME, OTHER), (ME, OTHER), leader, 0, 0))

    def apply(self, record: MetadataRecord) -> None:
        self.image.apply(record, self.image.next_offset)

    async def ask(
        self, *places: TopicPartition, name: str = "pay", epoch: int = 1, add: bool = False
    ) -> Mapping[TopicPartition, ErrorCode]:
        return await self.verifier.verify(name, 7, epoch, places or (A, B), add=add)


@pytest.fixture
async def leader() -> AsyncIterator[Leader]:
    made = Leader()
    yield made
    await made.verifier.close()
    assert len(asyncio.all_tasks()) == 1


@pytest.mark.parametrize("broker_id", [ME, OTHER])
async def test_a_partition_is_verified_and_another_is_not(leader: Leader, broker_id: int) -> None:
    leader.coordinated_by(broker_id)
    assert await leader.ask() == {A: NONE, B: ABORTABLE}
    assert await leader.ask(add=True) == {A: NONE, B: NONE}
    assert await leader.ask() == {A: NONE, B: NONE}
    assert len(leader.there.requests) == (0 if broker_id == ME else 3)
    assert (leader.verifier.tally.questions, leader.verifier.tally.failures) == (3, 1)


async def test_without_a_coordinator_the_client_has_to_try_again(leader: Leader) -> None:
    assert await leader.ask(A) == {A: ErrorCode.COORDINATOR_NOT_AVAILABLE}
    leader.coordinated_by(-1)
    assert await leader.ask(A) == {A: ErrorCode.COORDINATOR_NOT_AVAILABLE}


async def test_questions_during_a_request_share_the_next_one(leader: Leader) -> None:
    leader.coordinated_by(OTHER)
    first = asyncio.create_task(leader.ask(A, name="a"))
    await asyncio.sleep(0.001)
    others = [asyncio.create_task(leader.ask(A, name=name)) for name in "bcd"]
    await asyncio.gather(first, *others)
    assert leader.there.requests == [["a"], ["b", "c", "d"]]


async def test_a_broker_that_is_down_is_a_lost_request(leader: Leader, caplog: pytest.LogCaptureFixture) -> None:
    leader.coordinated_by(OTHER)
    leader.there.down = True
    assert [await leader.ask(A), await leader.ask(A)] == [{A: LOST}, {A: LOST}]
    assert len(caplog.records) == 1
    leader.there.down = False
    assert await leader.ask(A) == {A: NONE}


async def test_a_broker_that_does_not_answer_in_time_is_a_lost_request(leader: Leader) -> None:
    leader.coordinated_by(OTHER)
    leader.there.silent = True
    assert await leader.ask(A) == {A: LOST}


async def test_an_answer_that_cannot_be_read_is_a_lost_request(leader: Leader) -> None:
    leader.coordinated_by(OTHER)
    leader.there.garbled = True
    assert await leader.ask(A) == {A: LOST}


async def test_an_error_of_the_whole_answer_is_the_code_of_each_partition(leader: Leader) -> None:
    leader.coordinated_by(OTHER)
    leader.there.top_code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert set((await leader.ask()).values()) == {ErrorCode.CLUSTER_AUTHORIZATION_FAILED}


async def test_each_question_is_answered_when_the_broker_stops(leader: Leader) -> None:
    leader.coordinated_by(OTHER)
    leader.there.silent = True
    asked = [asyncio.create_task(leader.ask(A, name=name)) for name in "abc"]
    await asyncio.sleep(0.001)
    await leader.verifier.close()
    assert [await each for each in asked] == [{A: LOST}] * 3


async def test_a_cancelled_question_does_not_disturb_the_others(leader: Leader) -> None:
    leader.coordinated_by(OTHER)
    given_up, other = asyncio.create_task(leader.ask(A)), asyncio.create_task(leader.ask(A, name="pay"))
    await asyncio.sleep(0.001)
    given_up.cancel()
    assert await other == {A: NONE}


async def test_the_configuration_in_force_decides() -> None:
    leader = Leader()
    assert leader.verifier.is_enabled
    assert (leader.verifier.retry_backoff_s, leader.verifier.retry_backoff_max_s) == (0.02, 0.1)
    leader.config = BrokerConfig(transaction_partition_verification_enable=False)
    assert not leader.verifier.is_enabled
