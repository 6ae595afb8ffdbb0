"""Topics: read one on the brokers, change what differs, and wait until the brokers report it.

planning.topics decides what differs; this module sends the requests. The caller reports partitions that cannot be
removed, see judge_observed. Numbers of replicas are changed by fleet.kafka.reassigning.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Protocol
from uuid import UUID

from kafka_bytes.uuids import decode_uuid, encode_uuid
from sluicegate_operator.api.models.topic import Topic
from sluicegate_operator.fleet.base import BrokerAddress
from sluicegate_operator.fleet.kafka.asking import BrokerPool
from sluicegate_operator.fleet.kafka.reassigning import BrokersWanted, plan_of, reassign_replicas
from sluicegate_operator.kafka_admin.client import BrokerHandle
from sluicegate_operator.kafka_admin.configs import ConfigChange
from sluicegate_operator.kafka_admin.errors import KafkaAdminError, KafkaApiError
from sluicegate_operator.kafka_admin.views import (
    Configs,
    ConfigSource,
    NewTopic,
    Partition,
    ReassignmentView,
    TopicView,
)
from sluicegate_operator.planning.topics.reassignment import NO_CHANGE, ReplicasPlan
from sluicegate_operator.planning.topics.topics import (
    AddPartitions,
    AlterTopicConfigs,
    CreateTopic,
    DeleteTopic,
    ObservedTopic,
    PartitionLayout,
    TopicAction,
    diff_topic,
    keys_after_refusal,
    managed_keys,
)

FIRST_PAUSE_S = 0.01
LONGEST_PAUSE_S = 0.2
DEADLINE_S = 5.0
"""Seconds that brokers may take to report a change."""
UNKNOWN = "UNKNOWN_TOPIC_OR_PARTITION"
NO_ERRORS: Mapping[type, tuple[str, ...]] = {
    CreateTopic: ("TOPIC_ALREADY_EXISTS",),
    DeleteTopic: (UNKNOWN, "UNKNOWN_TOPIC_ID"),
}
"""The refusals by which an action already has its effect, by the type of the action."""
BROKERS_DEFAULT = -1
"""Kafka's number for default.replication.factor replicas."""
NOT_MOVING = ReassignmentView((), (), ())


SeenTopics = Mapping[str, ObservedTopic | None]
"""Topics as brokers report them, by Kafka's name; None for a topic that does not exist."""
NOT_SEEN: SeenTopics = MappingProxyType({})


class TopicRecords(Protocol):
    """Stores durably what Kafka does not record about a topic. Methods raise errors of the store."""

    async def remember_keys(self, managed: tuple[str, ...]) -> None:
        """Store the names of the configuration keys that the operator manages.

        The call returns before any of the keys is set.
        """

    async def govern(self, topic_id: str, found: ObservedTopic | None, changes: Sequence[TopicAction]) -> None:
        """Store the id of the topic that was just created or adopted.

        `found` is the topic before `changes`.
        """


@dataclass(frozen=True, slots=True)
class TopicResult:
    """The result of bringing a topic to its Topic.

    `found` is the state before. `settled`: the brokers report everything that can be achieved; otherwise the deadline
    passed first. `replicas`: the progress of a change of their number.
    """

    found: ObservedTopic | None
    observed: ObservedTopic | None
    changes: tuple[TopicAction, ...]
    settled: bool
    replicas: ReplicasPlan = NO_CHANGE


class TooFewBrokersError(Exception):
    """Error because a topic created now would have all its leaders and replicas on the few brokers that are online."""

    def __init__(self, online: int, wanted: int) -> None:
        super().__init__(
            f"{online} of the cluster's {wanted} brokers are Online; the topic is created when all of them are"
        )


