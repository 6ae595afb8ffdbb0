"""A coordinator of push groups without a broker, and consumers without sockets, on a manual clock.

Records are kept, so that a test can replay the log; the log may refuse. A call stays with its consumer until the
consumer answers.
"""

from collections import deque
from collections.abc import Callable, Hashable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar
from uuid import UUID

from broker_runtime.config.keys.broker import BrokerConfig
from broker_runtime.coordination.seam import Deciding, in_one_go
from broker_runtime.coordination.timers import Timers
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.groups.answers import Outbox
from broker_runtime.groups.classic.group import APPLIERS as CLASSIC_APPLIERS
from broker_runtime.groups.classic.group import ClassicGroup
from broker_runtime.groups.environment import GroupTimer
from broker_runtime.groups.members_room import MembersRoom
from broker_runtime.groups.push import answers
from broker_runtime.groups.push.answers import Answer
from broker_runtime.groups.push.offsets import Consumed
from broker_runtime.groups.push.registering import register
from broker_runtime.groups.push.registration import ConsumerRegistration
from broker_runtime.groups.push.state.calls import Call, HangUp, Ping, StartFetcher, StopFetcher
from broker_runtime.groups.push.state.decided import Decided
from broker_runtime.groups.push.state.group import APPLIERS, PushGroup
from broker_runtime.groups.push.state.log_ends import Asked, End, Ends, Partition
from broker_runtime.groups.push.state.states import PushState
from broker_runtime.groups.push.upkeep import loaded, on_topics_changed
from broker_runtime.groups.records import GroupRecord
from broker_runtime.groups.state import GroupsState
from broker_runtime.groups.tally import PushTally
from broker_runtime.metadata.areas.topics import PartitionRecord, RemoveTopic, TopicRecord
from broker_runtime.metadata.image import MetadataImage
from broker_runtime.slicing.steps import at_once

T = TypeVar("T")
GROUP = "readers"
SESSION_S = 6.0
_RETRY_S = 1.0


class _Timers:
    """An implementation of `GroupTimers` like that of the runtime."""

    def __init__(self, now_s: float) -> None:
        self.now_s = now_s
        self.timers: Timers[GroupTimer] = Timers()
        self.next: deque[tuple[Hashable, GroupTimer]] = deque()

    def schedule(self, key: Hashable, delay_s: float, action: GroupTimer) -> None:
        self.timers.schedule(key, self.now_s + delay_s, action)

    def schedule_if_absent(self, key: Hashable, delay_s: float, action: GroupTimer) -> None:
        if key not in self.timers:
            self.schedule(key, delay_s, action)

    def continue_with(self, key: Hashable, action: GroupTimer) -> None:
        self.next.append((key, action))

    def once_taken(self, act: Callable[[], None]) -> None:
        raise NotImplementedError("decisions of this protocol change soft state, or use go_on")

    def cancel(self, key: Hashable) -> None:
        self.timers.cancel(key)


_NO_END = 1 << 62


@dataclass
class Logs:
    """The logs of all partitions. Each log has a very high end offset, unless a test sets another."""

    ends: dict[Partition, int] = field(default_factory=dict)
    cuts: dict[Partition, tuple[int, int]] = field(default_factory=dict)
    """A leader epoch, and the offset where it began."""
    elsewhere: bool = False
    """Whether another broker leads the partitions."""
    silent: bool = False
    """Whether that broker does not answer."""

    def end(self, at: Partition, epoch: int) -> End:
        cut_epoch, cut = self.cuts.get(at, (-1, 0))
        return End(epoch, cut if epoch < cut_epoch else self.ends.get(at, _NO_END))


