"""Plan the actions that bring a topic to its Topic: create, add partitions, alter configuration, delete.

The number of replicas is changed by planning.topics.reassignment. Two Topics may name one Kafka topic: the oldest
governs it, and the others report a conflict. A topic may be older than its Topic: its configuration is then extended,
and only keys that were set for the Topic are ever removed. A key of the Topic that another client changed is reset like
any drift.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType

from sluicegate_operator.api.models.broker_cluster import BrokerCluster
from sluicegate_operator.api.models.topic import Topic
from sluicegate_operator.planning.layout.canonical import same_topic_value
from sluicegate_operator.planning.status.missing_cluster import cluster_missing_words
from sluicegate_operator.planning.status.seniority import seniority


@dataclass(frozen=True, slots=True)
class PartitionLayout:
    """The place of one partition.

    During a reassignment `replicas` are the old and the new ones together, as Kafka reports them; `adding` and
    `removing` are empty otherwise. `leader` is None without a leader.
    """

    index: int
    leader: int | None
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()

    @property
    def target(self) -> tuple[int, ...]:
        """Return the replicas after the current reassignment."""
        return tuple(replica for replica in self.replicas if replica not in self.removing)

    @property
    def is_settled(self) -> bool:
        """Return whether the partition is not being reassigned."""
        return not (self.adding or self.removing)


@dataclass(frozen=True, slots=True)
class ObservedTopic:
    """A topic as Kafka reports it.

    `replicas` is the smallest number of replicas of a partition. `configs` are those set on the topic itself (source
    DYNAMIC_TOPIC_CONFIG). `layout` is empty if it was not requested.
    """

    topic_id: str
    partitions: int
    replicas: int
    configs: Mapping[str, str] = field(default_factory=dict)
    layout: tuple[PartitionLayout, ...] = ()


@dataclass(frozen=True, slots=True)
class CreateTopic:
    """The action of creating a topic. If `replicas` is None, the topic gets the brokers' default number."""

    name: str
    partitions: int
    replicas: int | None
    configs: Mapping[str, str]

    def __str__(self) -> str:
        """Return a sentence for users, like the other actions."""
        replicas = "the default number of" if self.replicas is None else self.replicas
        return f"topic {self.name} is created with {self.partitions} partitions and {replicas} replicas"


@dataclass(frozen=True, slots=True)
class AddPartitions:
    """The action of adding partitions to a topic. `total` is the number afterwards."""

    name: str
    total: int

    def __str__(self) -> str:
        return f"topic {self.name} has {self.total} partitions now"


@dataclass(frozen=True, slots=True)
class AlterTopicConfigs:
    """The action of setting values of a topic's configuration, and resetting others to their defaults."""

    name: str
    set: Mapping[str, str]
    delete: tuple[str, ...] = ()

    def __str__(self) -> str:
        steps = [f"{key}={value}" for key, value in sorted(self.set.items())]
        return f"topic {self.name}: {', '.join([*steps, *(f'{key} removed' for key in self.delete)])}"


@dataclass(frozen=True, slots=True)
class DeleteTopic:
    """The action of deleting the topic with that id. A later topic of its name stays."""

    name: str
    topic_id: str

    def __str__(self) -> str:
        return f"topic {self.name} is deleted"


TopicAction = CreateTopic | AddPartitions | AlterTopicConfigs | DeleteTopic


class TopicOutcome(StrEnum):
    """The outcome for a Topic. The values are reasons of its condition."""

    ACCEPTED = "Accepted"
    CONFLICTED = "Conflicted"
    CLUSTER_MISSING = "ClusterMissing"
    TOO_MANY_PARTITIONS = "TooManyPartitions"
    TOO_FEW_BROKERS = "TooFewBrokers"
    BELOW_MIN_INSYNC_REPLICAS = "BelowMinInsyncReplicas"


@dataclass(frozen=True, slots=True)
class TopicVerdict:
    """The verdict on a Topic: its outcome with a sentence for users."""

    outcome: TopicOutcome
    message: str = ""


ACCEPTED = TopicVerdict(TopicOutcome.ACCEPTED)


