"""The cluster's metadata on a node, by area.

Pure. Only records change an image: one by one as the log has them (`apply`), or all of a snapshot at once
(`of_snapshot`, `replace_by`). So every node that has applied the same records has an equal image. Both report what
changed, so that the node can react without comparing.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Self, cast

from broker_runtime.config.keys.groups import ConsumerGroupConfig
from broker_runtime.metadata.areas.acls import Acls
from broker_runtime.metadata.areas.area import Area
from broker_runtime.metadata.areas.brokers import Brokers
from broker_runtime.metadata.areas.cluster import Cluster
from broker_runtime.metadata.areas.configs import Configs
from broker_runtime.metadata.areas.connection_groups import ConnectionGroupTable
from broker_runtime.metadata.areas.producers import Producers
from broker_runtime.metadata.areas.quotas import Quotas
from broker_runtime.metadata.areas.scram_credentials import ScramCredentials
from broker_runtime.metadata.areas.topics import Topics
from broker_runtime.metadata.changes import Changes
from broker_runtime.metadata.record import MetadataRecord
from broker_runtime.slicing.steps import Steps


@dataclass(frozen=True, slots=True)
class ElectionDefaults:
    """The election settings in the properties file of the controller that has this image.

    They are unclean.leader.election.enable, min.insync.replicas and sluicegate.broker.replicas.max.
    """

    unclean: bool = False
    min_insync: int = 1
    replicas_max: int | None = None


@dataclass(frozen=True, slots=True)
class ConfigLimits:
    """Limits of configurations, from the properties file of the controller that has this image."""

    groups: ConsumerGroupConfig = field(default_factory=ConsumerGroupConfig)
    """Limits of the values that groups set."""
    resources_max: int = 10_000
    """Limit for the groups, and for the client metrics subscriptions, that have a configuration of their own."""


_RECORDS_OF_A_STEP = 8
_NO_FILE = ConfigLimits()


@dataclass(slots=True)
class MetadataImage:
    """The cluster's metadata after some number of records.

    The fields up to `scram_credentials` are the areas of the table of areas. A snapshot has their records in this
    order.
    """

    cluster: Cluster = field(default_factory=Cluster)
    brokers: Brokers = field(default_factory=Brokers)
    topics: Topics = field(default_factory=Topics)
    configs: Configs = field(default_factory=Configs)
    quotas: Quotas = field(default_factory=Quotas)
    connection_groups: ConnectionGroupTable = field(default_factory=ConnectionGroupTable)
    producers: Producers = field(default_factory=Producers)
    acls: Acls = field(default_factory=Acls)
    scram_credentials: ScramCredentials = field(default_factory=ScramCredentials)
    offset: int = -1
    """Offset of the last applied record."""
    defaults: ElectionDefaults = field(default=ElectionDefaults(), compare=False)
    limits: ConfigLimits = field(default=_NO_FILE, compare=False)
    """Limits of configurations.

    Neither limits nor defaults are metadata: no record changes them, and no snapshot has them.
    """

    @classmethod
    def of_snapshot(cls, records: Iterable[MetadataRecord], end_offset: int) -> Steps[Self]:
        """Return an image of all records of a snapshot. Raises ValueError when a record does not fit.

        `end_offset` is the offset that the next record gets.
        """
        image = cls()
        changes = Changes()
        for number, record in enumerate(records, 1):
            image._change(record, None, changes)
            if number % _RECORDS_OF_A_STEP == 0:
                yield
        image.offset = end_offset - 1
        return image

    @property
    def next_offset(self) -> int:
        """Return the offset of the record that is applied next."""
        return self.offset + 1

    def apply(self, record: MetadataRecord, offset: int) -> Changes:
        """Apply the next record and return the changes.

        Raises ValueError, and changes nothing then, when the record does not fit the state or is not the next one. Then
        the journal is damaged, or the controller that wrote the record had wrong offsets.
        """
        if offset != self.next_offset:
            raise ValueError(f"the next record must be at offset {self.next_offset}, not {offset}")
        changes = Changes()
        self._change(record, offset, changes)
        self.offset = offset
        return changes

    def _change(self, record: MetadataRecord, offset: int | None, changes: Changes) -> None:
        for name in _AREAS_OF[type(record)]:
            area: Area = getattr(self, name)
            area.apply(record, offset, changes)

    def partitions_of(self, topic: str) -> Collection[int]:
        """Return the numbers of a topic's partitions; none if the topic does not exist."""
        known = self.topics.get(topic)
        return () if known is None else known.partitions

    def records(self) -> Iterator[MetadataRecord]:
        """Yield the records from which `of_snapshot` builds an equal image; equal images give the same records."""
        for name in _AREAS:
            area: Area = getattr(self, name)
            yield from area.records()

    def copy(self) -> Self:
        """Return an independent copy of the image; immutable parts are shared."""
        other = type(self)(offset=self.offset, defaults=self.defaults, limits=self.limits)
        for name in _AREAS:
            area: Area = getattr(self, name)
            setattr(other, name, area.copy())
        return other

    def become(self, later: Self) -> None:
        """Take the state of `later`, a copy with more records applied.

        `later` must not be used any more.
        """
        for name in _AREAS:
            setattr(self, name, getattr(later, name))
        self.offset = later.offset

    def replace_by(self, fresh: Self) -> Steps[Changes]:
        """Make this image equal to `fresh` in steps; the last step makes all of the change.

        Neither changes between two steps.

        Afterwards `fresh` has the previous state of this image, which is never changed: other code may still read it.
        """
        changes = Changes()
        for name in _AREAS:
            area: Area = getattr(self, name)
            yield from area.note_differences(getattr(fresh, name), changes)
        for name in _AREAS:
            before = getattr(self, name)
            setattr(self, name, getattr(fresh, name))
            setattr(fresh, name, before)
        self.offset, fresh.offset = fresh.offset, self.offset
        return changes


_AREAS: Mapping[str, type[Area]] = {
    each.name: cast("type[Area]", each.default_factory)
    for each in fields(MetadataImage)
    if isinstance(each.default_factory, type)
}
RECORD_TYPES: Sequence[type[MetadataRecord]] = list(
    dict.fromkeys(kind for area in _AREAS.values() for kind in area.RECORDS)
)
_AREAS_OF: Mapping[type[MetadataRecord], Sequence[str]] = {
    kind: [name for name, area in _AREAS.items() if kind in area.RECORDS] for kind in RECORD_TYPES
}
