"""A coordinator of KIP-848 groups without a broker: decisions, records and timers in memory, on a manual clock.

Records are kept, so that a test can replay the log; work that runs aside runs when the test says so.
"""

from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar
from uuid import UUID

import pytest

from broker_runtime.config.keys.broker import BrokerConfig
from broker_runtime.coordination.seam import Deciding, in_one_go
from broker_runtime.coordination.timers import Timers
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.groups.answers import Outbox
from broker_runtime.groups.classic.group import APPLIERS as CLASSIC_APPLIERS
from broker_runtime.groups.classic.group import ClassicGroup
from broker_runtime.groups.consumer.heartbeat import ConsumerHeartbeatAnswer, heartbeat
from broker_runtime.groups.consumer.state.group import APPLIERS, ConsumerGroup
from broker_runtime.groups.consumer.state.validity import ConsumerHeartbeatRequest
from broker_runtime.groups.consumer.upkeep import loaded, on_topics_changed
from broker_runtime.groups.environment import GroupTimer
from broker_runtime.groups.members_room import MembersRoom
from broker_runtime.groups.records import Assignment, GroupRecord
from broker_runtime.groups.shards.ended import member_left
from broker_runtime.groups.state import GroupsState
from broker_runtime.metadata.areas.configs import ConfigRecord, ResourceType
from broker_runtime.metadata.areas.topics import PartitionRecord, RemoveTopic, TopicRecord
from broker_runtime.metadata.image import MetadataImage
from broker_runtime.slicing.steps import at_once

T = TypeVar("T")
GROUP = "readers"
REBALANCE_TIMEOUT_MS = 60_000
SOON_MS = 1_000
"""Default heartbeat interval for a member that takes part in a rebalance, in milliseconds."""


def empty_state() -> GroupsState:
    return GroupsState({**CLASSIC_APPLIERS, **APPLIERS}, ClassicGroup)


class ManualTimers:
    """An implementation of `GroupTimers` on a clock that the test sets."""

    def __init__(self) -> None:
        self.now_s = 1_000_000.0
        self.acts: list[Callable[[], None]] = []
        self._timers: Timers[GroupTimer] = Timers()

    def schedule(self, key: Hashable, delay_s: float, action: GroupTimer) -> None:
        self._timers.schedule(key, self.now_s + delay_s, action)

    def schedule_if_absent(self, key: Hashable, delay_s: float, action: GroupTimer) -> None:
        if key not in self._timers:
            self.schedule(key, delay_s, action)

    def continue_with(self, key: Hashable, action: GroupTimer) -> None:
        self.schedule(key, 0, action)

    def once_taken(self, act: Callable[[], None]) -> None:
        self.acts.append(act)

    def was_taken(self) -> None:
        acts, self.acts = self.acts, []
        for act in acts:
            act()

    def cancel(self, key: Hashable) -> None:
        self._timers.cancel(key)

    def is_set(self, *key: Hashable) -> bool:
        return key in self._timers

    def take_due(self) -> Sequence[tuple[Hashable, GroupTimer]]:
        return self._timers.take_due(self.now_s)

    @property
    def next_due_s(self) -> float | None:
        return self._timers.next_due_s()


@dataclass
class ManualEnvironment:
    """An implementation of `groups.environment.GroupEnvironment` on a clock that the test sets."""

    config: BrokerConfig = field(default_factory=BrokerConfig)
    image: MetadataImage = field(default_factory=MetadataImage)
    timers: ManualTimers = field(default_factory=ManualTimers)
    outbox: Outbox = field(default_factory=Outbox)
    members_room: MembersRoom = field(default_factory=MembersRoom)
    aside: list[Callable[[], GroupTimer]] = field(default_factory=list)
    ids: int = 0

    def now_ms(self) -> int:
        return round(self.timers.now_s * 1000)

    def new_id(self) -> str:
        self.ids += 1
        return f"id-{self.ids}"

    def offload(self, work: Callable[[], T], then: Callable[[T | Exception], GroupTimer]) -> None:
        self.aside.append(partial(_worked, work, then))


def _worked(work: Callable[[], Any], then: Callable[[Any], GroupTimer]) -> GroupTimer:
    try:
        return then(work())
    except Exception as error:  # noqa: BLE001  # The environment hands it on, whatever it is.
        return then(error)


