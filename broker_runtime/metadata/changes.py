"""The changes that records have made, so that a node can react without comparing images. Pure.

A new kind of change is a field here, and a line in the area whose records make it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Self
from uuid import UUID


class _Sets:
    """The union of its fields: sets, or objects of this kind."""

    __slots__: Sequence[str] = ()

    def update(self, later: Self) -> None:
        for name in self.__slots__:
            getattr(self, name).update(getattr(later, name))

    def __bool__(self) -> bool:
        return any(getattr(self, name) for name in self.__slots__)


@dataclass(slots=True)
class Removals(_Sets):
    """The removals that records order, which are the only permission to delete a log.

    If a snapshot lacks a topic or replica, the metadata may just as well have been lost.
    """

    topics: set[UUID] = field(default_factory=set)
    replicas: set[tuple[UUID, int, int]] = field(default_factory=set)
    """Removed replicas: (topic id, partition, broker id)."""
    names: dict[str, UUID] = field(default_factory=dict)
    """Names of removed topics, each with the id of the topic of that name that was removed last."""

    def order_deletion(self, topic_id: UUID, partition: int, broker_id: int) -> bool:
        return topic_id in self.topics or (topic_id, partition, broker_id) in self.replicas


@dataclass(slots=True)
class Changes(_Sets):
    """The changes that one or several records have made.

    Objects that were changed and then removed may still be included. So a node reacts according to the current image,
    in which a name may already belong to another topic.
    """

    brokers: set[int] = field(default_factory=set)
    partitions: set[tuple[UUID, int]] = field(default_factory=set)
    """Changed partitions: (topic id, partition)."""
    topics_removed: set[str] = field(default_factory=set)
    """Names of removed topics.

    State with such a name is to be removed, unless it has the id of an existing topic.
    """
    removals: Removals = field(default_factory=Removals)
    topic_configs: set[str] = field(default_factory=set)
    """Names of topics whose configuration has changed."""
    broker_configs: set[int | None] = field(default_factory=set)
    """Ids of brokers whose configuration has changed; None is the cluster-wide default."""
    ip_quotas: set[str | None] = field(default_factory=set)
    """Names of `ip` entities whose quota has changed; None is the default entity."""
    client_quotas: set[str] = field(default_factory=set)
    """Keys of the changed quotas of users and client ids."""
    connection_groups: set[tuple[str, str | None]] = field(default_factory=set)
    """Changed groups: (name of the group, its member); a member of None stands for the group's own keys."""
