"""The owner of each partition, computed as in the draft, and whether that requires a rebalance. Pure.

Neighbouring partitions of a topic go to neighbouring threads in the order of their ids. This is the range assignor,
with threads as its members. The computation runs in a thread, on a snapshot.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from enum import Enum
from typing import NamedTuple
from uuid import UUID

from broker_runtime.groups.assignors import MemberSubscription, TopicDescription
from broker_runtime.groups.assignors.range import assign_range
from broker_runtime.groups.push.state.subscription import Subscription, Wildcard
from broker_runtime.groups.records import Assignment
from broker_runtime.groups.topic_regex import compile_topic_regex
from broker_runtime.metadata.image import MetadataImage
from broker_runtime.metadata.topic_names import INTERNAL_TOPICS
from broker_runtime.security.acls.topic_filter import TopicFilter

PARTITIONS_MAX = 0x7FFF
"""Maximum number of partitions of a consumer: messages count them with 16 bits."""

Ownership = Mapping[str, Mapping[str, Assignment]]
"""Assignments by consumer and thread id.

A consumer that owns nothing has an entry too, with all of its threads.
"""


class KnownTopic(NamedTuple):
    """A topic's id and number of partitions at the time of a snapshot of a push group."""

    id: UUID
    partitions: int


class AssignmentInput(NamedTuple):
    """The input for planning the ownership, which does not change."""

    subscriptions: Mapping[str, Subscription]
    topics: Mapping[str, KnownTopic]
    current: Ownership | None = None
    """The current ownership; None if it is unknown, or if fetchers were stopped since."""
    gone: Collection[str] = ()
    """Consumers in `current` that have left and own nothing any more."""
    filter_of: Mapping[str, TopicFilter] = {}
    """The topics that the wildcard of a consumer may name, by consumer.

    A consumer without a wildcard has no entry, and may name all topics.
    """
    checks: Mapping[TopicFilter, Callable[[str], bool]] = {}
    """Functions that return whether a filter matches a topic's name now, by filter."""

    def key_of(self, consumer_id: str) -> "_Key":
        """Return the values that determine the topics of a consumer's threads."""
        subscription = self.subscriptions[consumer_id]
        topic_filter = None if subscription.wildcard is None else self.filter_of.get(consumer_id)
        return tuple(subscription.topics.items()), subscription.wildcard, subscription.streams, topic_filter


class Necessity(Enum):
    """The reason for a rebalance, in the order of the protocol draft (section 9, step 3)."""

    NO_OWNERSHIP = "no owners of partitions are known"
    NOT_OWNED = "some partitions have no owner"
    NOT_THERE = "some assigned partitions no longer exist, or have no subscriber"
    OTHER_OWNERS = "some partitions get another owner"


class Plan(NamedTuple):
    """The planned owners of a push group's partitions. `necessity` is None if that is already the current ownership."""

    ownership: Ownership
    names: Mapping[UUID, str]
    """Names of all topics that the group reads, by id."""
    necessity: Necessity | None
    too_many: tuple[str, ...]
    """Consumers that would own more than PARTITIONS_MAX partitions and therefore own none."""


def known_topics(names: Iterable[str], image: MetadataImage) -> Mapping[str, KnownTopic]:
    """Return the topics that exist, by name, and leave out the others."""
    found = ((name, image.topics.get(name)) for name in names)
    return {name: KnownTopic(topic.id, len(topic.partitions)) for name, topic in found if topic is not None}


def plan(taken: AssignmentInput) -> Plan:
    keys = {consumer_id: taken.key_of(consumer_id) for consumer_id in taken.subscriptions}
    streams = {each: _streams(each, taken) for each in set(keys.values())}
    alike: dict[frozenset[UUID], frozenset[UUID]] = {}
    threads: dict[str, MemberSubscription] = {}
    of_consumer: dict[str, list[str]] = {}
    for consumer_id, key in keys.items():
        of_consumer[consumer_id] = []
        for number, topics in enumerate(streams[key]):
            thread_id = f"{consumer_id}-{number}"
            threads[thread_id] = MemberSubscription(None, None, alike.setdefault(topics, topics), {})
            of_consumer[consumer_id].append(thread_id)
    described = {topic.id: TopicDescription(topic.partitions, ()) for topic in taken.topics.values()}
    owned = assign_range(threads, described)
    ownership = {
        consumer_id: {thread_id: owned[thread_id] for thread_id in thread_ids}
        for consumer_id, thread_ids in of_consumer.items()
    }
    read = frozenset().union(*alike) if alike else frozenset()
    names = {topic.id: name for name, topic in taken.topics.items() if topic.id in read}
    too_many = tuple(each for each in ownership if _count(ownership[each]) > PARTITIONS_MAX)
    for consumer_id in too_many:
        ownership[consumer_id] = {thread_id: {} for thread_id in ownership[consumer_id]}
    current = taken.current
    if current is not None and taken.gone:
        current = {each: threads for each, threads in current.items() if each not in taken.gone}
    return Plan(ownership, names, necessity(current, ownership), too_many)


def necessity(current: Ownership | None, wanted: Ownership) -> Necessity | None:
    """Return the reason for a rebalance by the protocol draft; None if a rebalance is not necessary."""
    if current is None:
        return Necessity.NO_OWNERSHIP
    owned, to_be_owned = set(_partitions(current)), set(_partitions(wanted))
    if to_be_owned - owned:
        return Necessity.NOT_OWNED
    if owned - to_be_owned:
        return Necessity.NOT_THERE
    return None if _owners(current) == _owners(wanted) else Necessity.OTHER_OWNERS


def _partitions(ownership: Ownership) -> Iterator[tuple[UUID, int]]:
    for threads in ownership.values():
        for assignment in threads.values():
            for topic_id, partitions in assignment.items():
                for partition in partitions:
                    yield topic_id, partition


def _owners(ownership: Ownership) -> dict[str, Assignment]:
    """Return assignments by thread id. A thread without partitions is left out."""
    return {
        thread_id: assignment
        for threads in ownership.values()
        for thread_id, assignment in threads.items()
        if assignment
    }


def _count(threads: Mapping[str, Assignment]) -> int:
    return sum(len(partitions) for assignment in threads.values() for partitions in assignment.values())


_Key = tuple[tuple[tuple[str, int], ...], Wildcard | None, int, TopicFilter | None]


def _streams(key: _Key, taken: AssignmentInput) -> list[frozenset[UUID]]:
    """Return the topics that each thread reads."""
    named, wildcard, streams, topic_filter = key
    topics = taken.topics
    if wildcard is not None:
        may_describe = None if topic_filter is None else taken.checks[topic_filter]
        return [_matching(wildcard, topics, may_describe)] * streams
    count = max((number for _, number in named), default=0)
    return [
        frozenset(topics[name].id for name, number in named if number > thread and name in topics)
        for thread in range(count)
    ]


def _matching(
    wildcard: Wildcard, topics: Mapping[str, KnownTopic], may_describe: Callable[[str], bool] | None
) -> frozenset[UUID]:
    """Return the topics that the wildcard stands for, without those that the consumer may not describe.

    Internal topics are left out: only consumers that name them read them.
    """
    matches = compile_topic_regex(wildcard.regex).matches
    return frozenset(
        topic.id
        for name, topic in topics.items()
        if name not in INTERNAL_TOPICS
        and matches(name) is not wildcard.excluded
        and (may_describe is None or may_describe(name))
    )
