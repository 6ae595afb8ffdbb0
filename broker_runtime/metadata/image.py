"""The cluster's metadata as a node has it: brokers, topics, partitions, configurations, quotas.

Pure. `apply` is the only thing that changes an image, and records are all that changes it, so that every node that
has applied the same records has the same image. It says what changed, so that the node can react without comparing.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Any
from uuid import UUID

from broker_runtime.metadata.records import (
    BrokerEndpoint,
    ClientQuotaRecord,
    ClusterRecord,
    ConfigRecord,
    ControllerChange,
    FeatureLevelRecord,
    FenceBroker,
    PartitionRecord,
    ProducerIdsRecord,
    Record,
    RegisterBroker,
    RemoveTopic,
    StopBroker,
    TopicRecord,
    UnfenceBroker,
    UnregisterBroker,
)

IP_RATE_KEY = "connection_creation_rate"

QuotaEntity = tuple[tuple[str, str | None], ...]
"""(entity type, name) pairs sorted by type; a name of None is the default entity of its type."""

_NO_CONFIG: Mapping[str, str] = {}


class ResourceType(IntEnum):
    """Numbers as the admin protocol sends them."""

    TOPIC = 2
    BROKER = 4


@dataclass(frozen=True, slots=True)
class BrokerInfo:
    id: int
    epoch: int
    incarnation: UUID
    endpoints: tuple[BrokerEndpoint, ...]
    rack: str | None
    fenced: bool
    stopping_offset: int | None = None
    """Offset of the record that began its controlled shutdown; None when it is not stopping. Cleared when fenced."""
    features: tuple[tuple[str, int, int], ...] = ()
    whole_since: int = -1
    """As in its RegisterBroker; its own epoch once it was unfenced."""

    @property
    def active(self) -> bool:
        """May lead partitions and be in in-sync sets."""
        return not self.fenced and self.stopping_offset is None

    def endpoint(self, listener: str) -> BrokerEndpoint | None:
        return next((e for e in self.endpoints if e.listener == listener), None)


@dataclass(frozen=True, slots=True)
class Partition:
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int
    leader_epoch: int
    partition_epoch: int
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
    elr: tuple[int, ...] = ()


@dataclass(slots=True)
class Topic:
    name: str
    id: UUID
    partitions: dict[int, Partition] = field(default_factory=dict)


@dataclass(slots=True)
class Removals:
    """What a record took away, which is the only leave to delete its log: that a snapshot does not name something may
    as well come of metadata that was lost."""

    topics: set[UUID] = field(default_factory=set)
    replicas: set[tuple[UUID, int, int]] = field(default_factory=set)
    """(topic id, partition, broker id)"""

    def __bool__(self) -> bool:
        return bool(self.topics or self.replicas)

    def order_deletion(self, topic_id: UUID, partition: int, broker_id: int) -> bool:
        return topic_id in self.topics or (topic_id, partition, broker_id) in self.replicas


@dataclass(slots=True)
class Changes:
    """What one or several records changed; topics by name, `None` in `broker_configs` is the cluster-wide default."""

    brokers: set[int] = field(default_factory=set)
    topics: set[str] = field(default_factory=set)
    topics_removed: set[str] = field(default_factory=set)
    removals: Removals = field(default_factory=Removals)
    topic_configs: set[str] = field(default_factory=set)
    broker_configs: set[int | None] = field(default_factory=set)
    ip_quotas: set[str | None] = field(default_factory=set)

    def merge(self, later: "Changes") -> None:
        self.brokers |= later.brokers
        # A name that was removed and made anew stays in both: the old logs go before the new ones come.
        self.topics = (self.topics - later.topics_removed) | later.topics
        self.topics_removed |= later.topics_removed
        self.removals.topics |= later.removals.topics
        self.removals.replicas |= later.removals.replicas
        self.topic_configs = (self.topic_configs - later.topics_removed) | later.topic_configs
        self.broker_configs |= later.broker_configs
        self.ip_quotas |= later.ip_quotas

    def __bool__(self) -> bool:
        return bool(
            self.brokers
            or self.topics
            or self.topics_removed
            or self.topic_configs
            or self.broker_configs
            or self.ip_quotas
        )


class MetadataImage:
    def __init__(self) -> None:
        self.offset = -1
        """Offset of the record that was applied last."""
        self.cluster_id: str | None = None
        self.controller_id = -1
        self.controller_epoch = 0
        """Both of the newest controller that became active."""
        self.features: dict[str, int] = {}
        self.brokers: dict[int, BrokerInfo] = {}
        self.topics: dict[str, Topic] = {}
        self.client_quotas: dict[QuotaEntity, dict[str, float]] = {}
        self.next_producer_id = 0
        self.unclean_by_default = False
        self.min_insync_by_default = 1
        self.replicas_max: int | None = None
        """unclean.leader.election.enable, min.insync.replicas and sluicegate.broker.replicas.max of this controller's
        own properties file; no part of the metadata."""
        self._topics_by_id: dict[UUID, Topic] = {}
        self._topic_configs: dict[str, dict[str, str]] = {}
        self._broker_configs: dict[int | None, dict[str, str]] = {}

    def copy(self) -> "MetadataImage":
        """As it is now, however this one changes; what is immutable is shared."""
        other = MetadataImage()
        vars(other).update(vars(self))
        other.features, other.brokers = dict(self.features), dict(self.brokers)
        other.topics = {name: Topic(name, topic.id, dict(topic.partitions)) for name, topic in self.topics.items()}
        other._topics_by_id = {topic.id: topic for topic in other.topics.values()}
        other.client_quotas = {entity: dict(quotas) for entity, quotas in self.client_quotas.items()}
        other._topic_configs = {name: dict(values) for name, values in self._topic_configs.items()}
        other._broker_configs = {owner: dict(values) for owner, values in self._broker_configs.items()}
        return other

    # Looking up

    def topic_by_id(self, topic_id: UUID) -> Topic | None:
        return self._topics_by_id.get(topic_id)

    def topic_configs(self, topic: str) -> Mapping[str, str]:
        return self._topic_configs.get(topic, _NO_CONFIG)

    def broker_configs(self, broker_id: int | None) -> Mapping[str, str]:
        """The dynamic configuration of one broker; None is the cluster-wide default."""
        return self._broker_configs.get(broker_id, _NO_CONFIG)

    def configured_topics(self) -> Iterable[str]:
        return self._topic_configs

    def configured_brokers(self) -> Iterable[int | None]:
        return self._broker_configs

    def ip_rate(self, ip: str | None) -> float | None:
        """The connection creation rate set for exactly this `ip` entity; None is the default entity."""
        return self.client_quotas.get((("ip", ip),), {}).get(IP_RATE_KEY)

    def is_active(self, broker_id: int) -> bool:
        broker = self.brokers.get(broker_id)
        return broker is not None and broker.active

    # Changing

    def apply(self, record: Record, offset: int) -> Changes:
        """Raises ValueError when the record does not fit what came before it: then the journal is damaged."""
        changes = Changes()
        _APPLY[type(record)](self, record, changes)
        self.offset = offset
        return changes

    def _cluster(self, record: ClusterRecord, changes: Changes) -> None:
        self.cluster_id = record.cluster_id

    def _feature(self, record: FeatureLevelRecord, changes: Changes) -> None:
        self.features[record.name] = record.level

    def _controller(self, record: ControllerChange, changes: Changes) -> None:
        if record.epoch <= self.controller_epoch:
            raise ValueError(f"controller epochs go back from {self.controller_epoch} to {record.epoch}")
        self.controller_id, self.controller_epoch = record.controller_id, record.epoch

    def _register(self, record: RegisterBroker, changes: Changes) -> None:
        """A new incarnation starts fenced; the same one, with other listeners say, stays what it is."""
        known = self.brokers.get(record.broker_id)
        same = known if known is not None and known.epoch == record.epoch else None
        self.brokers[record.broker_id] = BrokerInfo(
            record.broker_id,
            record.epoch,
            record.incarnation,
            record.endpoints,
            record.rack,
            fenced=True if same is None else same.fenced,
            stopping_offset=None if same is None else same.stopping_offset,
            features=record.features,
            whole_since=record.whole_since,
        )
        changes.brokers.add(record.broker_id)

    def _unregister(self, record: UnregisterBroker, changes: Changes) -> None:
        self._registered(record.broker_id, record.epoch)
        del self.brokers[record.broker_id]
        changes.brokers.add(record.broker_id)

    def _fence(self, record: FenceBroker, changes: Changes) -> None:
        self._set_fenced(record.broker_id, record.epoch, True, changes)

    def _unfence(self, record: UnfenceBroker, changes: Changes) -> None:
        self._set_fenced(record.broker_id, record.epoch, False, changes)

    def _set_fenced(self, broker_id: int, epoch: int, fenced: bool, changes: Changes) -> None:
        known = self._registered(broker_id, epoch)
        # It has noted its epoch before it asked to be unfenced, so from here on no earlier word will do.
        since = known.whole_since if fenced else epoch
        self.brokers[broker_id] = replace(known, fenced=fenced, stopping_offset=None, whole_since=since)
        changes.brokers.add(broker_id)

    def _stop(self, record: StopBroker, changes: Changes) -> None:
        known = self._registered(record.broker_id, record.epoch)
        self.brokers[record.broker_id] = replace(known, stopping_offset=record.offset)
        changes.brokers.add(record.broker_id)

    def _registered(self, broker_id: int, epoch: int) -> BrokerInfo:
        known = self.brokers.get(broker_id)
        if known is None or known.epoch != epoch:
            raise ValueError(f"a record names broker {broker_id} with epoch {epoch}, which is not registered")
        return known

    def _topic(self, record: TopicRecord, changes: Changes) -> None:
        if record.name in self.topics or record.id in self._topics_by_id:
            raise ValueError(f"topic {record.name} ({record.id}) is made twice")
        self.topics[record.name] = self._topics_by_id[record.id] = Topic(record.name, record.id)
        changes.topics.add(record.name)

    def _partition(self, record: PartitionRecord, changes: Changes) -> None:
        topic = self._known_topic(record.topic_id)
        before = topic.partitions.get(record.index)
        if before is not None and before.replicas != record.replicas:
            gone = set(before.replicas) - set(record.replicas)
            changes.removals.replicas.update((topic.id, record.index, broker_id) for broker_id in gone)
        topic.partitions[record.index] = Partition(
            record.replicas,
            record.isr,
            record.leader,
            record.leader_epoch,
            record.partition_epoch,
            record.adding,
            record.removing,
            record.elr,
        )
        changes.topics.add(topic.name)

    def _remove_topic(self, record: RemoveTopic, changes: Changes) -> None:
        topic = self._known_topic(record.id)
        del self._topics_by_id[record.id]
        del self.topics[topic.name]
        self._topic_configs.pop(topic.name, None)
        changes.topics_removed.add(topic.name)
        changes.removals.topics.add(record.id)

    def _known_topic(self, topic_id: UUID) -> Topic:
        topic = self._topics_by_id.get(topic_id)
        if topic is None:
            raise ValueError(f"a record names topic id {topic_id}, which does not exist")
        return topic

    def _config(self, record: ConfigRecord, changes: Changes) -> None:
        if record.resource_type == ResourceType.TOPIC:
            _set(self._topic_configs, record.name, record.key, record.value)
            changes.topic_configs.add(record.name)
        elif record.resource_type == ResourceType.BROKER:
            broker_id = int(record.name) if record.name else None
            _set(self._broker_configs, broker_id, record.key, record.value)
            changes.broker_configs.add(broker_id)
        else:
            raise ValueError(f"a record configures resource type {record.resource_type}, which is not known")

    def _quota(self, record: ClientQuotaRecord, changes: Changes) -> None:
        _set(self.client_quotas, record.entity, record.key, record.value)
        if len(record.entity) == 1 and record.entity[0][0] == "ip" and record.key == IP_RATE_KEY:
            changes.ip_quotas.add(record.entity[0][1])

    def _producer_ids(self, record: ProducerIdsRecord, changes: Changes) -> None:
        if record.next_producer_id <= self.next_producer_id:
            raise ValueError(f"producer ids go back from {self.next_producer_id} to {record.next_producer_id}")
        self.next_producer_id = record.next_producer_id


def _set(table: dict[Any, dict[str, Any]], owner: object, key: str, value: object) -> None:
    """Set one key, or take it away; an owner without keys is not kept."""
    if value is not None:
        table.setdefault(owner, {})[key] = value
    elif owner in table:
        table[owner].pop(key, None)
        if not table[owner]:
            del table[owner]


_APPLY: Mapping[type, Callable[[MetadataImage, Any, Changes], None]] = {
    ClusterRecord: MetadataImage._cluster,
    FeatureLevelRecord: MetadataImage._feature,
    RegisterBroker: MetadataImage._register,
    UnregisterBroker: MetadataImage._unregister,
    FenceBroker: MetadataImage._fence,
    UnfenceBroker: MetadataImage._unfence,
    TopicRecord: MetadataImage._topic,
    PartitionRecord: MetadataImage._partition,
    RemoveTopic: MetadataImage._remove_topic,
    ConfigRecord: MetadataImage._config,
    ClientQuotaRecord: MetadataImage._quota,
    ProducerIdsRecord: MetadataImage._producer_ids,
    StopBroker: MetadataImage._stop,
    ControllerChange: MetadataImage._controller,
}
