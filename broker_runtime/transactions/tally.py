"""Counters of what the transaction coordinators of a broker have done, for metrics."""

from dataclasses import dataclass


@dataclass(slots=True)
class TransactionTally:
    """Counters of applied decisions, and load times, since the start of this process."""

    commits: int = 0
    """Number of transactions whose commit was decided."""
    aborts: int = 0
    """Number of transactions whose abort was decided, by a client or by the coordinator."""
    timeouts: int = 0
    """Number of those aborts that the coordinator decided because the transaction took too long."""
    expirations: int = 0
    """Number of transactional ids that were removed."""
    failures: int = 0
    """Number of terms that ended with an error."""
    loads: int = 0
    load_ms: float = 0.0
    load_max_ms: float = 0.0

    def count_failure(self) -> None:
        """Count a term that ended with an error."""
        self.failures += 1

    def loaded(self, took_s: float) -> None:
        """Count the load of a partition."""
        self.loads += 1
        self.load_ms += took_s * 1000
        self.load_max_ms = max(self.load_max_ms, took_s * 1000)
