"""Counters of the terms of a broker's coordinators, for metrics."""

from dataclasses import dataclass


@dataclass(slots=True)
class TermTally:
    """Counters of loaded and failed terms, and load times, since the start of this process."""

    failures: int = 0
    """Number of terms that ended with an error, not because the leadership was lost."""
    loads: int = 0
    load_ms: float = 0.0
    load_max_ms: float = 0.0

    def count_failure(self) -> None:
        """Count a term that ended with an error."""
        self.failures += 1

    def loaded(self, took_s: float) -> None:
        """Count the load of a partition, which took so many seconds."""
        self.loads += 1
        self.load_ms += took_s * 1000
        self.load_max_ms = max(self.load_max_ms, took_s * 1000)
