"""Brokers that are killed while programs write transactions, and a reader of what is committed."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from confluent_kafka import Consumer, Message, TopicPartition

from tests.support.processes.broker_process import BrokerGroup
from tests.support.processes.clients.broker_admin import until

PROPERTIES: Mapping[str, str] = MappingProxyType(
    {
        "transaction.state.log.num.partitions": "3",
        "offsets.topic.num.partitions": "3",
        "group.initial.rebalance.delay.ms": "0",
        "group.min.session.timeout.ms": "1000",
        "broker.heartbeat.interval.ms": "200",
        "broker.session.timeout.ms": "3000",
        "replica.lag.time.max.ms": "1500",
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
    }
)
"""Properties of brokers whose kill the others notice within seconds."""
PATIENCE_S = 90.0


def wait_in_sync(group: BrokerGroup) -> None:
    """Wait until all brokers are online and all replicas in sync, so that one may be killed."""

    def in_sync() -> bool:
        states = [(broker["state"], broker["outOfSync"]) for broker in group.controller.brokers().values()]
        return states == [("Online", 0)] * len(group.brokers)

    until(in_sync, "all replicas are in sync", PATIENCE_S)


class CommittedReader:
    """A read_committed consumer of a topic, from its start, that keeps the messages in order."""

    def __init__(self, bootstrap: str, topic: str, partitions: int, explain: Callable[[], str] = str) -> None:
        """Prepare a reader; `explain` returns what a failed wait shows, such as the log of the writer."""
        settings = {
            "bootstrap.servers": bootstrap,
            "group.id": "unused",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "auto.offset.reset": "error",
            "log_level": 0,
        }
        self._consumer = Consumer(settings)
        self._consumer.assign([TopicPartition(topic, index, 0) for index in range(partitions)])
        self._topic = topic
        self._explain = explain
        self.messages: list[Message] = []

    def wait_for(self, count: int, unless: Callable[[], bool] = lambda: False) -> None:
        """Read until there are so many messages in all, or until `unless` is true because nobody writes."""
        try:
            until(lambda: self.read() >= count or unless(), f"{self._topic} has {count} committed records", PATIENCE_S)
        except AssertionError as error:
            raise AssertionError(f"{error}, but {len(self.messages)}\n{self._explain()}") from error

    def read(self) -> int:
        """Read what there is within a moment, and return the number of all messages."""
        self.messages += [each for each in self._consumer.consume(1_000, 0.2) if each.error() is None]
        return len(self.messages)

    def values(self) -> list[str]:
        return [(each.value() or b"").decode() for each in self.messages]

    def close(self) -> None:
        self._consumer.close()
