"""The uniform assignor: members get equal numbers of partitions, and keep what they can. Pure."""

from collections.abc import Mapping
from uuid import UUID

from broker_runtime.groups.assignors.description import MemberSubscription, TopicDescription
from broker_runtime.groups.assignors.different_subscriptions import assign_by_load
from broker_runtime.groups.assignors.equal_subscriptions import assign_by_quota
from broker_runtime.groups.records import Assignment


def assign_uniform(
    members: Mapping[str, MemberSubscription], topics: Mapping[UUID, TopicDescription]
) -> dict[str, Assignment]:
    """Assign the partitions as evenly as possible, whether or not the subscriptions of `members` are equal."""
    if len({member.topics for member in members.values()}) <= 1:
        return assign_by_quota(members, topics)
    return assign_by_load(members, topics)
