"""The store below the `kubernetes` journal: named immutable objects, one replaceable manifest, one lease.

Everything is a create or a compare-and-swap. `StoreError` leaves the outcome of a write unknown. Implementations:
`kube_store.KubeStore` (the API server) and tests/support/journal_store.py (in memory, with faults).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

Part = Literal["batch", "snapshot", "manifest"]
OBJECT_BYTES_MAX = 512 * 1024
"""An object of the API server holds at most 1 MiB, and a request to etcd 1.5 MiB."""


class StoreError(Exception):
    """No answer, or one that says to try again: a write may have happened or may happen still."""


class StoreRefusedError(StoreError):
    """This account may not do that: somebody has to give it the right."""


@dataclass(frozen=True, slots=True)
class StoredObject:
    """An object as it was read."""

    name: str
    data: bytes
    version: str
    """Changes with each write."""


@dataclass(frozen=True, slots=True)
class LeaseRecord:
    """Who holds the Lease, and for how long since it was renewed."""

    holder: str
    """Empty when nobody holds it."""
    duration_ms: int
    transitions: int
    renewed_ms: int
    """Wall clock of the holder; for people, nothing is decided by it."""
    version: str = ""
    address: str = ""
    """Where the others reach the holder, host:port; empty when it did not say."""


class ObjectStore(Protocol):
    """All reads see every write that was answered before they began. Every method raises StoreError."""

    async def create(self, name: str, part: Part, data: bytes) -> bool:
        """False when an object of that name exists."""
        ...

    async def get(self, name: str) -> StoredObject | None: ...

    async def replace(self, name: str, part: Part, data: bytes, version: str) -> bool:
        """False when it is not (any more) of that version. For the manifest only."""
        ...

    async def list(self, part: Part) -> Sequence[StoredObject]:
        """In the order of their names."""
        ...

    async def names(self, part: Part) -> Sequence[str]: ...

    async def delete(self, name: str) -> None:
        """One that is not there is no error."""
        ...

    async def lease(self) -> LeaseRecord | None: ...

    async def put_lease(self, lease: LeaseRecord) -> LeaseRecord | None:
        """Create it (`version` empty) or replace that version; None when somebody else was first."""
        ...

    async def close(self) -> None: ...
