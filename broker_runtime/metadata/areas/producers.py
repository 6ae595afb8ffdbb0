"""The area of producer ids: those that were allocated (KIP-730). Pure."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Self

from broker_runtime.metadata.changes import Changes
from broker_runtime.metadata.record import MetadataRecord
from broker_runtime.slicing.steps import Steps

_NOBODY = -1


class ProducerIdsRecord(MetadataRecord, frozen=True, tag=10):
    """Record of the first producer id that was not allocated yet."""

    broker_id: int
    broker_epoch: int
    next_producer_id: int


@dataclass(slots=True)
class Producers:
    """The area of producer ids. `next_id` is the first producer id that was not allocated yet."""

    RECORDS: ClassVar[tuple[type[MetadataRecord], ...]] = (ProducerIdsRecord,)

    next_id: int = 0

    def apply(self, record: MetadataRecord, offset: int | None, changes: Changes) -> None:
        match record:
            case ProducerIdsRecord():
                if record.next_producer_id <= self.next_id:
                    raise ValueError(f"producer ids decreased from {self.next_id} to {record.next_producer_id}")
                self.next_id = record.next_producer_id

    def records(self) -> Iterator[MetadataRecord]:
        if self.next_id:
            yield ProducerIdsRecord(_NOBODY, _NOBODY, self.next_id)

    def copy(self) -> Self:
        return type(self)(self.next_id)

    def note_differences(self, newer: Self, changes: Changes) -> Steps[None]:
        """Record no changes: no node reacts to new producer ids."""
        yield from ()
