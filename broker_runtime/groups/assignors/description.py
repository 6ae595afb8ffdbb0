"""The input and the output of an assignor. Pure."""

from collections.abc import Callable, Mapping
from typing import NamedTuple
from uuid import UUID

from broker_runtime.groups.records import Assignment


class MemberSubscription(NamedTuple):
    """One member of a group, as input of an assignor.

    Members with equal subscriptions should share one frozenset, because these are compared often.
    """

    instance_id: str | None
    """The instance id of a static member (KIP-345)."""
    rack_id: str | None
    topics: frozenset[UUID]
    current: Assignment
    """The member's previous target assignment, even if the member has not reached it yet."""


class TopicDescription(NamedTuple):
    """One topic, as input of an assignor: its partitions, and the racks of their replicas."""

    partitions: int
    racks: tuple[frozenset[str], ...]
    """The racks of the replicas of each partition; empty if no racks are known."""


Assignor = Callable[[Mapping[str, MemberSubscription], Mapping[UUID, TopicDescription]], dict[str, Assignment]]
"""A function that assigns partitions of topics to members. The result has each member, in the order of the input.

Members and topics are given by id. Each partition of a described topic gets one owner among its subscribers; other
topics are ignored. The order of members and topics has no effect. A member whose assignment does not change gets the
same object as its `current`.
"""
