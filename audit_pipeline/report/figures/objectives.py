"""Objectives (SLOs): how much of each error budget is left, and the day that used most of it."""

from dataclasses import dataclass

from audit_pipeline.reading.published import OBJECTIVES
from audit_pipeline.report.figures.scope import Scope

OBJECTIVES_MAX = 50

_BUDGETS = """
SELECT cluster_id, objective, strftime(from_date, '%Y-%m-%d') AS from_day, strftime(to_date, '%Y-%m-%d') AS to_day,
  requests, bad, target, spent,
  (SELECT arg_max(strftime(event_date, '%Y-%m-%d'), (burn, event_date)) FROM objectives WHERE {same} AND burn > 0)
    AS worst_day,
  (SELECT max(burn) FROM objectives WHERE {same} AND burn > 0) AS worst_burn
FROM error_budget AS budget ORDER BY spent DESC, objective, cluster_id
""".format(
    same="objectives.cluster_id = budget.cluster_id AND objectives.objective = budget.objective "
    "AND objectives.event_date BETWEEN budget.from_date AND budget.to_date"
)


@dataclass(frozen=True, slots=True)
class Budget:
    """The error budget of an objective over some days.

    `spent` is the used share of the budget: above 1 the objective is missed. `worst_day` used as much as is planned for
    `worst_burn` days.
    """

    cluster_id: str
    objective: str
    from_day: str
    to_day: str
    requests: int
    bad: int
    target: float
    spent: float
    worst_day: str | None
    worst_burn: float | None

    @property
    def good_share(self) -> float:
        return 1 - self.bad / self.requests if self.requests else 1.0


@dataclass(frozen=True, slots=True)
class Objectives:
    """The objectives, those that have spent most first. `measured` of the `total` had requests.

    `without_requests` names objectives without a result, including those without a budget.
    """

    budgets: tuple[Budget, ...]
    total: int
    measured: int
    without_requests: tuple[str, ...] = ()


def objectives(scope: Scope) -> Objectives:
    found = [Budget(**row) for row in scope.ask(_BUDGETS)]
    met = {budget.objective for budget in found if budget.requests}
    asked = [*scope.tables.manifest.summary.get(OBJECTIVES, ()), *(budget.objective for budget in found)]
    without = tuple(dict.fromkeys(name for name in asked if name not in met))
    measured = sum(budget.requests > 0 for budget in found)
    return Objectives(tuple(found[:OBJECTIVES_MAX]), len(found), measured, without)
