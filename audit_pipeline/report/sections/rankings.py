"""The names with the most traffic, as bars with their numbers. Pure."""

from audit_pipeline.report.figures.report import Subjects
from audit_pipeline.report.figures.traffic import Ranked, Ranking
from audit_pipeline.report.markup import Child, Markup, tag
from audit_pipeline.report.sections.parts import Clusters, Column, bar, nothing, section, table
from audit_pipeline.report.words import about, number_of, percent, size

_TITLES = {
    "principal": ("Principals", "By bytes of requests and responses"),
    "topic": ("Topics", "By bytes of record batches, produced and fetched"),
    "client_id": ("Clients", "Client ids, by bytes of requests and responses"),
    "address_group": ("Networks", "Of addresses, by bytes of requests and responses"),
    "api": ("APIs", "By requests"),
}


def rankings_section(found: Subjects) -> Markup:
    made = [_ranking(ranking, len(found.clusters)) for ranking in found.traffic.rankings]
    return section(
        "top",
        "Principals, topics, clients and networks with the most traffic",
        tag("div", made, class_="charts rankings"),
    )


def _ranking(ranking: Ranking, known: int) -> Markup:
    title, by = _TITLES[ranking.dimension]
    if not ranking.rows:
        return tag("div", tag("h3", title), nothing("None in this time."))
    clusters = Clusters.of((row.cluster_id for row in ranking.rows), known)
    is_by_bytes = ranking.measure != "requests"
    values = [row.in_bytes + row.out_bytes if is_by_bytes else row.requests for row in ranking.rows]
    named = [value for row, value in zip(ranking.rows, values, strict=True) if row.name is not None]
    whole, largest = max(1, sum(values)), max(1, *named)
    columns = (
        Column("name"),
        Column("in", is_number=True),
        Column("out", is_number=True),
        Column("requests", is_number=True),
        Column("share", is_number=True),
    )
    rows = [
        (
            [
                _name(row, clusters),
                bar(value / largest) if row.name is not None else None,
            ],
            size(row.in_bytes),
            size(row.out_bytes),
            about(row.requests),
            percent(value / whole),
        )
        for row, value in zip(ranking.rows, values, strict=True)
    ]
    return tag("div", tag("h3", title), table([by, clusters.caption], columns, rows), class_="ranking")


def _name(row: Ranked, clusters: Clusters) -> Child:
    if row.name is None:
        return tag("em", f"{number_of(row.names, 'other')} together")
    return clusters.name(row.name, row.cluster_id)
