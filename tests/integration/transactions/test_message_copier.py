"""Apache Kafka's TransactionalMessageCopier of release 4.3.0, which its own system tests of transactions use.

It consumes a partition, copies it and commits the offsets in the same transactions, and aborts some of them at random.
It is killed, and so are brokers.
"""

import random
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from confluent_kafka import Producer

from tests.support.java_clients.running import JavaProgram
from tests.support.obtain.java import java
from tests.support.obtain.kafka_libs import kafka_libs
from tests.support.processes.broker_process import BrokerGroup
from tests.support.processes.clients.acknowledged import create_topic
from tests.support.processes.clients.broker_admin import until
from tests.support.transactions.killed_brokers import PATIENCE_S, PROPERTIES, CommittedReader, wait_in_sync

pytestmark = pytest.mark.full

PROGRAM = "org.apache.kafka.tools.TransactionalMessageCopier"
PARTITIONS = 2
COUNT = 3_000
OF_A_TRANSACTION = 20
ROUNDS = 2


@pytest.fixture(scope="module")
def group() -> Iterator[BrokerGroup]:
    with BrokerGroup(3, properties=PROPERTIES) as running:
        yield running


def copier(bootstrap: str, folder: Path, topics: tuple[str, str], partition: int, more: list[str]) -> JavaProgram:
    name = f"{topics[1]}-{partition}"
    options = {
        "--broker-list": bootstrap,
        "--input-topic": topics[0],
        "--output-topic": topics[1],
        "--input-partition": str(partition),
        "--consumer-group": f"group-of-{topics[1]}",
        "--transactional-id": name,
        "--transaction-size": str(OF_A_TRANSACTION),
        "--transaction-timeout": "5000",
    }
    words = [word for option in options.items() for word in option]
    return JavaProgram(folder, name, [java(), "-cp", f"{kafka_libs()}/*", PROGRAM, *words, *more])


def run_to_its_end(program: JavaProgram) -> None:
    """Wait until the copier has copied all. One that gave up because of a fault is started again."""

    def has_ended() -> bool:
        code = program.poll()
        if code:
            program.start()
        return code == 0

    until(has_ended, f"the copier has copied all\n{program.tail()}", PATIENCE_S)


@pytest.mark.parametrize("mode", ["assigned", "subscribed"])
def test_each_message_is_copied_once_although_copiers_and_brokers_are_killed(
    group: BrokerGroup, tmp_path: Path, mode: str
) -> None:
    chance, topics = random.Random(mode), (f"in-{mode}", f"out-{mode}")
    for topic in topics:
        create_topic(group.bootstrap, topic, PARTITIONS, 3, min_insync_replicas="2")
    producer = Producer({"bootstrap.servers": group.bootstrap, "enable.idempotence": True})
    for number in range(COUNT):
        producer.produce(topics[0], str(number), partition=number % PARTITIONS)
    assert producer.flush(PATIENCE_S) == 0
    more = ["--enable-random-aborts", *(["--group-mode", "--use-group-metadata"] if mode == "subscribed" else [])]
    copiers = [copier(group.bootstrap, tmp_path, topics, each, more) for each in range(PARTITIONS)]
    reader = CommittedReader(group.bootstrap, topics[1], PARTITIONS, lambda: "\n".join(each.tail() for each in copiers))

    def progress() -> None:
        """Wait for some copies. A copier that has copied all of its partitions ends, although the other one is dead."""
        wanted = min(len(reader.messages) + chance.randrange(1, COUNT // ROUNDS // 4), COUNT)
        reader.wait_for(wanted, unless=lambda: all(each.poll() is not None for each in copiers))

    with ExitStack() as undo:
        undo.callback(reader.close)
        for each in copiers:
            undo.enter_context(each)
        wait_in_sync(group)
        for _ in range(ROUNDS):
            broker, killed = chance.choice(group.brokers), chance.choice(copiers)
            progress()
            broker.kill()
            progress()
            killed.kill()
            progress()
            killed.start()
            broker.start(wait=False)
            wait_in_sync(group)
        for each in copiers:
            run_to_its_end(each)
        reader.wait_for(COUNT)
        reader.read()
        assert sorted(map(int, reader.values())) == list(range(COUNT))
