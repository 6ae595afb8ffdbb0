"""KIP-631's rules for registration, sessions and fencing, in virtual time (facts of Kafka's own tests)."""

from uuid import UUID

import pytest

from broker_runtime.controller.broker_states import BrokerControlState
from broker_runtime.controller.registration import (
    Heartbeat,
    HeartbeatAnswer,
    Registration,
    fence,
    heartbeat,
    register,
    state_of,
    unregister,
)
from broker_runtime.controller.sessions import Sessions
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.metadata.areas.brokers import FenceBroker, RegisterBroker, StopBroker, UnfenceBroker
from broker_runtime.metadata.areas.cluster import FeatureLevelRecord
from broker_runtime.metadata.areas.configs import ConfigRecord, ResourceType
from broker_runtime.metadata.areas.topics import PartitionRecord
from broker_runtime.slicing.steps import at_once
from tests.support.worlds.controller import CLUSTER_ID, Metadata, endpoints

OLD, NEW = UUID(int=1), UUID(int=2)


def wanted(broker_id: int = 1, incarnation: UUID | None = OLD, cluster_id: str = CLUSTER_ID) -> Registration:
    return Registration(broker_id, cluster_id, incarnation, endpoints(), "a")


def test_a_registration_starts_fenced_with_the_offset_of_its_record_as_epoch() -> None:
    metadata, sessions = Metadata(), Sessions(9.0)
    assert metadata.commit(at_once(register(wanted(), metadata.image, sessions, 0.0))) == 1
    assert metadata.image.brokers[1].fenced
    assert metadata.image.brokers[1].epoch == metadata.image.offset


def test_the_same_incarnation_keeps_its_epoch_and_writes_nothing() -> None:
    metadata, sessions = Metadata(), Sessions(9.0)
    metadata.commit(at_once(register(wanted(), metadata.image, sessions, 0.0)))
    records, epoch = at_once(register(wanted(), metadata.image, sessions, 1.0))
    assert (list(records), epoch) == ([], 1)


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        (wanted(cluster_id="other"), ErrorCode.INCONSISTENT_CLUSTER_ID),
        (wanted(incarnation=None), ErrorCode.INVALID_REGISTRATION),
        (Registration(1, CLUSTER_ID, OLD, (), None), ErrorCode.INVALID_REGISTRATION),
        (Registration(1, CLUSTER_ID, OLD, endpoints("A", "A"), None), ErrorCode.INVALID_REGISTRATION),
        (wanted(broker_id=-1), ErrorCode.INVALID_REGISTRATION),
    ],
)
def test_registrations_that_are_refused(asked: Registration, code: ErrorCode) -> None:
    with pytest.raises(KafkaError) as refused:
        at_once(register(asked, Metadata().image, Sessions(9.0), 0.0))
    assert refused.value.code == code


def test_a_second_incarnation_waits_until_the_session_of_the_first_is_over() -> None:
    metadata, sessions = Metadata(), Sessions(9.0)
    epoch = metadata.commit(at_once(register(wanted(), metadata.image, sessions, 0.0)))
    beat = Heartbeat(1, epoch, epoch, False, False)
    sessions.touch(1, epoch, 0.0)
    metadata.commit(at_once(heartbeat(beat, metadata.image, sessions, 0.0)))
    with pytest.raises(KafkaError) as refused:
        at_once(register(wanted(incarnation=NEW), metadata.image, sessions, 9.0))
    assert refused.value.code == ErrorCode.DUPLICATE_BROKER_REGISTRATION
    records, new_epoch = at_once(register(wanted(incarnation=NEW), metadata.image, sessions, 9.001))
    assert [type(record) for record in records] == [RegisterBroker]
    metadata.write(*records)
    assert new_epoch == metadata.image.offset
    assert metadata.image.brokers[1].incarnation == NEW


