"""What brings a topic to what its Topic says: create, add partitions, alter configuration, delete. How its number of
replicas is changed: planning.reassignment.

Two Topics may name one topic of Kafka; the oldest rules it, the others say so. A topic may have been there before its
Topic: then configuration is added, and only what was set for the Topic is ever taken away. A key of the Topic that
another hand has changed is mended like any drift.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType

from sluicegate_operator.api.broker_cluster import BrokerCluster
from sluicegate_operator.api.topic import Topic
from sluicegate_operator.planning.canonical import same_topic_value
from sluicegate_operator.planning.missing_cluster import cluster_missing_words
from sluicegate_operator.planning.seniority import seniority


@dataclass(frozen=True, slots=True)
class PartitionLayout:
    """Where one partition is. While it is reassigned `replicas` are those of before and after together, as Kafka shows
    them; `adding` and `removing` are absent otherwise. `leader` is None while there is none."""

    index: int
    leader: int | None
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()

    @property
    def target(self) -> tuple[int, ...]:
        """The replicas that it has when no reassignment is under way any more."""
        return tuple(replica for replica in self.replicas if replica not in self.removing)

    @property
    def is_settled(self) -> bool:
        """Whether no reassignment of it is under way."""
        return not (self.adding or self.removing)


@dataclass(frozen=True, slots=True)
class ObservedTopic:
    """`replicas` is the smallest number that a partition has. `configs` are those that were set on the topic itself
    (source DYNAMIC_TOPIC_CONFIG). `layout` is empty if nobody has asked where the partitions are."""

    topic_id: str
    partitions: int
    replicas: int
    configs: Mapping[str, str] = field(default_factory=dict)
    layout: tuple[PartitionLayout, ...] = ()


@dataclass(frozen=True, slots=True)
class CreateTopic:
    """A topic is to be created; with as many replicas as the brokers' default if `replicas` is None."""

    name: str
    partitions: int
    replicas: int | None
    configs: Mapping[str, str]

    def __str__(self) -> str:
        """For people, as of the other actions."""
        replicas = "the default number of" if self.replicas is None else self.replicas
        return f"topic {self.name} is made with {self.partitions} partitions and {replicas} replicas"


@dataclass(frozen=True, slots=True)
class AddPartitions:
    """`total` is how many there are afterwards."""

    name: str
    total: int

    def __str__(self) -> str:
        return f"topic {self.name} has {self.total} partitions now"


@dataclass(frozen=True, slots=True)
class AlterTopicConfigs:
    """Values of a topic are to be set, and others to be taken back to their defaults."""

    name: str
    set: Mapping[str, str]
    delete: tuple[str, ...] = ()

    def __str__(self) -> str:
        steps = [f"{key}={value}" for key, value in sorted(self.set.items())]
        return f"topic {self.name}: {', '.join([*steps, *(f'{key} taken away' for key in self.delete)])}"


@dataclass(frozen=True, slots=True)
class DeleteTopic:
    """A topic is to be deleted."""

    name: str

    def __str__(self) -> str:
        return f"topic {self.name} is deleted"


TopicAction = CreateTopic | AddPartitions | AlterTopicConfigs | DeleteTopic


class TopicOutcome(StrEnum):
    """What becomes of a Topic; the values are reasons of its condition."""

    ACCEPTED = "Accepted"
    CONFLICTED = "Conflicted"
    CLUSTER_MISSING = "ClusterMissing"
    TOO_MANY_PARTITIONS = "TooManyPartitions"
    TOO_FEW_BROKERS = "TooFewBrokers"
    BELOW_MIN_INSYNC_REPLICAS = "BelowMinInsyncReplicas"


@dataclass(frozen=True, slots=True)
class TopicVerdict:
    """The outcome with a sentence for people."""

    outcome: TopicOutcome
    message: str = ""


ACCEPTED = TopicVerdict(TopicOutcome.ACCEPTED)


