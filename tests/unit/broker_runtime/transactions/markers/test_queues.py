"""Markers reach the leader of each partition, with one request at a time to a broker."""

from collections.abc import Mapping

import pytest

from broker_runtime.errors import ErrorCode
from broker_runtime.slicing.steps import at_once
from broker_runtime.transactions.ids.partition_set import PartitionSet
from broker_runtime.transactions.leaders import NO_LEADER
from broker_runtime.transactions.markers.queues import MarkerBatch, MarkerLimits, MarkerQueues
from broker_runtime.transactions.seam import EndedTransaction, TopicPartition
from tests.support.coordination.calls import calls_of
from tests.support.requests.step_sizes import objects_of_a_step
from tests.support.transactions.ending import RecordingListener, ended

A, B, C = ("orders", 0), ("orders", 1), ("bills", 0)
FIRST_S, LAST_S = 0.02, 0.16
RETRIED = (
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    ErrorCode.KAFKA_STORAGE_ERROR,
)
UNEXPECTED = (
    ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.CORRUPT_MESSAGE,
    ErrorCode.MESSAGE_TOO_LARGE,
    ErrorCode.RECORD_LIST_TOO_LARGE,
    ErrorCode.INVALID_REQUIRED_ACKS,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ErrorCode.TRANSACTION_COORDINATOR_FENCED,
)


class Fixture:
    """Queues over a table of leaders, with a clock that the test sets."""

    def __init__(self, partitions_max: int = 100) -> None:
        self.leaders: dict[TopicPartition, int] = {A: 1, B: 1, C: 2}
        self.queues = MarkerQueues(self.leaders.get, MarkerLimits(partitions_max, FIRST_S, LAST_S))
        self.coordinator = RecordingListener()
        self.now_s = 0.0

    def send(self, name: str, *places: TopicPartition, producer_id: int = 7, partition: int = 0) -> None:
        transaction = ended(name, places, producer_id, coordinator_partition=partition)
        self.queues.send(transaction, self.coordinator)

    def requests(self) -> list[MarkerBatch]:
        """Return the requests that begin now, by broker."""
        at_once(self.queues.route(self.now_s))
        begun = [at_once(self.queues.take(broker_id)) for broker_id in sorted(self.queues.ready(self.now_s))]
        return [batch for batch in begun if batch is not None]

    def answer(self, batch: MarkerBatch, code: int = 0, *other: Mapping[TopicPartition, int]) -> list[int]:
        """Answer a request: `code` for each partition, or one mapping for each transaction."""
        codes = other or [dict.fromkeys(places, code) for _, places in batch.markers]
        unexpected = at_once(self.queues.answered(batch, codes, self.now_s))
        return [each for _, each in unexpected]


def contents(batch: MarkerBatch) -> dict[str, set[TopicPartition]]:
    return {transaction.transactional_id: set(places) for transaction, places in batch.markers}


def test_each_leader_gets_one_request_with_its_partitions() -> None:
    fixture = Fixture()
    fixture.send("pay", A, B, C)
    first, second = fixture.requests()
    assert (first.broker_id, contents(first)) == (1, {"pay": {A, B}})
    assert (second.broker_id, contents(second)) == (2, {"pay": {C}})
    fixture.answer(second)
    assert fixture.coordinator.done == [("pay", C)]
    fixture.answer(first)
    assert set(fixture.coordinator.done) == {("pay", A), ("pay", B), ("pay", C)}
    assert fixture.queues.transactions == 0
    assert fixture.queues.due_s() is None


def test_transactions_wait_for_the_request_under_way_and_share_the_next() -> None:
    fixture = Fixture()
    fixture.send("one", A, producer_id=1)
    (first,) = fixture.requests()
    fixture.send("two", A, producer_id=2)
    fixture.send("three", B, producer_id=3)
    assert fixture.requests() == []
    assert fixture.queues.waiting() == (2, 0)
    fixture.answer(first)
    (second,) = fixture.requests()
    assert contents(second) == {"two": {A}, "three": {B}}


def test_a_request_has_no_more_partitions_than_the_limit() -> None:
    fixture = Fixture(partitions_max=2)
    places = [("orders", index) for index in range(5)]
    fixture.leaders.update(dict.fromkeys(places, 1))
    fixture.send("pay", *places)
    sizes = []
    while fixture.queues.transactions:
        (batch,) = fixture.requests()
        sizes.append(sum(len(some) for _, some in batch.markers))
        fixture.answer(batch)
    assert sizes == [2, 2, 1]
    assert sorted(place for _, place in fixture.coordinator.done) == places


