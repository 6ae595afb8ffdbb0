"""What records have changed, so that a node can react without comparing images. Pure.

A new kind of change is a field here, and a line in the area whose records make it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Self
from uuid import UUID


class _Sets:
    """Whatever is in its fields: sets, or objects of this kind."""

    __slots__: Sequence[str] = ()

    def update(self, later: Self) -> None:
        for name in self.__slots__:
            getattr(self, name).update(getattr(later, name))

    def __bool__(self) -> bool:
        return any(getattr(self, name) for name in self.__slots__)


@dataclass(slots=True)
class Removals(_Sets):
    """What a record took away, which is the only leave to delete its log: that a snapshot does not name something may
    as well come of metadata that was lost."""

    topics: set[UUID] = field(default_factory=set)
    replicas: set[tuple[UUID, int, int]] = field(default_factory=set)
    """(topic id, partition, broker id)"""
    names: dict[str, UUID] = field(default_factory=dict)
    """What topics were called, and which of the name has gone last."""

    def order_deletion(self, topic_id: UUID, partition: int, broker_id: int) -> bool:
        return topic_id in self.topics or (topic_id, partition, broker_id) in self.replicas


@dataclass(slots=True)
class Changes(_Sets):
    """What one or several records changed. What was changed and then removed may be in it still: whoever reacts goes by
    the image as it is, in which a name may also be another topic's by now."""

    brokers: set[int] = field(default_factory=set)
    partitions: set[tuple[UUID, int]] = field(default_factory=set)
    """(topic id, partition)"""
    topics_removed: set[str] = field(default_factory=set)
    """By name, as all that is to go is what has the name and not the id of a topic that is there."""
    removals: Removals = field(default_factory=Removals)
    topic_configs: set[str] = field(default_factory=set)
    """Names of topics."""
    broker_configs: set[int | None] = field(default_factory=set)
    """None is the cluster-wide default."""
    ip_quotas: set[str | None] = field(default_factory=set)
    """Names of `ip` entities; None is the default entity."""
    connection_groups: set[tuple[str, str | None]] = field(default_factory=set)
    """(name of the group, its member); a member of None stands for the group's own keys."""
