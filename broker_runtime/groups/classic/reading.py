"""Which topics the members of a group read, found in their metadata. Pure.

Members may name thousands of topics each. Their metadata is read in portions of some hundred names, and each portion is
a decision of its own. `ClassicGroup.topics` is None until the last portion: no offset expires before.
"""

from collections.abc import Iterable, Iterator

from broker_runtime.groups.classic.group import ClassicGroup
from broker_runtime.groups.classic.portions import in_portions
from broker_runtime.groups.classic.subscriptions import subscribed_topics
from broker_runtime.groups.environment import GroupEnvironment
from broker_runtime.groups.group import CONSUMER


def read_topics(group: ClassicGroup, environment: GroupEnvironment, metadata: Iterable[bytes]) -> None:
    """Set the topics of this generation from its members' metadata; None if some of it is not understood."""
    group.topics = None
    if group.protocol_type != CONSUMER:
        return
    generation = group.generation
    topics: set[str] = set()
    understood = True

    def parts() -> Iterator[list[str]]:
        nonlocal understood
        known: set[bytes] = set()
        for each in metadata:
            if group.generation != generation:
                return
            if each in known:
                yield []
                continue
            known.add(each)
            try:
                yield from subscribed_topics(each)
            except ValueError:
                understood = False
                return

    def last() -> tuple[()]:
        if understood and group.generation == generation:
            group.topics = frozenset(topics)
        return ()

    in_portions(group.group_id, environment, parts(), topics.update, last)
