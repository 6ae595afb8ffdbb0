"""All figures of a report: the data of the page, and the content of report.json."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from audit_pipeline.report.asking import PublishedTables
from audit_pipeline.report.figures.changes import Changes, changes
from audit_pipeline.report.figures.completeness import Completeness, completeness
from audit_pipeline.report.figures.cost import Cost, cost
from audit_pipeline.report.figures.failures import Failures, failures
from audit_pipeline.report.figures.idle import IdleTopics, idle_topics
from audit_pipeline.report.figures.latency import Latency, latency
from audit_pipeline.report.figures.made_changes import MadeChanges, made_changes
from audit_pipeline.report.figures.mirrors import Mirrors, mirrors
from audit_pipeline.report.figures.moved import Moved, moved
from audit_pipeline.report.figures.objectives import Objectives, objectives
from audit_pipeline.report.figures.overall import Overall, overall
from audit_pipeline.report.figures.recommended import RecommendedLimits, recommended_limits
from audit_pipeline.report.figures.scope import Cluster, Scope, scope_of
from audit_pipeline.report.figures.storms import Storms, storms
from audit_pipeline.report.figures.traffic import Traffic, traffic
from audit_pipeline.report.figures.tried import TriedLimits, tried_limits
from audit_pipeline.report.figures.usage import Usage, usage
from audit_pipeline.report.window import Wanted, Windows

FORMAT = 2


@dataclass(frozen=True, slots=True)
class Subjects:
    """The contents of a report on an audit log that has events, by subject."""

    clusters: tuple[Cluster, ...]
    windows: Windows
    overall: Overall
    completeness: Completeness
    changes: Changes | None
    made_changes: MadeChanges
    storms: Storms
    recommended: RecommendedLimits
    tried: TriedLimits
    usage: Usage
    moved: Moved
    failures: Failures
    traffic: Traffic
    latency: Latency
    objectives: Objectives
    cost: Cost
    idle: IdleTopics
    mirrors: Mirrors


@dataclass(frozen=True, slots=True)
class Report:
    """The content of the report page.

    `results` is the version of the published results. `subjects` is None if the audit log has no event; it names
    clusters by ID. `cluster_names` has the names that the user gave, by cluster ID.
    """

    results: str
    built_us: int
    days: int
    cluster_names: Mapping[str, str]
    subjects: Subjects | None


def report_of(tables: PublishedTables, wanted: Wanted) -> Report:
    """Return the content of the report page.

    Raises BadUseError for a cluster or time without events, OSError if the store fails.
    """
    scope = scope_of(tables, wanted)
    subjects = None if scope is None else _subjects(scope)
    return Report(tables.manifest.version, tables.manifest.built_us, wanted.days, wanted.cluster_names, subjects)


def _subjects(scope: Scope) -> Subjects:
    return Subjects(
        clusters=scope.clusters,
        windows=scope.windows,
        overall=overall(scope),
        completeness=completeness(scope),
        changes=changes(scope),
        made_changes=made_changes(scope),
        storms=storms(scope),
        recommended=recommended_limits(scope),
        tried=tried_limits(scope),
        usage=usage(scope),
        moved=moved(scope),
        failures=failures(scope),
        traffic=traffic(scope),
        latency=latency(scope),
        objectives=objectives(scope),
        cost=cost(scope),
        idle=idle_topics(scope),
        mirrors=mirrors(scope),
    )


def as_json(report: Report, answers: list[dict[str, Any]]) -> str:
    """Return the report as JSON with one line for each subject.

    Ordinary indentation would put each number of a row on its own line, and make the text much longer.
    """
    whole = {"format": FORMAT, "answers": answers, **asdict(report)}
    if whole["subjects"] is not None:
        whole["subjects"] = _Lines(whole["subjects"])
    return f"{_in_lines(whole)}\n"


class _Lines(dict[str, Any]):
    """A part of the JSON with a line for each value."""


def _in_lines(values: Mapping[str, Any]) -> str:
    told = (_in_lines(value) if isinstance(value, _Lines) else json.dumps(value) for value in values.values())
    lines = (f"{json.dumps(name)}: {text}" for name, text in zip(values, told, strict=True))
    return "{\n" + ",\n".join(lines) + "\n}"
