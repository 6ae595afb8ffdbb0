"""What the brokers say, as frozen values in Kafka's own words; nothing here knows the wire format."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from itertools import groupby
from uuid import UUID


class ConfigSource(IntEnum):
    """Where an effective value comes from; Kafka's numbers. A smaller number beats a larger one for one resource."""

    UNKNOWN = 0
    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_BROKER_LOGGER_CONFIG = 6
    DYNAMIC_CLIENT_METRICS_CONFIG = 7
    DYNAMIC_GROUP_CONFIG = 8

    @classmethod
    def _missing_(cls, value: object) -> "ConfigSource":
        return cls.UNKNOWN


@dataclass(frozen=True, slots=True)
class BrokerView:
    """A broker as Metadata and DescribeCluster tell of it."""

    id: int
    host: str
    port: int
    rack: str | None = None
    fenced: bool = False


def node_or_none(node_id: int) -> int | None:
    """The id of a leader or controller; None for -1, which in Kafka's messages is the absence of one."""
    return None if node_id < 0 else node_id


@dataclass(frozen=True, slots=True)
class ClusterView:
    """A cluster as DescribeCluster tells of it."""

    cluster_id: str
    controller_id: int | None
    brokers: tuple[BrokerView, ...]


@dataclass(frozen=True, slots=True)
class VoterView:
    """A controller as DescribeQuorum tells of it. Times are the leader's wall clock in ms, -1 where it does not know;
    `log_end_offset` too."""

    id: int
    log_end_offset: int
    fetched_ms: int
    caught_up_ms: int


@dataclass(frozen=True, slots=True)
class QuorumView:
    """The controllers as DescribeQuorum tells of them."""

    leader_id: int | None
    leader_epoch: int
    voters: tuple[VoterView, ...]


@dataclass(frozen=True, slots=True)
class BrokerDescription:
    """A broker as BrokerMetadata tells of it; protocol versions are -1 where its release does not tell them. `tags` are
    in the order of the answer: those that a broker has by itself, then those that it was given."""

    id: int
    host: str
    port: int
    protocol_version_min: int
    protocol_version_max: int
    tags: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class DamagedRange:
    """Offsets from `first` to `last` that cannot be read on a broker, and why."""

    first: int
    last: int
    reason: str


@dataclass(frozen=True, slots=True)
class DamagedReplica:
    """A replica with such offsets, or, without ranges, one that its broker does not serve at all. `leader` is None
    while there is none; `repair` says what has come of the repair, or why the replica is not served."""

    topic: str
    partition: int
    leader: int | None
    repair: str
    ranges: tuple[DamagedRange, ...]


@dataclass(frozen=True, slots=True)
class LogDamage:
    """What one broker cannot read; `ranges_total` also counts what its answer had no room for."""

    broker_id: int
    ranges_total: int
    replicas: tuple[DamagedReplica, ...]


@dataclass(frozen=True, slots=True)
class ConfigSynonym:
    """One of the places that a value may come from, with what stands there."""

    name: str
    value: str | None
    source: ConfigSource


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """`value` is None for a sensitive key; `synonyms` lists every layer that sets it, the one in force first;
    `documentation` is empty where it was not asked for."""

    name: str
    value: str | None
    source: ConfigSource
    is_sensitive: bool = False
    read_only: bool = False
    synonyms: tuple[ConfigSynonym, ...] = ()
    documentation: str = ""


Configs = Mapping[str, ConfigEntry]
"""By name."""


@dataclass(frozen=True, slots=True)
class PartitionView:
    """`leader` is None while there is none."""

    index: int
    leader: int | None
    replicas: tuple[int, ...]
    isr: tuple[int, ...]


Partition = tuple[str, int]
"""Topic and index."""


@dataclass(frozen=True, slots=True)
class ReassignmentView:
    """A reassignment under way: all replicas of the partition now, those that come and those that go."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]


def by_topic(partitions: Iterable[Partition]) -> list[tuple[str, list[int]]]:
    """Topics in order, each with its indexes in order."""
    groups = groupby(sorted(partitions), key=lambda partition: partition[0])
    return [(name, [index for _, index in group]) for name, group in groups]


@dataclass(frozen=True, slots=True)
class TopicView:
    """`error` is Kafka's error name, None when the topic is fine; a missing topic has UNKNOWN_TOPIC_OR_PARTITION."""

    name: str
    id: UUID | None
    partitions: tuple[PartitionView, ...] = ()
    error: str | None = None

    @property
    def exists(self) -> bool:
        return self.error is None


@dataclass(frozen=True, slots=True)
class NewTopic:
    """-1 leaves the number of partitions or replicas to the broker's defaults."""

    name: str
    partitions: int = -1
    replicas: int = -1
    configs: Mapping[str, str] = field(default_factory=dict)
