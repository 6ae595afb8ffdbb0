"""Brokers' answers as frozen values in Kafka's terms, without the wire format."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from itertools import groupby
from uuid import UUID


class ConfigSource(IntEnum):
    """The source of an effective value, by Kafka's number.

    For one resource, a smaller number overrides a larger one.
    """

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
    """A broker as Metadata and DescribeCluster report it."""

    id: int
    host: str
    port: int
    rack: str | None = None
    fenced: bool = False


def node_or_none(node_id: int) -> int | None:
    """Return the id of a leader or controller; None for -1, Kafka's number for no node."""
    return None if node_id < 0 else node_id


@dataclass(frozen=True, slots=True)
class ClusterView:
    """A cluster as DescribeCluster reports it."""

    cluster_id: str
    controller_id: int | None
    brokers: tuple[BrokerView, ...]


@dataclass(frozen=True, slots=True)
class VoterView:
    """A controller as DescribeQuorum reports it.

    Times are the leader's wall clock in ms. Times and `log_end_offset` are -1 if the leader does not know them.
    """

    id: int
    log_end_offset: int
    fetched_ms: int
    caught_up_ms: int


@dataclass(frozen=True, slots=True)
class QuorumView:
    """The controllers as DescribeQuorum reports them."""

    leader_id: int | None
    leader_epoch: int
    voters: tuple[VoterView, ...]


@dataclass(frozen=True, slots=True)
class BrokerDescription:
    """A broker as BrokerMetadata reports it. Protocol versions are -1 if the broker's release does not report them.

    `tags` are in the order of the answer: first the broker's built-in tags, then its configured ones.
    """

    id: int
    host: str
    port: int
    protocol_version_min: int
    protocol_version_max: int
    tags: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class DamagedRange:
    """A range of offsets, from `first` to `last`, that cannot be read on a broker, and why."""

    first: int
    last: int
    reason: str


@dataclass(frozen=True, slots=True)
class DamagedReplica:
    """A replica with unreadable offsets or, without ranges, a replica that its broker does not serve at all.

    `leader` is None while there is none; `repair` is the state of the repair, or why the replica is not served.
    """

    topic: str
    partition: int
    leader: int | None
    repair: str
    ranges: tuple[DamagedRange, ...]


@dataclass(frozen=True, slots=True)
class LogDamage:
    """The damage of one broker's logs. `ranges_total` also counts ranges for which the broker's answer has no space."""

    broker_id: int
    ranges_total: int
    replicas: tuple[DamagedReplica, ...]


@dataclass(frozen=True, slots=True)
class ConfigSynonym:
    """One layer of a configuration that sets a key, with the value."""

    name: str
    value: str | None
    source: ConfigSource


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """A key of a configuration.

    `value` is None for a sensitive key; `synonyms` lists every layer that sets it, the effective one first.
    `documentation` is empty if it was not requested.
    """

    name: str
    value: str | None
    source: ConfigSource
    is_sensitive: bool = False
    read_only: bool = False
    synonyms: tuple[ConfigSynonym, ...] = ()
    documentation: str = ""


Configs = Mapping[str, ConfigEntry]
"""Configuration entries by their keys."""


@dataclass(frozen=True, slots=True)
class PartitionView:
    """A partition of a topic. `leader` is None for a partition without a leader."""

    index: int
    leader: int | None
    replicas: tuple[int, ...]
    isr: tuple[int, ...]


Partition = tuple[str, int]
"""A partition by topic and index."""


@dataclass(frozen=True, slots=True)
class ReassignmentView:
    """A reassignment under way: all present replicas of the partition, the added ones and the removed ones."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]


def by_topic(partitions: Iterable[Partition]) -> list[tuple[str, list[int]]]:
    """Return topics in order, each with the indexes of its partitions in order."""
    groups = groupby(sorted(partitions), key=lambda partition: partition[0])
    return [(name, [index for _, index in group]) for name, group in groups]


@dataclass(frozen=True, slots=True)
class TopicView:
    """A topic as brokers report it.

    `error` is Kafka's error name or None; a missing topic has UNKNOWN_TOPIC_OR_PARTITION.
    """

    name: str
    id: UUID | None
    partitions: tuple[PartitionView, ...] = ()
    error: str | None = None

    @property
    def exists(self) -> bool:
        return self.error is None


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to create. A number of -1 leaves partitions or replicas to the brokers' defaults."""

    name: str
    partitions: int = -1
    replicas: int = -1
    configs: Mapping[str, str] = field(default_factory=dict)