@dataclass
class _Environment:
    """An implementation of `PushEnvironment`, including `calls` and `ends`."""

    config: BrokerConfig
    image: MetadataImage
    timers: _Timers
    outbox: Outbox = field(default_factory=Outbox)
    members_room: MembersRoom = field(default_factory=MembersRoom)
    aside: list[Callable[[], GroupTimer]] = field(default_factory=list)
    connections: dict[int, "Consumer"] = field(default_factory=dict)
    behind: set[int] = field(default_factory=set)
    """Connections on which the coordinator is behind."""
    tally: PushTally = field(default_factory=PushTally)
    logs: Logs = field(default_factory=Logs)

    @property
    def calls(self) -> "_Environment":
        return self

    def send(self, connection: int, call: Call) -> None:
        consumer = self.connections.get(connection)
        if consumer is not None:
            consumer.take(call, self.timers.now_s)

    def is_behind(self, connection: int) -> bool:
        return connection in self.behind

    def monotonic_s(self) -> float:
        return self.timers.now_s

    def now_ms(self) -> int:
        return round(self.timers.now_s * 1000)

    def new_id(self) -> str:
        raise NotImplementedError("consumers bring their ids")

    def offload(self, work: Callable[[], T], then: Callable[[T | Exception], GroupTimer]) -> None:
        self.aside.append(lambda: then(work()))

    @property
    def ends(self) -> "_Environment":
        return self

    def known_ends(self, asked: Asked) -> tuple[Ends, Asked]:
        return ({}, asked) if self.logs.elsewhere else (self._ends(asked), {})

    def ask_ends(self, asked: Asked, then: Callable[[Ends], GroupTimer]) -> None:
        self.aside.append(lambda: then({} if self.logs.silent else self._ends(asked)))

    def _ends(self, asked: Asked) -> Ends:
        return {at: self.logs.end(at, epoch) for at, epoch in asked.items()}


class Coordinator:
    """One shard, and its log."""

    def __init__(self, config: BrokerConfig | None = None) -> None:
        self.environment = _Environment(config or BrokerConfig(), MetadataImage(), _Timers(1_000.0))
        self.state = empty_state()
        self.log: list[GroupRecord] = []
        self.log_refuses = False
        self.aside_at_once = True
        self.last_connection = 0

    @property
    def logs(self) -> Logs:
        return self.environment.logs

    @property
    def group(self) -> PushGroup:
        group = self.state.groups[GROUP]
        assert isinstance(group, PushGroup)
        return group

    def group_state(self) -> PushState:
        return self.group.state

    def committed(self) -> dict[tuple[str, int], int]:
        return {key: value.offset for key, value in self.state.offsets.of(GROUP).items()}

    def topic(self, name: str, partitions: int) -> None:
        """Create the topic, or give it more partitions."""
        image = self.environment.image
        topic = image.topics.get(name)
        topic_id = UUID(int=1_000 + image.next_offset) if topic is None else topic.id
        if topic is None:
            image.apply(TopicRecord(name, topic_id), image.next_offset)
        for index in range(0 if topic is None else len(topic.partitions), partitions):
            image.apply(PartitionRecord(topic_id, index, (1,), (1,), 1, 0, 0), image.next_offset)
        self._topics_changed(name)

    def delete_topic(self, name: str) -> None:
        image = self.environment.image
        image.apply(RemoveTopic(image.topics[name].id), image.next_offset)
        self._topics_changed(name)

    def _topics_changed(self, name: str) -> None:
        at_once(on_topics_changed(self.state, self.environment, [name]))
        self._run_due()

    def decide(self, decision: Callable[[GroupsState], Deciding[GroupRecord, T]]) -> T:
        """Write and apply a decision, and run all that is then due, also after an error.

        Raises KafkaError if the decision or the log refuses.
        """
        try:
            return self._decide(decision)
        finally:
            self._run_due()

    def _decide(self, decision: Callable[[GroupsState], Deciding[GroupRecord, T]]) -> T:
        timers = self.environment.timers
        try:
            records, answer = in_one_go(decision(self.state))
            if records and self.log_refuses:
                raise KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS)
        except KafkaError:
            timers.next.clear()
            raise
        for record in records:
            self.log.append(record)
            self.state.apply(record, self.state.next_offset)
        going_on, timers.next = timers.next, deque()
        for key, action in going_on:
            self._decide_timer(key, action)
        return answer

    def _decide_timer(self, key: Hashable, action: GroupTimer) -> None:
        """Decide a timer as the runtime does: an action whose key has another timer by now was postponed."""
        if key in self.environment.timers.timers:
            return
        try:
            self._decide(action)
        except KafkaError:
            self.environment.timers.schedule(key, _RETRY_S, action)

    def _run_due(self) -> None:
        timers = self.environment.timers
        while True:
            due = timers.timers.take_due(timers.now_s)
            for key, action in due:
                self._decide_timer(key, action)
            if not due and not (self.aside_at_once and self.environment.aside):
                return
            if self.aside_at_once:
                self.run_aside()

    def run_aside(self) -> None:
        """Run the work that was started aside until now."""
        works, self.environment.aside = self.environment.aside, []
        for number, work in enumerate(works):
            self._decide_timer(("aside", number), work())

    def wait(self, seconds: float) -> None:
        """Advance the clock; timers run when they fall due."""
        timers = self.environment.timers
        end_s = timers.now_s + seconds
        while (due_s := timers.timers.next_due_s()) is not None and due_s <= end_s:
            timers.now_s = max(due_s, timers.now_s)
            self._run_due()
        timers.now_s = end_s
        self._run_due()

    def fail_over(self, *, noticed: bool = True) -> None:
        """Let another coordinator read the log; everything else is lost, including all connections.

        If not `noticed`, the consumers do not notice that.
        """
        for consumer in list(self.environment.connections.values()):
            if noticed:
                consumer.lose_connection()
            else:
                consumer.cut_off()
        now_s = self.environment.timers.now_s
        self.environment = _Environment(
            self.environment.config, self.environment.image, _Timers(now_s), logs=self.environment.logs
        )
        self.state = empty_state()
        for offset, record in enumerate(self.log):
            self.state.apply(record, offset)
        loaded(self.state, self.environment)
        self._run_due()

    def consumers(self, *names: str, topic_count: str = '{"t": 1}') -> "list[Consumer]":
        """Consumers that have registered and read their assignment."""
        found = [Consumer(self, name, topic_count) for name in names]
        for each in found:
            each.register()
            answer_all(found)
        return found


