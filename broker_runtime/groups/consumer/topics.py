"""What a coordinator knows of the topics that a group reads: taken from the metadata, kept until they change. Pure."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple
from uuid import UUID

from broker_runtime.blake2 import blake2b
from broker_runtime.groups.assignors import TopicDescription
from broker_runtime.groups.records import Assignment
from broker_runtime.metadata.image import MetadataImage
from broker_runtime.metadata.topics import Topic
from broker_runtime.steps import Steps, chosen

_HASH_BYTES = 8
_TOPICS_OF_A_STEP = 32


class TopicFacts(NamedTuple):
    """One topic."""

    id: UUID
    hash: int
    """Of all that an assignment depends on."""
    description: TopicDescription


def known_topics(
    names: Iterable[str], image: MetadataImage, kept: dict[str, TopicFacts]
) -> Steps[Mapping[str, TopicFacts]]:
    """Those that exist. `kept` is what was known before, and knows more then."""
    found = {}
    for name in (yield from chosen(names, image.topics.get)):
        topic = image.topics.get(name)
        if topic is None:
            continue
        facts = kept.get(name)
        if facts is None or facts.id != topic.id or facts.description.partitions != len(topic.partitions):
            facts = kept[name] = _facts(topic, image)
            yield
        found[name] = facts
        if len(found) % _TOPICS_OF_A_STEP == 0:
            yield
    return found


def hash_of(topics: Mapping[str, TopicFacts]) -> int:
    """The same for the same topics on every broker, whatever their order; 0 for none. A signed number of 64 bits."""
    total = sum(facts.hash for facts in topics.values()) % 2**64
    return total - 2**64 if total >= 2**63 else total


def _facts(topic: Topic, image: MetadataImage) -> TopicFacts:
    rack_of = {broker_id: broker.rack for broker_id, broker in image.brokers.items() if broker.rack is not None}
    racks: tuple[frozenset[str], ...] = ()
    if rack_of:
        racks = tuple(
            frozenset(rack_of[broker_id] for broker_id in topic.partitions[index].replicas if broker_id in rack_of)
            for index in sorted(topic.partitions)
        )
    text = "\0".join(
        (topic.name, topic.id.hex, str(len(topic.partitions)), *(",".join(sorted(each)) for each in racks))
    )
    number = int.from_bytes(blake2b(text.encode(), digest_size=_HASH_BYTES).digest(), "big")
    return TopicFacts(topic.id, number, TopicDescription(len(topic.partitions), racks))


def by_id(named: Mapping[str, tuple[int, ...]], image: MetadataImage) -> Assignment:
    """Of topics that exist."""
    found: dict[UUID, tuple[int, ...]] = {}
    for name, partitions in named.items():
        topic = image.topics.get(name)
        if topic is not None and partitions:
            found[topic.id] = partitions
    return found
