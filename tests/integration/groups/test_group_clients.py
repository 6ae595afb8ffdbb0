"""Groups of every client family read a topic while members and brokers come, go and are killed: no record is missed.

All families have the same events at the same time, each in a separate group. At the end each group has read every
record at least once, and its committed offsets have never decreased.
"""

from collections.abc import Callable, Iterator, Sequence

import pytest
from confluent_kafka.admin import AdminClient, NewPartitions

from tests.support.groups.counted_member import FAMILIES
from tests.support.groups.groups_at_work import (
    CommittedOffsets,
    Group,
    GroupProducer,
    address,
    coordinator_of,
    member_command,
    wait_until_read,
)
from tests.support.obtain.go_group_member import MEMBER
from tests.support.processes.broker_process import BrokerGroup, BrokerProcess
from tests.support.processes.clients.acknowledged import Partitions, create_topic
from tests.support.processes.clients.broker_admin import until

pytestmark = pytest.mark.full

TOPIC, PARTITIONS, GROWN = "orders", 6, 8
OFFSETS_TOPIC = "__consumer_offsets"
PROPERTIES = {
    "broker.session.timeout.ms": "1500",
    "broker.heartbeat.interval.ms": "200",
    "replica.lag.time.max.ms": "1500",
    "replica.fetch.backoff.ms": "200",
    "offsets.topic.num.partitions": "5",
    "group.initial.rebalance.delay.ms": "500",
    "group.consumer.session.timeout.ms": "6000",
    "group.consumer.min.session.timeout.ms": "6000",
    "group.consumer.heartbeat.interval.ms": "500",
    "group.consumer.min.heartbeat.interval.ms": "500",
}


@pytest.fixture(scope="module")
def brokers() -> Iterator[BrokerGroup]:
    with BrokerGroup(3, properties=PROPERTIES) as running:
        yield running


class Scene:
    def __init__(self, brokers: BrokerGroup, groups: Sequence[Group], producer: GroupProducer) -> None:
        self.brokers, self.groups, self.producer = brokers, groups, producer

    def for_all(self, step: Callable[[Group], None], what: str) -> None:
        for group in self.groups:
            step(group)
        wait_until_read(self.groups, self.producer, what)

    def join(self) -> None:
        self.for_all(Group.join, "a third member joins")
        for group in self.groups:
            until(lambda group=group: all(member.read for member in group.members), f"all of {group.name} read")  # type: ignore[misc]

    def add_partitions(self) -> None:
        admin = AdminClient({"bootstrap.servers": self.brokers.bootstrap, "log_level": 2})
        admin.create_partitions([NewPartitions(TOPIC, GROWN)])[TOPIC].result(60)
        partitions = Partitions(self.brokers.bootstrap, TOPIC)
        until(lambda: len(partitions.leaders()) == GROWN and partitions.all_in_sync(3), "the new partitions are led")
        self.producer.partitions = GROWN
        self.go_on("partitions were added")

    def go_on(self, what: str) -> None:
        """Wait until records that are written from here on are read."""
        before = len(self.producer.acknowledged)
        until(lambda: len(self.producer.acknowledged) > before + GROWN, f"records are written after {what}")
        wait_until_read(self.groups, self.producer, what)

    def roll(self) -> None:
        for broker in self.brokers.brokers:
            assert broker.stop() == 0
            self.go_on(f"broker {broker.node_id} was stopped")
            self.start(broker)
        self.go_on("all brokers were restarted")

    def start(self, broker: BrokerProcess) -> None:
        broker.start()
        for topic in (TOPIC, OFFSETS_TOPIC):
            until(lambda topic=topic: Partitions(self.brokers.bootstrap, topic).all_in_sync(3), f"{topic} is in sync")  # type: ignore[misc]

    def kill_coordinator(self, group: Group) -> None:
        addresses = [address(each) for each in self.brokers.bootstrap.split(",")]
        until(lambda: coordinator_of(addresses, group.name) is not None, "there is a coordinator")
        found = coordinator_of(addresses, group.name)
        broker = next(each for each in self.brokers.brokers if found is not None and each.node_id == found["node_id"])
        broker.kill()
        self.go_on(f"the coordinator of {group.name} was killed")
        self.start(broker)
        self.go_on(f"the coordinator of {group.name} is back")


def test_every_group_reads_all_records_while_members_and_brokers_change(brokers: BrokerGroup) -> None:
    create_topic(brokers.bootstrap, TOPIC, PARTITIONS, 3, min_insync_replicas="2")
    commands = {family: member_command(family) for family in FAMILIES} | {"franz-go": (str(MEMBER.program()),)}
    groups = [Group(command, family, brokers.bootstrap, TOPIC) for family, command in commands.items()]
    watched = CommittedOffsets(brokers.bootstrap, [group.name for group in groups])
    try:
        with GroupProducer(brokers.bootstrap, TOPIC, PARTITIONS) as producer, watched:
            scene = Scene(brokers, groups, producer)
            until(lambda: len(producer.acknowledged) > PARTITIONS, "records are written")
            scene.for_all(lambda group: group.join(2), "two members have joined")
            scene.join()
            scene.for_all(Group.kill, "a member was killed")
            scene.add_partitions()
            scene.roll()
            scene.kill_coordinator(groups[0])
            scene.for_all(Group.leave, "a member has left")
            producer.stop()
            check(groups, producer, watched)
    finally:
        for group in groups:
            group.end()


def check(groups: Sequence[Group], producer: GroupProducer, watched: CommittedOffsets) -> None:
    assert producer.failures == []
    wait_until_read(groups, producer, "all have read everything")
    assert watched.looks > len(groups), "nobody has looked at what is committed"
    assert watched.fallen == []
    ends = {partition: len(records) for partition, records in groups[0].seen().items()}
    assert len(ends) == GROWN
    for group in groups:
        assert group.changed == []
        for partition, records in group.seen().items():
            assert sorted(records) == list(range(ends[partition])), f"{group.name}, partition {partition}"
        until(lambda group=group: watched.look(group.name) == ends, f"{group.name} has committed all")  # type: ignore[misc]
        assert group.committed == ends
    everything = {value for records in groups[0].seen().values() for value in records.values()}
    assert producer.acknowledged <= everything
