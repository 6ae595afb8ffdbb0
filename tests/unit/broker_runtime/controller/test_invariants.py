"""Any history of brokers and partitions keeps the rules that replication relies on."""

from collections.abc import Sequence
from uuid import UUID

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from broker_runtime.controller.broker_states import BrokerControlState
from broker_runtime.controller.partitions import elections
from broker_runtime.controller.partitions.elections import ElectionType
from broker_runtime.controller.partitions.partition_changes import IsrChange, change_isr
from broker_runtime.controller.partitions.reassignments import reassign
from broker_runtime.controller.registration import (
    Heartbeat,
    Registration,
    fence,
    heartbeat,
    register,
    state_of,
    unregister,
)
from broker_runtime.controller.sessions import Sessions
from broker_runtime.controller.topics import NewTopic, TakenNames, TopicDefaults, create_topic
from broker_runtime.errors import KafkaError
from broker_runtime.metadata.areas.configs import ConfigRecord
from broker_runtime.metadata.areas.topics import NO_LEADER, Partition
from broker_runtime.metadata.record import MetadataRecord
from broker_runtime.slicing.steps import at_once
from tests.support.worlds.controller import CLUSTER_ID, Metadata, endpoints

BROKER_IDS = 5
BROKERS = st.integers(0, BROKER_IDS - 1)
TOPICS = st.sampled_from(["a", "b", "c"])
Key = tuple[UUID, int]
SOME = st.lists(BROKERS, max_size=4, unique=True)


