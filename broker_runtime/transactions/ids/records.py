"""The record of a transactional id in `__transaction_state`. Pure data."""

from typing import NamedTuple

from broker_runtime.transactions.ids.metadata import Transaction


class TransactionRecord(NamedTuple):
    """The state of a transactional id from now on; None for the end of the id (a tombstone)."""

    transactional_id: str
    transaction: Transaction | None
