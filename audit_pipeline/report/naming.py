"""Names of clusters in place of their IDs, for readers of the page. Pure."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any

from audit_pipeline.report.figures.moved import Moved
from audit_pipeline.report.figures.report import Report, Subjects


def with_cluster_names(report: Report, names: Mapping[str, str]) -> Report:
    """Return the report with the names of clusters in place of IDs.

    An ID stays if its cluster has no name, and is added to a name of several clusters.
    """
    if report.subjects is None or not names:
        return report
    times = Counter(names.values())
    shown = {key: name if times[name] == 1 else f"{name} ({key})" for key, name in names.items()}
    subjects: Subjects = _renamed(report.subjects, shown)
    return replace(report, subjects=subjects)


def _renamed(found: Any, names: Mapping[str, str]) -> Any:
    """Return figures in which each field cluster_id has the name of the cluster."""
    if isinstance(found, Moved):
        return replace(found, clusters=tuple(names.get(each, each) for each in found.clusters))
    if is_dataclass(found) and not isinstance(found, type):
        values: dict[str, Any] = {each.name: getattr(found, each.name) for each in fields(found)}
        made = {name: _renamed(value, names) for name, value in values.items()}
        if values.get("cluster_id") is not None:
            made["cluster_id"] = names.get(values["cluster_id"], values["cluster_id"])
        return replace(found, **made)
    if type(found) is tuple:
        return tuple(_renamed(each, names) for each in found)
    return found
