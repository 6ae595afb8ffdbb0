"""Counters of what the transaction coordinators of a broker have done, for metrics."""

from dataclasses import dataclass

from broker_runtime.coordination.term_tally import TermTally


@dataclass(slots=True)
class TransactionTally(TermTally):
    """Counters of terms and of applied decisions since the start of this process."""

    commits: int = 0
    """Number of transactions whose commit was decided."""
    aborts: int = 0
    """Number of transactions whose abort was decided, by a client or by the coordinator."""
    timeouts: int = 0
    """Number of those aborts that the coordinator decided because the transaction took too long."""
    expirations: int = 0
    """Number of transactional ids that were removed."""
