"""The `kubernetes` journal: each committed piece of the metadata log is one object, named by its first offset.

A create is a compare-and-swap: if two controllers write the same offset, one of them learns that it was deposed. After
compaction has deleted an object, a controller that was suspended could create its name again. So each create is
followed by a read of the manifest. If a snapshot covers the written offset, the object has no effect and is deleted
(decision 6 has the argument).

A load reads the manifest of the snapshots before and after everything else. If it has changed meanwhile, the load is
repeated.
"""

import logging
from collections.abc import Iterator, Sequence

from broker_runtime.controller.journal.patient_store import PatientStore
from broker_runtime.controller.journal.seam import (
    DeposedError,
    JournalDamagedError,
    JournalUnavailableError,
    Snapshot,
)
from broker_runtime.controller.journal.snapshot_objects import SnapshotObjects
from broker_runtime.controller.journal.store import OBJECT_BYTES_MAX, ObjectNames, ObjectStore, StoredObject
from broker_runtime.errors import KafkaError
from broker_runtime.storage.log.follower_log import FollowerLog
from broker_runtime.storage.log.log import Log
from broker_runtime.storage.records.batch import iter_batches
from kafka_bytes.batches import parse_header

log = logging.getLogger(__name__)

_LOADS_MAX = 10
"""Maximum of load attempts that a compaction interrupts; beyond that the store is considered inconsistent."""


class KubernetesJournal:
    """A journal in the API server: creating an object commits a batch. The log on this disk is a copy."""

    batches_between_snapshots: int | None = 200
    """Limit of the objects that a load lists; each costs the API server some 1 KB however small the batch is."""

    def __init__(self, metadata: Log, store: ObjectStore, name: str, patience_s: float) -> None:
        """`name` is the prefix of all object names; an unanswered request is repeated for `patience_s` seconds."""
        self._log = metadata
        self._store = store
        self._names = ObjectNames(name)
        self._patient = PatientStore(store, patience_s)
        self._snapshots = SnapshotObjects(store, self._patient, self._names)
        self._committed = 0

    async def load(self) -> Snapshot | None:
        for _ in range(_LOADS_MAX):
            before = await self._snapshots.floor()
            snapshot = await self._snapshots.read(before)
            pieces = await self._patient.list("batch")
            if await self._snapshots.floor() == before:
                break
        else:
            raise JournalUnavailableError("the journal changed during each attempt to load it")
        if before is not None and snapshot is None:
            raise JournalDamagedError(
                f"the manifest {self._names.manifest} names an incomplete snapshot; restore the snapshot's objects"
            )
        self._fill(0 if snapshot is None else snapshot.end_offset, pieces)
        return snapshot

    def _fill(self, start: int, pieces: Sequence[StoredObject]) -> None:
        metadata, copy = self._log, FollowerLog(self._log)
        copy.restart_at(start)
        named = [(base, piece) for piece in pieces if (base := self._names.offset_of(piece.name)) is not None]
        self._check_strays([piece for piece in pieces if self._names.offset_of(piece.name) is None], named, start)
        for base, piece in sorted(named, key=lambda one: one[0]):
            if base < start:
                continue
            if base != metadata.log_end_offset:
                raise JournalDamagedError(
                    f"the journal has no object for offset {metadata.log_end_offset}; the next one is "
                    f"{piece.name}. Restore the missing object, or all objects of the journal from one backup"
                )
            try:
                end = copy.append(memoryview(piece.data))
            except KafkaError as error:
                raise JournalDamagedError(f"the object {piece.name} does not have complete batches: {error}") from error
            if end != _end_of(piece.data):
                raise JournalDamagedError(f"the object {piece.name} ends in the middle of a batch")
        metadata.advance_high_watermark(metadata.log_end_offset)
        self._committed = metadata.log_end_offset

    def _check_strays(
        self, strays: Sequence[StoredObject], named: Sequence[tuple[int, StoredObject]], start: int
    ) -> None:
        """Check the objects that have the journal's labels and other names.

        A user who copies an object copies its labels. A copy of an object that the journal still has, or that a
        snapshot has replaced, is ignored. Any other may be the only one with its records, for example after a restore
        under other names. Raises JournalDamagedError for such an object.
        """
        known = {piece.data for _, piece in named}
        for stray in strays:
            if stray.data not in known and not _ends_by(stray.data, start):
                raise JournalDamagedError(
                    f"the object {stray.name} has the journal's labels, but its name is not one of the journal's. If it"
                    " has records of the journal, restore it under its own name; else remove its labels"
                )
            log.warning("the object %s is ignored: it is a copy of an object of the journal", stray.name)

    async def commit(self) -> None:
        for base, data in self._uncommitted():
            await self._create(base, data)
            self._committed = _end_of(data)

    def _uncommitted(self) -> Iterator[tuple[int, bytes]]:
        """Yield the batches of the log that the store lacks, in pieces of whole batches."""
        metadata = self._log
        end = metadata.log_end_offset
        while self._committed < end:
            region = metadata.read(self._committed, OBJECT_BYTES_MAX, min_one=True, up_to=end)
            assert region is not None
            yield self._committed, region.read()

    async def _create(self, base: int, data: bytes) -> None:
        name = self._names.batch(base)
        if not await self._patient.create(name, "batch", data):
            # Possibly this controller's own object, from an attempt that was not answered.
            found = await self._patient.get(name)
            if found is None or found.data != data:
                raise DeposedError(f"another controller has written the metadata at offset {base}")
        floor = await self._snapshots.floor()
        if floor is not None and floor.manifest.end_offset > base:
            await self._snapshots.tidy([name])
            raise DeposedError(
                f"another controller has a snapshot up to {floor.manifest.end_offset}; this one was up to {base}"
            )

    async def write_snapshot(self, snapshot: Snapshot) -> None:
        await self._snapshots.write(snapshot)

    async def close(self) -> None:
        await self._store.close()


def _ends_by(data: bytes, offset: int) -> bool:
    """Return whether the data begin with batches that all end before the offset."""
    try:
        ends = [header.last_offset for header, _ in iter_batches(data)]
    except KafkaError:
        return False
    return bool(ends) and max(ends) < offset


def _end_of(data: bytes) -> int:
    """Return the offset after the last batch."""
    end = parse_header(data).base_offset
    for header, _ in iter_batches(data):
        end = header.last_offset + 1
    return end