def test_a_clean_stop_frees_the_id_at_once() -> None:
    metadata, sessions = Metadata(), Sessions(9.0)
    epoch = metadata.commit(at_once(register(wanted(), metadata.image, sessions, 0.0)))
    for beat in (Heartbeat(1, epoch, epoch, False, False), Heartbeat(1, epoch, epoch, False, True)):
        sessions.touch(1, epoch, 1.0)
        answer = metadata.commit(at_once(heartbeat(beat, metadata.image, sessions, 1.0)))
    assert answer == HeartbeatAnswer(is_caught_up=True, is_fenced=True, should_shut_down=True)
    assert metadata.image.brokers[1].fenced
    assert metadata.commit(at_once(register(wanted(incarnation=NEW), metadata.image, sessions, 1.0))) > epoch


@pytest.mark.parametrize(
    ("fenced", "leads", "beat", "answer", "records", "state"),
    [
        (True, False, (100, False, False), (True, False, False), [UnfenceBroker], BrokerControlState.ONLINE),
        (True, False, (0, False, False), (False, True, False), [], BrokerControlState.FENCED),
        (True, False, (100, True, False), (True, True, False), [], BrokerControlState.FENCED),
        (True, False, (100, False, True), (True, True, True), [], BrokerControlState.OFFLINE),
        (True, False, (100, True, True), (True, True, True), [], BrokerControlState.OFFLINE),
        (False, False, (100, False, False), (True, False, False), [], BrokerControlState.ONLINE),
        (False, True, (100, False, False), (True, False, False), [], BrokerControlState.ONLINE),
        (False, False, (100, True, False), (True, True, False), [FenceBroker], BrokerControlState.FENCED),
        (
            False,
            True,
            (100, True, True),
            (True, True, True),
            [PartitionRecord, FenceBroker],
            BrokerControlState.OFFLINE,
        ),
        (False, False, (100, False, True), (True, True, True), [FenceBroker], BrokerControlState.OFFLINE),
        (
            False,
            True,
            (100, False, True),
            (True, False, False),
            [PartitionRecord, StopBroker],
            BrokerControlState.STOPPING,
        ),
    ],
)
def test_what_a_heartbeat_does(
    fenced: bool,
    leads: bool,
    beat: tuple[int, bool, bool],
    answer: tuple[bool, bool, bool],
    records: list[type],
    state: BrokerControlState,
) -> None:
    metadata, sessions = Metadata(), Sessions(9.0)
    metadata.broker(1, fenced=fenced)
    if leads:
        metadata.topic("orders", [1])
    sessions.touch(1, 1, 0.0)
    written, got = at_once(heartbeat(Heartbeat(1, 1, *beat), metadata.image, sessions, 0.0))
    assert got == HeartbeatAnswer(*answer)
    assert [type(record) for record in written] == records
    metadata.write(*written)
    assert state_of(metadata.image.brokers[1], sessions, 0.0) is state


class Three:
    """Brokers 1 to 3, online with all metadata, and a topic with a partition led by each of them."""

    def __init__(self) -> None:
        self.metadata, self.sessions, self.now_s = Metadata(), Sessions(9.0), 0.0
        for broker_id in (1, 2, 3):
            self.metadata.broker(broker_id)
        self.metadata.topic("orders", [1, 2], [2, 3], [3, 1])
        for broker_id in (1, 2, 3):
            self.beat(broker_id)

    def beat(
        self, broker_id: int, *, fence: bool = False, stop: bool = False, offset: int | None = None
    ) -> HeartbeatAnswer:
        image = self.metadata.image
        epoch = image.brokers[broker_id].epoch
        self.sessions.touch(broker_id, epoch, self.now_s)
        beat = Heartbeat(broker_id, epoch, image.offset if offset is None else offset, fence, stop)
        return self.metadata.commit(at_once(heartbeat(beat, image, self.sessions, self.now_s)))

    def state(self, broker_id: int) -> BrokerControlState:
        return state_of(self.metadata.image.brokers[broker_id], self.sessions, self.now_s)

    def leaders(self) -> list[int]:
        return [part.leader for part in self.metadata.image.topics["orders"].partitions.values()]


WAIT, GO = HeartbeatAnswer(True, False, False), HeartbeatAnswer(True, True, True)


