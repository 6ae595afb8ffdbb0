"""The range assignor: assigns neighbouring partitions of each topic to neighbouring members. Pure.

Members have one order for all topics: static ones first, by instance id. So topics with equal numbers of partitions and
the same subscribers are co-partitioned, and a static member that rejoins gets its previous range. Nothing else is
sticky, as in Apache Kafka 4.3: when a member joins or leaves, the ranges of other members move.
"""

from collections.abc import Iterator, Mapping
from uuid import UUID

from broker_runtime.groups.assignors.description import MemberSubscription, TopicDescription
from broker_runtime.groups.assignors.subscribers import subscribers_by_topic
from broker_runtime.groups.records import Assignment


def assign_range(
    members: Mapping[str, MemberSubscription], topics: Mapping[UUID, TopicDescription]
) -> dict[str, Assignment]:
    """Assign ranges of each topic's partitions to the members that subscribe to it."""
    ordered = sorted(members, key=lambda member_id: _order(member_id, members[member_id]))
    found: dict[str, dict[UUID, tuple[int, ...]]] = {member_id: {} for member_id in members}
    by_place = [found[member_id] for member_id in ordered]
    for topic_id, places in subscribers_by_topic(ordered, members, topics).items():
        ranges = _ranges(topics[topic_id].partitions, len(places))
        for place, partitions in zip(places, ranges, strict=False):
            by_place[place][topic_id] = partitions
    return {
        member_id: member.current if member.current == found[member_id] else found[member_id]
        for member_id, member in members.items()
    }


def _order(member_id: str, member: MemberSubscription) -> tuple[bool, str, str]:
    return member.instance_id is None, member.instance_id or "", member_id


def _ranges(partitions: int, members: int) -> Iterator[tuple[int, ...]]:
    """Yield the range of each member.

    Ends early if there are fewer partitions than members: the last members get none.
    """
    each, extra = divmod(partitions, members)
    first = 0
    while first < partitions:
        after = first + each + (extra > 0)
        extra -= extra > 0
        yield tuple(range(first, after))
        first = after