def test_two_transactions_of_one_producer_never_share_a_request() -> None:
    fixture = Fixture()
    fixture.send("one", A, producer_id=7)
    fixture.send("one again", B, producer_id=7)
    fixture.send("other", B, producer_id=8)
    (first,) = fixture.requests()
    assert contents(first) == {"one": {A}, "other": {B}}
    fixture.answer(first)
    (second,) = fixture.requests()
    assert contents(second) == {"one again": {B}}


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.NONE,
        ErrorCode.UNSUPPORTED_VERSION,
        ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
        ErrorCode.INVALID_PRODUCER_EPOCH,
    ],
)
def test_a_partition_that_needs_no_marker_is_reported(code: ErrorCode) -> None:
    fixture = Fixture()
    fixture.send("pay", A)
    fixture.answer(fixture.requests()[0], code)
    assert fixture.coordinator.done == [("pay", A)]


@pytest.mark.parametrize("code", [*RETRIED, *UNEXPECTED])
def test_a_failed_partition_is_sent_to_its_new_leader_after_a_pause(code: ErrorCode) -> None:
    fixture = Fixture()
    fixture.send("pay", A, B)
    (batch,) = fixture.requests()
    unexpected = fixture.answer(batch, 0, {A: ErrorCode.NONE, B: code})
    assert unexpected == ([code] if code in UNEXPECTED else [])
    assert fixture.coordinator.done == [("pay", A)]
    fixture.leaders[B] = 2
    assert fixture.requests() == []
    assert fixture.queues.due_s() == FIRST_S
    fixture.now_s = FIRST_S
    (again,) = fixture.requests()
    assert (again.broker_id, contents(again)) == (2, {"pay": {B}})
    fixture.answer(again)
    assert fixture.queues.transactions == 0


def test_a_newer_epoch_in_one_partition_leaves_the_markers_of_the_others_to_write() -> None:
    fixture = Fixture()
    fixture.send("old", A, B, C, producer_id=1)
    to_one, to_two = fixture.requests()
    fixture.answer(to_one, 0, {A: ErrorCode.INVALID_PRODUCER_EPOCH, B: ErrorCode.NOT_LEADER_OR_FOLLOWER})
    fixture.answer(to_two)
    assert fixture.coordinator.done == [("old", A), ("old", C)]
    fixture.now_s = FIRST_S
    (again,) = fixture.requests()
    assert contents(again) == {"old": {B}}