def empty_state() -> GroupsState:
    return GroupsState({**CLASSIC_APPLIERS, **APPLIERS}, ClassicGroup)


@dataclass
class Consumer:
    """A consumer that follows the protocol, and answers when the test says so."""

    coordinator: Coordinator
    consumer_id: str
    topic_count: str = '{"t": 1}'
    auto_commit: bool = True
    reset: str = "smallest"
    session_s: float = SESSION_S
    connection: int | None = None
    """Number of the consumer's connection; None after its end."""
    unanswered: deque[Call] = field(default_factory=deque)
    told: list[Call] = field(default_factory=list)
    """All calls since the last registration."""
    positions: dict[tuple[str, int], int] = field(default_factory=dict)
    """Next offset of each partition that it reads."""
    threads: dict[str, set[tuple[str, int]]] = field(default_factory=dict)
    called_s: float = 0.0
    hung_up: str | None = None

    def register(self, **changes: object) -> None:
        """Register with the coordinator. Raises KafkaError."""
        coordinator = self.coordinator
        coordinator.last_connection += 1
        connection = coordinator.last_connection
        fields: dict[str, object] = {
            "group_id": GROUP,
            "consumer_id": self.consumer_id,
            "topic_count": self.topic_count,
            "auto_commit": self.auto_commit,
            "auto_offset_reset": self.reset,
            "session_timeout_ms": round(self.session_s * 1000),
            "client_host": "/127.0.0.1",
        }
        asked = ConsumerRegistration(**(fields | changes))  # type: ignore[arg-type]
        self.told.clear()
        self.hung_up = None
        coordinator.environment.connections[connection] = self
        was, self.connection = self.connection, connection
        self.called_s = coordinator.environment.timers.now_s
        try:
            coordinator.decide(partial(_register, coordinator, asked, connection))
        except KafkaError:
            del coordinator.environment.connections[connection]
            self.connection = was
            raise

    def take(self, call: Call, now_s: float) -> None:
        self.told.append(call)
        if isinstance(call, HangUp):
            self.hung_up = call.why
            self.lose_connection()
        else:
            self.called_s = now_s
            self.unanswered.append(call)

    def lose_connection(self) -> None:
        """Drop the connection and stop all fetchers."""
        if self.connection is not None:
            self.coordinator.environment.connections.pop(self.connection, None)
        self.connection = None
        self.unanswered.clear()
        self.positions.clear()
        self.threads.clear()

    def cut_off(self) -> None:
        """Cut the connection unnoticed: the consumer reads until it has received no call for its session time-out."""
        assert self.connection is not None
        self.coordinator.environment.connections.pop(self.connection, None)
        self.unanswered.clear()

    def suspect(self) -> None:
        """Drop the connection if the coordinator has sent no call for a session: then it counts as dead."""
        if self.connection is not None and self.coordinator.environment.timers.now_s - self.called_s >= self.session_s:
            self.lose_connection()

    def close(self) -> None:
        """End the connection and notify the coordinator."""
        connection = self.connection
        assert connection is not None
        self.lose_connection()
        self.report_end(connection)

    def report_end(self, connection: int) -> None:
        """Notify the coordinator that a connection has ended, as the broker does also if it has closed it."""
        coordinator = self.coordinator
        coordinator.decide(
            lambda state: answers.connection_ended(state, coordinator.environment, GROUP, self.consumer_id, connection)
        )

    @property
    def reading(self) -> set[tuple[str, int]]:
        return set(self.positions)

    @property
    def offsets(self) -> tuple[Consumed, ...]:
        return tuple(Consumed(topic, partition, offset) for (topic, partition), offset in self.positions.items())

    def read_to(self, offset: int) -> None:
        """Set the position of every partition that it reads."""
        self.positions = dict.fromkeys(self.positions, offset)

    def answer(self, kind: type[Call] | None = None) -> Call:
        """Answer the oldest call, which must be of this kind, and return it.

        With auto-commit, answers that can carry offsets have its last ones.
        """
        call = self.unanswered.popleft()
        assert kind is None or isinstance(call, kind), call
        if isinstance(call, StartFetcher):
            parts = [(thread, at) for thread, owned in call.threads for at in owned]
            self.positions = {(at.topic, at.partition): at.offset for _, at in parts}
            self.threads = {thread: {(at.topic, at.partition) for at in owned} for thread, owned in call.threads}
            self.say(answers.start_answered, offsets=None)
            return call
        told = self.offsets if self.auto_commit else None
        if isinstance(call, StopFetcher):
            self.positions.clear()
            self.threads.clear()
            self.say(answers.stop_answered, offsets=told)
        else:
            assert isinstance(call, Ping)
            self.say(answers.ping_answered, offsets=told)
        return call

    def say(
        self,
        what: Callable[[GroupsState, _Environment, Answer], Decided],
        *,
        offsets: Sequence[Consumed] | None,
        error_code: int = 0,
        consumer_id: str | None = None,
    ) -> None:
        """Send an answer, whatever was asked. If the log refuses its records, the error is ignored."""
        assert self.connection is not None
        said = Answer(GROUP, consumer_id or self.consumer_id, self.connection, error_code, offsets)
        coordinator = self.coordinator
        with suppress(KafkaError):
            coordinator.decide(lambda state: what(state, coordinator.environment, said))


def _register(
    coordinator: Coordinator, asked: ConsumerRegistration, connection: int, state: GroupsState
) -> tuple[Sequence[GroupRecord], None]:
    return register(state, coordinator.environment, asked, connection)


def answer_all(consumers: Iterable[Consumer]) -> None:
    """Let the consumers answer until no call is pending."""
    everybody = list(consumers)
    while any(each.unanswered for each in everybody):
        for each in everybody:
            while each.unanswered:
                each.answer()
