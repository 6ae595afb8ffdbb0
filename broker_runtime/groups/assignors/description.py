"""What an assignor is told of a group, and what it answers. Pure."""

from collections.abc import Callable, Mapping
from typing import NamedTuple
from uuid import UUID

from broker_runtime.groups.records import Assignment


class MemberSubscription(NamedTuple):
    """One member. Members with equal subscriptions had better share one frozenset: they are compared often."""

    instance_id: str | None
    """Of a static member (KIP-345)."""
    rack_id: str | None
    topics: frozenset[UUID]
    current: Assignment
    """What it is to have until now: its target, not what it has taken over of it."""


class TopicDescription(NamedTuple):
    """One topic."""

    partitions: int
    racks: tuple[frozenset[str], ...]
    """For each partition the racks of its replicas; empty where nothing is known of racks."""


Assignor = Callable[[Mapping[str, MemberSubscription], Mapping[UUID, TopicDescription]], dict[str, Assignment]]
"""Members by their id and topics by theirs; the answer has every member, in the order in which they came.

Each partition of a described topic has one owner among its subscribers; a topic that is not described is as one that
nobody subscribes to. The order of members and topics changes nothing. Who keeps exactly what it had gets the very
object of `current` back.
"""
