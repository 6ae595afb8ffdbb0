"""What-if on the demo's own audit log: whom a limit would have delayed, and whether the replay is the log. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from demo.checks import Expectations

WAITS_OF_A_MESSAGE: Final = 4


@dataclass(frozen=True, slots=True)
class TriedLimit:
    """The effect that a limit would have had on the connections of a storm that no limit held, over all clients.

    `delayed` of the `connections` would have waited, 99 % of them at most `p99_ms`, and `rejected` been closed.
    """

    quota: str
    connections: int
    delayed: int
    p99_ms: float | None
    rejected: int


@dataclass(frozen=True, slots=True)
class Tried:
    """The limits tried on the storm, and the replay of the whole log under the limits that were in force.

    `compared` decisions were compared with the log, and `different` of them are others. The brokers themselves have
    moved adaptive rates `moves` times.
    """

    limits: tuple[TriedLimit, ...]
    delayed_clients: int
    compared: int
    different: int
    moves: int

    @property
    def sentences(self) -> list[str]:
        found = [
            f"what if: {limit.quota} would have delayed {limit.delayed:,} of the {limit.connections:,} connections "
            f"that it meets in the storm without a limit"
            + ("" if limit.p99_ms is None else f", 99 % of them by at most {limit.p99_ms / 1000:,.1f} s")
            + f", and rejected {limit.rejected:,}"
            for limit in self.limits
        ]
        return [
            *found,
            f"they would have delayed or rejected connections of {self.delayed_clients} addresses",
            f"the replay of the whole log under the limits that were in force: {self.compared - self.different:,} of "
            f"{self.compared:,} decisions are those of the log, at their times; the brokers themselves have moved the "
            f"adaptive rate {self.moves:,} times",
        ]


def tried(of_storm: Mapping[str, Any], in_force: Mapping[str, Any]) -> Tried:
    """Read the JSON of `what-if` of the storm, and that of `what-if --in-force` of the log."""
    limits = tuple(
        TriedLimit(row["quota"], row["connections"], row["delayed"], row["delay_p99_ms"], row["rejected"])
        for row in of_storm["limits"]
        if row["quota"] is not None
    )
    clients = {row["client_ip"] for row in of_storm["clients"] if row["limit"] is not None}
    agreement = in_force["agreement"]
    return Tried(limits, len(clients), agreement["compared"], agreement["different"], agreement["moves"])


def expect_tried(found: Tried, admitted: int, expectations: Expectations) -> None:
    """Expect that the replay is the log, and that the limits would have held the storm.

    `admitted` connections of clients were accepted in all storms.
    """
    expectations.expect(
        not found.different,
        f"{found.different} of {found.compared} decisions of the replay under the limits in force are not those of the "
        "log: `sluicegate what-if --in-force` names them",
    )
    expectations.expect(
        found.compared >= admitted,
        f"{admitted} connections were admitted, but the replay has only {found.compared} of them",
    )
    expectations.expect(bool(found.limits), "what-if says that the limits would have delayed no connection of a storm")


def expect_adapted(found: Tried, client_p99_ms: float, objective_ms: int, expectations: Expectations) -> None:
    """Expect that the adaptive rate moved, if the storm has missed its objective.

    A message also takes the time of its client, and of two brokers: WAITS_OF_A_MESSAGE times the objective are its
    limit.
    """
    longest_ms = WAITS_OF_A_MESSAGE * objective_ms
    expectations.expect(
        found.moves > 0 or client_p99_ms <= longest_ms,
        f"the log has no move of the adaptive rate, but 1 % of the client's messages took {client_p99_ms:.1f} ms or "
        f"longer during its storm; an objective of {objective_ms} ms should keep them below {longest_ms} ms",
    )
