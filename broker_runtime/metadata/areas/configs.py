"""The area of dynamic configurations. Pure.

They belong to topics, to brokers (KIP-226), and to resources that exist by being configured: groups (KIP-848) and
client metrics subscriptions (KIP-714).

A kind of resource that this version does not know is kept, so that a broker can follow the journal of a newer one.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import ClassVar, Self

from broker_runtime.metadata.areas.area import differing, set_key
from broker_runtime.metadata.areas.topics import RemoveTopic
from broker_runtime.metadata.changes import Changes
from broker_runtime.metadata.record import MetadataRecord
from broker_runtime.slicing.steps import Steps

_NONE: Mapping[str, str] = {}


class ResourceType(IntEnum):
    """The types of resources that have a configuration, with their numbers in the protocol."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    """The type of loggers' levels, which are not part of the metadata."""
    CLIENT_METRICS = 16
    GROUP = 32


class ConfigRecord(MetadataRecord, frozen=True, tag=8):
    """Record that sets one key of a resource's configuration, or removes the key if `value` is None.

    `name` "" of a broker resource is the cluster-wide default.
    """

    resource_type: int
    name: str
    key: str
    value: str | None


@dataclass(slots=True)
class Configs:
    """The dynamic configurations by resource. A resource without one counts as having an empty one."""

    RECORDS: ClassVar[tuple[type[MetadataRecord], ...]] = (ConfigRecord, RemoveTopic)

    _topics: dict[str, Mapping[str, str]] = field(default_factory=dict)
    _brokers: dict[int | None, Mapping[str, str]] = field(default_factory=dict)
    _others: dict[int, dict[str, Mapping[str, str]]] = field(default_factory=dict)
    """Configurations of other resources, by the kind of the resource and then by its name."""

    def of_topic(self, topic: str) -> Mapping[str, str]:
        return self._topics.get(topic, _NONE)

    def of_broker(self, broker_id: int | None) -> Mapping[str, str]:
        """Return the dynamic configuration of one broker; None is the cluster-wide default."""
        return self._brokers.get(broker_id, _NONE)

    def of_group(self, group_id: str) -> Mapping[str, str]:
        return self.of(ResourceType.GROUP, group_id)

    def of(self, kind: int, name: str) -> Mapping[str, str]:
        """Return the configuration of a resource that is neither a topic nor a broker."""
        return self._others.get(kind, {}).get(name, _NONE)

    def names(self, kind: int) -> Collection[str]:
        """Return the resources of this kind, neither topics nor brokers, that have a configuration."""
        return self._others.get(kind, {}).keys()

    def apply(self, record: MetadataRecord, offset: int | None, changes: Changes) -> None:
        match record:
            case ConfigRecord(resource_type=ResourceType.TOPIC):
                set_key(self._topics, record.name, record.key, record.value)
                changes.topic_configs.add(record.name)
            case ConfigRecord(resource_type=ResourceType.BROKER):
                broker_id = int(record.name) if record.name else None
                set_key(self._brokers, broker_id, record.key, record.value)
                changes.broker_configs.add(broker_id)
            case ConfigRecord():
                set_key(self._others.setdefault(record.resource_type, {}), record.name, record.key, record.value)
                if not self._others[record.resource_type]:
                    del self._others[record.resource_type]
            case RemoveTopic():
                # The area of topics, which has applied the record before, has noted the name.
                for name in changes.topics_removed:
                    self._topics.pop(name, None)

    def records(self) -> Iterator[MetadataRecord]:
        for topic in sorted(self._topics):
            yield from _records(ResourceType.TOPIC, topic, self._topics[topic])
        for broker_id in sorted(self._brokers, key=_default_first):
            name = "" if broker_id is None else str(broker_id)
            yield from _records(ResourceType.BROKER, name, self._brokers[broker_id])
        for kind, by_name in sorted(self._others.items()):
            for name in sorted(by_name):
                yield from _records(kind, name, by_name[name])

    def copy(self) -> Self:
        others = {kind: dict(by_name) for kind, by_name in self._others.items()}
        return type(self)(dict(self._topics), dict(self._brokers), others)

    def note_differences(self, newer: Self, changes: Changes) -> Steps[None]:
        changes.topic_configs.update((yield from differing(self._topics, newer._topics)))
        changes.broker_configs.update((yield from differing(self._brokers, newer._brokers)))


def _records(kind: int, name: str, values: Mapping[str, str]) -> Iterator[MetadataRecord]:
    for key in sorted(values):
        yield ConfigRecord(int(kind), name, key, values[key])


def _default_first(broker_id: int | None) -> int:
    return -1 if broker_id is None else broker_id
