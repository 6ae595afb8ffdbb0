"""Kafka Streams with exactly_once_v2: a word count by window whose instances and brokers are killed.

The application has a repartition topic and a changelog (WordCount.java). It writes each count that a word has had, so
that a word that is counted twice, or not at all, shows in the values of its key.
"""

import random
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, Message, Producer

from tests.support.java_clients.programs import command
from tests.support.java_clients.running import JavaProgram
from tests.support.processes.broker_process import BrokerGroup, BrokerProcess
from tests.support.processes.clients.acknowledged import create_topic
from tests.support.transactions.killed_brokers import PATIENCE_S, PROPERTIES, CommittedReader, wait_in_sync

pytestmark = pytest.mark.full

SOURCE, TARGET, PARTITIONS = "lines", "counts", 2
WINDOW_MS = 10_000
"""Length of a window, as WordCount.java has it."""
STEP_MS = 20
"""Time between two lines, by their timestamps."""
WORDS = tuple(f"word-{number}" for number in range(15))
WORDS_OF_A_LINE = 3
LINES_OF_A_ROUND = 300
ROUNDS = 2
INSTANCES = 2


class Lines:
    """Writes lines of random words with timestamps that grow, and counts the words of each window."""

    def __init__(self, bootstrap: str, chance: random.Random) -> None:
        self._producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "log_level": 0})
        self._chance = chance
        self._number = 0
        self._start_ms = int(time.time() * 1_000)
        self._failures: list[str] = []
        self.expected = Counter[str]()
        """How often each word is in each window; the key is the one that the application writes."""

    def write(self, count: int) -> None:
        """Begin to send so many lines."""
        for _ in range(count):
            words = self._chance.choices(WORDS, k=WORDS_OF_A_LINE)
            at_ms = self._start_ms + self._number * STEP_MS
            self.expected.update(f"{word}@{at_ms // WINDOW_MS * WINDOW_MS}" for word in words)
            self._producer.produce(
                SOURCE,
                " ".join(words),
                partition=self._number % PARTITIONS,
                timestamp=at_ms,
                on_delivery=self._delivered,
            )
            self._number += 1
        self._producer.poll(0)
        assert self._failures == []

    def end(self) -> None:
        """Wait until all lines are acknowledged."""
        assert self._producer.flush(PATIENCE_S) == 0
        assert self._failures == []

    def _delivered(self, error: KafkaError | None, _: Message) -> None:
        if error is not None:
            self._failures.append(str(error))


def faults_of(messages: list[Message], expected: Mapping[str, int]) -> list[str]:
    """The keys whose counts are not 1, 2, 3 and so on up to the number of the word in the window."""
    found = defaultdict[str, list[int]](list)
    for message in messages:
        found[(message.key() or b"").decode()].append(int(message.value() or b""))
    return [
        f"{key}: {found[key]} instead of 1 to {expected.get(key, 0)}"
        for key in sorted({*found, *expected})
        if found[key] != list(range(1, expected.get(key, 0) + 1))
    ]


class Scene:
    """Two instances of the application, the brokers, and the topics between which it counts."""

    def __init__(self, group: BrokerGroup, folder: Path, chance: random.Random) -> None:
        for topic in (SOURCE, TARGET):
            create_topic(group.bootstrap, topic, PARTITIONS, 3, min_insync_replicas="2")
        self._group = group
        self._chance = chance
        self.lines = Lines(group.bootstrap, chance)
        self.instances = [
            JavaProgram(
                folder,
                f"instance-{number}",
                command("WordCount", group.bootstrap, "count", str(folder / f"state-{number}"), SOURCE, TARGET),
            )
            for number in range(INSTANCES)
        ]
        self.counts = CommittedReader(
            group.bootstrap, TARGET, PARTITIONS, lambda: "\n".join(each.tail() for each in self.instances)
        )

    def kill_some(self) -> None:
        """Kill an instance and a broker in random order, while the others count, and start them again."""
        instance, broker = self._chance.choice(self.instances), self._chance.choice(self._group.brokers)
        victims: list[JavaProgram | BrokerProcess] = [instance, broker]
        self._chance.shuffle(victims)
        for victim in victims:
            self.lines.write(LINES_OF_A_ROUND)
            self._progress()
            victim.kill()
        self._progress()
        broker.start(wait=False)
        instance.start()
        wait_in_sync(self._group)

    def _progress(self) -> None:
        """Wait until a random number of words more is counted."""
        more = self._chance.randrange(1, LINES_OF_A_ROUND)
        self.counts.wait_for(min(len(self.counts.messages) + more, self.lines.expected.total()))


@pytest.fixture(scope="module")
def group() -> Iterator[BrokerGroup]:
    with BrokerGroup(3, properties=PROPERTIES) as running:
        yield running


def test_each_word_is_counted_once_although_instances_and_brokers_are_killed(
    group: BrokerGroup, tmp_path: Path
) -> None:
    scene = Scene(group, tmp_path, random.Random(1))
    with ExitStack() as undo:
        undo.callback(scene.counts.close)
        for instance in scene.instances:
            undo.enter_context(instance)
        wait_in_sync(group)
        for _ in range(ROUNDS):
            scene.kill_some()
        scene.lines.end()
        scene.counts.wait_for(scene.lines.expected.total())
        assert faults_of(scene.counts.messages, scene.lines.expected) == []
        for instance in scene.instances:
            instance.stop()
        # A clean stop commits nothing that was counted before.
        scene.counts.read()
        assert faults_of(scene.counts.messages, scene.lines.expected) == []
