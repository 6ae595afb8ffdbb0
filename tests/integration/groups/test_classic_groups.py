"""Groups of current clients with this project's coordinator: members share, take over, and miss no record."""

from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.groups.group_member import CLIENTS, GroupMember
from tests.support.processes.broker_process import BrokerProcess
from tests.support.processes.clients.broker_admin import until

PARTITIONS = 4
ALL = list(range(PARTITIONS))
ROUND = 200
PROPERTIES = {
    "group.initial.rebalance.delay.ms": "500",
    "group.min.session.timeout.ms": "1000",
    "offsets.topic.num.partitions": "3",
}


@pytest.fixture(scope="module")
def broker() -> Iterator[BrokerProcess]:
    with BrokerProcess(properties=PROPERTIES) as running:
        yield running


class Scene:
    """A topic and a group of one client, and the records produced for it."""

    def __init__(self, broker: BrokerProcess, client: str) -> None:
        self.bootstrap, self.client = broker.bootstrap, client
        self.topic = self.group = f"of-{client}"
        self.produced: list[str] = []
        self._producer = Producer({"bootstrap.servers": self.bootstrap, "acks": "all"})
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        for future in admin.create_topics([NewTopic(self.topic, PARTITIONS, 1)]).values():
            future.result(60)

    def member(self, instance_id: str = "") -> GroupMember:
        return GroupMember(self.client, self.bootstrap, group=self.group, topic=self.topic, instance_id=instance_id)

    def produce(self) -> None:
        """Produce ROUND more records, to all partitions in turn."""
        values = [str(len(self.produced) + number) for number in range(ROUND)]
        for number, value in enumerate(values):
            self._producer.produce(self.topic, value.encode(), partition=number % PARTITIONS)
        assert self._producer.flush(60) == 0
        self.produced += values

    def committed(self) -> list[int]:
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": self.group})
        found = consumer.committed([TopicPartition(self.topic, index) for index in ALL], timeout=60)
        consumer.close()
        return [each.offset for each in found]


def read_by(*members: GroupMember) -> Counter[str]:
    return Counter(value for member in members for _, _, value in member.read)


def share(first: GroupMember, second: GroupMember) -> None:
    """Wait until each of them has half of the partitions."""

    def halves() -> bool:
        one, other = first.assigned or [], second.assigned or []
        return len(one) == len(other) and sorted(one + other) == ALL

    until(halves, f"two members of {first.client} share")


def play(broker: BrokerProcess, client: str) -> None:
    scene = Scene(broker, client)
    came: list[GroupMember] = []

    def read_all() -> None:
        until(lambda: set(read_by(*came)) >= set(scene.produced), f"members of {client} have read everything")

    with ExitStack() as running:

        def comes() -> GroupMember:
            came.append(running.enter_context(scene.member()))
            return came[-1]

        stays, dies = comes(), comes()
        share(stays, dies)
        scene.produce()
        read_all()
        dies.kill()
        scene.produce()
        until(lambda: stays.assigned == ALL, f"a member of {client} takes over from one that was killed")
        read_all()
        leaves = comes()
        share(stays, leaves)
        scene.produce()
        read_all()
        leaves.leave()
        until(lambda: stays.assigned == ALL, f"a member of {client} takes over from one that has left")
        scene.produce()
        read_all()
        stays.leave()
    again = {value for value, times in read_by(*came).items() if times > 1}
    assert set(read_by(*came)) == set(scene.produced)
    assert again <= {value for _, _, value in dies.read}, "only what was not committed is read twice"
    assert scene.committed() == [len(scene.produced) // PARTITIONS] * PARTITIONS


def test_members_of_every_client_share_take_over_and_miss_nothing(broker: BrokerProcess) -> None:
    with ThreadPoolExecutor(len(CLIENTS)) as threads:
        for done in [threads.submit(play, broker, client) for client in CLIENTS]:
            done.result()
