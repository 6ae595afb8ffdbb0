"""Figures of the transaction coordinator of a broker."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TransactionFigures:
    """Numbers of the led partitions of `__transaction_state` by phase, and of transactional ids in the active ones."""

    loading: int
    active: int
    failed: int
    ids: int
    ongoing: int
    """Number of transactional ids whose transaction is ongoing."""
