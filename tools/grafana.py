"""Dashboards in Grafana's JSON model (schemaVersion 39): rows of panels with computed positions. Knows no metric."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]

COLUMNS = 24
_DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
_PALETTE = {"mode": "palette-classic"}
_ALL = ".+"
"""Not `.*`, which also matches series without the label: these belong to no cluster."""


@dataclass(frozen=True, slots=True)
class Query:
    expression: str
    legend: str = ""


@dataclass(frozen=True, slots=True)
class Panel:
    """A panel of Grafana with lines over time.

    `unit` is one of Grafana's: short, s, ms, bytes, Bps, percentunit, reqps, ops. `width` is in columns.
    """

    title: str
    about: str
    queries: Sequence[Query]
    unit: str = "short"
    width: int = 8
    height: int = 7
    stacked: bool = False

    def panel(self) -> Json:
        custom: Json = {"lineWidth": 1, "fillOpacity": 25 if self.stacked else 8, "showPoints": "never"}
        if self.stacked:
            custom["stacking"] = {"mode": "normal", "group": "A"}
        return {
            "type": "timeseries",
            "fieldConfig": {
                "defaults": {"unit": self.unit, "min": 0, "color": _PALETTE, "custom": custom},
                "overrides": [],
            },
            "options": {
                "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True},
                "tooltip": {"mode": "multi", "sort": "desc"},
            },
        }


@dataclass(frozen=True, slots=True)
class Stat:
    """A panel of Grafana with one number.

    Values from `bad` on are red; with `good_from` instead, values below it are red.
    """

    title: str
    about: str
    queries: Sequence[Query]
    unit: str = "short"
    width: int = 4
    height: int = 3
    bad: float | None = None
    good_from: float | None = None

    def panel(self) -> Json:
        steps: list[Json] = [{"color": "green", "value": None}]
        if self.bad is not None:
            steps.append({"color": "red", "value": self.bad})
        if self.good_from is not None:
            steps = [{"color": "red", "value": None}, {"color": "green", "value": self.good_from}]
        return {
            "type": "stat",
            "fieldConfig": {
                "defaults": {
                    "unit": self.unit,
                    "color": {"mode": "thresholds"},
                    "thresholds": {"mode": "absolute", "steps": steps},
                },
                "overrides": [],
            },
            "options": {
                "colorMode": "value",
                "graphMode": "none",
                "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
            },
        }


@dataclass(frozen=True, slots=True)
class Row:
    title: str
    panels: Sequence[Panel | Stat]


@dataclass(frozen=True, slots=True)
class Dashboard:
    """A dashboard of Grafana. `variables` are labels that narrow every query, each with a query for its values."""

    uid: str
    title: str
    about: str
    variables: Sequence[tuple[str, str]]
    rows: Sequence[Row]

    def model(self) -> Json:
        return {
            "uid": self.uid,
            "title": self.title,
            "description": self.about,
            "tags": ["sluicegate", "kafka"],
            "schemaVersion": 39,
            "version": 1,
            "editable": True,
            "graphTooltip": 1,
            "refresh": "30s",
            "time": {"from": "now-1h", "to": "now"},
            "timezone": "browser",
            "templating": {"list": [_DATASOURCES, *(_variable(*each) for each in self.variables)]},
            "annotations": {"list": []},
            "links": [{"type": "dashboards", "title": "Sluicegate", "tags": ["sluicegate"], "asDropdown": True}],
            "panels": _laid_out(self.rows),
        }


_DATASOURCES = {"name": "datasource", "label": "Prometheus", "type": "datasource", "query": "prometheus"}


def _variable(name: str, query: str) -> Json:
    return {
        "name": name,
        "label": name,
        "type": "query",
        "datasource": _DATASOURCE,
        "definition": query,
        "query": {"query": query, "refId": f"values-of-{name}"},
        "refresh": 2,
        "sort": 1,
        "includeAll": True,
        "allValue": _ALL,
        "multi": True,
        "current": {"text": ["All"], "value": ["$__all"]},
    }


def _laid_out(rows: Sequence[Row]) -> list[Json]:
    panels: list[Json] = []
    y = 0
    for row in rows:
        place = {"x": 0, "y": y, "w": COLUMNS, "h": 1}
        panels.append(
            {
                "id": len(panels) + 1,
                "type": "row",
                "title": row.title,
                "collapsed": False,
                "gridPos": place,
                "panels": [],
            }
        )
        x, y, line = 0, y + 1, 0
        for panel in row.panels:
            if x + panel.width > COLUMNS:
                x, y, line = 0, y + line, 0
            panels.append(_placed(panel, len(panels) + 1, {"x": x, "y": y, "w": panel.width, "h": panel.height}))
            x, line = x + panel.width, max(line, panel.height)
        y += line
    return panels


def _placed(panel: Panel | Stat, number: int, place: Json) -> Json:
    targets = [
        {
            "refId": chr(ord("A") + index),
            "datasource": _DATASOURCE,
            "expr": query.expression,
            "legendFormat": query.legend or "__auto",
        }
        for index, query in enumerate(panel.queries)
    ]
    return {
        "id": number,
        "title": panel.title,
        "description": panel.about,
        "datasource": _DATASOURCE,
        "gridPos": place,
        "targets": targets,
        **panel.panel(),
    }
