"""The result of a storm: counts for each source, latencies, and their plain-data form. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum

PERCENTILES = (50, 90, 99, 99.9)


class AttemptOutcome(Enum):
    """The outcome of a connection attempt, as the client sees it."""

    ACCEPTED = "accepted"
    """The broker answered an ApiVersions request."""
    CLOSED = "closed"
    """The broker closed the connection without an answer: the address is throttled or dropped."""
    REFUSED = "refused"
    """No process listens at the target."""
    TIMED_OUT = "timed_out"
    """No answer came in time: the listener's acceptor waits, or the broker is too slow."""
    LOCAL_ERROR = "local_error"
    """This machine could not make the attempt: it has no free port, or does not have the source address."""


@dataclass(slots=True)
class SourceCounts:
    """The outcomes of the attempts from one source address."""

    attempts: int = 0
    outcomes: dict[AttemptOutcome, int] = field(default_factory=lambda: dict.fromkeys(AttemptOutcome, 0))

    def __getitem__(self, outcome: AttemptOutcome) -> int:
        return self.outcomes[outcome]

    def as_dict(self) -> dict[str, int]:
        return {"attempts": self.attempts, **{outcome.value: count for outcome, count in self.outcomes.items()}}


@dataclass(slots=True)
class StormReport:
    """The result of a test storm of connections.

    `skipped` attempts were due while the maximum of sockets was open; `unfinished` ones were cut off at the end.
    """

    target: str
    elapsed_s: float = 0.0
    skipped: int = 0
    unfinished: int = 0
    sources: dict[str, SourceCounts] = field(default_factory=dict)
    accept_latencies_s: list[float] = field(default_factory=list)
    accepted_by_second: dict[int, int] = field(default_factory=dict)
    local_errors: dict[str, int] = field(default_factory=dict)

    def started(self, source: str) -> None:
        self.sources.setdefault(source, SourceCounts()).attempts += 1

    def ended(self, source: str, outcome: AttemptOutcome) -> None:
        self.sources[source].outcomes[outcome] += 1

    def answered(self, source: str, latency_s: float, since_start_s: float) -> None:
        self.ended(source, AttemptOutcome.ACCEPTED)
        self.accept_latencies_s.append(latency_s)
        second = int(since_start_s)
        self.accepted_by_second[second] = self.accepted_by_second.get(second, 0) + 1

    def failed_here(self, source: str, reason: str) -> None:
        self.ended(source, AttemptOutcome.LOCAL_ERROR)
        self.local_errors[reason] = self.local_errors.get(reason, 0) + 1

    @property
    def total(self) -> SourceCounts:
        total = SourceCounts(sum(counts.attempts for counts in self.sources.values()))
        for counts in self.sources.values():
            for outcome, count in counts.outcomes.items():
                total.outcomes[outcome] += count
        return total

    def as_dict(self) -> dict[str, object]:
        ordered = sorted(self.accept_latencies_s)
        return {
            "target": self.target,
            "elapsed_s": round(self.elapsed_s, 3),
            **self.total.as_dict(),
            "skipped": self.skipped,
            "unfinished": self.unfinished,
            "attempts_per_second": round(self.total.attempts / self.elapsed_s, 1) if self.elapsed_s else 0.0,
            "latency_ms": {f"p{p:g}": round(percentile(ordered, p) * 1000, 3) for p in PERCENTILES if ordered},
            "accepted_by_second": {
                str(second): self.accepted_by_second[second] for second in sorted(self.accepted_by_second)
            },
            "sources": {source: counts.as_dict() for source, counts in self.sources.items()},
            "local_errors": self.local_errors,
        }


def percentile(ordered: Sequence[float], percent: float) -> float:
    """Return the nearest-rank percentile of ascending values, which must not be empty."""
    rank = max(1, -(-len(ordered) * percent // 100))
    return ordered[min(len(ordered), int(rank)) - 1]
