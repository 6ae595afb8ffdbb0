"""The states of a transaction, and which state may follow which. Pure data.

The numbers are those of the records in `__transaction_state`, the names those that DescribeTransactions and
ListTransactions show. Apache Kafka also has PrepareEpochFence: a fence that is decided and not yet logged. Here a fence
and the abort that follows are one decision, so no transaction is ever in that state.
"""

from collections.abc import Mapping
from enum import IntEnum

TRANSACTIONS_V2 = 2
"""The first transaction version (KIP-890) in which each end of a transaction raises the producer's epoch."""


class TransactionState(IntEnum):
    """The state of the transaction of one transactional id."""

    EMPTY = 0
    """The producer has just been initialized. It has no transaction."""
    ONGOING = 1
    """The transaction has partitions."""
    PREPARE_COMMIT = 2
    """The transaction will be committed. Not all of its markers are written yet."""
    PREPARE_ABORT = 3
    """The transaction will be aborted. Not all of its markers are written yet."""
    COMPLETE_COMMIT = 4
    """The last transaction was committed, and all of its markers are written."""
    COMPLETE_ABORT = 5
    """The last transaction was aborted, and all of its markers are written."""
    DEAD = 6
    """The transactional id has expired. Its record is a tombstone."""

    @property
    def shown(self) -> str:
        """Return the name that tools show, such as PrepareCommit."""
        return "".join(part.title() for part in self.name.split("_"))


_EMPTY, _ONGOING, _PREPARE_COMMIT, _PREPARE_ABORT, _COMPLETE_COMMIT, _COMPLETE_ABORT, _DEAD = TransactionState

PREPARED = frozenset((_PREPARE_COMMIT, _PREPARE_ABORT))
"""The states in which markers are being written: the end is decided, and no request changes it."""
COMPLETED = frozenset((_COMPLETE_COMMIT, _COMPLETE_ABORT))
IDLE = frozenset((_EMPTY, *COMPLETED))
"""The states without a transaction: the transactional id may expire."""

LEGAL: Mapping[TransactionState, frozenset[TransactionState]] = {
    _EMPTY: IDLE,
    _ONGOING: frozenset((_ONGOING, *IDLE)),
    _PREPARE_COMMIT: frozenset((_ONGOING,)),
    _PREPARE_ABORT: frozenset((_ONGOING,)),
    _COMPLETE_COMMIT: frozenset((_PREPARE_COMMIT,)),
    _COMPLETE_ABORT: frozenset((_PREPARE_ABORT,)),
    _DEAD: IDLE,
}
"""The states that may precede each state."""

COMPLETION: Mapping[TransactionState, TransactionState] = {
    _PREPARE_COMMIT: _COMPLETE_COMMIT,
    _PREPARE_ABORT: _COMPLETE_ABORT,
}
"""The state that follows each Prepare state once all markers are written."""


def is_legal(before: TransactionState, after: TransactionState, *, version: int) -> bool:
    """Return whether `after` may follow `before`, by the transaction version of the request.

    Since version 2 a producer may abort without a transaction, because it may not know whether it has one.
    """
    if after is _PREPARE_ABORT and version >= TRANSACTIONS_V2 and before in IDLE:
        return True
    return before in LEGAL[after]