async def enforce_topic(
    pool: BrokerPool,
    topic: Topic,
    records: TopicRecords,
    *,
    brokers: BrokersWanted | None = None,
    create_on: int = 0,
    seen: SeenTopics = NOT_SEEN,
) -> TopicResult:
    """Create or change a topic of Kafka so that it is as its Topic resource says.

    `seen` are topics that were just read together; a topic that is not in it is read first. Without `brokers` the
    number of replicas stays unchanged. Raises KafkaAdminError if the brokers refuse, NoBrokerError if none can be
    reached, and errors of `records`. Raises TooFewBrokersError if the topic must be created and fewer than `create_on`
    brokers are Online.
    """
    managed = topic.status.config_keys
    name = topic.topic_name
    found = observed = seen[name] if name in seen else await observe_topic(pool, name)
    if found is None and create_on:
        await _enough_brokers(pool, create_on)
    actions, settled = diff_topic(topic, found, managed), True
    kept = managed_keys(topic, found, managed)
    if kept != managed:
        await records.remember_keys(kept)
    try:
        made = await apply_topic_actions(pool, actions)
    except KafkaApiError as error:
        left = kept if error.retriable else keys_after_refusal(topic, found, managed, kept)
        if left != kept:
            await records.remember_keys(left)
        raise
    if (governed := made if found is None else found.topic_id) not in ("", topic.status.topic_id):
        await records.govern(governed, found, actions)
    if actions:
        settled, observed = await _read_back(pool, topic.topic_name, lambda seen: not diff_topic(topic, seen, kept))
    if (after := managed_keys(topic, observed, kept)) != kept:
        await records.remember_keys(after)
    replicas = NO_CHANGE
    if brokers is not None:
        replicas = await reassign_replicas(pool, topic, observed, brokers) if settled else plan_of(topic, observed)
        if replicas.moves:
            observed = await observe_topic(pool, name)
            replicas = replace(replicas, change=plan_of(topic, observed).change)
    return TopicResult(found, observed, tuple(actions), settled, replicas)


async def _enough_brokers(pool: BrokerPool, wanted: int) -> None:
    # In the answer, Kafka lists the brokers that clients may use.
    online = len((await pool.ask_any(lambda _, handle: handle.describe_cluster())).brokers)
    if online < wanted:
        raise TooFewBrokersError(online, wanted)


async def observe_topics(pool: BrokerPool, names: Collection[str]) -> SeenTopics:
    """Return the state of each named topic. Topics for which a broker reports another error are left out.

    This takes two requests for up to configs.TOPICS_A_PAGE topics, and a third one while a partition is not in sync.
    Raises KafkaAdminError and NoBrokerError.
    """

    async def read(_: BrokerAddress, handle: BrokerHandle) -> SeenTopics:
        views = await handle.describe_topics(names)
        there = {name: view for name, view in views.items() if view.error is None and view.partitions}
        configs = await handle.describe_configs_of_topics(there) if there else {}
        moving = await _moving(handle, there.values())
        missing = {name: None for name in names if name in views and views[name].error == UNKNOWN}
        return missing | {name: _observed(there[name], configs[name], moving) for name in there.keys() & configs.keys()}

    return await pool.ask_any(read)


async def observe_topic(pool: BrokerPool, name: str) -> ObservedTopic | None:
    """Return the topic's state; None for a topic that does not exist. Raises the same errors as enforce_topic."""

    async def read(_: BrokerAddress, handle: BrokerHandle) -> ObservedTopic | None:
        view = (await handle.describe_topics([name])).get(name)
        if view is not None and view.error == UNKNOWN:
            return None
        if view is None or not view.partitions:
            why = view.error if view else "the broker's response does not contain the topic"
            raise KafkaAdminError(f"describing topic {name}: {why}")
        try:
            configs = await handle.describe_topic_configs(name)
        except KafkaApiError as error:
            # Deleted between the two requests.
            if error.name == UNKNOWN:
                return None
            raise
        return _observed(view, configs, await _moving(handle, [view]))

    return await pool.ask_any(read)


