"""Where metadata is kept (`Journal`) and who may write it (`Election`): what the controller needs of either.

The local metadata log holds what the controller decided; brokers fetch from it up to its high watermark. A journal
makes the log's end durable. Two implementations pass tests/contract/test_journal.py: `file`, whose log is itself the
journal, and `kubernetes`, where the log is a copy of objects in the API server.
"""

import asyncio
from dataclasses import dataclass
from typing import Protocol

from broker_runtime.storage.log import Log


class JournalError(Exception):
    """The journal cannot do what was asked; subclasses say what that means."""


class DeposedError(JournalError):
    """Another controller has written what this one wanted to write: it must not decide anything more."""


class JournalUnavailableError(JournalError):
    """It is not known whether the batch is durable: only loading the journal again can tell."""


class JournalFailedError(JournalError):
    """Nothing that this process writes counts any more (an fsync failed): it must end."""


class JournalDamagedError(JournalError):
    """What was stored cannot be this cluster's metadata; the sentence says what to restore."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The metadata before `end_offset`, as record batches; `epoch` is of the controller that took it."""

    end_offset: int
    epoch: int
    payload: bytes


class Journal(Protocol):
    """Makes what the controller has decided durable, and gives it back to the next that becomes active."""

    batches_between_snapshots: int | None
    """Commits after which a snapshot is due whatever their size; None where their number costs nothing."""

    async def load(self) -> Snapshot | None:
        """The newest snapshot; the local log holds everything behind it then, and nothing that was not committed.

        Raises JournalUnavailableError, JournalDamagedError.
        """
        ...

    async def commit(self) -> None:
        """Everything in the local log is durable when it returns. Nothing is appended meanwhile.

        Raises DeposedError, JournalUnavailableError, JournalFailedError.
        """
        ...

    async def write_snapshot(self, snapshot: Snapshot) -> None:
        """Durable when it returns; what is stored of the history before it may go. Raises JournalError."""
        ...

    async def close(self) -> None: ...


class Election(Protocol):
    """Says whether this controller is the active one, and for how long at least."""

    certain: bool
    """No other controller exists, so that `acquire` returns at once."""

    @property
    def held(self) -> bool:
        """False from the moment on when somebody else might hold it, before `keep` can say so."""
        ...

    @property
    def holder_id(self) -> int | None:
        """The node id of the active controller, as far as it is known."""
        ...

    @property
    def trouble(self) -> str | None:
        """Why this controller could not become the active one; None when it could."""
        ...

    async def acquire(self) -> None:
        """Returns when this controller may become active; waits as long as it takes."""
        ...

    async def keep(self) -> None:
        """Returns when it is lost."""
        ...

    async def release(self) -> None:
        """Let go of it, so that the next one need not wait. Nothing happens when it is not held."""
        ...


@dataclass(frozen=True, slots=True)
class Backing:
    """What a controller is built on: the log that brokers fetch, what makes it durable, and who may write."""

    log: Log
    journal: Journal
    election: Election


class SoleElection:
    """Of the only controller."""

    certain = True
    held = True
    trouble = None

    def __init__(self, node_id: int) -> None:
        self.holder_id: int | None = node_id

    async def acquire(self) -> None:
        """Nobody else wants it."""

    async def keep(self) -> None:
        await asyncio.get_running_loop().create_future()

    async def release(self) -> None:
        """Nobody else wants it."""
