"""The range assignor: of each topic, neighbouring partitions to neighbouring members. Pure.

Members stand in one order for all topics, static ones first, by instance id. So topics with as many partitions and the
same subscribers are co-partitioned, and a static member that comes back has the range that it had (KIP-848).
"""

from collections.abc import Iterator, Mapping
from uuid import UUID

from broker_runtime.groups.assignors.description import MemberSubscription, TopicDescription
from broker_runtime.groups.records import Assignment


def assign_range(
    members: Mapping[str, MemberSubscription], topics: Mapping[UUID, TopicDescription]
) -> dict[str, Assignment]:
    """See `description.Assignor`."""
    found: dict[str, dict[UUID, tuple[int, ...]]] = {member_id: {} for member_id in members}
    subscribers: dict[UUID, list[str]] = {}
    for member_id in sorted(members, key=lambda member_id: _place(member_id, members[member_id])):
        for topic_id in members[member_id].topics:
            subscribers.setdefault(topic_id, []).append(member_id)
    for topic_id in sorted(subscribers.keys() & topics.keys()):
        of_topic = subscribers[topic_id]
        for member_id, partitions in zip(of_topic, _ranges(topics[topic_id].partitions, len(of_topic)), strict=False):
            found[member_id][topic_id] = partitions
    return {member_id: _kept(members[member_id].current, assignment) for member_id, assignment in found.items()}


def _place(member_id: str, member: MemberSubscription) -> tuple[bool, str]:
    """Static members come first, as in Apache Kafka."""
    return (True, member_id) if member.instance_id is None else (False, member.instance_id)


def _ranges(partitions: int, members: int) -> Iterator[tuple[int, ...]]:
    """Ends early where there are fewer partitions than members: the last ones have none."""
    each, extra = divmod(partitions, members)
    first = 0
    for number in range(members):
        after = first + each + (number < extra)
        if after == first:
            return
        yield tuple(range(first, after))
        first = after


def _kept(current: Assignment, assignment: Assignment) -> Assignment:
    return current if current == assignment else assignment
