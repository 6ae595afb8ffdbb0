"""The subscribers of each topic, in one order for all topics. Pure."""

from collections.abc import Mapping, Sequence
from uuid import UUID

from broker_runtime.groups.assignors.description import MemberSubscription, TopicDescription


def subscribers_by_topic(
    ordered: Sequence[str], members: Mapping[str, MemberSubscription], topics: Mapping[UUID, TopicDescription]
) -> dict[UUID, list[int]]:
    """Return the subscribers of each described topic, as ascending indexes in `ordered`.

    Topics are in the order of ids. Members with equal subscriptions are handled together. Topics with the same
    subscribers share one list, which must not be changed.
    """
    alike: dict[frozenset[UUID], list[int]] = {}
    for place, member_id in enumerate(ordered):
        alike.setdefault(members[member_id].topics, []).append(place)
    kinds: dict[UUID, list[int]] = {}
    for kind, subscription in enumerate(alike):
        for topic_id in subscription:
            kinds.setdefault(topic_id, []).append(kind)
    of_kind = list(alike.values())
    merged: dict[tuple[int, ...], list[int]] = {}
    found = {}
    for topic_id in sorted(kinds.keys() & topics.keys()):
        of_topic = tuple(kinds[topic_id])
        if of_topic not in merged:
            places = [place for kind in of_topic for place in of_kind[kind]]
            merged[of_topic] = sorted(places) if len(of_topic) > 1 else places
        found[topic_id] = merged[of_topic]
    return found