def judge_topics(
    cluster: BrokerCluster | None, topics: Sequence[Topic], unreadable: Mapping[str, str] = MappingProxyType({})
) -> dict[str, TopicVerdict]:
    """By metadata.name, before anything of Kafka is looked at; topics of other clusters are left out. `unreadable`:
    objects that cannot be read, by the name of Kafka's topic: one of them may rule it."""
    living = [topic for topic in topics if topic.metadata.deletion_timestamp is None]
    if cluster is None:
        return {topic.name: _cluster_missing(topic) for topic in living}
    verdicts: dict[str, TopicVerdict] = {}
    rulers: dict[str, str] = {}
    for topic in sorted(living, key=seniority):
        if topic.spec.cluster_ref.name != cluster.name or topic.namespace != cluster.namespace:
            continue
        ruler = rulers.setdefault(topic.topic_name, topic.name)
        if topic.topic_name in unreadable:
            message = (
                f"topic {topic.topic_name} is left alone: {unreadable[topic.topic_name]} names it and cannot be read"
            )
            verdicts[topic.name] = TopicVerdict(TopicOutcome.CONFLICTED, message)
        elif ruler == topic.name:
            verdicts[topic.name] = ACCEPTED
        else:
            message = f"topic {topic.topic_name} is already ruled by Topic {ruler}; delete one of them"
            verdicts[topic.name] = TopicVerdict(TopicOutcome.CONFLICTED, message)
    return verdicts


def _cluster_missing(topic: Topic) -> TopicVerdict:
    return TopicVerdict(TopicOutcome.CLUSTER_MISSING, cluster_missing_words(topic))


def judge_observed(topic: Topic, observed: ObservedTopic | None) -> TopicVerdict:
    """What stands in the way on the side of Kafka."""
    if observed is None:
        return ACCEPTED
    if observed.partitions > topic.spec.partitions:
        message = (
            f"the topic has {observed.partitions} partitions and Kafka cannot take any away;"
            f" set partitions to {observed.partitions}"
        )
        return TopicVerdict(TopicOutcome.TOO_MANY_PARTITIONS, message)
    return ACCEPTED


def diff_topic(topic: Topic, observed: ObservedTopic | None, managed: Collection[str]) -> list[TopicAction]:
    """For an accepted Topic. What cannot be mended (see `judge_observed`) is left as it is, and so are configuration
    keys that are not `managed`, see `managed_keys`."""
    name, spec, wanted = topic.topic_name, topic.spec, dict(topic.spec.config or {})
    if observed is None:
        return [CreateTopic(name, spec.partitions, spec.replicas, wanted)]
    actions: list[TopicAction] = []
    if observed.partitions < spec.partitions:
        actions.append(AddPartitions(name, spec.partitions))
    stale = {key: text for key, text in wanted.items() if not same_topic_value(key, observed.configs.get(key), text)}
    surplus = tuple(sorted(key for key in observed.configs if key in managed and key not in wanted))
    if stale or surplus:
        actions.append(AlterTopicConfigs(name, stale, surplus))
    return actions


def managed_keys(topic: Topic, observed: ObservedTopic | None, managed: Collection[str]) -> tuple[str, ...]:
    """What is written to status.configKeys before anything is set: keys that the Topic says, and those that it has said
    and that are not yet seen gone."""
    left = (key for key in managed if observed is not None and key in observed.configs)
    return tuple(sorted({*(topic.spec.config or {}), *left}))


def why_kept(topic: Topic, topics: Sequence[Topic]) -> str:
    """Why Kafka's topic outlives its Topic, whatever Kafka says; `topics` are those that live."""
    if topic.spec.deletion_policy != "Delete":
        return f"topic {topic.topic_name} and its records stay, as deletionPolicy says"
    for other in topics:
        if (
            other.metadata.uid != topic.metadata.uid
            and other.namespace == topic.namespace
            and other.metadata.deletion_timestamp is None
            and other.spec.cluster_ref.name == topic.spec.cluster_ref.name
            and other.topic_name == topic.topic_name
        ):
            return f"topic {topic.topic_name} stays: Topic {other.name} names it too"
    return ""


def why_another_topic(topic: Topic, observed: ObservedTopic | None) -> str:
    """Where somebody made Kafka's topic anew under its name: that one is not this Topic's to delete."""
    known = topic.status.topic_id
    if observed is None or not known or observed.topic_id == known:
        return ""
    return f"topic {topic.topic_name} stays: it has id {observed.topic_id}, and this Topic's had {known}"
