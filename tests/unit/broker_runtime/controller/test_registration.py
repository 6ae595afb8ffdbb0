"""KIP-631's rules for registration, sessions and fencing, in virtual time (facts of Kafka's own tests)."""

from uuid import UUID

import pytest

from broker_runtime.controller.records import FenceBroker, PartitionRecord, RegisterBroker, UnfenceBroker
from broker_runtime.controller.registration import (
    Heartbeat,
    HeartbeatAnswer,
    Registration,
    Sessions,
    fence,
    heartbeat,
    register,
    unfence,
)
from broker_runtime.errors import ErrorCode, KafkaError
from tests.support.controller import CLUSTER_ID, Metadata, endpoints

OLD, NEW = UUID(int=1), UUID(int=2)


def wanted(broker_id: int = 1, incarnation: UUID | None = OLD, cluster_id: str = CLUSTER_ID) -> Registration:
    return Registration(broker_id, cluster_id, incarnation, endpoints(), "a")


def test_a_registration_starts_fenced_with_the_offset_of_its_record_as_epoch() -> None:
    metadata, sessions = Metadata(), Sessions(9.0)
    assert metadata.commit(register(wanted(), metadata.image, sessions, 0.0)) == 1
    assert metadata.image.brokers[1].fenced
    assert metadata.image.brokers[1].epoch == metadata.image.offset


def test_the_same_incarnation_keeps_its_epoch_and_writes_nothing() -> None:
    metadata, sessions = Metadata(), Sessions(9.0)
    metadata.commit(register(wanted(), metadata.image, sessions, 0.0))
    records, epoch = register(wanted(), metadata.image, sessions, 1.0)
    assert (list(records), epoch) == ([], 1)


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        (wanted(cluster_id="other"), ErrorCode.INCONSISTENT_CLUSTER_ID),
        (wanted(incarnation=None), ErrorCode.INVALID_REGISTRATION),
        (Registration(1, CLUSTER_ID, OLD, (), None), ErrorCode.INVALID_REGISTRATION),
        (Registration(1, CLUSTER_ID, OLD, endpoints("A", "A"), None), ErrorCode.INVALID_REGISTRATION),
    ],
)
def test_registrations_that_are_refused(asked: Registration, code: ErrorCode) -> None:
    with pytest.raises(KafkaError) as refused:
        register(asked, Metadata().image, Sessions(9.0), 0.0)
    assert refused.value.code == code


def test_a_second_incarnation_waits_until_the_session_of_the_first_is_over() -> None:
    metadata, sessions = Metadata(), Sessions(9.0)
    epoch = metadata.commit(register(wanted(), metadata.image, sessions, 0.0))
    beat = Heartbeat(1, epoch, epoch, False, False)
    sessions.touch(1, epoch, 0.0)
    metadata.commit(heartbeat(beat, metadata.image, sessions, 0.0))
    with pytest.raises(KafkaError) as refused:
        register(wanted(incarnation=NEW), metadata.image, sessions, 9.0)
    assert refused.value.code == ErrorCode.DUPLICATE_BROKER_REGISTRATION
    records, new_epoch = register(wanted(incarnation=NEW), metadata.image, sessions, 9.001)
    assert [type(record) for record in records] == [RegisterBroker]
    metadata.write(*records)
    assert new_epoch == metadata.image.offset
    assert metadata.image.brokers[1].incarnation == NEW


def test_a_clean_stop_frees_the_id_at_once() -> None:
    metadata, sessions = Metadata(), Sessions(9.0)
    epoch = metadata.commit(register(wanted(), metadata.image, sessions, 0.0))
    for beat in (Heartbeat(1, epoch, epoch, False, False), Heartbeat(1, epoch, epoch, False, True)):
        sessions.touch(1, epoch, 1.0)
        answer = metadata.commit(heartbeat(beat, metadata.image, sessions, 1.0))
    assert answer == HeartbeatAnswer(is_caught_up=True, is_fenced=True, should_shut_down=True)
    assert metadata.image.brokers[1].fenced
    assert metadata.commit(register(wanted(incarnation=NEW), metadata.image, sessions, 1.0)) > epoch


@pytest.mark.parametrize(
    ("fenced", "beat", "answer", "records"),
    [
        (True, (100, False, False), (True, False, False), [UnfenceBroker]),
        (True, (0, False, False), (False, True, False), []),
        (True, (100, True, False), (True, True, False), []),
        (True, (100, False, True), (True, True, True), []),
        (False, (100, False, False), (True, False, False), []),
        (False, (100, True, False), (True, True, False), [FenceBroker]),
        (False, (100, True, True), (True, True, True), [FenceBroker]),
        (False, (100, False, True), (True, True, True), [FenceBroker]),
    ],
)
def test_what_a_heartbeat_does(
    fenced: bool, beat: tuple[int, bool, bool], answer: tuple[bool, bool, bool], records: list[type]
) -> None:
    metadata, sessions = Metadata(), Sessions(9.0)
    metadata.broker(1, fenced=fenced)
    written, got = heartbeat(Heartbeat(1, 1, *beat), metadata.image, sessions, 0.0)
    assert got == HeartbeatAnswer(*answer)
    assert [type(record) for record in written] == records


@pytest.mark.parametrize(("broker_id", "epoch"), [(1, 99), (7, 1)])
def test_a_heartbeat_of_another_epoch_is_stale(broker_id: int, epoch: int) -> None:
    metadata = Metadata()
    metadata.broker(1)
    with pytest.raises(KafkaError) as refused:
        heartbeat(Heartbeat(broker_id, epoch, 100, False, False), metadata.image, Sessions(9.0), 0.0)
    assert refused.value.code == ErrorCode.STALE_BROKER_EPOCH


def test_a_session_is_valid_for_its_epoch_up_to_and_including_its_timeout() -> None:
    metadata, sessions = Metadata(), Sessions(9.0)
    metadata.broker(1)
    sessions.touch(1, 1, 0.0)
    assert sessions.is_live(1, 1, 9.0)
    assert not sessions.is_live(1, 2, 0.0)
    assert sessions.expired(metadata.image, 9.0) == []
    assert sessions.expired(metadata.image, 9.001) == [1]


def test_a_controller_that_starts_gives_fresh_sessions_to_unfenced_brokers_only() -> None:
    metadata, sessions = Metadata(), Sessions(9.0)
    metadata.broker(1)
    metadata.broker(2, fenced=True)
    metadata.broker(3)
    sessions.renew_all(metadata.image, 100.0, but=3)
    live = [b.id for b in metadata.image.brokers.values() if sessions.is_live(b.id, b.epoch, 109.0)]
    assert live == [1]


def test_fencing_moves_leaders_to_a_live_in_sync_replica_and_unfencing_gives_orphans_back() -> None:
    metadata = Metadata()
    for broker_id in (1, 2, 3):
        metadata.broker(broker_id, fenced=broker_id == 3)
    metadata.topic("orders", [1], [1, 3, 2], [2, 1])
    metadata.write(*fence(metadata.image.brokers[1], metadata.image))
    partitions = metadata.image.topics["orders"].partitions
    assert [(p.leader, p.leader_epoch) for p in partitions.values()] == [(-1, 1), (2, 1), (2, 0)]
    records = unfence(metadata.image.brokers[1], metadata.image)
    assert [r.index for r in records if isinstance(r, PartitionRecord)] == [0]
    metadata.write(*records)
    assert [(p.leader, p.leader_epoch) for p in partitions.values()] == [(1, 2), (2, 1), (2, 0)]
