"""Counts replayed attempts by limit and client, beside what really happened to the same attempts. Pure."""

from array import array
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from audit_pipeline.what_if.attempts import Attempt, Course, Limit, Outcome

Place = tuple[Limit | None, str]
"""A limit that delays or refuses in the replay, and the address of the client."""


@dataclass(slots=True)
class Tally:
    """The numbers of attempts to connect by outcome. `delays_us` are those of accepted attempts that had to wait."""

    outcomes: dict[Outcome, int] = field(default_factory=lambda: dict.fromkeys(Outcome, 0))
    delays_us: "array[int]" = field(default_factory=lambda: array("q"))

    def add(self, attempt: Attempt, course: Course) -> None:
        self.outcomes[course.outcome] += 1
        delay_us = course.at_us - attempt.arrived_us
        if course.outcome is Outcome.ACCEPTED and delay_us > 0:
            self.delays_us.append(delay_us)

    def merge(self, other: "Tally") -> None:
        for outcome, count in other.outcomes.items():
            self.outcomes[outcome] += count
        self.delays_us += other.delays_us

    @property
    def row(self) -> dict[str, int | float | None]:
        delays = sorted(self.delays_us)
        return {
            "accepted": self.outcomes[Outcome.ACCEPTED],
            "delayed": len(delays),
            "delay_p50_ms": _percentile_ms(delays, 50),
            "delay_p99_ms": _percentile_ms(delays, 99),
            "delay_max_ms": _percentile_ms(delays, 100),
            "rejected": self.outcomes[Outcome.REJECTED],
            "left": self.outcomes[Outcome.LEFT],
            "waiting": self.outcomes[Outcome.WAITING],
        }


def _percentile_ms(delays: list[int], percent: int) -> float | None:
    """Return the smallest delay that at least this share of the delays does not exceed, None without any."""
    return delays[-(-len(delays) * percent // 100) - 1] / 1000 if delays else None


class NamedLimits(Protocol):
    """Limits with the names of their ConnectionQuotas."""

    def name_of(self, limit: Limit) -> str | None:
        """Return the ConnectionQuota of a limit, as namespace/name."""
        ...


@dataclass(slots=True)
class Changed:
    """Connections about which the replay decides otherwise.

    - `rejected_now`: connections that really were accepted and would be rejected.
    - `admitted_now`: those that really were rejected and would be accepted.
    - `later`: accepted connections that would have waited longer.
    """

    rejected_now: int = 0
    admitted_now: int = 0
    later: int = 0


@dataclass(slots=True)
class Summary:
    """The counts of a replay by limit and address: what the limits would have done, and what really happened."""

    replayed: dict[Place, Tally] = field(default_factory=dict)
    recorded: dict[Place, Tally] = field(default_factory=dict)
    changed: dict[Place, Changed] = field(default_factory=dict)
    client_ids: dict[str, str] = field(default_factory=dict)
    unasked: int = 0
    really_delayed: int = 0

    def note(self, client_ids: Mapping[str, str], unasked: int) -> None:
        """Add what is known of a boot as a whole."""
        self.client_ids = {**client_ids, **self.client_ids}
        self.unasked += unasked

    def add(self, attempt: Attempt) -> None:
        """Count an attempt after its replay."""
        replayed, recorded = attempt.replayed, attempt.recorded
        if replayed is None:
            raise ValueError("the attempt was not replayed")
        place = replayed.limit, attempt.address
        if place not in self.replayed:
            self.replayed[place], self.recorded[place], self.changed[place] = Tally(), Tally(), Changed()
        self.replayed[place].add(attempt, replayed)
        self.recorded[place].add(attempt, recorded)
        was_accepted, is_accepted = recorded.outcome is Outcome.ACCEPTED, replayed.outcome is Outcome.ACCEPTED
        self.really_delayed += recorded.at_us > attempt.arrived_us
        changed = self.changed[place]
        changed.rejected_now += was_accepted and replayed.outcome is Outcome.REJECTED
        changed.admitted_now += is_accepted and recorded.outcome is Outcome.REJECTED
        changed.later += was_accepted and is_accepted and replayed.at_us > recorded.at_us

    @property
    def rejected_now(self) -> int:
        return sum(changed.rejected_now for changed in self.changed.values())

    @property
    def admitted_now(self) -> int:
        return sum(changed.admitted_now for changed in self.changed.values())

    @property
    def later(self) -> int:
        return sum(changed.later for changed in self.changed.values())

    @property
    def connections(self) -> int:
        return sum(sum(tally.outcomes.values()) for tally in self.replayed.values())

    def by_limit(self, limits: NamedLimits) -> list[dict[str, Any]]:
        """Return a row for each limit, for all of its clients together. `client_ip` and `client_id` are None."""
        found: dict[tuple[Limit | None, None], tuple[Tally, Tally]] = {}
        for (limit, address), tally in self.replayed.items():
            replayed, recorded = found.setdefault((limit, None), (Tally(), Tally()))
            replayed.merge(tally)
            recorded.merge(self.recorded[limit, address])
        return _sorted(_row(limits, limit, None, None, *tallies) for (limit, _), tallies in found.items())

    def by_client(self, limits: NamedLimits) -> list[dict[str, Any]]:
        """Return a row for each limit and client, most delayed and rejected connections first."""
        return _sorted(
            _row(limits, limit, address, self.client_ids.get(address), tally, self.recorded[limit, address])
            for (limit, address), tally in self.replayed.items()
        )


def _row(
    limits: NamedLimits, limit: Limit | None, address: str | None, client_id: str | None, replayed: Tally, was: Tally
) -> dict[str, Any]:
    return {
        "quota": None if limit is None else limits.name_of(limit),
        "limit": None if limit is None else _shown(limit),
        "client_ip": address,
        "client_id": client_id,
        "connections": sum(replayed.outcomes.values()),
        **replayed.row,
        **{f"was_{name}": value for name, value in was.row.items()},
    }


def _shown(limit: Limit) -> str:
    return limit.key if limit.entity is None else f"{limit.key} of {limit.entity}"


def _sorted(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Sort rows: those with most delayed and rejected connections first, those without a limit last."""
    return sorted(
        rows,
        key=lambda row: (
            row["limit"] is None,
            -(row["delayed"] + row["rejected"] + row["left"]),
            -row["connections"],
            row["limit"] or "",
            row["client_ip"] or "",
        ),
    )


def unknown(summary: Summary) -> Iterator[str]:
    """Yield sentences about what the log cannot tell, as far as it matters for these counts."""
    if summary.rejected_now:
        yield (
            f"{summary.rejected_now:,} connections that really were accepted are rejected in the replay: "
            "the log cannot tell how often their clients would have tried again"
        )
    if summary.later:
        yield (
            f"{summary.later:,} connections are accepted later than they really were: "
            "the log cannot tell which of their clients would have hung up before"
        )
    if summary.admitted_now:
        yield (
            f"{summary.admitted_now:,} connections that really were rejected are accepted in the replay, and stay open "
            "as long as is usual for their address; later attempts of the same clients may be retries"
        )
    if summary.really_delayed:
        yield (
            "clients that waited for a limit in the kernel's queue count from when the broker took their connections: "
            "the log cannot tell when they came, so a replay of weaker limits spreads storms as the real limits did"
        )
    if summary.unasked:
        yield f"{summary.unasked:,} connections are left out: the broker closed them for other reasons than limits"
