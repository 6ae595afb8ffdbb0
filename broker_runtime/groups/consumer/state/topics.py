"""Facts about the topics that a group reads: computed from the metadata, and kept until the topics change. Pure."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple
from uuid import UUID

from broker_runtime.blake2 import blake2b
from broker_runtime.groups.assignors import TopicDescription
from broker_runtime.groups.records import Assignment
from broker_runtime.metadata.areas.topics import Topic
from broker_runtime.metadata.image import MetadataImage
from broker_runtime.slicing.steps import Steps, chosen, listed

_HASH_BYTES = 8
_NAMES_OF_A_STEP = 128
_TOPICS_OF_A_STEP = 32
_KEPT_AT_LEAST = 256


class TopicFacts(NamedTuple):
    """The facts about one topic that an assignment depends on."""

    id: UUID
    hash: int
    """Hash of all properties that an assignment depends on."""
    description: TopicDescription


def known_topics(
    names: Iterable[str], image: MetadataImage, kept: dict[str, TopicFacts]
) -> Steps[Mapping[str, TopicFacts]]:
    """Return the topics that exist, and keep them in `kept`.

    `kept` has the topics that were known before. It may also keep topics that the group has left: at most as many as
    the group reads and _KEPT_AT_LEAST more.
    """
    found = {}
    rack_of = {broker_id: broker.rack for broker_id, broker in image.brokers.items() if broker.rack is not None}
    for name in (yield from chosen(names, image.topics.get)):
        topic = image.topics.get(name)
        if topic is None:
            yield
            continue
        facts = kept.get(name)
        if facts is None or facts.id != topic.id or facts.description.partitions != len(topic.partitions):
            facts = kept[name] = yield from _facts(topic, rack_of)
            yield
        found[name] = facts
        if len(found) % _TOPICS_OF_A_STEP == 0:
            yield
    if len(kept) > 2 * len(found) + _KEPT_AT_LEAST:
        for name in (yield from chosen(list(kept), lambda name: name not in found)):
            kept.pop(name, None)
            if len(kept) % _TOPICS_OF_A_STEP == 0:
                yield
    return found


def hash_of(topics: Mapping[str, TopicFacts]) -> int:
    """Return a hash of the topics: a signed 64-bit number, 0 for no topics.

    The hash is the same on every broker and for every order of the topics.
    """
    total = sum(facts.hash for facts in topics.values()) % 2**64
    return total - 2**64 if total >= 2**63 else total


def _facts(topic: Topic, rack_of: Mapping[int, str]) -> Steps[TopicFacts]:
    """Compute the facts about a topic, in steps, because it may have thousands of partitions.

    Partitions with the same replicas share one set of racks.
    """
    shared: dict[tuple[int, ...], frozenset[str]] = {}

    def racks_at(index: int) -> frozenset[str]:
        replicas = topic.partitions[index].replicas
        racks = shared.get(replicas)
        if racks is None:
            racks = shared[replicas] = frozenset(rack_of[each] for each in replicas if each in rack_of)
        return racks

    racks = tuple((yield from listed(map(racks_at, sorted(topic.partitions))))) if rack_of else ()
    named = yield from listed(",".join(sorted(each)) for each in racks)
    text = "\0".join((topic.name, topic.id.hex, str(len(topic.partitions)), *named))
    number = int.from_bytes(blake2b(text.encode(), digest_size=_HASH_BYTES).digest(), "big")
    return TopicFacts(topic.id, number, TopicDescription(len(topic.partitions), racks))


def by_id(named: Mapping[str, tuple[int, ...]], image: MetadataImage) -> Steps[Assignment]:
    """Return the partitions of existing topics by topic id."""
    found: dict[UUID, tuple[int, ...]] = {}
    for number, (name, partitions) in enumerate(named.items(), 1):
        if number % _NAMES_OF_A_STEP == 0:
            yield
        topic = image.topics.get(name)
        if topic is not None and partitions:
            found[topic.id] = partitions
    return found
