"""A dashboard's queries as Grafana sends them: those of each panel, with the variables filled in."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parents[3] / "charts" / "sluicegate" / "dashboards"

Json = dict[str, Any]
_LABEL_VALUES = re.compile(r"label_values\((.+), (\w+)\)")


@dataclass(frozen=True, slots=True)
class DashboardQuery:
    """One query of a dashboard, with all variables filled in."""

    dashboard: str
    panel: str
    expression: str
    legend: str

    def __str__(self) -> str:
        return f"{self.dashboard} / {self.panel}: {self.expression}"


def read_dashboards() -> list[Json]:
    return [json.loads(path.read_text(encoding="utf-8")) for path in sorted(FOLDER.glob("*.json"))]


def panels(dashboard: Json) -> list[Json]:
    """Panels without the titles of rows."""
    return [panel for panel in dashboard["panels"] if panel["type"] != "row"]


def queries(dashboard: Json, rate_interval: str) -> Iterator[DashboardQuery]:
    """Queries of panels, and of variables' values (`label_values`), with All chosen for each variable."""
    for variable in dashboard["templating"]["list"]:
        if found := _LABEL_VALUES.fullmatch(variable.get("definition", "")):
            expression = f"group by ({found[2]}) ({found[1]})"
            yield DashboardQuery(
                dashboard["title"], f"variable {variable['name']}", filled_in(dashboard, expression, rate_interval), ""
            )
    for panel in panels(dashboard):
        for target in panel["targets"]:
            expression = filled_in(dashboard, target["expr"], rate_interval)
            yield DashboardQuery(dashboard["title"], panel["title"], expression, target["legendFormat"])


def filled_in(dashboard: Json, expression: str, rate_interval: str) -> str:
    """The expression with its variables filled in.

    Raises AssertionError if it uses a variable that the dashboard does not have.
    """
    known = {each["name"]: each["allValue"] for each in dashboard["templating"]["list"] if "allValue" in each}
    known["__rate_interval"] = rate_interval
    for name, value in known.items():
        expression = expression.replace(f"${name}", value)
    assert "$" not in expression, f"{dashboard['title']}: {expression} has a variable that is not there"
    return expression


def legend(form: str, labels: Mapping[str, str]) -> str:
    """The text that Grafana writes beside a line."""
    if form == "__auto":
        return " ".join(f"{name}={value}" for name, value in labels.items() if name != "__name__") or "value"
    return re.sub(r"\{\{(\w+)\}\}", lambda name: labels.get(name[1], ""), form)
