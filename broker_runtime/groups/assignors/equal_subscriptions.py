"""Uniform assignment of a group whose members all subscribe to the same topics. Pure.

Members have the same number of partitions, or one more. Who has too many gives some up, who has too few takes of what
is free, and nothing else moves. Of what is free a member takes what has a replica in its rack, where there is a choice:
Apache Kafka 4.3 describes racks to its assignors, none of which looks at them.
"""

from collections.abc import Mapping
from uuid import UUID

from broker_runtime.groups.assignors.description import MemberSubscription, TopicDescription
from broker_runtime.groups.records import Assignment

Partition = tuple[UUID, int]


def assign_by_quota(
    members: Mapping[str, MemberSubscription], topics: Mapping[UUID, TopicDescription]
) -> dict[str, Assignment]:
    """See `description.Assignor`; all of `members` have equal subscriptions."""
    found: dict[str, Assignment] = {member_id: member.current for member_id, member in members.items()}
    if not members:
        return found
    subscribed = {
        topic_id: topics[topic_id] for topic_id in sorted(next(iter(members.values())).topics & topics.keys())
    }
    held, free = _holdings(found, subscribed)
    each, extra = divmod(sum(topic.partitions for topic in subscribed.values()), len(members))
    ordered = sorted(members)
    quotas = {}
    for member_id in ordered:
        if len(held[member_id]) > each and extra:
            extra -= 1
            quotas[member_id] = each + 1
    for member_id in ordered:
        if member_id not in quotas:
            quotas[member_id] = each + (extra > 0)
            extra -= extra > 0
    for member_id in ordered:
        free += held[member_id][quotas[member_id] :]
        del held[member_id][quotas[member_id] :]
    for member_id in ordered:
        while len(held[member_id]) < quotas[member_id]:
            held[member_id].append(free.pop())
    return {member_id: _assignment(held[member_id], found[member_id]) for member_id in members}


def _holdings(
    current: Mapping[str, Assignment], topics: Mapping[UUID, TopicDescription]
) -> tuple[dict[str, list[Partition]], list[Partition]]:
    """What each member has of what there is, and what nobody has."""
    owned: set[Partition] = set()
    held: dict[str, list[Partition]] = {}
    for member_id in sorted(current):
        held[member_id] = mine = []
        for topic_id, partitions in current[member_id].items():
            for partition in partitions:
                if (
                    topic_id in topics
                    and partition < topics[topic_id].partitions
                    and (topic_id, partition) not in owned
                ):
                    owned.add((topic_id, partition))
                    mine.append((topic_id, partition))
    everything = ((topic_id, number) for topic_id, topic in topics.items() for number in range(topic.partitions))
    return held, [partition for partition in everything if partition not in owned][::-1]


def _assignment(partitions: list[Partition], current: Assignment) -> Assignment:
    found: dict[UUID, list[int]] = {}
    for topic_id, partition in partitions:
        found.setdefault(topic_id, []).append(partition)
    assignment = {topic_id: tuple(sorted(numbers)) for topic_id, numbers in found.items()}
    return current if assignment == current else assignment
