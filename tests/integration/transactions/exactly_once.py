"""Transactions of librdkafka while brokers are killed: no record lost, doubled, torn or seen too early.

`python -m tests.integration.transactions.exactly_once [KILLS]` runs it. test_exactly_once.py does so in a process of
its own, because a crash of librdkafka would end all tests of a worker.
"""

import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import product
from operator import ge
from pathlib import Path

from confluent_kafka import Consumer

from tests.support.processes.broker_process import BrokerGroup, BrokerProcess
from tests.support.processes.clients.acknowledged import Partitions, create_topic
from tests.support.processes.clients.broker_admin import until
from tests.support.processes.clients.transactional import (
    PartitionFollower,
    TransactionalTransformer,
    TransactionalWriter,
    committed_offset,
)
from tests.support.transactions.history import End, History, Key, LogBatch, Reading, Transform, batches_of
from tests.support.transactions.judgement import faults_of

PROPERTIES = {
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "200",
    "replica.lag.time.max.ms": "1500",
    "replica.fetch.backoff.ms": "200",
    "sluicegate.controlled.shutdown.timeout.ms": "3000",
    "transaction.state.log.num.partitions": "4",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
    "offsets.topic.num.partitions": "4",
    "log.segment.bytes": "100000",
}
ENTRIES, RESULTS = "entries", "results"
PARTITIONS, WRITERS, INSTANCES = 2, 2, 2
KILLS = 3
PATIENCE_S = 120.0


class Scene:
    """Writers that fence each other, a transformation of each partition, and readers of both isolation levels."""

    def __init__(self, group: BrokerGroup) -> None:
        self.group = group
        self.history = History()
        self.topics = {}
        for topic in (ENTRIES, RESULTS):
            create_topic(group.bootstrap, topic, PARTITIONS, 3, min_insync_replicas="2")
            self.topics[topic] = Partitions(group.bootstrap, topic)
        self.keys: list[Key] = list(product((ENTRIES, RESULTS), range(PARTITIONS)))
        entries, results = self.keys[:PARTITIONS], self.keys[PARTITIONS:]
        self.writers: list[TransactionalWriter] = [
            TransactionalWriter(
                f"writer-{number}.{instance}", f"writer-{number}", group.bootstrap, entries, self.history
            )
            for number, instance in product(range(WRITERS), range(INSTANCES))
        ]
        for key in entries:
            transform = Transform(f"transform-{key[1]}", key)
            self.history.transforms.append(transform)
            self.writers.append(TransactionalTransformer(transform, group.bootstrap, results, self.history))
        self.readers = [
            PartitionFollower(Reading(f"{level}-{key[0]}-{key[1]}", key, level == "committed"), group.bootstrap)
            for key, level in product(self.keys, ("committed", "all"))
        ]
        self.history.readings = [reader.reading for reader in self.readers]

    def start(self) -> None:
        for thread in (*self.writers, *self.readers):
            thread.start()

    def committed(self) -> list[int]:
        """Return the number of committed transactions: first of all clients, then of each transformation."""
        each = (self.history.attempts, *(transform.attempts for transform in self.history.transforms))
        return [sum(attempt.end is End.COMMITTED for attempt in attempts) for attempts in each]

    def wait_in_sync(self) -> None:
        until(lambda: all(each.all_in_sync(3) for each in self.topics.values()), "all are in sync", PATIENCE_S)

    def wait_for_commits(self, count: int) -> None:
        """Wait until `count` more transactions are committed, at least one of them by each transformation."""
        total, *of_transforms = self.committed()
        wanted = [total + count, *(commits + 1 for commits in of_transforms)]
        until(
            lambda: self.has_failed() or all(map(ge, self.committed(), wanted)),
            f"at least {wanted} transactions are committed, in all and by each transformation",
            PATIENCE_S,
        )
        self.check()

    def has_failed(self) -> bool:
        return any(error is not None for _, error in self._errors())

    def check(self) -> None:
        """Raise the error of a client that has failed."""
        for name, error in self._errors():
            if error is not None:
                raise AssertionError(f"{name} has failed") from error

    def _errors(self) -> Iterator[tuple[str, BaseException | None]]:
        yield from ((writer.name, writer.error) for writer in self.writers)
        yield from ((reader.name, reader.error) for reader in self.readers)

    def report(self) -> str:
        """Return the numbers of transactions by their ends, and of replaced producers, in one line."""
        ends = Counter(attempt.end.name.lower() for attempt in self.history.attempts)
        stuck = sum(writer.stuck for writer in self.writers)
        told = ", ".join(f"{count} {name}" for name, count in sorted(ends.items()))
        return f"transactions: {told}; producers that librdkafka kept waiting for nothing: {stuck}"

    def stop(self) -> None:
        """Stop all clients once every transaction has ended and every reader is at the end."""
        for writer in self.writers:
            writer.stopped.set()
        for writer in self.writers:
            writer.join(PATIENCE_S)
            assert not writer.is_alive(), writer.name
        for transform in self.history.transforms:
            with ExitStack() as undo:
                settings = {"bootstrap.servers": self.group.bootstrap, "group.id": transform.group, "log_level": 2}
                consumer = Consumer(settings)
                undo.callback(consumer.close)
                transform.committed_offset = committed_offset(consumer, transform.source)
        positions = {reader.reading.key: reader.reading for reader in self.readers if reader.reading.name[0] == "a"}
        until(
            lambda: all(
                reader.reading.position >= positions[reader.reading.key].position > 0 for reader in self.readers
            ),
            "no transaction is open",
            PATIENCE_S,
        )
        for reader in self.readers:
            reader.stopped.set()
        for reader in self.readers:
            reader.join(PATIENCE_S)
            assert not reader.is_alive(), reader.name
        self.check()

    def read_logs(self, broker: BrokerProcess) -> None:
        """Read the logs of a broker that has stopped with all of its replicas in sync."""
        for key in self.keys:
            self.history.logs[key] = read_log(broker.data / f"{key[0]}-{key[1]}")


def read_log(folder: Path) -> list[LogBatch]:
    return [batch for file in sorted(folder.glob("*.log")) for batch in batches_of(file.read_bytes())]


def run(group: BrokerGroup, kills: int) -> str:
    """Run the scenario, and return a report. Raises AssertionError with the faults."""
    scene = Scene(group)
    scene.wait_in_sync()
    scene.start()
    scene.wait_for_commits(10)
    for number in range(kills):
        broker = group.brokers[number % len(group.brokers)]
        broker.kill()
        scene.wait_for_commits(10)
        broker.start()
        scene.wait_in_sync()
        scene.wait_for_commits(10)
    scene.stop()
    scene.wait_in_sync()
    assert group.brokers[0].stop() == 0
    scene.read_logs(group.brokers[0])
    assert faults_of(scene.history) == []
    assert all(transform.committed_offset > 0 for transform in scene.history.transforms), scene.report()
    return scene.report()


if __name__ == "__main__":
    with BrokerGroup(3, properties=PROPERTIES) as running:
        print(run(running, int(sys.argv[1]) if len(sys.argv) > 1 else KILLS))
    print("no faults")
