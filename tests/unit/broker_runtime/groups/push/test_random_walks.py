"""Events in any order: no partition is read twice at a time, no record is skipped, no offset decreases.

Consumers follow the protocol. They join, leave, and are cut off without noticing. The coordinator moves, also
unnoticed, and the log sometimes refuses.
"""

from collections.abc import Callable
from contextlib import suppress
from random import Random

import pytest

from broker_runtime.errors import KafkaError
from broker_runtime.groups.push.state.group import PushGroup
from broker_runtime.groups.push.state.states import PushState
from tests.support.groups.push_groups import GROUP, Consumer, Coordinator

STEPS = 400
SUBSCRIPTIONS = ('{"t": 1}', '{"t": 2}', "*1*.*", '{"t": 1, "u": 3}', "!1!t")


class Walk:
    """One walk, and the observations on it."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.coordinator = Coordinator()
        self.coordinator.topic("t", 3)
        self.consumers = [
            Consumer(self.coordinator, name, self.random.choice(SUBSCRIPTIONS)) for name in ("a", "b", "c", "d")
        ]
        self.read: dict[tuple[str, int], int] = {}
        self.committed: dict[tuple[str, int], int] = {}
        self.steps: list[tuple[Callable[[], None], int]] = [
            (self.answer, 60),
            (self.consume, 20),
            (self.pass_time, 20),
            (self.come, 12),
            (self.go, 3),
            (self.be_cut_off, 3),
            (self.grow, 1),
            (self.fail_over, 1),
            (self.refuse, 2),
        ]

    def take_step(self) -> None:
        steps, weights = zip(*self.steps, strict=True)
        (step,) = self.random.choices(steps, weights)
        step()
        self.check()

    def answer(self) -> None:
        for each in self.random.sample(self.consumers, 2):
            if each.connection is not None and each.unanswered:
                each.answer()

    def consume(self) -> None:
        each = self.random.choice(self.consumers)
        for key, position in each.positions.items():
            assert position <= self.read.get(key, 0), f"records of {key} below {position} were read by nobody"
            each.positions[key] = max(position, 0) + self.random.randrange(3)
            self.read[key] = max(self.read.get(key, 0), each.positions[key])

    def pass_time(self) -> None:
        for _ in range(self.random.randrange(1, 20)):
            self.coordinator.wait(0.1)
            for each in self.consumers:
                each.suspect()

    def come(self) -> None:
        each = self.random.choice(self.consumers)
        if each.connection is None:
            with suppress(KafkaError):
                each.register()

    def go(self) -> None:
        each = self.random.choice(self.consumers)
        if each.connection is not None and each.connection in self.coordinator.environment.connections:
            with suppress(KafkaError):
                each.close()

    def be_cut_off(self) -> None:
        """Cut a consumer off; it answers first.

        A consumer with unanswered calls is dropped sooner, and could read beside its successor until it notices.
        """
        each = self.random.choice(self.consumers)
        while each.unanswered:
            each.answer()
        if each.connection is not None:
            each.cut_off()

    def grow(self) -> None:
        name = self.random.choice(("t", "u", "v"))
        topic = self.coordinator.environment.image.topics.get(name)
        self.coordinator.topic(name, 1 if topic is None else len(topic.partitions) + 1)

    def fail_over(self) -> None:
        self.coordinator.log_refuses = False
        self.coordinator.fail_over(noticed=self.random.random() < 0.5)

    def refuse(self) -> None:
        self.coordinator.log_refuses = not self.coordinator.log_refuses

    def check(self) -> None:
        readers = [key for each in self.consumers for key in each.reading]
        assert len(readers) == len(set(readers)), "two read the same partition"
        committed = self.coordinator.committed()
        for key, offset in self.committed.items():
            assert committed[key] >= offset, "an offset has gone back"
        for key, offset in committed.items():
            assert offset <= self.read.get(key, 0), "an offset was committed that nobody has read"
        self.committed = committed

    def settle(self) -> None:
        """Let no more faults happen: all absent consumers but one return and answer; the one is gone for good."""
        self.coordinator.log_refuses = False
        dead = self.consumers.pop()
        dead.lose_connection()
        for _ in range(300):
            self.coordinator.wait(0.1)
            for each in self.consumers:
                each.suspect()
                if each.connection is None:
                    with suppress(KafkaError):
                        each.register()
                while each.unanswered:
                    each.answer()
            self.check()


@pytest.mark.parametrize("seed", range(60))
def test_whatever_happens_nothing_is_read_twice_at_a_time_or_left_out(seed: int) -> None:
    walk = Walk(seed)
    for _ in range(STEPS):
        walk.take_step()
    walk.settle()
    group = walk.coordinator.state.groups[GROUP]
    assert isinstance(group, PushGroup)
    assert group.state is PushState.STABLE
    topics = walk.coordinator.environment.image.topics
    read_by = {name: any(matches(each, name) for each in walk.consumers) for name in topics}
    wanted = {(name, number) for name in topics if read_by[name] for number in topics[name].partitions}
    assert {key for each in walk.consumers for key in each.reading} == wanted
    told = {key: offset for each in walk.consumers for key, offset in each.positions.items() if offset >= 0}
    assert told.items() <= walk.committed.items()


def matches(consumer: Consumer, name: str) -> bool:
    text = consumer.topic_count
    return text.startswith("*") or (text == "!1!t" and name != "t") or f'"{name}"' in text
