"""The area of the cluster as a whole: its id, its active controller, the levels of its features. Pure."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Self

from broker_runtime.metadata.changes import Changes
from broker_runtime.metadata.record import MetadataRecord
from broker_runtime.slicing.steps import Steps


class ClusterRecord(MetadataRecord, frozen=True, tag=11):
    """The first record of a journal, which names the cluster of the journal."""

    cluster_id: str


class FeatureLevelRecord(MetadataRecord, frozen=True, tag=12):
    """Record of the level of a feature that all brokers have to support (KIP-584)."""

    name: str
    level: int


class ControllerChange(MetadataRecord, frozen=True, tag=14):
    """The first record of each active controller. Its epoch is greater than all earlier controller epochs."""

    controller_id: int
    epoch: int


@dataclass(slots=True)
class Cluster:
    """The area of the cluster's own facts. The fields have their defaults until a record sets them."""

    RECORDS: ClassVar[tuple[type[MetadataRecord], ...]] = (ClusterRecord, FeatureLevelRecord, ControllerChange)

    id: str | None = None
    controller_id: int = -1
    controller_epoch: int = 0
    """The epoch of the newest controller that became active; `controller_id` is its id."""
    features: Mapping[str, int] = field(default_factory=dict)

    def apply(self, record: MetadataRecord, offset: int | None, changes: Changes) -> None:
        match record:
            case ClusterRecord():
                self.id = record.cluster_id
            case FeatureLevelRecord():
                self.features = {**self.features, record.name: record.level}
            case ControllerChange():
                if record.epoch <= self.controller_epoch:
                    raise ValueError(f"the controller epoch decreased from {self.controller_epoch} to {record.epoch}")
                self.controller_id, self.controller_epoch = record.controller_id, record.epoch

    def records(self) -> Iterator[MetadataRecord]:
        if self.id is not None:
            yield ClusterRecord(self.id)
        if self.controller_epoch:
            yield ControllerChange(self.controller_id, self.controller_epoch)
        for name, level in sorted(self.features.items()):
            yield FeatureLevelRecord(name, level)

    def copy(self) -> Self:
        return type(self)(self.id, self.controller_id, self.controller_epoch, self.features)

    def note_differences(self, newer: Self, changes: Changes) -> Steps[None]:
        """Record no changes: no node reacts to changes of these facts."""
        yield from ()
