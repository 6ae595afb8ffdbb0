"""The topics that the members of a group read, from their metadata. Pure.

A member may name thousands of topics. Metadata is read in portions of some hundred names, each of which is a decision
of its own. `ClassicGroup.topics` is None until the last portion, so that no offset expires before. It stays None for a
group whose members name more than sluicegate.group.topics.max: freeing them all at once would take too long.
"""

from collections.abc import Iterable, Iterator

from broker_runtime.groups.classic.group import ClassicGroup
from broker_runtime.groups.classic.portions import in_portions
from broker_runtime.groups.classic.subscriptions import subscribed_topics
from broker_runtime.groups.environment import GroupEnvironment
from broker_runtime.groups.group import CONSUMER


def read_topics(group: ClassicGroup, environment: GroupEnvironment, metadata: Iterable[bytes]) -> None:
    """Set the topics of this generation from its members' metadata.

    The topics stay None if some metadata cannot be parsed, or if there are more topics than
    sluicegate.group.topics.max.
    """
    group.topics = None
    in_portions(group.group_id, environment, reading(group, environment, metadata), lambda _: None)


def reading(group: ClassicGroup, environment: GroupEnvironment, metadata: Iterable[bytes]) -> Iterator[None]:
    """Set the topics of this generation in steps of up to 16 names.

    The caller sets the group's topics to None before.
    """
    if group.protocol_type != CONSUMER:
        return
    generation, topics_max = group.generation, environment.config.sluicegate_group_topics_max
    topics: set[str] = set()
    known: set[bytes] = set()
    for each in metadata:
        if each not in known:
            known.add(each)
            try:
                for names in subscribed_topics(each):
                    topics.update(names)
                    yield
                    if group.generation != generation or len(topics) > topics_max:
                        return
            except ValueError:
                return
        yield
        if group.generation != generation:
            return
    group.topics = topics
