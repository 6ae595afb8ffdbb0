"""The store below the `kubernetes` journal: named immutable objects, one replaceable manifest, one lease.

Every write is a create or a compare-and-swap. After `StoreError` the outcome of a write is unknown. Implementations:
`kube_store.KubeStore` (the API server) and tests/support/fakes/journal_store.py (in memory, with faults).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from broker_runtime.controller.journal.seam import JournalDamagedError

Part = Literal["batch", "snapshot", "manifest"]
OBJECT_BYTES_MAX = 512 * 1024
"""An object of the API server has at most 1 MiB, and a request to etcd 1.5 MiB."""


class StoreError(Exception):
    """No answer, or a retryable error: a write may have happened or may still happen."""


class StoreRefusedError(StoreError):
    """The account lacks the right: an administrator has to grant it."""


@dataclass(frozen=True, slots=True)
class StoredObject:
    """An object as read."""

    name: str
    data: bytes
    version: str
    """Changes with each write."""


@dataclass(frozen=True, slots=True)
class LeaseRecord:
    """The holder of the Lease, and its validity since it was renewed."""

    holder: str
    """Empty if there is no holder."""
    duration_ms: int
    transitions: int
    renewed_ms: int
    """Wall clock of the holder; only for display, no decision depends on it."""
    version: str = ""
    address: str = ""
    """Address at which others reach the holder, host:port; empty if it did not publish one."""


class ObjectStore(Protocol):
    """All reads see every write that was answered before they began. Every method raises StoreError."""

    async def create(self, name: str, part: Part, data: bytes) -> bool:
        """Create an object. Returns False if one of that name exists."""
        ...

    async def get(self, name: str) -> StoredObject | None: ...

    async def replace(self, name: str, part: Part, data: bytes, version: str) -> bool:
        """Replace the manifest. Returns False if it does not have that version (any more)."""
        ...

    async def list(self, part: Part) -> Sequence[StoredObject]:
        """Return the objects in the order of their names."""
        ...

    async def names(self, part: Part) -> Sequence[str]: ...

    async def delete(self, name: str) -> None:
        """Delete an object; it may be gone already."""
        ...

    async def lease(self) -> LeaseRecord | None: ...

    async def put_lease(self, lease: LeaseRecord) -> LeaseRecord | None:
        """Create the lease (`version` empty) or replace that version; None if another process was first."""
        ...

    async def close(self) -> None: ...


class ObjectNames:
    """Names of a journal's objects with a common `prefix`: they sort by offset, and contain it."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self.manifest = f"{prefix}-manifest"

    def batch(self, base: int) -> str:
        return f"{self._prefix}-batch-{base:020d}"

    def chunk(self, end_offset: int, epoch: int, number: int) -> str:
        return f"{self._prefix}-snapshot-{end_offset:020d}-{epoch:010d}-{number:04d}"

    def offset_of(self, name: str) -> int:
        """Return a batch's first offset, or a chunk's snapshot end offset. Raises JournalDamagedError."""
        kind, _, rest = name.removeprefix(f"{self._prefix}-").partition("-")
        digits = rest.partition("-")[0]
        if kind not in ("batch", "snapshot") or not digits.isdecimal():
            raise JournalDamagedError(
                f"the object {name} has the journal's labels, but its name is not one of the journal's"
            )
        return int(digits)
