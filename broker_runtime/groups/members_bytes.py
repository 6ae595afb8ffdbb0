"""Measures the members of a group for `members_room`: the bytes of their subscriptions and assignments. Pure."""

from collections.abc import Iterable
from typing import Protocol

from broker_runtime.groups.classic.group import ClassicGroup
from broker_runtime.groups.consumer.state.group import ConsumerGroup
from broker_runtime.groups.group import Group
from broker_runtime.groups.push.state.group import PushGroup


class _Member(Protocol):
    @property
    def size(self) -> int: ...


def members_bytes(group: Group) -> int:
    """Return the bytes of `members_room` that all members of a group take. Reads all members."""
    members: Iterable[_Member] = ()
    if isinstance(group, ClassicGroup):
        members = group.members.by_id.values()
    elif isinstance(group, ConsumerGroup | PushGroup):
        members = group.members.values()
    return sum(member.size for member in members)
