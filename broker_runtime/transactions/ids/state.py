"""All transactional ids of one partition of `__transaction_state`. Pure: computed from the partition's records."""

from typing import Any

from broker_runtime.transactions.ids.metadata import Transaction
from broker_runtime.transactions.ids.records import TransactionRecord
from broker_runtime.transactions.ids.states import PREPARED, TransactionState


class TransactionsState:
    """The transactional ids of one partition. Implements `coordination.seam.State` of TransactionRecord."""

    def __init__(self) -> None:
        self.next_offset = 0
        self.transactions: dict[str, Transaction] = {}
        """Transactions by transactional id, the one that was changed longest ago first."""
        self.ongoing: set[str] = set()
        """The ids whose transaction is ongoing, for the check of timeouts."""
        self.prepared: set[str] = set()
        """The ids whose transaction gets its markers."""

    def take_apart(self) -> list[Any]:
        """Remove all transactional ids, and return what has them, to be freed in steps."""
        parts = [self.transactions, self.ongoing, self.prepared]
        self.transactions, self.ongoing, self.prepared = {}, set(), set()
        return parts

    def apply(self, record: TransactionRecord, offset: int) -> None:
        """Apply a record of the log. Raises ValueError if `offset` is below `next_offset`.

        Offsets may have gaps, because a compacted log leaves records out.
        """
        if offset < self.next_offset:
            raise ValueError(f"record {offset} of __transaction_state follows record {self.next_offset - 1}")
        transactional_id, transaction = record
        self.transactions.pop(transactional_id, None)
        if transaction is not None and transaction.state is not TransactionState.DEAD:
            self.transactions[transactional_id] = transaction
        now = None if transaction is None else transaction.state
        _note(self.ongoing, transactional_id, is_in=now is TransactionState.ONGOING)
        _note(self.prepared, transactional_id, is_in=now in PREPARED)
        self.next_offset = offset + 1


def _note(ids: set[str], transactional_id: str, *, is_in: bool) -> None:
    if is_in:
        ids.add(transactional_id)
    else:
        ids.discard(transactional_id)