def test_a_stopping_broker_goes_when_every_active_broker_knows_that_it_stops() -> None:
    cluster = Three()
    before = cluster.metadata.image.offset
    assert cluster.beat(1, stop=True) == WAIT
    assert cluster.leaders() == [2, 2, 3]
    began = cluster.metadata.image.brokers[1].stopping_offset
    assert began == cluster.metadata.image.offset
    cluster.beat(2)
    cluster.beat(3, offset=began - 1)
    assert cluster.beat(1, stop=True) == WAIT
    assert cluster.beat(1) == WAIT
    assert cluster.state(1) is BrokerControlState.STOPPING
    cluster.beat(3, offset=began)
    # Its own metadata may be arbitrarily old.
    assert cluster.beat(1, stop=True, offset=before) == GO
    assert cluster.state(1) is BrokerControlState.OFFLINE
    assert cluster.metadata.image.brokers[1].stopping_offset is None


def test_the_beginning_of_a_shutdown_is_written_once() -> None:
    cluster = Three()
    cluster.beat(1, stop=True)
    began = cluster.metadata.image.brokers[1].stopping_offset
    cluster.metadata.broker(4)
    cluster.beat(1, stop=True)
    assert cluster.metadata.image.brokers[1].stopping_offset == began


def test_a_broker_that_lags_holds_a_shutdown_up_only_while_it_is_active() -> None:
    cluster = Three()
    cluster.beat(1, stop=True)
    cluster.beat(2)
    assert cluster.beat(1, stop=True) == WAIT
    cluster.metadata.write(*at_once(fence(cluster.metadata.image.brokers[3], cluster.metadata.image)))
    assert cluster.beat(1, stop=True) == GO


def test_after_a_failover_a_shutdown_waits_for_heartbeats_with_the_offsets_of_the_others() -> None:
    cluster = Three()
    cluster.beat(1, stop=True)
    cluster.sessions = Sessions(9.0)
    cluster.sessions.renew_all(cluster.metadata.image, 0.0, but=None)
    assert cluster.state(1) is BrokerControlState.STOPPING
    assert cluster.beat(1, stop=True) == WAIT
    cluster.beat(2)
    assert cluster.beat(1, stop=True) == WAIT
    cluster.beat(3)
    assert cluster.beat(1, stop=True) == GO


def test_the_last_broker_goes_at_once_though_its_partitions_have_no_leader_then() -> None:
    cluster = Three()
    for broker_id in (2, 3):
        cluster.beat(broker_id, fence=True, stop=True)
    assert cluster.leaders() == [1, -1, 1]
    assert cluster.beat(1, stop=True) == WAIT
    assert cluster.beat(1, stop=True) == GO
    assert set(cluster.leaders()) == {-1}


@pytest.mark.parametrize("stopping", [False, True])
def test_a_report_that_a_pod_is_gone_ends_its_session_and_frees_its_id(stopping: bool) -> None:
    cluster = Three()
    if stopping:
        cluster.beat(1, stop=True)
    assert cluster.beat(1, fence=True, stop=True) == GO
    assert cluster.state(1) is BrokerControlState.OFFLINE
    assert 1 not in cluster.leaders()
    assert cluster.sessions.age(1, 0.0) is None
    records, _ = at_once(register(wanted(incarnation=NEW), cluster.metadata.image, cluster.sessions, 0.0))
    assert [type(record) for record in records] == [RegisterBroker]


def test_a_broker_declared_dead_returns_with_its_next_heartbeat() -> None:
    cluster = Three()
    cluster.beat(1, fence=True, stop=True)
    assert cluster.beat(1) == HeartbeatAnswer(True, False, False)
    assert cluster.state(1) is BrokerControlState.ONLINE