def judge_topics(
    cluster: BrokerCluster | None, topics: Sequence[Topic], unreadable: Mapping[str, str] = MappingProxyType({})
) -> dict[str, TopicVerdict]:
    """Return the verdicts by metadata.name, before Kafka is queried; Topics of other clusters are left out.

    `unreadable`: objects that cannot be read, by the name of Kafka's topic. One of these objects may govern the topic.
    """
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
                f"topic {topic.topic_name} is not changed, because {unreadable[topic.topic_name]} names it,"
                " too, and cannot be read"
            )
            verdicts[topic.name] = TopicVerdict(TopicOutcome.CONFLICTED, message)
        elif ruler == topic.name:
            verdicts[topic.name] = ACCEPTED
        else:
            message = f"topic {topic.topic_name} already belongs to Topic {ruler}; delete one of them"
            verdicts[topic.name] = TopicVerdict(TopicOutcome.CONFLICTED, message)
    return verdicts


def _cluster_missing(topic: Topic) -> TopicVerdict:
    return TopicVerdict(TopicOutcome.CLUSTER_MISSING, cluster_missing_words(topic))


def judge_observed(topic: Topic, observed: ObservedTopic | None) -> TopicVerdict:
    """Return the verdict on the differences that the operator cannot fix in Kafka."""
    if observed is None:
        return ACCEPTED
    if observed.partitions > topic.spec.partitions:
        message = (
            f"the topic has {observed.partitions} partitions, and Kafka cannot remove partitions; set"
            f" partitions to {observed.partitions}"
        )
        return TopicVerdict(TopicOutcome.TOO_MANY_PARTITIONS, message)
    return ACCEPTED


def diff_topic(topic: Topic, observed: ObservedTopic | None, managed: Collection[str]) -> list[TopicAction]:
    """Return the actions for an accepted Topic.

    Differences that cannot be fixed (see `judge_observed`) are left alone, and so are configuration keys that are not
    `managed`, see `managed_keys`.
    """
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
    """Return the keys to write to status.configKeys before any key is set.

    They are the Topic's present keys, and its earlier keys that have not been observed to be gone.
    """
    left = (key for key in managed if observed is not None and key in observed.configs)
    return tuple(sorted({*(topic.spec.config or {}), *left}))


def keys_after_refusal(
    topic: Topic, found: ObservedTopic | None, managed: Collection[str], remembered: Collection[str]
) -> tuple[str, ...]:
    """Return the keys that stay in status.configKeys after the brokers have refused the changes of `found`.

    A key that was not `managed` before and has another value was not set for the Topic: its value may be of another
    client, and must not be removed later.
    """
    wanted, configs = topic.spec.config or {}, found.configs if found is not None else {}
    ours = {key for key, text in wanted.items() if same_topic_value(key, configs.get(key), text)}
    return tuple(key for key in remembered if key in managed or key in ours)


def why_kept(topic: Topic, topics: Sequence[Topic]) -> str:
    """Return why Kafka's topic outlives its Topic, whatever its state in Kafka; `topics` are the existing Topics."""
    if topic.spec.deletion_policy != "Delete":
        return f"topic {topic.topic_name} and its records are kept, because deletionPolicy is Retain"
    for other in topics:
        if (
            other.metadata.uid != topic.metadata.uid
            and other.namespace == topic.namespace
            and other.metadata.deletion_timestamp is None
            and other.spec.cluster_ref.name == topic.spec.cluster_ref.name
            and other.topic_name == topic.topic_name
        ):
            return f"topic {topic.topic_name} is kept, because Topic {other.name} names it, too"
    return ""


def why_not_governed(topic: Topic) -> str:
    """Return why a Topic without a topic id must not delete Kafka's topic.

    The topic's records may belong to other users.
    """
    if topic.status.topic_id:
        return ""
    return (
        f"topic {topic.topic_name}, if there is one, stays: this Topic has no status.topicId, so it has neither created"
        " nor adopted a topic; if its records may go, delete it with Kafka's tools"
    )


def why_another_topic(topic: Topic, observed: ObservedTopic | None) -> str:
    """Return the reason if Kafka's topic was deleted and created again: this Topic must not delete the new topic."""
    known = topic.status.topic_id
    if observed is None or observed.topic_id == known:
        return ""
    return (
        f"topic {topic.topic_name} is kept, because it has id {observed.topic_id}, and the topic of this Topic had"
        f" id {known}"
    )
