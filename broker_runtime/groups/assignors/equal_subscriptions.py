"""Uniform assignment of a group whose members all subscribe to the same topics. Pure.

The numbers of partitions of two members differ by at most one. A member with too many gives some up, a member with too
few takes free ones, and no other partition moves. Balance has priority over stickiness, as in Apache Kafka. A member
prefers free partitions with a replica in its rack, if that makes a difference. The assignors of Apache Kafka 4.3 get
racks but ignore them.

A group of thousands gets another assignment for each member that joins or leaves. Members whose assignment stays
therefore cost as little as possible: their partitions are not looked up one by one.
"""

from collections.abc import Mapping
from itertools import islice
from uuid import UUID

from broker_runtime.groups.assignors.description import MemberSubscription, TopicDescription
from broker_runtime.groups.assignors.free_partitions import FreePartitions, Partition
from broker_runtime.groups.records import Assignment


def assign_by_quota(
    members: Mapping[str, MemberSubscription], topics: Mapping[UUID, TopicDescription]
) -> dict[str, Assignment]:
    """Assign the partitions as evenly as possible to `members`, which all have equal subscriptions."""
    found: dict[str, Assignment] = {member_id: member.current for member_id, member in members.items()}
    if not found:
        return found
    subscription = next(iter(members.values())).topics
    subscribed = {topic_id: topics[topic_id] for topic_id in sorted(subscription & topics.keys())}
    owned = _owned(found, subscribed)
    if owned is None:
        found, owned = _without_what_is_gone(found, subscribed)
    free = [
        (topic_id, partition)
        for topic_id, topic in subscribed.items()
        if len(owned[topic_id]) < topic.partitions
        for partition in range(topic.partitions)
        if partition not in owned[topic_id]
    ]
    surplus, wanted = _quotas(found, sum(topic.partitions for topic in subscribed.values()))
    for member_id, quota in surplus.items():
        kept, given_up = _cut(found[member_id], quota, members[member_id].rack_id, subscribed)
        found[member_id] = _assignment(kept)
        free += given_up
    _hand_out(
        FreePartitions(free, subscribed, (members[member_id].rack_id for member_id in wanted)), wanted, members, found
    )
    return found


def _owned(
    assignments: Mapping[str, Assignment], topics: Mapping[UUID, TopicDescription]
) -> dict[UUID, set[int]] | None:
    """Return the partitions of each topic that have an owner.

    None if the assignments are invalid: a partition has two owners, or does not exist.
    """
    owned: dict[UUID, set[int]] = {topic_id: set() for topic_id in topics}
    count = 0
    for assignment in assignments.values():
        for topic_id, partitions in assignment.items():
            of_topic = owned.get(topic_id)
            if of_topic is None:
                return None
            of_topic.update(partitions)
            count += len(partitions)
    if count != sum(map(len, owned.values())):
        return None
    if any(of_topic and max(of_topic) >= topics[topic_id].partitions for topic_id, of_topic in owned.items()):
        return None
    return owned


def _without_what_is_gone(
    assignments: Mapping[str, Assignment], topics: Mapping[UUID, TopicDescription]
) -> tuple[dict[str, Assignment], dict[UUID, set[int]]]:
    """Return the assignments without partitions that do not exist, and the partitions that then have an owner.

    If a partition has several owners, the first one in the order of ids keeps it.
    """
    kept: dict[str, Assignment] = dict(assignments)
    owned: dict[UUID, set[int]] = {topic_id: set() for topic_id in topics}
    for member_id in sorted(assignments):
        still: dict[UUID, tuple[int, ...]] = {}
        for topic_id, partitions in assignments[member_id].items():
            if topic_id in topics:
                mine = {one for one in partitions if one < topics[topic_id].partitions} - owned[topic_id]
                owned[topic_id] |= mine
                if mine:
                    still[topic_id] = tuple(sorted(mine))
        if still != assignments[member_id]:
            kept[member_id] = still
    return kept, owned


def _quotas(assignments: Mapping[str, Assignment], partitions: int) -> tuple[dict[str, int], dict[str, int]]:
    """Return how many partitions each member with too many keeps, and how many each member with too few takes.

    If the partitions cannot be divided evenly, members that already have one more keep it. Then the members that take
    partitions anyway get one more, then the others.
    """
    each, extra = divmod(partitions, len(assignments))
    surplus, wanted, level = {}, {}, []
    for member_id in sorted(assignments):
        size = sum(map(len, assignments[member_id].values()))
        if size > each:
            quota = each + (extra > 0)
            extra -= extra > 0
            if size > quota:
                surplus[member_id] = quota
        elif size < each:
            wanted[member_id] = each - size
        else:
            level.append(member_id)
    for member_id in islice(wanted, extra):
        wanted[member_id] += 1
        extra -= 1
    wanted |= dict.fromkeys(level[:extra], 1)
    return surplus, wanted


def _cut(
    assignment: Assignment, quota: int, rack: str | None, topics: Mapping[UUID, TopicDescription]
) -> tuple[list[Partition], list[Partition]]:
    """Return the partitions that a member keeps, and the partitions that it gives up.

    Partitions without a replica in its rack are given up first.
    """
    mine = [(topic_id, partition) for topic_id, partitions in assignment.items() for partition in partitions]
    if rack is not None:
        mine.sort(key=lambda one: not topics[one[0]].racks or rack not in topics[one[0]].racks[one[1]])
    return mine[:quota], mine[quota:]


def _hand_out(
    free: FreePartitions,
    wanted: Mapping[str, int],
    members: Mapping[str, MemberSubscription],
    found: dict[str, Assignment],
) -> None:
    """Assign free partitions.

    All members first take those in their own rack. So no member takes a partition that a member in that rack may want.
    """
    near: dict[str, list[Partition]] = {}
    if free.knows_racks:
        for member_id, count in wanted.items():
            rack = members[member_id].rack_id
            near[member_id] = [one for _ in range(count) if (one := free.take_near(rack)) is not None]
    for member_id, count in wanted.items():
        taken = near.get(member_id, [])
        taken += [free.take() for _ in range(count - len(taken))]
        held = found[member_id]
        found[member_id] = _assignment(
            [(topic_id, partition) for topic_id, partitions in held.items() for partition in partitions] + taken
        )


def _assignment(partitions: list[Partition]) -> Assignment:
    by_topic: dict[UUID, list[int]] = {}
    for topic_id, partition in partitions:
        by_topic.setdefault(topic_id, []).append(partition)
    return {topic_id: tuple(sorted(numbers)) for topic_id, numbers in by_topic.items()}