async def _moving(handle: BrokerHandle, views: Iterable[TopicView]) -> Mapping[Partition, ReassignmentView]:
    """Return reassignments under way; empty if the brokers refuse to list them.

    They are requested only if there may be one: replicas that are added are not in sync.
    """
    partitions = (partition for view in views for partition in view.partitions)
    if all(set(partition.replicas) <= set(partition.isr) for partition in partitions):
        return {}
    try:
        return await handle.list_reassignments()
    except KafkaApiError:
        return {}


def _layout(view: TopicView, moving: Mapping[Partition, ReassignmentView]) -> tuple[PartitionLayout, ...]:
    layout = []
    for one in view.partitions:
        change = moving.get((view.name, one.index), NOT_MOVING)
        # The controller may have ended or begun it since the broker's metadata was written.
        adding = tuple(replica for replica in change.adding if replica in one.replicas)
        removing = tuple(replica for replica in change.removing if replica in one.replicas)
        layout.append(PartitionLayout(one.index, one.leader, one.replicas, one.isr, adding, removing))
    return tuple(layout)


def _observed(view: TopicView, configs: Configs, moving: Mapping[Partition, ReassignmentView]) -> ObservedTopic:
    layout = _layout(view, moving)
    return ObservedTopic(
        topic_id=kafka_form(view.id),
        partitions=len(view.partitions),
        replicas=min(len(set(partition.target) - set(partition.adding)) for partition in layout),
        configs={
            entry.name: entry.value
            for entry in configs.values()
            if entry.source is ConfigSource.DYNAMIC_TOPIC_CONFIG and entry.value is not None
        },
        layout=layout,
    )


def kafka_form(topic_id: UUID | None) -> str:
    """Return the topic id as Kafka's tools show it: 22 characters of base64; empty for None."""
    return encode_uuid(topic_id) if topic_id else ""


async def apply_topic_actions(pool: BrokerPool, actions: Sequence[TopicAction]) -> str:
    """Carry out actions on topics, in order. Return the id of the topic that they have created; empty without one.

    If a topic already exists or is already gone, that is not an error: the next read finds the remaining differences.
    """
    made = ""
    for action in actions:
        try:
            made = await pool.ask_any(_request(action)) or made
        except KafkaApiError as error:
            if error.name not in NO_ERRORS.get(type(action), ()):
                raise
    return made


def _request(action: TopicAction) -> Callable[[BrokerAddress, BrokerHandle], Awaitable[str]]:
    async def send(_: BrokerAddress, handle: BrokerHandle) -> str:
        match action:
            case CreateTopic():
                replicas = BROKERS_DEFAULT if action.replicas is None else action.replicas
                new = NewTopic(action.name, action.partitions, replicas, action.configs)
                return kafka_form(await handle.create_topic(new))
            case AddPartitions():
                await handle.create_partitions(action.name, action.total)
            case AlterTopicConfigs():
                await handle.alter_topic_configs(action.name, ConfigChange(set=action.set, delete=action.delete))
            case DeleteTopic():
                await handle.delete_topic(action.name, decode_uuid(action.topic_id))
        return ""

    return send


async def delete_topic(pool: BrokerPool, name: str, topic_id: str) -> bool:
    """Delete the topic of this name if it has that id.

    Return whether the brokers confirm the deletion within the deadline.
    """
    await apply_topic_actions(pool, [DeleteTopic(name, topic_id)])
    gone, _observed = await _read_back(pool, name, lambda seen: seen is None or seen.topic_id != topic_id)
    return gone


async def _read_back(
    pool: BrokerPool, name: str, is_settled: Callable[[ObservedTopic | None], bool]
) -> tuple[bool, ObservedTopic | None]:
    loop = asyncio.get_running_loop()
    until_s = loop.time() + DEADLINE_S
    pause_s = FIRST_PAUSE_S
    while True:
        observed = await observe_topic(pool, name)
        if is_settled(observed) or loop.time() >= until_s:
            return is_settled(observed), observed
        await asyncio.sleep(min(pause_s, until_s - loop.time()))
        pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
