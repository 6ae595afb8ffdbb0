"""The area of brokers: which are registered, fenced or stopping (KIP-500, KIP-631). Pure."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar, Self
from uuid import UUID

import msgspec

from broker_runtime.metadata.areas.area import ReadOnlyTable, differing
from broker_runtime.metadata.changes import Changes
from broker_runtime.metadata.record import MetadataRecord
from broker_runtime.slicing.steps import Steps


class BrokerEndpoint(msgspec.Struct, frozen=True, array_like=True):
    """The address of a broker's listener. `security_protocol` is Kafka's number: 0 is PLAINTEXT."""

    listener: str
    host: str
    port: int
    security_protocol: int = 0


UNTOLD = (-1, -1)
"""The protocol versions of a broker whose release registers none."""


class RegisterBroker(MetadataRecord, frozen=True, tag=1):
    """Record of a registration, by default of a new incarnation, which starts fenced.

    The epoch of a new incarnation is the offset of this record. A record with the broker's current epoch is of the same
    incarnation, and replaces only the other fields.
    """

    broker_id: int
    incarnation: UUID
    epoch: int
    endpoints: tuple[BrokerEndpoint, ...]
    rack: str | None = None
    features: tuple[tuple[str, int, int], ...] = ()
    """Features of the broker: (name, lowest, highest supported level)."""
    whole_since: int = -1
    """The broker epoch since which the broker's data is whole, as the broker reports it; -1 means `epoch`."""
    protocol_versions: tuple[int, int] = UNTOLD
    """The lowest and the highest version that the broker serves to clients (wire.protocol_versions)."""
    tags: tuple[tuple[str, str], ...] = ()
    """The broker's description of itself: (name, value), see `broker_tags`."""


class UnregisterBroker(MetadataRecord, frozen=True, tag=2):
    """Record that removes a registration; the id may be registered again."""

    broker_id: int
    epoch: int


class FenceBroker(MetadataRecord, frozen=True, tag=3):
    """Record after which the broker stops serving clients. A controlled shutdown that had begun ends."""

    broker_id: int
    epoch: int


class UnfenceBroker(MetadataRecord, frozen=True, tag=4):
    """Record after which the broker serves clients, and may lead and be in sync."""

    broker_id: int
    epoch: int


class StopBroker(MetadataRecord, frozen=True, tag=13):
    """Record that begins a controlled shutdown.

    The broker still runs, but must not lead or join in-sync sets any more.
    """

    broker_id: int
    epoch: int
    offset: int
    """The record's own offset.

    The other brokers must have applied the metadata up to it before the broker may stop.
    """


@dataclass(frozen=True, slots=True)
class BrokerInfo:
    """The current state of a broker's registration, after all its records."""

    id: int
    epoch: int
    incarnation: UUID
    endpoints: tuple[BrokerEndpoint, ...]
    rack: str | None
    fenced: bool
    stopping_offset: int | None = None
    """Offset of the record that began the controlled shutdown; None for a broker that is not stopping, or is fenced."""
    features: tuple[tuple[str, int, int], ...] = ()
    whole_since: int = -1
    """Broker epoch since which the broker has lost no data.

    It is from the broker's RegisterBroker; once the broker was unfenced, it is the broker's own epoch.
    """
    protocol_versions: tuple[int, int] = UNTOLD
    tags: tuple[tuple[str, str], ...] = ()

    @property
    def active(self) -> bool:
        """Return whether the broker may lead partitions and be in in-sync sets."""
        return not self.fenced and self.stopping_offset is None

    def endpoint(self, listener: str) -> BrokerEndpoint | None:
        return next((e for e in self.endpoints if e.listener == listener), None)

    @property
    def registration(self) -> RegisterBroker:
        """Return a record that registers the broker in its current state."""
        return RegisterBroker(
            self.id,
            self.incarnation,
            self.epoch,
            self.endpoints,
            self.rack,
            self.features,
            self.whole_since,
            self.protocol_versions,
            self.tags,
        )

    def reregistered(self, record: RegisterBroker) -> "BrokerInfo":
        """Return the registration after another RegisterBroker record of the same epoch.

        The broker stays fenced or unfenced, and a controlled shutdown continues.
        """
        return replace(
            self,
            incarnation=record.incarnation,
            endpoints=record.endpoints,
            rack=record.rack,
            features=record.features,
            whole_since=record.whole_since,
            protocol_versions=record.protocol_versions,
            tags=record.tags,
        )


class Brokers(ReadOnlyTable[int, BrokerInfo]):
    """The registered brokers by id."""

    __slots__ = ()
    RECORDS: ClassVar[tuple[type[MetadataRecord], ...]] = (
        RegisterBroker,
        UnregisterBroker,
        FenceBroker,
        UnfenceBroker,
        StopBroker,
    )

    def is_active(self, broker_id: int) -> bool:
        broker = self._entries.get(broker_id)
        return broker is not None and broker.active

    def apply(self, record: MetadataRecord, offset: int | None, changes: Changes) -> None:
        match record:
            case RegisterBroker():
                self._entries[record.broker_id] = self._registered_by(record, offset)
                changes.brokers.add(record.broker_id)
            case UnregisterBroker():
                self._known(record.broker_id, record.epoch)
                del self._entries[record.broker_id]
                changes.brokers.add(record.broker_id)
            case FenceBroker():
                known = self._known(record.broker_id, record.epoch)
                self._put(replace(known, fenced=True, stopping_offset=None), changes)
            case UnfenceBroker():
                known = self._known(record.broker_id, record.epoch)
                # The broker has persisted its epoch before it asked to be unfenced, so earlier epochs do not count from
                # now on.
                self._put(replace(known, fenced=False, stopping_offset=None, whole_since=known.epoch), changes)
            case StopBroker():
                known = self._known(record.broker_id, record.epoch)
                _check_own_offset("StopBroker", record.offset, offset)
                self._put(replace(known, stopping_offset=record.offset), changes)

    def _registered_by(self, record: RegisterBroker, offset: int | None) -> BrokerInfo:
        """Return the broker after the record: a new incarnation starts fenced, the same one keeps its state."""
        known = self._entries.get(record.broker_id)
        if known is None or known.epoch != record.epoch:
            _check_own_offset("RegisterBroker", record.epoch, offset)
            known = BrokerInfo(record.broker_id, record.epoch, record.incarnation, (), None, fenced=True)
        return known.reregistered(record)

    def _known(self, broker_id: int, epoch: int) -> BrokerInfo:
        known = self._entries.get(broker_id)
        if known is None or known.epoch != epoch:
            raise ValueError(f"a record names broker {broker_id} with epoch {epoch}, but no such registration exists")
        return known

    def _put(self, broker: BrokerInfo, changes: Changes) -> None:
        self._entries[broker.id] = broker
        changes.brokers.add(broker.id)

    def records(self) -> Iterator[MetadataRecord]:
        for broker_id in sorted(self._entries):
            broker = self._entries[broker_id]
            yield broker.registration
            if not broker.fenced:
                yield UnfenceBroker(broker.id, broker.epoch)
            if broker.stopping_offset is not None:
                yield StopBroker(broker.id, broker.epoch, broker.stopping_offset)

    def note_differences(self, newer: Self, changes: Changes) -> Steps[None]:
        changes.brokers.update((yield from differing(self, newer)))


def _check_own_offset(kind: str, recorded: int, offset: int | None) -> None:
    if offset not in (None, recorded):
        raise ValueError(f"a {kind} record for offset {recorded} is at offset {offset}")
