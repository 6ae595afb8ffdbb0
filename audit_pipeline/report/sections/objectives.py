"""Objectives and what is left of their error budgets. Pure."""

from collections.abc import Sequence

from audit_pipeline.report.figures.objectives import Budget, Objectives
from audit_pipeline.report.figures.report import Subjects
from audit_pipeline.report.markup import Child, Markup, named
from audit_pipeline.report.sections.parts import (
    Clusters,
    Column,
    Facets,
    Followed,
    bar,
    left_out,
    mark,
    nothing,
    paragraph,
    section,
    table,
)
from audit_pipeline.report.words import about, percent, three_digits

_NAMES_MAX = 10


def objectives_section(found: Subjects) -> Markup:
    objectives = found.objectives
    if not objectives.budgets and not objectives.without_requests:
        quiet = nothing("No objectives were configured: `build --objectives FILE` configures them.")
        return section("objectives", "Objectives and error budgets", quiet)
    broken = sum(budget.spent > 1 for budget in objectives.budgets)
    text = paragraph(
        _verdict(objectives, broken),
        "The budget is the share of requests that may fail or be too slow. An objective is broken if more than "
        "the whole budget is spent.",
    )
    unknown = _unknown(objectives.without_requests)
    if not objectives.budgets:
        return section("objectives", "Objectives and error budgets", unknown)
    columns = (
        Column("objective"),
        Column("verdict"),
        Column("budget spent", is_number=True),
        Column("good", is_number=True),
        Column("target", is_number=True),
        Column("requests", is_number=True),
        Column("bad", is_number=True),
        Column("worst day"),
        Column("window"),
    )
    clusters = Clusters.of((budget.cluster_id for budget in objectives.budgets), len(found.clusters))
    rows = [_row(budget, clusters) for budget in objectives.budgets]
    followed = Followed(("cluster",), [Facets(budget.cluster_id) for budget in objectives.budgets])
    listing = table(["Error budgets, the most spent first", clusters.caption], columns, rows, followed=followed)
    more = left_out(objectives.total - len(rows), "objectives")
    return section("objectives", "Objectives and error budgets", text, unknown, listing, more)


def _verdict(objectives: Objectives, broken: int) -> str:
    if not objectives.measured:
        return ""
    return f"{broken} of {objectives.measured} broken. " if broken else f"All {objectives.measured} kept. "


def _unknown(names: Sequence[str]) -> Markup | None:
    """List objectives without requests: a mistyped name also has none, and is neither kept nor broken."""
    if not names:
        return None
    told = [[", " if number else "", named(name)] for number, name in enumerate(names[:_NAMES_MAX])]
    more = f", and {len(names) - _NAMES_MAX} more" if len(names) > _NAMES_MAX else ""
    return paragraph(f"{len(names)} had no requests; check that the names in them exist: ", told, more, ".")


def _row(budget: Budget, clusters: Clusters) -> tuple[Child, ...]:
    is_broken = budget.spent > 1
    worst = None
    if budget.worst_day is not None and budget.worst_burn is not None:
        worst = f"{budget.worst_day}: {three_digits(budget.worst_burn)} days' budget"
    return (
        [
            clusters.name(budget.objective, budget.cluster_id),
            bar(budget.spent, f"fill {'fill-1' if is_broken else 'fill-0'}"),
        ],
        mark("broken", "bad") if is_broken else mark("kept", "good") if budget.requests else "no requests",
        percent(budget.spent),
        percent(budget.good_share) if budget.requests else "",
        percent(budget.target),
        about(budget.requests),
        about(budget.bad),
        worst,
        f"{budget.from_day} to {budget.to_day}",
    )