class Cluster(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.metadata, self.sessions, self.now_s = Metadata(), Sessions(9.0), 0.0
        self.count = 0
        self.seen: dict[tuple[UUID, int], Partition] = {}
        self.epochs: dict[int, int] = {}
        self.acknowledged: dict[Key, int] = {}
        self.has: dict[tuple[Key, int], int] = {}
        """Number of a partition's records that each replica's log has."""
        self.by_hand = False

    @property
    def parts(self) -> list[tuple[str, int, Partition]]:
        return [(topic.name, index, part) for topic, index, part in elections.partitions(self.metadata.image)]

    @property
    def by_key(self) -> dict[Key, Partition]:
        return {(topic.id, index): part for topic, index, part in elections.partitions(self.metadata.image)}

    def write(self, records: Sequence[MetadataRecord]) -> None:
        before = self.by_key
        self.metadata.write(*records)
        for key, part in self.by_key.items():
            old = before.get(key)
            if old is None:
                self.has |= {(key, replica): 0 for replica in part.replicas}
            elif part is not old:
                self._follow(key, old, part)

    def _follow(self, key: Key, old: Partition, part: Partition) -> None:
        """Give a new member its leader's records.

        Only an unclean election may lose records: they no longer count.
        """
        if part.leader == NO_LEADER:
            return
        if part.leader not in {*old.isr, *old.elr}:
            topic = self.metadata.image.topics.by_id(key[0])
            assert topic is not None
            assert self.by_hand or elections.unclean_allowed(topic.name, self.metadata.image)
            self.acknowledged[key] = min(self.acknowledged.get(key, 0), self.has.get((key, part.leader), 0))
        for replica in set(part.isr) - {*old.isr, *old.elr}:
            self.has[key, replica] = self.has.get((key, part.leader), 0)

    def _lose(self, broker_id: int) -> None:
        """Empty the broker's disk. If no other replica had everything, the records are lost for good."""
        for key, part in self.by_key.items():
            self.has[key, broker_id] = 0
            if {*part.isr, *part.elr} == {broker_id}:
                self.acknowledged[key] = 0

    # Events

    @initialize(least=st.sampled_from(["1", "2", "3"]))
    def three_brokers_and_a_topic(self, least: str) -> None:
        for broker_id in (0, 1, 2):
            self.a_broker_comes_up(broker_id)
        self.a_topic_is_made("a", factor=3, partitions=1)
        self.more_or_fewer_have_to_be_in_sync("a", least)

    @rule(broker_id=BROKERS, same=st.booleans(), whole=st.booleans())
    def a_broker_registers(self, broker_id: int, same: bool, whole: bool) -> None:
        self.count += 1
        known = self.metadata.image.brokers.get(broker_id)
        incarnation = known.incarnation if known is not None and same else UUID(int=self.count)
        vouched = known.epoch if known is not None and whole else -1
        wanted = Registration(broker_id, CLUSTER_ID, incarnation, endpoints(), None, previous_epoch=vouched)
        try:
            records, epoch = at_once(register(wanted, self.metadata.image, self.sessions, self.now_s))
        except KafkaError:
            assert known is not None
            assert self.sessions.is_live(broker_id, known.epoch, self.now_s)
            return
        self.write(records)
        if not whole and (known is None or known.incarnation != incarnation):
            self._lose(broker_id)
        assert self.metadata.image.brokers[broker_id].epoch == epoch

    @rule(broker_id=BROKERS, fence=st.booleans(), stop=st.booleans(), lag=st.integers(0, 3))
    def a_broker_beats(self, broker_id: int, fence: bool, stop: bool, lag: int) -> None:
        known = self.metadata.image.brokers.get(broker_id)
        if known is None:
            return
        self.sessions.touch(broker_id, known.epoch, self.now_s)
        beat = Heartbeat(broker_id, known.epoch, self.metadata.image.offset - lag, fence, stop)
        records, answer = at_once(heartbeat(beat, self.metadata.image, self.sessions, self.now_s))
        self.write(records)
        state = state_of(self.metadata.image.brokers[broker_id], self.sessions, self.now_s)
        assert answer.should_shut_down == (state is BrokerControlState.OFFLINE)
        assert answer.is_fenced == (state in (BrokerControlState.OFFLINE, BrokerControlState.FENCED))

    @rule(broker_id=BROKERS)
    def a_broker_comes_up(self, broker_id: int) -> None:
        self.a_broker_registers(broker_id, same=True, whole=True)
        self.a_broker_beats(broker_id, fence=False, stop=False, lag=0)

    @rule(broker_id=BROKERS, whole=st.booleans())
    def a_broker_begins_anew(self, broker_id: int, whole: bool) -> None:
        self.sessions.end(broker_id)
        self.a_broker_registers(broker_id, same=False, whole=whole)

    @rule(seconds=st.sampled_from([1.0, 5.0, 10.0]))
    def time_passes(self, seconds: float) -> None:
        self.now_s += seconds
        for broker_id in self.sessions.expired(self.metadata.image, self.now_s):
            self.write(at_once(fence(self.metadata.image.brokers[broker_id], self.metadata.image)))
            self.sessions.end(broker_id)

    @rule(broker_id=BROKERS)
    def a_broker_is_unregistered(self, broker_id: int) -> None:
        if broker_id in self.metadata.image.brokers:
            self.write(at_once(unregister(broker_id, self.metadata.image, self.sessions))[0])

    @rule(name=TOPICS, factor=st.integers(1, 4), partitions=st.integers(1, 3))
    def a_topic_is_made(self, name: str, factor: int, partitions: int) -> None:
        self.count += 1
        new = NewTopic(name, partitions, factor, (), ())
        topic_id = UUID(int=10_000 + self.count)
        try:
            self.write(
                at_once(
                    create_topic(
                        new, self.metadata.image, TopicDefaults(1, 1), lambda: topic_id, TakenNames(self.metadata.image)
                    )
                )[0]
            )
        except KafkaError:
            return

    @precondition(lambda self: self.parts)
    @rule(data=st.data(), wanted=SOME)
    def a_leader_alters_its_in_sync_set(self, data: st.DataObject, wanted: list[int]) -> None:
        name, index, part = data.draw(st.sampled_from(self.parts))
        image = self.metadata.image
        members = dict.fromkeys([part.leader, *(r for r in wanted if r in part.replicas)])
        isr = [(r, image.brokers[r].epoch if r in image.brokers else 0) for r in members]
        change = IsrChange(image.topics[name].id, index, part.leader_epoch, part.partition_epoch, isr)
        try:
            self.write(change_isr(part.leader, change, image).records)
        except KafkaError:
            assert not all(image.brokers.is_active(r) for r in members)

    @precondition(lambda self: self.parts)
    @rule(data=st.data(), goal=SOME | st.none())
    def a_partition_is_moved(self, data: st.DataObject, goal: list[int] | None) -> None:
        name, index, _ = data.draw(st.sampled_from(self.parts))
        try:
            self.write(reassign(name, index, goal, self.metadata.image))
        except KafkaError:
            return

    @precondition(lambda self: self.parts)
    @rule(data=st.data(), kind=st.sampled_from(ElectionType))
    def a_leader_is_elected(self, data: st.DataObject, kind: ElectionType) -> None:
        name, index, _ = data.draw(st.sampled_from(self.parts))
        try:
            elected = elections.elect(self.metadata.image.topics[name], index, kind, self.metadata.image)
        except KafkaError:
            return
        self.by_hand = kind is ElectionType.UNCLEAN
        self.write([elected])
        self.by_hand = False

    @rule()
    def leaders_are_rebalanced(self) -> None:
        self.write(at_once(elections.rebalance(self.metadata.image)))
        assert at_once(elections.rebalance(self.metadata.image)) == []

    @rule(name=TOPICS, allowed=st.sampled_from(["true", "false", None]))
    def unclean_elections_are_allowed(self, name: str, allowed: str | None) -> None:
        if name in self.metadata.image.topics:
            change = ConfigRecord(2, name, "unclean.leader.election.enable", allowed)
            self.write([change])
            self.write(at_once(elections.consequences([change], self.metadata.image)))

    @rule(name=TOPICS, least=st.sampled_from(["1", "2", "3", None]))
    def more_or_fewer_have_to_be_in_sync(self, name: str, least: str | None) -> None:
        if name in self.metadata.image.topics:
            change = ConfigRecord(2, name, "min.insync.replicas", least)
            self.write([change])
            self.write(at_once(elections.consequences([change], self.metadata.image)))

    @precondition(lambda self: self.parts)
    @rule(data=st.data())
    def a_record_is_acknowledged(self, data: st.DataObject) -> None:
        """Acknowledge a record: the high watermark moves when all live in-sync and eligible replicas have it."""
        name, index, part = data.draw(st.sampled_from(self.parts))
        key = (self.metadata.image.topics[name].id, index)
        if part.leader == NO_LEADER or not all(self.metadata.image.brokers.is_active(r) for r in part.elr):
            return
        for replica in (*part.isr, *part.elr):
            self.has[key, replica] = max(self.has[key, part.leader], self.acknowledged.get(key, 0)) + 1
        self.acknowledged[key] = self.has[key, part.leader]

    # Invariants

    @invariant()
    def nothing_acknowledged_is_lost_by_any_election_that_may_follow(self) -> None:
        for key, part in self.by_key.items():
            for replica in (*part.isr, *part.elr):
                assert self.has[key, replica] >= self.acknowledged.get(key, 0)

    @invariant()
    def who_is_eligible_is_a_replica_that_is_not_in_sync_while_too_few_are(self) -> None:
        for name, _, part in self.parts:
            assert part.isr or part.elr
            assert set(part.elr) <= set(part.replicas) - set(part.isr)
            assert len(set(part.elr)) == len(part.elr)
            least = elections.min_insync(name, self.metadata.image)
            assert not part.elr or len(part.isr) < min(least, len(part.replicas))

    @invariant()
    def in_sync_sets_are_replicas(self) -> None:
        for _, _, part in self.parts:
            assert set(part.isr) <= set(part.replicas)
            assert len(set(part.isr)) == len(part.isr)
            assert len(set(part.replicas)) == len(part.replicas)
            assert set(part.adding) | set(part.removing) <= set(part.replicas)
            assert not set(part.adding) & set(part.removing)
            assert set(part.replicas) - set(part.removing)

    @invariant()
    def who_is_in_sync_is_active(self) -> None:
        for _, _, part in self.parts:
            assert all(self.metadata.image.brokers.is_active(r) for r in part.isr)

    @invariant()
    def a_leader_is_active_and_in_sync_and_there_is_one_when_there_can_be(self) -> None:
        for name, _, part in self.parts:
            able = [r for r in (*part.isr, *part.elr) if self.metadata.image.brokers.is_active(r)]
            assert part.leader in part.isr if able else part.leader == NO_LEADER
            if elections.unclean_allowed(name, self.metadata.image):
                assert able or not any(self.metadata.image.brokers.is_active(r) for r in part.replicas)

    @invariant()
    def there_are_sessions_of_registered_brokers_only(self) -> None:
        strangers = set(range(BROKER_IDS)) - set(self.metadata.image.brokers)
        assert [self.sessions.age(broker_id, self.now_s) for broker_id in strangers] == [None] * len(strangers)

    @invariant()
    def epochs_only_grow(self) -> None:
        for name, index, part in self.parts:
            key = (self.metadata.image.topics[name].id, index)
            before = self.seen.get(key, part)
            if part != before:
                assert part.partition_epoch > before.partition_epoch
                assert part.leader_epoch >= before.leader_epoch
            if part.leader != before.leader or not set(before.replicas) <= set(part.replicas):
                assert part.leader_epoch > before.leader_epoch
            self.seen[key] = part
        for broker in self.metadata.image.brokers.values():
            assert broker.epoch >= self.epochs.get(broker.id, 0)
            self.epochs[broker.id] = broker.epoch

    @invariant()
    def the_image_is_what_its_records_say(self) -> None:
        replayed = self.metadata.replayed()
        assert replayed.brokers == self.metadata.image.brokers
        assert replayed.topics == self.metadata.image.topics


TestCluster = Cluster.TestCase
TestCluster.settings = settings(max_examples=40, stateful_step_count=50, deadline=None)