def test_pauses_grow_to_the_longest_and_shrink_after_progress() -> None:
    fixture = Fixture()
    fixture.send("pay", A, B)
    pauses = []
    for _ in range(6):
        (batch,) = fixture.requests()
        fixture.answer(batch, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        due_s = fixture.queues.due_s()
        assert due_s is not None
        pauses.append(round(due_s - fixture.now_s, 6))
        fixture.now_s = due_s
    assert pauses == [FIRST_S, 0.04, 0.08, LAST_S, LAST_S, LAST_S]
    (batch,) = fixture.requests()
    fixture.answer(batch, 0, {A: ErrorCode.NONE, B: ErrorCode.NOT_LEADER_OR_FOLLOWER})
    assert fixture.queues.due_s() == pytest.approx(fixture.now_s + FIRST_S)


def test_a_partition_without_a_leader_waits_until_it_has_one() -> None:
    fixture = Fixture()
    fixture.leaders[A] = NO_LEADER
    fixture.send("pay", A)
    assert fixture.requests() == []
    assert fixture.queues.waiting() == (0, 1)
    fixture.leaders[A] = 2
    fixture.now_s = fixture.queues.due_s() or 0.0
    (batch,) = fixture.requests()
    assert batch.broker_id == 2
    fixture.answer(batch)
    assert fixture.coordinator.done == [("pay", A)]


def test_a_deleted_partition_is_done_without_a_marker() -> None:
    fixture = Fixture()
    del fixture.leaders[A]
    fixture.send("pay", A, B)
    (batch,) = fixture.requests()
    assert contents(batch) == {"pay": {B}}
    assert fixture.coordinator.done == [("pay", A)]
    del fixture.leaders[B]
    fixture.answer(batch, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    fixture.now_s = FIRST_S
    assert fixture.requests() == []
    assert fixture.coordinator.done == [("pay", A), ("pay", B)]
    assert fixture.queues.transactions == 0


def test_a_request_without_an_answer_is_repeated_and_its_broker_pauses() -> None:
    fixture = Fixture()
    fixture.send("one", A, producer_id=1)
    (batch,) = fixture.requests()
    fixture.send("two", B, producer_id=2)
    at_once(fixture.queues.route(0.0))
    fixture.queues.failed(batch, 0.0)
    fixture.send("three", B, producer_id=3)
    assert fixture.requests() == []
    fixture.leaders[B] = 2
    fixture.now_s = FIRST_S
    again = {batch.broker_id: contents(batch) for batch in fixture.requests()}
    # The leader of the third was looked up before the failure could show.
    assert again == {1: {"one": {A}, "three": {B}}, 2: {"two": {B}}}


def test_nothing_is_reported_about_the_transactions_of_a_term_that_has_ended() -> None:
    fixture = Fixture()
    fixture.send("old term", A, B, producer_id=1, partition=4)
    fixture.send("other", A, producer_id=2, partition=5)
    (batch,) = fixture.requests()
    fixture.send("waits", A, producer_id=3, partition=4)
    at_once(fixture.queues.route(0.0))
    fixture.queues.drop(4)
    fixture.answer(batch)
    assert fixture.coordinator.done == [("other", A)]
    assert fixture.requests() == []
    assert fixture.queues.transactions == 0


def test_no_step_of_a_large_transaction_takes_long_also_if_it_is_dropped() -> None:
    count = 20_000
    places = [("orders", 1_000 + index) for index in range(count)]
    fixture = Fixture()
    fixture.leaders.update(dict.fromkeys(places, 1))
    large = EndedTransaction("large", ended("", ()).marker, PartitionSet.of(*places), 0)
    fixture.queues.send(large, fixture.coordinator)
    fixture.leaders.clear()
    del places
    fixture.leaders[A] = 1
    fixture.queues._leader_of = lambda _: 1
    assert objects_of_a_step(fixture.queues.route(0.0)) < count / 4
    (batch,) = fixture.requests()
    assert objects_of_a_step(fixture.queues.answered(batch, [{A: ErrorCode.NONE}], 0.0)) < count / 4
    fixture.queues.drop(0)
    assert fixture.queues.has_unrouted
    assert fixture.requests() == []
    del batch
    assert objects_of_a_step(fixture.queues.route(1.0)) < count / 4
    assert not fixture.queues.has_unrouted


def test_a_dropped_transaction_without_a_leader_is_not_looked_up_for_ever() -> None:
    fixture = Fixture()
    fixture.leaders[A] = NO_LEADER
    fixture.send("pay", A)
    fixture.requests()
    fixture.queues.drop(0)
    fixture.now_s = FIRST_S
    fixture.requests()
    assert fixture.queues.due_s() is None


def test_a_result_that_comes_twice_is_reported_once() -> None:
    fixture = Fixture()
    fixture.send("pay", A, B)
    (batch,) = fixture.requests()
    fixture.answer(batch, 0, {A: ErrorCode.NONE})
    assert fixture.coordinator.done == [("pay", A)]
    fixture.now_s = FIRST_S
    (again,) = fixture.requests()
    assert contents(again) == {"pay": {B}}
    fixture.answer(again, 0, {A: ErrorCode.NONE, B: ErrorCode.NONE})
    assert fixture.coordinator.done == [("pay", A), ("pay", B)]


def test_very_many_transactions_are_dropped_skipped_and_sent_again_in_short_steps() -> None:
    fixture, transactions = Fixture(partitions_max=1), 2_000
    for number in range(transactions):
        fixture.send(f"pay {number}", A, producer_id=number)
    (batch,) = fixture.requests()
    assert fixture.queues.waiting() == (transactions - 1, 0)
    assert calls_of(lambda: fixture.queues.failed(batch, 0.0)) < 100
    fixture.now_s = LAST_S
    (batch,) = fixture.requests()
    fixture.answer(batch)
    assert calls_of(lambda: fixture.queues.drop(0)) < 100
    take = fixture.queues.take(1)
    assert max(calls_of(lambda: next(take, None)) for _ in range(transactions)) < 200
    at_once(fixture.queues.route(0.0))
    assert (fixture.queues.waiting(), fixture.queues.transactions, fixture.queues.has_unrouted) == ((0, 0), 0, False)


def test_partitions_without_a_leader_are_counted_until_their_leader_is_looked_up_again() -> None:
    fixture = Fixture()
    fixture.leaders.update({A: NO_LEADER, B: NO_LEADER})
    fixture.send("pay", A, B, C)
    (batch,) = fixture.requests()
    assert fixture.queues.waiting() == (0, 2)
    fixture.answer(batch)
    fixture.leaders.update({A: 2, B: 2})
    fixture.now_s = FIRST_S
    (batch,) = fixture.requests()
    assert (contents(batch), fixture.queues.waiting()) == ({"pay": {A, B}}, (0, 0))
