"""Consume, transform, produce, while brokers are killed: each input has its output exactly once."""

import random
import threading
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.processes.broker_process import BrokerGroup
from tests.support.processes.clients.broker_admin import until
from tests.support.transactions.clients import (
    COMMITTED,
    TIMEOUT_S,
    UNCOMMITTED,
    ConfluentProducer,
    FencedError,
    end_offset,
    read_all,
)

PROPERTIES = {
    "transaction.state.log.num.partitions": "3",
    "offsets.topic.num.partitions": "3",
    "group.initial.rebalance.delay.ms": "0",
    "broker.heartbeat.interval.ms": "500",
    "broker.session.timeout.ms": "6000",
}
COUNT = 3_000
OF_A_TRANSACTION = 10
KILLS = 3


@pytest.fixture(scope="module")
def group() -> Iterator[BrokerGroup]:
    with BrokerGroup(3, properties=PROPERTIES) as running:
        yield running


class Transformer:
    """A client that writes each input once to the output, however often its transactions fail."""

    def __init__(self, bootstrap: str, name: str) -> None:
        self._bootstrap = bootstrap
        self.source, self.target, self.group = (f"{kind}-{name}" for kind in ("in", "out", "group"))
        self.done = 0
        """Offset of the input after the last committed transaction."""
        self.failures: list[str] = []
        self._producer: ConfluentProducer | None = None

    def run(self, consumer: Consumer) -> None:
        """Transform until the end of the input. A failed transaction is aborted, and its input is read again."""
        while self.done < COUNT:
            try:
                self._transform(consumer)
            except (KafkaException, FencedError) as error:
                self.failures.append(str(error))
                self._producer = None
                self._rewind(consumer)

    def _transform(self, consumer: Consumer) -> None:
        messages = [each for each in consumer.consume(OF_A_TRANSACTION, 0.5) if each.error() is None]
        if not messages:
            return
        if self._producer is None:
            self._producer = ConfluentProducer(self._bootstrap, self.group)
            # Another producer of the id has perhaps ended the last transaction in the other way.
            self._rewind(consumer)
            return
        self._producer.begin()
        self._producer.send(self.target, [f"made of {(each.value() or b'').decode()}" for each in messages])
        position = (messages[-1].offset() or 0) + 1
        self._producer.send_offsets({(self.source, 0): position}, consumer, self.group)
        self._producer.commit()
        self.done = position

    def _rewind(self, consumer: Consumer) -> None:
        """Read again from the committed offset, which counts if the coordinator has committed after all."""

        def rewound() -> bool:
            try:
                (found,) = consumer.committed([TopicPartition(self.source, 0)], TIMEOUT_S)
                self.done = max(int(found.offset), 0)
                consumer.seek(TopicPartition(self.source, 0, self.done))
            except KafkaException:
                return False
            return True

        until(rewound, "the committed offset is known")


def kill_brokers(group: BrokerGroup, chance: random.Random, stop: threading.Event, killed: list[int]) -> None:
    """Kill one broker after the other, and start it again. `killed` gets their ids."""
    for _ in range(KILLS):
        if stop.wait(1):
            return
        broker = chance.choice(group.brokers)
        broker.kill()
        killed.append(broker.node_id)
        if stop.wait(1):
            return
        broker.start()


@pytest.mark.full
@pytest.mark.parametrize("seed", [1, 2])
def test_each_input_has_its_output_once_although_brokers_are_killed(group: BrokerGroup, seed: int) -> None:
    bootstrap = group.bootstrap
    admin = AdminClient({"bootstrap.servers": bootstrap})
    transformer = Transformer(bootstrap, str(seed))
    source, target = transformer.source, transformer.target
    config = {"min.insync.replicas": "2"}
    topics = [NewTopic(name, 1, 3, config=config) for name in (source, target)]
    for future in admin.create_topics(topics).values():
        future.result(TIMEOUT_S)
    feeder = ConfluentProducer(bootstrap, f"feeder-{seed}")
    feeder.begin()
    feeder.send(source, [str(number) for number in range(COUNT)])
    feeder.commit()
    stop, killed = threading.Event(), list[int]()
    killer = threading.Thread(target=kill_brokers, args=(group, random.Random(seed), stop, killed))
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": transformer.group,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "isolation.level": COMMITTED,
        }
    )
    consumer.assign([TopicPartition(source, 0, 0)])
    killer.start()
    try:
        transformer.run(consumer)
    finally:
        stop.set()
        killer.join()
        consumer.close()
    for broker in group.brokers:
        if not broker.is_running:
            broker.start()
    until(
        lambda: end_offset(bootstrap, target, COMMITTED) == end_offset(bootstrap, target, UNCOMMITTED),
        "the markers are written",
    )
    assert len(killed) >= 2, "the input ended before the brokers were killed"
    expected = [f"made of {number}" for number in range(COUNT)]
    assert read_all(bootstrap, target, COMMITTED) == expected, transformer.failures
