"""Snapshots in the `kubernetes` journal: chunks, and a manifest that names the valid ones.

The manifest is written last, by compare-and-swap and never backwards. Then the objects that it covers are deleted.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from broker_runtime.controller.journal.patient_store import PatientStore
from broker_runtime.controller.journal.seam import JournalDamagedError, Snapshot
from broker_runtime.controller.journal.store import OBJECT_BYTES_MAX, ObjectNames, ObjectStore, StoreError
from kafka_bytes.checksum import crc32c

log = logging.getLogger(__name__)


class Manifest(msgspec.Struct, frozen=True, rename="camel"):
    """The stored object that names the valid snapshot of the metadata. It is written last, so its chunks exist."""

    end_offset: int
    epoch: int
    chunks: int
    bytes: int
    checksum: int


@dataclass(frozen=True, slots=True)
class Floor:
    """The manifest of the metadata's snapshot, as read from the store. Records below its offset are in its snapshot."""

    manifest: Manifest
    version: str


class SnapshotObjects:
    """The manifest and the chunks of one journal, which are durable in the store.

    Raises JournalUnavailableError, and JournalDamagedError for a manifest that cannot be read.
    """

    def __init__(self, store: ObjectStore, patient: PatientStore, names: ObjectNames) -> None:
        """`patient` repeats unanswered requests to `store`; deletions of old objects need no repetition."""
        self._store = store
        self._patient = patient
        self._names = names

    async def floor(self) -> Floor | None:
        found = await self._patient.get(self._names.manifest)
        if found is None:
            return None
        try:
            return Floor(msgspec.json.decode(found.data, type=Manifest), found.version)
        except msgspec.DecodeError as error:
            raise JournalDamagedError(f"the manifest {self._names.manifest} cannot be read: {error}") from error

    async def read(self, floor: Floor | None) -> Snapshot | None:
        """Return the snapshot of `floor`; None without a snapshot, or if a chunk is missing or damaged.

        If a chunk is missing or damaged, the caller checks whether the manifest has changed meanwhile.
        """
        if floor is None:
            return None
        manifest = floor.manifest
        parts = []
        for number in range(manifest.chunks):
            name = self._names.chunk(manifest.end_offset, manifest.epoch, number)
            found = await self._patient.get(name)
            if found is None:
                return None
            parts.append(found.data)
        payload = b"".join(parts)
        if len(payload) != manifest.bytes or crc32c(payload) != manifest.checksum:
            return None
        return Snapshot(manifest.end_offset, manifest.epoch, payload)

    async def write(self, snapshot: Snapshot) -> None:
        payload = snapshot.payload
        chunks = [payload[at : at + OBJECT_BYTES_MAX] for at in range(0, len(payload), OBJECT_BYTES_MAX)]
        for number, chunk in enumerate(chunks):
            await self._put_chunk(self._names.chunk(snapshot.end_offset, snapshot.epoch, number), chunk)
        manifest = Manifest(snapshot.end_offset, snapshot.epoch, len(chunks), len(payload), crc32c(payload))
        if await self._raise_floor(manifest):
            await self._compact(manifest)

    async def _put_chunk(self, name: str, chunk: bytes) -> None:
        """Create a chunk. No manifest names it yet, so what an earlier attempt left under this name may be replaced."""
        while not await self._patient.create(name, "snapshot", chunk):
            found = await self._patient.get(name)
            if found is not None and found.data == chunk:
                return
            await self._patient.delete(name)

    async def _raise_floor(self, manifest: Manifest) -> bool:
        """Write the manifest. Returns False if another controller's manifest has the same or a higher offset."""
        name, data = self._names.manifest, msgspec.json.encode(manifest)
        while True:
            floor = await self.floor()
            if floor is not None and floor.manifest.end_offset >= manifest.end_offset:
                return floor.manifest == manifest
            if floor is None:
                written = await self._patient.create(name, "manifest", data)
            else:
                written = await self._patient.replace(name, "manifest", data, floor.version)
            if written:
                return True

    async def _compact(self, manifest: Manifest) -> None:
        """Delete objects that no load reads any more; failed deletions are repeated after the next snapshot.

        A copy of an object under another name has the journal's labels too, and stays.
        """
        try:
            batches, chunks = await self._store.names("batch"), await self._store.names("snapshot")
        except StoreError as error:
            log.warning("old metadata objects are not deleted now: %s", error)
            return
        offsets = ((name, self._names.offset_of(name)) for name in (*batches, *chunks))
        await self.tidy([name for name, offset in offsets if offset is not None and offset < manifest.end_offset])

    async def tidy(self, names: Sequence[str]) -> None:
        """Delete the obsolete objects among `names`, until a deletion fails."""
        for name in names:
            try:
                await self._store.delete(name)
            except StoreError as error:
                log.warning("the object %s is not deleted now: %s", name, error)
                return
