"""Which client moved how much on which topic, as a table to sort. Pure."""

from audit_pipeline.report.figures.report import Subjects
from audit_pipeline.report.figures.usage import PAIRS_MAX, Pair
from audit_pipeline.report.markup import Child, Markup, named
from audit_pipeline.report.sections.moving import heat_map, stacked
from audit_pipeline.report.sections.parts import (
    Cell,
    Clusters,
    Column,
    Entry,
    Facets,
    Followed,
    bar,
    left_out,
    nothing,
    paragraph,
    section,
    table,
)
from audit_pipeline.report.window import WINDOW_US
from audit_pipeline.report.words import count, moment, size
from audit_pipeline.results.tables import OWN_CLIENTS

_TITLE = "Clients and their topics"


def usage_section(found: Subjects) -> Markup:
    usage = found.usage
    if not usage.pairs:
        return section("usage", _TITLE, nothing("No client produced or fetched in this time."))
    columns = (
        Column("client"),
        Column("topic"),
        Column("produced", is_number=True),
        Column("fetched", is_number=True),
        Column("records", is_number=True),
        Column("errors", is_number=True),
        Column("from (UTC)", is_whole=True),
        Column("to (UTC)", is_whole=True),
        Column("busiest (UTC)", is_whole=True),
    )
    clusters = Clusters.of((pair.cluster_id for pair in usage.pairs), len(found.clusters))
    largest = max(1, usage.pairs[0].moved_bytes)
    rows = [_row(pair, clusters, largest) for pair in usage.pairs]
    text = paragraph(
        "Record batches as they were sent, compressed. Times are starts of ten minutes. Clients of Sluicegate itself, "
        f"whose IDs begin with {OWN_CLIENTS}, are left out."
    )
    caption: Child = [f"At most {PAIRS_MAX} pairs, those that moved most first", clusters.caption]
    followed = Followed(("cluster", "client", "topic", "time"), [_facets(pair) for pair in usage.pairs])
    listing = table(caption, columns, rows, table_id="usage-list", followed=followed)
    drawn = (stacked(found.moved, found.windows.shown), heat_map(found.moved)) if usage.moved_bytes else ()
    return section("usage", _TITLE, text, drawn, listing, left_out(usage.total - len(rows), "pairs", "usage-more"))


def _facets(pair: Pair) -> Facets:
    return Facets(pair.cluster_id, pair.client_id, pair.topic, pair.first_us, pair.last_us + WINDOW_US)


def _row(pair: Pair, clusters: Clusters, largest: int) -> tuple[Entry, ...]:
    return (
        [clusters.name(pair.client_id, pair.cluster_id), bar(pair.moved_bytes / largest)],
        named(pair.topic),
        Cell(size(pair.produced_bytes), pair.produced_bytes),
        Cell(size(pair.fetched_bytes), pair.fetched_bytes),
        Cell("" if pair.records is None else count(pair.records), pair.records or 0),
        Cell(count(pair.errors), pair.errors),
        moment(pair.first_us),
        moment(pair.last_us),
        moment(pair.busiest_us),
    )