class Coordinator:
    """One shard with its log, and the requests of tests to it."""

    def __init__(self, config: BrokerConfig | None = None) -> None:
        self.environment = ManualEnvironment(config or BrokerConfig())
        self.state = empty_state()
        self.log: list[GroupRecord] = []
        self.aside_at_once = True
        """Whether work that runs aside is done before the next request."""

    def topic(self, name: str, partitions: int, topic_id: UUID | None = None) -> UUID:
        """Create the topic, or give it more partitions; return its id."""
        image = self.environment.image
        topic = image.topics.get(name)
        if topic is None:
            topic_id = topic_id or UUID(int=1_000 + len(image.topics))
            image.apply(TopicRecord(name, topic_id), image.next_offset)
        else:
            topic_id = topic.id
        for index in range(0 if topic is None else len(topic.partitions), partitions):
            image.apply(PartitionRecord(topic_id, index, (1,), (1,), 1, 0, 0), image.next_offset)
        at_once(on_topics_changed(self.state, [name]))
        return topic_id

    def configure(self, key: str, value: str | None, group_id: str = GROUP) -> None:
        """Change the configuration of the group; None removes the key."""
        image = self.environment.image
        image.apply(ConfigRecord(ResourceType.GROUP, group_id, key, value), image.next_offset)

    def delete_topic(self, name: str) -> None:
        image = self.environment.image
        image.apply(RemoveTopic(image.topics[name].id), image.next_offset)
        at_once(on_topics_changed(self.state, [name]))

    def decide(self, decision: Callable[[GroupsState], Deciding[GroupRecord, T]]) -> T:
        """Run a decision as the runtime does: decide, write, apply."""
        self.environment.timers.acts.clear()
        records, answer = in_one_go(decision(self.state))
        for record in records:
            self.log.append(record)
            self.state.apply(record, self.state.next_offset)
            if record.value is None:
                member_left(record, self.environment)
        self.environment.timers.was_taken()
        self.environment.outbox.flush()
        if self.aside_at_once:
            self.run_aside()
        return answer

    def run_aside(self) -> None:
        while self.environment.aside:
            self.decide(self.environment.aside.pop(0)())
            self._run_due()

    def wait(self, seconds: float) -> None:
        """Advance the clock; timers run when they fall due."""
        end_s = self.environment.timers.now_s + seconds
        while (due_s := self.environment.timers.next_due_s) is not None and due_s <= end_s:
            self.environment.timers.now_s = max(due_s, self.environment.timers.now_s)
            self._run_due()
        self.environment.timers.now_s = end_s

    def _run_due(self) -> None:
        for _, action in self.environment.timers.take_due():
            self.decide(action)

    def heartbeat(self, member_id: str, epoch: int, **more: Any) -> ConsumerHeartbeatAnswer:
        request = ConsumerHeartbeatRequest(more.pop("group_id", GROUP), member_id, epoch, **more)
        return self.decide(lambda state: heartbeat(state, self.environment, request))

    def join(self, member_id: str, *topics: str, regex: str | None = None, **more: Any) -> ConsumerHeartbeatAnswer:
        more = {"rebalance_timeout_ms": REBALANCE_TIMEOUT_MS, "owned": {}, **more}
        names = tuple(topics) if topics or regex is None else None
        return self.heartbeat(member_id, 0, subscribed_topic_names=names, subscribed_topic_regex=regex, **more)

    def leave(self, member_id: str, epoch: int = -1, **more: Any) -> ConsumerHeartbeatAnswer:
        return self.heartbeat(member_id, epoch, **more)

    @property
    def group(self) -> ConsumerGroup:
        group = self.state.groups[GROUP]
        assert isinstance(group, ConsumerGroup)
        return group

    def assigned(self, member_id: str) -> Assignment:
        return self.group.members[member_id].current.assigned_partitions

    def replayed(self) -> GroupsState:
        state = empty_state()
        for offset, record in enumerate(self.log):
            state.apply(record, offset)
        return state

    def fail_over(self) -> None:
        """Let another coordinator read the log; timers and work that ran aside are lost with the first."""
        now_s = self.environment.timers.now_s
        self.state = self.replayed()
        self.environment.timers = ManualTimers()
        self.environment.timers.now_s = now_s
        self.environment.aside.clear()
        loaded(self.state, self.environment)


def durable(state: GroupsState) -> dict[str, Any]:
    """All state of each group that replay must restore."""
    found = {}
    for group_id, group in state.groups.items():
        assert isinstance(group, ConsumerGroup)
        at_once(group.subscriptions.catch_up())
        found[group_id] = {
            "epoch": group.epoch,
            "hash": group.metadata_hash,
            "assignment": (group.assignment_epoch, group.assignment_timestamp_ms),
            "target": group.target,
            "members": group.members,
            "static": group.static_members,
            "owners": group.owners,
            "subscriptions": vars(group.subscriptions),
        }
    return found


@contextmanager
def refused(code: ErrorCode) -> Iterator[list[str]]:
    """Expect the block to raise KafkaError of this code; the list then has its message."""
    messages: list[str] = []
    with pytest.raises(KafkaError) as caught:
        yield messages
    assert caught.value.code == code
    messages.append(caught.value.message or "")
