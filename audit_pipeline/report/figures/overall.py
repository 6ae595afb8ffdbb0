"""The traffic of all clusters together, over time: what the tiles of the page are drawn from."""

from dataclasses import dataclass

from audit_pipeline.report.figures.scope import Scope
from audit_pipeline.report.figures.traffic import STEPS


@dataclass(frozen=True, slots=True)
class Step:
    """The requests of the clients of all clusters in a step of time. Bytes are those of requests and responses."""

    at_us: int
    requests: int
    errors: int
    in_bytes: int
    out_bytes: int


@dataclass(frozen=True, slots=True)
class Overall:
    """The steps of the time shown, from the first to the last step with a request."""

    steps: tuple[Step, ...]

    @property
    def requests(self) -> int:
        return sum(step.requests for step in self.steps)

    @property
    def errors(self) -> int:
        return sum(step.errors for step in self.steps)

    @property
    def in_bytes(self) -> int:
        return sum(step.in_bytes for step in self.steps)

    @property
    def out_bytes(self) -> int:
        return sum(step.out_bytes for step in self.steps)


def overall(scope: Scope) -> Overall:
    found = {row["at_us"]: Step(**row) for row in scope.ask(STEPS, cluster_id=None)}
    if not found:
        return Overall(())
    times = range(min(found), max(found) + 1, scope.windows.step_us)
    return Overall(tuple(found.get(at_us, Step(at_us, 0, 0, 0, 0)) for at_us in times))
