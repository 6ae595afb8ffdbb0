"""The store below the `kubernetes` journal: named immutable objects, one replaceable manifest, one lease.

Every write is a create or a compare-and-swap. After `StoreError` the outcome of a write is unknown. Implementations:
`kube_store.KubeStore` (the API server) and tests/support/fakes/journal_store.py (in memory, with faults).
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

Part = Literal["batch", "snapshot", "manifest"]
OBJECT_BYTES_MAX = 512 * 1024
"""Limit of an object's bytes: the API server accepts 1 MiB an object, and etcd 1.5 MiB a request."""


class StoreError(Exception):
    """The store of the metadata journal did not answer a request, or with an error that may pass.

    A write may have happened or may still happen.
    """


class StoreRefusedError(StoreError):
    """The broker's account may not make this request to the store of the metadata journal.

    An administrator has to grant the right.
    """


@dataclass(frozen=True, slots=True)
class StoredObject:
    """An object as read from the store of the metadata journal."""

    name: str
    data: bytes
    version: str
    """Version of the object, which changes with each write."""


@dataclass(frozen=True, slots=True)
class LeaseRecord:
    """The holder of the Lease, and the Lease's validity since its last renewal."""

    holder: str
    """Name of the holder; empty without a holder."""
    duration_ms: int
    transitions: int
    renewed_ms: int
    """Time of the last renewal by the holder's wall clock; only for display: no decision depends on it."""
    version: str = ""
    address: str = ""
    """Address at which others reach the holder, host:port; empty if the holder did not publish any."""


class ObjectStore(Protocol):
    """The object store in which controllers keep the metadata journal.

    A read sees every write that was answered before the read began.

    Every method raises StoreError.
    """

    async def create(self, name: str, part: Part, data: bytes) -> bool:
        """Create an object in the store. Return False if an object of that name exists."""
        ...

    async def get(self, name: str) -> StoredObject | None: ...

    async def replace(self, name: str, part: Part, data: bytes, version: str) -> bool:
        """Replace the manifest of a snapshot in the store. Return False if it does not have that version (any more)."""
        ...

    async def list(self, part: Part) -> Sequence[StoredObject]:
        """Return the objects in the order of their names."""
        ...

    async def names(self, part: Part) -> Sequence[str]: ...

    async def delete(self, name: str) -> None:
        """Delete an object of the store. The object may be gone already."""
        ...

    async def lease(self) -> LeaseRecord | None: ...

    async def put_lease(self, lease: LeaseRecord) -> LeaseRecord | None:
        """Create the lease (`version` empty), or replace that version; return None if another process was first."""
        ...

    async def close(self) -> None: ...


class ObjectNames:
    """The names of a journal's objects with a common `prefix`. They sort by offset, and contain the offset."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._pattern = re.compile(
            rf"{re.escape(prefix)}-(?:batch-([0-9]{{20}})|snapshot-([0-9]{{20}})-[0-9]{{10,}}-[0-9]{{4,}})"
        )
        self.manifest = f"{prefix}-manifest"

    def batch(self, base: int) -> str:
        return f"{self._prefix}-batch-{base:020d}"

    def chunk(self, end_offset: int, epoch: int, number: int) -> str:
        return f"{self._prefix}-snapshot-{end_offset:020d}-{epoch:010d}-{number:04d}"

    def offset_of(self, name: str) -> int | None:
        """Return the offset in a name: a batch's first offset, or a snapshot's end offset for a chunk.

        None for a name that the journal does not give.
        """
        match = self._pattern.fullmatch(name)
        return None if match is None else int(match[1] or match[2])
