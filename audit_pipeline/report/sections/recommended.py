"""Recommended limits: their rates, reasons, and the clients that they would have delayed or rejected. Pure."""

from audit_pipeline.report.figures.recommended import RecommendedLimit, TriedClient, TriedPart
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
)
from audit_pipeline.report.words import count, latency, moment, number_of

_TITLE = "Recommended limits"


def recommended_section(found: Subjects) -> Markup:
    recommended = found.recommended
    if not recommended.limits:
        return section("recommended", _TITLE, nothing("The results have no connection of a client."))
    clusters = Clusters.of((limit.cluster_id for limit in recommended.limits), len(found.clusters))
    first = recommended.limits[0]
    text = paragraph(
        f"Limits on new connections that {first.from_date} to {first.to_date} suggest, on each broker, with the "
        f"strategy {first.strategy}. The rate of a listener is the smallest that delays no usual connection by more "
        "than 2 s. The rate of addresses is the smallest that rejects no usual connection. `sluicegate recommend` "
        "prints these limits as ConnectionQuotas. The replay shows what this limit alone would have done at the times "
        "at which a connection may wait. At all other times it delays and rejects nothing."
    )
    return section(
        "recommended",
        _TITLE,
        text,
        _incomplete(recommended.limits),
        table(
            ["Limits", clusters.caption],
            _LIMIT_COLUMNS,
            [_limit(limit, clusters) for limit in recommended.limits],
            table_id="recommended-list",
            followed=Followed(("cluster",), [Facets(limit.cluster_id) for limit in recommended.limits]),
        ),
        left_out(recommended.limits_total - len(recommended.limits), "limits"),
        _clients(recommended.clients, clusters),
        left_out(recommended.clients_total - len(recommended.clients), "clients"),
    )


_LIMIT_COLUMNS = (
    Column("limit on"),
    Column("suggested, 1/s", is_number=True),
    Column("p50 / p99 / p99.9, 1/s", is_number=True),
    Column("largest usual burst, in 10 s", is_number=True),
    Column("storms", is_number=True),
    Column("replay: usual"),
    Column("replay: storms"),
    Column("why"),
)
_CLIENT_COLUMNS = (
    Column("limit on"),
    Column("client"),
    Column("part"),
    *(Column(name, is_number=True) for name in ("connections", "admitted", "delayed", "p99", "longest", "rejected")),
    *(Column(name, is_number=True) for name in ("really accepted", "really rejected")),
)


def _incomplete(limits: tuple[RecommendedLimit, ...]) -> Child:
    lacking = {limit.cluster_id: limit for limit in limits if limit.incomplete_windows}
    return [
        paragraph(
            mark("incomplete", "bad"),
            " The log of cluster ",
            named(cluster_id),
            f" lacks events in {number_of(limit.incomplete_windows, 'window')} of ten minutes: rates may be too low.",
        )
        for cluster_id, limit in lacking.items()
    ]


def _limit(limit: RecommendedLimit, clusters: Clusters) -> tuple[Entry, ...]:
    rates = (limit.rate_p50, limit.rate_p99, limit.rate_p999)
    shown = " / ".join(count(rate) for rate in rates if rate is not None) or "by address"
    burst: Child = count(limit.burst)
    if limit.burst_at_us is not None:
        burst = [burst, tag("span", moment(limit.burst_at_us, seconds=True), class_="cluster")]
    return (
        Cell(clusters.name(_name(limit), limit.cluster_id), f"{limit.kind} {limit.target}"),
        Cell(count(limit.rate), limit.rate),
        Cell(shown, limit.rate_p999 or 0),
        Cell(burst, limit.burst),
        Cell(_storms(limit), limit.storms),
        _part(limit, limit.usual),
        _part(limit, limit.storm),
        limit.why,
    )


def _name(limit: RecommendedLimit | TriedClient) -> str:
    if limit.kind == "cidr" and limit.target in ("0.0.0.0/0", "::/0"):
        return f"each address of {limit.target}"
    return f"{limit.kind} {limit.target}"


def _storms(limit: RecommendedLimit) -> Child:
    if not limit.storms:
        return "none"
    return [f"{count(limit.storms)} ", mark("held", "good") if limit.is_holding else mark("not held", "bad")]


def _part(limit: RecommendedLimit, part: TriedPart) -> str:
    if not part.connections:
        return "not replayed" if limit.tried_connections < limit.waiting_connections else "none would have waited"
    told = f"of {count(part.connections)}, {count(part.accepted)} admitted"
    if part.delayed:
        told += f", {count(part.delayed)} delayed by at most {latency(part.delay_max_us)}"
    return f"{told}, {count(part.rejected)} rejected"


def _clients(clients: tuple[TriedClient, ...], clusters: Clusters) -> Markup | None:
    if not clients:
        return None
    return table(
        "Clients that these limits would have delayed or rejected",
        _CLIENT_COLUMNS,
        [_client(client, clusters) for client in clients],
        table_id="recommended-clients",
        followed=Followed(
            ("cluster", "client"), [Facets(client.cluster_id, client.client_id or "(none)") for client in clients]
        ),
    )


def _client(client: TriedClient, clusters: Clusters) -> tuple[Entry, ...]:
    who: Child = "all others" if client.client_ip is None else named(client.client_ip)
    if client.client_id is not None:
        who = [who, ", ", named(client.client_id)]
    return (
        Cell(clusters.name(_name(client), client.cluster_id), f"{client.kind} {client.target}"),
        who,
        client.part,
        Cell(count(client.connections), client.connections),
        Cell(count(client.accepted), client.accepted),
        Cell(count(client.delayed), client.delayed),
        Cell("none" if client.delay_p99_us is None else latency(client.delay_p99_us), client.delay_p99_us or 0),
        Cell("none" if client.delay_max_us is None else latency(client.delay_max_us), client.delay_max_us or 0),
        Cell(count(client.rejected), client.rejected),
        Cell(count(client.was_accepted), client.was_accepted),
        Cell(count(client.was_rejected), client.was_rejected),
    )
