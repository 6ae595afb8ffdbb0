"""What records have changed, so that a node can react without comparing images. Pure."""

from dataclasses import dataclass, field
from uuid import UUID


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
        self.topics -= later.topics_removed
        self.topics |= later.topics
        self.topics_removed |= later.topics_removed
        self.removals.topics |= later.removals.topics
        self.removals.replicas |= later.removals.replicas
        self.topic_configs -= later.topics_removed
        self.topic_configs |= later.topic_configs
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
