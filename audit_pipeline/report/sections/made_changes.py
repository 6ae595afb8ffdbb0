"""Who changed what, from where, with what outcome: a list to search and sort. Pure."""

from audit_pipeline.report.figures.made_changes import MadeChange, MadeChanges
from audit_pipeline.report.figures.report import Subjects
from audit_pipeline.report.markup import Child, Markup, named, tag
from audit_pipeline.report.sections.parts import (
    Cell,
    Clusters,
    Column,
    Entry,
    Facets,
    Followed,
    left_out,
    mark,
    nothing,
    paragraph,
    section,
    table,
    table_filter,
)
from audit_pipeline.report.words import count, moment, number_of
from audit_pipeline.results.outcomes.error_names import SUCCEEDED, UNKNOWN_OUTCOME

TABLE_ID = "changes-list"


def made_changes_section(found: Subjects) -> Markup:
    made = found.made_changes
    if not made.rows:
        own = f" Sluicegate's own clients made {count(made.own)}." if made.own else ""
        return section("changes", "Changes", nothing(f"No client has asked for a change in this time.{own}"))
    columns = (
        Column("time (UTC)", is_whole=True, order="descending"),
        Column("client"),
        Column("from"),
        Column("what"),
        Column("key"),
        Column("before"),
        Column("after"),
        Column("outcome"),
    )
    clusters = Clusters.of((change.cluster_id for change in made.rows), len(found.clusters))
    listing = table(
        ["Changes, the newest first", clusters.caption],
        columns,
        [_row(change, clusters) for change in made.rows],
        table_id=TABLE_ID,
        followed=Followed(("cluster", "client", "topic", "time"), [_facets(change) for change in made.rows]),
    )
    more = left_out(made.told_rows - len(made.rows), "older changes")
    chosen = table_filter("Row has ", TABLE_ID, len(made.rows), of_rows=True)
    return section("changes", "Changes", paragraph(summary(made)), chosen, listing, more)


def _facets(change: MadeChange) -> Facets:
    topic = change.resource_name if change.resource_type == "topic" else None
    return Facets(change.cluster_id, change.client_id or "(none)", topic, change.at_us, change.at_us + 1)


def summary(made: MadeChanges) -> str:
    parts = [f"{count(made.succeeded)} succeeded"]
    if made.failed:
        parts.append(f"{count(made.failed)} failed")
    if made.dry_runs:
        parts.append(f"{count(made.dry_runs)} asked only whether they are valid")
    if made.unknown:
        parts.append(f"{count(made.unknown)} with an unknown outcome")
    own = f" Sluicegate's own clients, such as the operator, made {count(made.own)} more." if made.own else ""
    return f"Clients asked for {number_of(made.changes, 'change')}: {', '.join(parts)}.{own}"


def _row(change: MadeChange, clusters: Clusters) -> tuple[Entry, ...]:
    who = clusters.name(change.client_id or change.principal, change.cluster_id)
    is_unknown = change.outcome.startswith(UNKNOWN_OUTCOME)
    tone = "good" if change.outcome == SUCCEEDED else "plain" if is_unknown else "bad"
    return (
        Cell(moment(change.at_us, seconds=True), change.at_us),
        Cell([who, tag("span", named(change.principal), class_="cluster")], change.client_id or change.principal),
        named(change.client_ip),
        _what(change),
        named(change.key) if change.key is not None else None,
        named(change.old_value) if change.old_value is not None else None,
        named(change.new_value) if change.new_value is not None else None,
        [mark(change.outcome, tone), " (dry run)" if change.is_dry_run else None],
    )


def _what(change: MadeChange) -> Child:
    if change.further is not None:
        of = [" of ", named(change.resource_name)] if change.resource_name is not None else None
        return [f"{change.api}: {count(change.further)} more", of]
    name = [" ", named(change.resource_name)] if change.resource_name is not None else None
    return [f"{change.operation} {change.resource_type}", name]