def test_states_over_a_life() -> None:
    metadata, sessions = Metadata(), Sessions(9.0)
    epoch = metadata.commit(at_once(register(wanted(), metadata.image, sessions, 0.0)))
    broker = metadata.image.brokers[1]
    assert state_of(broker, sessions, 9.0) is BrokerControlState.FENCED
    assert state_of(broker, sessions, 9.001) is BrokerControlState.OFFLINE
    assert sessions.age(1, 5.0) is None
    sessions.touch(1, epoch, 10.0)
    assert state_of(broker, sessions, 10.0) is BrokerControlState.FENCED
    metadata.commit(at_once(heartbeat(Heartbeat(1, epoch, 7, False, False), metadata.image, sessions, 10.0)))
    sessions.touch(1, epoch, 11.0)
    assert (sessions.age(1, 13.5), sessions.metadata_offset(1)) == (2.5, 7)
    assert state_of(metadata.image.brokers[1], sessions, 10.0) is BrokerControlState.ONLINE
    metadata.write(*at_once(fence(metadata.image.brokers[1], metadata.image)))
    assert state_of(metadata.image.brokers[1], sessions, 10.0) is BrokerControlState.FENCED


def test_a_registration_reserves_its_id_only_from_its_first_heartbeat_on() -> None:
    metadata, sessions = Metadata(), Sessions(9.0)
    metadata.commit(at_once(register(wanted(), metadata.image, sessions, 0.0)))
    epoch = metadata.commit(at_once(register(wanted(incarnation=NEW), metadata.image, sessions, 0.0)))
    assert metadata.image.brokers[1].epoch == epoch


def test_the_same_incarnation_may_change_its_listeners_and_keeps_epoch_and_state() -> None:
    cluster = Three()
    image = cluster.metadata.image
    cluster.beat(1, stop=True)
    before = image.brokers[1]
    again = Registration(1, CLUSTER_ID, before.incarnation, endpoints("OTHER"), None)
    assert cluster.metadata.commit(at_once(register(again, image, cluster.sessions, 0.0))) == before.epoch
    after = image.brokers[1]
    assert [e.listener for e in after.endpoints] == ["OTHER"]
    assert (after.epoch, after.fenced, after.stopping_offset) == (before.epoch, False, before.stopping_offset)


def test_a_new_incarnation_takes_the_old_one_out_of_the_in_sync_sets() -> None:
    cluster = Three()
    image = cluster.metadata.image
    epoch = cluster.metadata.commit(at_once(register(wanted(incarnation=NEW), image, cluster.sessions, 9.001)))
    assert (image.brokers[1].epoch, image.brokers[1].fenced) == (epoch, True)
    assert epoch == image.offset
    assert [part.isr for part in image.topics["orders"].partitions.values()] == [(2,), (2, 3), (3,)]
    assert cluster.leaders() == [2, 2, 3]


@pytest.mark.parametrize(
    ("features", "fits"),
    [((("group.version", 0, 1),), True), ((("group.version", 2, 3),), False), ((), False)],
)
def test_a_broker_must_know_the_features_levels_of_the_cluster(
    features: tuple[tuple[str, int, int], ...], fits: bool
) -> None:
    metadata = Metadata()
    metadata.write(FeatureLevelRecord("group.version", 1), FeatureLevelRecord("metadata.version", 0))
    asked = Registration(1, CLUSTER_ID, OLD, endpoints(), None, features)
    if fits:
        metadata.commit(at_once(register(asked, metadata.image, Sessions(9.0), 0.0)))
        assert metadata.image.brokers[1].features == features
        return
    with pytest.raises(KafkaError, match=r"finalized version 1 of group\.version") as refused:
        at_once(register(asked, metadata.image, Sessions(9.0), 0.0))
    assert refused.value.code == ErrorCode.UNSUPPORTED_VERSION


def test_an_unregistered_broker_is_in_no_in_sync_set_and_unknown() -> None:
    cluster = Three()
    image = cluster.metadata.image
    cluster.metadata.commit(at_once(unregister(1, image, cluster.sessions)))
    assert list(image.brokers) == [2, 3]
    assert cluster.sessions.age(1, 0.0) is None
    assert [part.isr for part in image.topics["orders"].partitions.values()] == [(2,), (2, 3), (3,)]
    with pytest.raises(KafkaError) as refused:
        at_once(unregister(1, image, cluster.sessions))
    assert refused.value.code == ErrorCode.BROKER_ID_NOT_REGISTERED


