"""The whole page: a single file, in which no name can run code. Pure except for reading its own CSS and JS."""

import base64
import hashlib
from collections.abc import Sequence
from functools import cache
from importlib.resources import files

from audit_pipeline.report.answers.answer import Answer
from audit_pipeline.report.figures.report import Report, Subjects
from audit_pipeline.report.markup import Child, Markup, named, tag, together
from audit_pipeline.report.sections.completeness import completeness_section, quarantine_section
from audit_pipeline.report.sections.cost import cost_section
from audit_pipeline.report.sections.failures import failures_section
from audit_pipeline.report.sections.filter import filter_form, moved_data
from audit_pipeline.report.sections.glance import glance
from audit_pipeline.report.sections.idle import idle_section
from audit_pipeline.report.sections.made_changes import made_changes_section
from audit_pipeline.report.sections.mirrors import mirrors_section
from audit_pipeline.report.sections.objectives import objectives_section
from audit_pipeline.report.sections.over_time import latency_section, traffic_section
from audit_pipeline.report.sections.rankings import rankings_section
from audit_pipeline.report.sections.recommended import recommended_section
from audit_pipeline.report.sections.storms import storms_section
from audit_pipeline.report.sections.tiles import tiles
from audit_pipeline.report.sections.tried import tried_section
from audit_pipeline.report.sections.usage import usage_section
from audit_pipeline.report.words import moment_utc, span

_SECTIONS = (
    ("usage", "Clients", usage_section),
    ("failures", "Failures", failures_section),
    ("traffic", "Traffic", traffic_section),
    ("latency", "Latency", latency_section),
    ("top", "Top", rankings_section),
    ("changes", "Changes", made_changes_section),
    ("storms", "Storms", storms_section),
    ("recommended", "Recommended limits", recommended_section),
    ("tried", "What if", tried_section),
    ("objectives", "Objectives", objectives_section),
    ("cost", "Cost", cost_section),
    ("idle", "Idle topics", idle_section),
    ("mirrors", "Mirrors", mirrors_section),
    ("completeness", "Completeness", completeness_section),
    ("quarantine", "Quarantine", quarantine_section),
)


_SCRIPTS = ("page.js", "usage.js", "filter.js")


def page(report: Report, answers: Sequence[Answer]) -> str:
    style, script = _text("page.css"), "".join(map(_text, _SCRIPTS))
    # Only these two are allowed: even if a name got in as HTML, nothing in it would be run, loaded or styled.
    policy = (
        f"default-src 'none'; style-src '{_digest(style)}'; script-src '{_digest(script)}'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=policy),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("meta", name="robots", content="noindex"),
        tag("link", rel="icon", href="data:,"),
        tag("title", "Audit report", f", {span(report.subjects.windows.shown)}" if report.subjects else None),
        tag("style", Markup(style)),
    )
    body = tag(
        "body",
        _header(report),
        tag("main", tiles(report.subjects), glance(answers), filter_form(report.subjects), _sections(report.subjects)),
        _footer(report),
        moved_data(report.subjects),
        tag("script", Markup(script)),
    )
    return f"<!doctype html>\n{tag('html', head, body, lang='en')}\n"


def _header(report: Report) -> Markup:
    about: Child = None
    links: Child = None
    if report.subjects is not None:
        clusters = [each.cluster_id for each in report.subjects.clusters]
        about = tag(
            "p",
            [[", " if number else None, named(cluster)] for number, cluster in enumerate(clusters)],
            f": {span(report.subjects.windows.shown)}",
        )
        links = tag(
            "nav", [tag("a", title, href=f"#{anchor}") for anchor, title, _ in _SECTIONS], aria_label="Sections"
        )
    switch = tag("button", "Dark", type="button", id="scheme", hidden=True)
    return tag("header", tag("div", tag("h1", "Audit report"), switch, class_="title"), about, links)


def _sections(found: Subjects | None) -> Markup | None:
    return together([make(found) for _, _, make in _SECTIONS]) if found else None


def _footer(report: Report) -> Markup:
    return tag(
        "footer",
        tag("p", f"Made from results {report.results}, built {moment_utc(report.built_us)}. All times are UTC."),
        tag(
            "p",
            "The JSON file next to this page has all its numbers; the folder of the results has the tables "
            "behind them.",
        ),
    )


@cache
def _text(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
