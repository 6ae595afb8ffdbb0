"""The controller's view of where metadata is stored (`Journal`) and who may write it (`Election`).

The local metadata log contains what the controller decided; brokers fetch from it up to its high watermark. A journal
makes the log's end durable. Two implementations pass tests/contract/test_journal.py. In `file` the log is itself the
journal; in `kubernetes` the log is a copy of objects in the API server.
"""

import asyncio
from dataclasses import dataclass
from typing import Protocol

from broker_runtime.storage.log.log import Log


class JournalError(Exception):
    """The controller's journal of metadata has failed. Subclasses define the consequence."""


class DeposedError(JournalError):
    """Error of a controller that must not decide any more.

    Another controller has written at this offset, or the lease has expired.
    """


class JournalUnavailableError(JournalError):
    """Error after which it is unknown whether the batch is durable: only loading the journal again can tell."""


class JournalFailedError(JournalError):
    """Error after which this process must end: nothing that it writes is valid any more (an fsync failed)."""


class JournalDamagedError(JournalError):
    """Error for stored data that cannot be this cluster's metadata. The message says what to restore."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A snapshot of the cluster's metadata before `end_offset`, as record batches.

    `epoch` is that of the controller that took the snapshot.
    """

    end_offset: int
    epoch: int
    payload: bytes


class Journal(Protocol):
    """Makes the controller's decisions durable, and loads them for the next active controller."""

    batches_between_snapshots: int | None
    """Number of commits after which a snapshot is due whatever their size; None if their number does not matter."""

    async def load(self) -> Snapshot | None:
        """Return the newest snapshot of the metadata.

        The local log then contains all committed records after it, and no others.

        Raises JournalUnavailableError, JournalDamagedError.
        """
        ...

    async def commit(self) -> None:
        """Make all records in the local log durable. No record is appended meanwhile.

        Raises DeposedError, JournalUnavailableError, JournalFailedError.
        """
        ...

    async def write_snapshot(self, snapshot: Snapshot) -> None:
        """Make a snapshot of the metadata durable.

        Stored history before the snapshot may be deleted. Raises JournalError.
        """
        ...

    async def close(self) -> None: ...


class Election(Protocol):
    """Determines whether this controller is the active one, and until when at least."""

    certain: bool
    """Whether no other controller exists, so that `acquire` returns at once."""

    @property
    def held(self) -> bool:
        """Return whether this controller is the active one.

        False as soon as another controller might be active, before `keep` can return.
        """
        ...

    @property
    def holder_id(self) -> int | None:
        """Return the node id of the active controller, as far as the id is known."""
        ...

    @property
    def trouble(self) -> str | None:
        """Return why this controller could not become the active one; None if it could."""
        ...

    async def acquire(self) -> None:
        """Wait, without a time limit, until this controller may become active."""
        ...

    async def keep(self) -> None:
        """Keep this controller elected, and return when it no longer is."""
        ...

    async def release(self) -> None:
        """Give up the election, so that the next controller need not wait.

        Does nothing if this controller is not active.
        """
        ...


@dataclass(frozen=True, slots=True)
class Backing:
    """Parts that a controller is built on: the log that brokers fetch, the journal, and the election."""

    log: Log
    journal: Journal
    election: Election


class SoleElection:
    """The election of a cluster's only controller."""

    certain = True
    held = True
    trouble = None

    def __init__(self, node_id: int) -> None:
        self.holder_id: int | None = node_id

    async def acquire(self) -> None:
        """Return at once: there is no other controller."""

    async def keep(self) -> None:
        await asyncio.get_running_loop().create_future()

    async def release(self) -> None:
        """Do nothing: there is no other controller."""
