"""Uniform assignment of a group whose members subscribe to different topics. Pure."""

from collections.abc import Mapping
from uuid import UUID

from broker_runtime.groups.assignors.description import MemberSubscription, TopicDescription
from broker_runtime.groups.records import Assignment


def assign_by_load(
    members: Mapping[str, MemberSubscription], topics: Mapping[UUID, TopicDescription]
) -> dict[str, Assignment]:
    """See `description.Assignor`."""
    ordered = sorted(members)
    loads = dict.fromkeys(ordered, 0)
    found: dict[str, dict[UUID, list[int]]] = {member_id: {} for member_id in members}
    for topic_id in sorted(topics):
        subscribers = [member_id for member_id in ordered if topic_id in members[member_id].topics]
        for partition in range(topics[topic_id].partitions) if subscribers else ():
            owner = next((one for one in subscribers if partition in members[one].current.get(topic_id, ())), None)
            if owner is None:
                owner = min(subscribers, key=loads.__getitem__)
            loads[owner] += 1
            found[owner].setdefault(topic_id, []).append(partition)
    return {
        member_id: {topic_id: tuple(partitions) for topic_id, partitions in of_member.items()}
        for member_id, of_member in found.items()
    }
