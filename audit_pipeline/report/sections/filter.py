"""The filter of the page: its form, and the data that usage.js draws from. Pure. filter.js applies the filter."""

import json

from audit_pipeline.report.figures.moved import Moved
from audit_pipeline.report.figures.report import Subjects
from audit_pipeline.report.markup import Markup, tag
from audit_pipeline.report.window import SECOND_US
from audit_pipeline.report.words import moment, span
from kafka_bytes.printable import printable

MEASURES = ("bytes", "records", "requests", "errors")
_PLACE = "name, or beginning*"


def filter_form(found: Subjects | None) -> Markup | None:
    """Return the form of the page's filter, which filter.js shows: without JavaScript there is no filter."""
    if found is None:
        return None
    clusters = sorted(cluster.cluster_id for cluster in found.clusters)
    every = tag("option", "all", value="")
    chosen = tag("select", every, [tag("option", each, value=each) for each in clusters], name="cluster")
    # The first measure is no filter, and is not in the address of the page.
    values = ("", *MEASURES[1:])
    options = [tag("option", each, value=value) for each, value in zip(MEASURES, values, strict=True)]
    return tag(
        "form",
        tag("label", "Cluster ", chosen) if len(clusters) > 1 else None,
        _name("client"),
        _name("topic"),
        _time("from", found.windows.shown.from_us),
        _time("to", found.windows.shown.to_us),
        tag("label", "Measure ", tag("select", options, name="measure")),
        tag("button", "Show all", type="reset"),
        tag("output", aria_live="polite"),
        id="filter",
        aria_label="Filter of the page",
        hidden=True,
        data_whole=f"they count all clusters, clients and topics, {span(found.windows.shown)}",
    )


def _name(kind: str) -> Markup:
    """Return the field for a name. filter.js adds the known names as suggestions."""
    field = tag("input", name=kind, list=f"{kind}s", autocomplete="off", spellcheck="false", placeholder=_PLACE)
    return tag("label", f"{kind.capitalize()} ", field, tag("datalist", id=f"{kind}s"))


def _time(kind: str, at_us: int) -> Markup:
    """Return the field for a time, written as for the commands."""
    example = moment(at_us).replace(" ", "T")
    return tag("label", f"{kind.capitalize()} (UTC) ", tag("input", name=kind, autocomplete="off", placeholder=example))


def moved_data(found: Subjects | None) -> Markup | None:
    """Return the element with the data of the filter: names, and one flat list of the numbers of all rows.

    It runs no code.
    """
    if found is None:
        return None
    moved, shown = found.moved, found.windows.shown
    data = {
        "begin": moved.begin_us // SECOND_US,
        "step": moved.step_us // SECOND_US,
        "steps": moved.steps,
        "from": shown.from_us / SECOND_US,
        "to": shown.to_us / SECOND_US,
        **_names(moved),
        "folded": moved.folded,
        "rows": [number for row in moved.rows for number in row],
    }
    # An end tag in a name would end the element.
    text = json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")
    return tag("script", Markup(text), type="application/json", id="moved")


def _names(moved: Moved) -> dict[str, list[str]]:
    return {kind: list(map(printable, getattr(moved, kind))) for kind in ("clusters", "clients", "topics")}