def test_unregistering_a_broker_deletes_its_own_tags_and_no_other_configuration() -> None:
    cluster = Three()
    for name, key in (("1", "tag.zone"), ("1", "max.connections"), ("2", "tag.zone"), ("", "tag.zone")):
        cluster.metadata.write(ConfigRecord(ResourceType.BROKER, name, key, "7"))
    cluster.metadata.commit(at_once(unregister(2, cluster.metadata.image, cluster.sessions)))
    assert cluster.metadata.image.configs.of_broker(2), "it served: it registers anew, and has to be what it was"
    cluster.metadata.write(FenceBroker(1, cluster.metadata.image.brokers[1].epoch))
    cluster.metadata.commit(at_once(unregister(1, cluster.metadata.image, cluster.sessions)))
    configs = cluster.metadata.image.configs
    assert configs.of_broker(1) == {"max.connections": "7"}
    assert configs.of_broker(None) == {"tag.zone": "7"}


@pytest.mark.parametrize(("broker_id", "epoch"), [(1, 99), (7, 1)])
def test_a_heartbeat_of_another_epoch_is_stale(broker_id: int, epoch: int) -> None:
    metadata = Metadata()
    metadata.broker(1)
    with pytest.raises(KafkaError) as refused:
        at_once(heartbeat(Heartbeat(broker_id, epoch, 100, False, False), metadata.image, Sessions(9.0), 0.0))
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


def test_kafkas_own_session_scenario() -> None:
    """BrokerHeartbeatManagerTest.testHasValidSession."""
    sessions = Sessions(0.010)
    sessions.touch(0, 100, 0.0)
    sessions.touch(1, 100, 0.0)
    sessions.touch(2, 200, 0.005)
    held = [(b, e) for b in (0, 1, 2, 3) for e in (100, 101, 200) if sessions.is_live(b, e, 0.005)]
    assert held == [(0, 100), (1, 100), (2, 200)]
    assert [b for b, e in held if sessions.is_live(b, e, 0.011)] == [2]


@pytest.mark.parametrize(("at_s", "taken"), [(0.5, True), (1.0, True), (1.5, False)])
def test_kafkas_own_scenario_of_a_duplicate_whose_other_is_alive(at_s: float, taken: bool) -> None:
    """ClusterControlManagerTest.testDuplicateBrokerRegistrationWithActiveOldBroker."""
    metadata, sessions = Metadata(), Sessions(1.0)
    metadata.broker(1)
    sessions.renew_all(metadata.image, 0.0, but=None)
    if taken:
        with pytest.raises(KafkaError) as refused:
            at_once(register(wanted(incarnation=NEW), metadata.image, sessions, at_s))
        assert refused.value.code == ErrorCode.DUPLICATE_BROKER_REGISTRATION
    else:
        assert metadata.commit(at_once(register(wanted(incarnation=NEW), metadata.image, sessions, at_s))) == 3


@pytest.mark.parametrize("stopping", [False, True])
def test_kafkas_own_scenario_of_a_duplicate_after_a_fail_over(stopping: bool) -> None:
    """ClusterControlManagerTest.testDuplicateBrokerRegistrationWithInactiveBroker: fenced is free, stopping is not."""
    metadata, sessions = Metadata(), Sessions(1.0)
    metadata.broker(1, fenced=not stopping)
    if stopping:
        metadata.write(StopBroker(1, metadata.image.brokers[1].epoch, metadata.image.offset + 1))
    sessions.renew_all(metadata.image, 0.0, but=None)
    if not stopping:
        metadata.commit(at_once(register(wanted(incarnation=NEW), metadata.image, sessions, 0.0)))
        assert metadata.image.brokers[1].incarnation == NEW
        return
    with pytest.raises(KafkaError) as refused:
        at_once(register(wanted(incarnation=NEW), metadata.image, sessions, 0.0))
    assert refused.value.code == ErrorCode.DUPLICATE_BROKER_REGISTRATION


def test_sessions_last_longer_by_the_time_in_which_the_controller_stood_still() -> None:
    sessions = Sessions(9.0)
    sessions.touch(1, 5, 0.0)
    sessions.touch(2, 6, 19.0)
    sessions.extend(15.0, 20.0)
    assert sessions.age(1, 20.0) == 5.0
    assert sessions.age(2, 20.0) == 0.0, "heard since it goes on: not from the future"
