"""The `kubernetes` journal: each committed piece of the metadata log is one object, named by its first offset.

A create is a compare-and-swap: of two controllers that want the same offset one learns that it was deposed. A name that
compaction freed could be created once more by one that slept, so each create is followed by a look at the manifest:
when a snapshot reaches beyond our offset, the object counts for nobody and is taken back (decision 6 argues it).

Snapshots are chunks, and a manifest that is written last, by compare-and-swap and never backwards. Then what it
covers is deleted. Loading reads the manifest before and after everything else: when it differs, it was a moving target.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

import msgspec

from broker_runtime.checksum import crc32c
from broker_runtime.controller.journal.seam import (
    DeposedError,
    JournalDamagedError,
    JournalUnavailableError,
    Snapshot,
)
from broker_runtime.controller.journal.store import OBJECT_BYTES_MAX, ObjectStore, StoredObject, StoreError
from broker_runtime.controller.journal.trouble import Trouble
from broker_runtime.errors import KafkaError
from broker_runtime.storage.batch import iter_batches, parse_header
from broker_runtime.storage.follower_log import FollowerLog
from broker_runtime.storage.log import Log

log = logging.getLogger(__name__)

T = TypeVar("T")

_RETRY_DELAY_S = 0.05
_RETRY_DELAY_MAX_S = 0.5
_LOADS_MAX = 10
"""Compactions that a load may meet; the next one would be a store that gives different answers each time."""


class Manifest(msgspec.Struct, frozen=True, rename="camel"):
    """Which snapshot counts. Written last, so its chunks are there."""

    end_offset: int
    epoch: int
    chunks: int
    bytes: int
    checksum: int


@dataclass(frozen=True, slots=True)
class _Floor:
    """The manifest as it was read."""

    manifest: Manifest
    version: str


class KubernetesJournal:
    """A batch is committed when the API server has taken its object; the log on this disk is a copy of them."""

    batches_between_snapshots: int | None = 200
    """Objects that a load lists; each of them costs the API server some 1 KB however small the batch is."""

    def __init__(self, metadata: Log, store: ObjectStore, name: str, patience_s: float) -> None:
        """`name` begins the names of all objects; `patience_s` is how long an unanswered request is repeated."""
        self._log = metadata
        self._store = store
        self._name = name
        self._patience_s = patience_s
        self._committed = 0
        self._trouble = Trouble("the journal's store does not do what is asked", patience_s)

    # Loading

    async def load(self) -> Snapshot | None:
        for _ in range(_LOADS_MAX):
            before = await self._again(self._floor)
            snapshot = await self._snapshot(before)
            pieces = await self._again(lambda: self._store.list("batch"))
            if await self._again(self._floor) == before:
                break
        else:
            raise JournalUnavailableError("the journal changed under each attempt to load it")
        if before is not None and snapshot is None:
            raise JournalDamagedError(
                f"the manifest {self._manifest_name} names a snapshot that is not whole; restore its objects"
            )
        self._fill(0 if snapshot is None else snapshot.end_offset, pieces)
        return snapshot

    async def _snapshot(self, floor: _Floor | None) -> Snapshot | None:
        """None too when a chunk is missing or damaged: the caller looks whether the manifest has changed meanwhile."""
        if floor is None:
            return None
        manifest = floor.manifest
        parts = []
        for number in range(manifest.chunks):
            name = self._chunk_name(manifest.end_offset, manifest.epoch, number)
            found = await self._get(name)
            if found is None:
                return None
            parts.append(found.data)
        payload = b"".join(parts)
        if len(payload) != manifest.bytes or crc32c(payload) != manifest.checksum:
            return None
        return Snapshot(manifest.end_offset, manifest.epoch, payload)

    def _fill(self, start: int, pieces: Sequence[StoredObject]) -> None:
        metadata, copy = self._log, FollowerLog(self._log)
        copy.restart_at(start)
        for piece in sorted(pieces, key=lambda piece: piece.name):
            base = self._offset_of(piece.name)
            if base < start:
                continue
            if base != metadata.log_end_offset:
                raise JournalDamagedError(
                    f"the journal has no object for offset {metadata.log_end_offset}, the next is {piece.name}; "
                    "restore it, or every object of the journal from one backup"
                )
            try:
                end = copy.append(memoryview(piece.data))
            except KafkaError as error:
                raise JournalDamagedError(f"the object {piece.name} holds no whole batches: {error}") from error
            if end != _end_of(piece.data):
                raise JournalDamagedError(f"the object {piece.name} ends in the middle of a batch")
        metadata.advance_high_watermark(metadata.log_end_offset)
        self._committed = metadata.log_end_offset

    # Committing

    async def commit(self) -> None:
        for base, data in self._uncommitted():
            await self._create(base, data)
            self._committed = _end_of(data)

    def _uncommitted(self) -> Iterator[tuple[int, bytes]]:
        """What the log has and the store has not, in pieces of whole batches."""
        metadata = self._log
        end = metadata.log_end_offset
        while self._committed < end:
            region = metadata.read(self._committed, OBJECT_BYTES_MAX, min_one=True, up_to=end)
            assert region is not None
            yield self._committed, region.read()

    async def _create(self, base: int, data: bytes) -> None:
        name = self._batch_name(base)
        if not await self._again(lambda: self._store.create(name, "batch", data)):
            # Perhaps our own, from an attempt that was not answered.
            found = await self._get(name)
            if found is None or found.data != data:
                raise DeposedError(f"another controller has written the metadata at offset {base}")
        floor = await self._again(self._floor)
        if floor is not None and floor.manifest.end_offset > base:
            await self._tidy([name])
            raise DeposedError(f"another controller has a snapshot up to {floor.manifest.end_offset}, this was {base}")

    # Snapshots

    async def write_snapshot(self, snapshot: Snapshot) -> None:
        payload = snapshot.payload
        chunks = [payload[at : at + OBJECT_BYTES_MAX] for at in range(0, len(payload), OBJECT_BYTES_MAX)]
        for number, chunk in enumerate(chunks):
            await self._put_chunk(self._chunk_name(snapshot.end_offset, snapshot.epoch, number), chunk)
        manifest = Manifest(snapshot.end_offset, snapshot.epoch, len(chunks), len(payload), crc32c(payload))
        if await self._raise_floor(manifest):
            await self._compact(manifest)

    async def _put_chunk(self, name: str, chunk: bytes) -> None:
        """No manifest names it yet, so what an earlier attempt left under this name may be replaced."""
        while not await self._again(lambda: self._store.create(name, "snapshot", chunk)):
            found = await self._get(name)
            if found is not None and found.data == chunk:
                return
            await self._again(lambda: self._store.delete(name))

    async def _raise_floor(self, manifest: Manifest) -> bool:
        """False when another controller's manifest has come as far: then ours is of no use."""
        data = msgspec.json.encode(manifest)
        while True:
            floor = await self._again(self._floor)
            if floor is not None and floor.manifest.end_offset >= manifest.end_offset:
                return floor.manifest == manifest
            if floor is None:
                written = await self._again(lambda: self._store.create(self._manifest_name, "manifest", data))
            else:
                version = floor.version
                written = await self._again(
                    lambda: self._store.replace(self._manifest_name, "manifest", data, version)  # noqa: B023
                )
            if written:
                return True

    async def _compact(self, manifest: Manifest) -> None:
        """Delete what no load reads any more; what cannot be deleted now goes with the next snapshot."""
        try:
            batches, chunks = await self._store.names("batch"), await self._store.names("snapshot")
        except StoreError as error:
            log.warning("old metadata objects are not deleted now: %s", error)
            return
        await self._tidy([name for name in (*batches, *chunks) if self._offset_of(name) < manifest.end_offset])

    async def _tidy(self, names: Sequence[str]) -> None:
        for name in names:
            try:
                await self._store.delete(name)
            except StoreError as error:
                log.warning("the object %s is not deleted now: %s", name, error)
                return

    # The store

    async def _floor(self) -> _Floor | None:
        found = await self._store.get(self._manifest_name)
        if found is None:
            return None
        try:
            return _Floor(msgspec.json.decode(found.data, type=Manifest), found.version)
        except msgspec.DecodeError as error:
            raise JournalDamagedError(f"the manifest {self._manifest_name} cannot be read: {error}") from error

    async def _get(self, name: str) -> StoredObject | None:
        return await self._again(lambda: self._store.get(name))

    async def _again(self, ask: Callable[[], Awaitable[T]]) -> T:
        """Repeat what was not answered; every request here may be repeated."""
        loop = asyncio.get_running_loop()
        give_up_s = loop.time() + self._patience_s
        delay_s = _RETRY_DELAY_S
        while True:
            try:
                found = await ask()
                self._trouble.ended()
                return found
            except StoreError as error:
                self._trouble.failed(error, loop.time())
                if loop.time() + delay_s >= give_up_s:
                    raise JournalUnavailableError(f"the journal's store does not answer: {error}") from error
            await asyncio.sleep(delay_s)
            delay_s = min(delay_s * 2, _RETRY_DELAY_MAX_S)

    async def close(self) -> None:
        await self._store.close()

    # Names

    @property
    def _manifest_name(self) -> str:
        return f"{self._name}-manifest"

    def _batch_name(self, base: int) -> str:
        return f"{self._name}-batch-{base:020d}"

    def _chunk_name(self, end_offset: int, epoch: int, number: int) -> str:
        return f"{self._name}-snapshot-{end_offset:020d}-{epoch:010d}-{number:04d}"

    def _offset_of(self, name: str) -> int:
        """Of a batch its first offset, of a chunk its snapshot's end offset."""
        kind, _, rest = name.removeprefix(f"{self._name}-").partition("-")
        digits = rest.partition("-")[0]
        if kind not in ("batch", "snapshot") or not digits.isdecimal():
            raise JournalDamagedError(f"the object {name} carries the journal's labels and is none of its objects")
        return int(digits)


def _end_of(data: bytes) -> int:
    """The offset after the last batch."""
    end = parse_header(data).base_offset
    for header, _ in iter_batches(data):
        end = header.last_offset + 1
    return end
