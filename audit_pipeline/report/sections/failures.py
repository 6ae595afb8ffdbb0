"""What broke, and which errors are steps of the protocol. Pure."""

from collections.abc import Sequence

from audit_pipeline.report.figures.failures import Failure
from audit_pipeline.report.figures.report import Subjects
from audit_pipeline.report.markup import Markup, named, tag
from audit_pipeline.report.sections.parts import (
    Cell,
    Clusters,
    Column,
    Facets,
    Followed,
    left_out,
    nothing,
    paragraph,
    section,
    table,
)
from audit_pipeline.report.window import WINDOW_US
from audit_pipeline.report.words import count, moment, number_of

_TITLE = "Failures"


def failures_section(found: Subjects) -> Markup:
    failures = found.failures
    text = paragraph(
        "Errors in answers to clients, and requests without an answer. An error of a topic counts the partitions of "
        "requests that got it. Times are starts of ten minutes."
    )
    broken = (
        _table("What broke", failures.broken, found, "failure-list")
        if failures.broken
        else nothing("No request of a client failed in this time.")
    )
    steps = None
    if failures.expected:
        what = number_of(failures.expected_total, "error")
        title = f"{what} by which the protocol tells a client what to do next: nothing is broken"
        steps = _table(title, failures.expected, found, "step-list")
    more = left_out(failures.broken_rows - len(failures.broken), "kinds of failures")
    own = None
    if failures.own:
        told = tag("summary", f"Sluicegate's own clients: {number_of(failures.own_total, 'error')}")
        own = tag(
            "details", told, _table("Errors of Sluicegate's own clients", failures.own, found, "own-failure-list")
        )
    return section("failures", _TITLE, text, broken, more, steps, own)


def _table(title: str, rows: Sequence[Failure], found: Subjects, table_id: str) -> Markup:
    columns = (
        Column("error"),
        Column("API"),
        Column("client"),
        Column("topic"),
        Column("number", is_number=True, order="descending"),
        Column("from (UTC)", is_whole=True),
        Column("to (UTC)", is_whole=True),
    )
    clusters = Clusters.of((row.cluster_id for row in rows), len(found.clusters))
    return table(
        [title, clusters.caption],
        columns,
        [
            (
                row.error,
                row.api,
                clusters.name(row.client_id, row.cluster_id),
                named(row.topic) if row.topic is not None else "",
                Cell(count(row.failures), row.failures),
                moment(row.first_us),
                moment(row.last_us),
            )
            for row in rows
        ],
        table_id=table_id,
        is_tall=True,
        followed=Followed(
            ("cluster", "client", "topic", "time"),
            [Facets(row.cluster_id, row.client_id, row.topic, row.first_us, row.last_us + WINDOW_US) for row in rows],
        ),
    )
