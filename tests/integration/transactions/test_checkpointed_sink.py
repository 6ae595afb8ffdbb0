"""A sink with two-phase commits, as stream processors have it, that crashes between its steps (CheckpointedSink.java).

A sink that begins after a crash commits transactions of another producer by their producer ids and epochs, and aborts
others. The program is killed, and so are brokers.
"""

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.java_clients.programs import command
from tests.support.java_clients.running import JavaProgram
from tests.support.processes.broker_process import BrokerGroup
from tests.support.processes.clients.acknowledged import create_topic
from tests.support.processes.clients.broker_admin import until
from tests.support.transactions.killed_brokers import PATIENCE_S, PROPERTIES, CommittedReader, wait_in_sync

pytestmark = pytest.mark.full

TOPIC, PARTITIONS = "numbers", 2
COUNT, BATCH = 1_200, 50
ROUNDS = 2


@pytest.fixture(scope="module")
def group() -> Iterator[BrokerGroup]:
    with BrokerGroup(3, properties=PROPERTIES) as running:
        yield running


def test_each_number_is_committed_once_although_the_sink_crashes_and_brokers_are_killed(
    group: BrokerGroup, tmp_path: Path
) -> None:
    create_topic(group.bootstrap, TOPIC, PARTITIONS, 3, min_insync_replicas="2")
    chance = random.Random(1)
    arguments = (TOPIC, str(tmp_path / "checkpoint"), str(COUNT), str(BATCH))
    sink = JavaProgram(tmp_path, "sink", command("CheckpointedSink", group.bootstrap, *arguments))
    reader = CommittedReader(group.bootstrap, TOPIC, PARTITIONS, sink.tail)

    def progress() -> None:
        reader.wait_for(min(len(reader.messages) + chance.randrange(1, 3 * BATCH), COUNT))

    try:
        with sink:
            wait_in_sync(group)
            for _ in range(ROUNDS):
                broker = chance.choice(group.brokers)
                progress()
                broker.kill()
                progress()
                sink.kill()
                sink.start()
                progress()
                broker.start(wait=False)
                wait_in_sync(group)
            until(lambda: sink.poll() is not None, "the sink has committed all numbers", PATIENCE_S)
            assert sink.poll() == 0, sink.tail()
        printed = sink.printed()
        reader.wait_for(COUNT)
        reader.read()
        assert sorted(map(int, reader.values())) == list(range(COUNT)), printed
        assert "committed again" in printed
        assert "refused" in printed
    finally:
        reader.close()
