"""Connection storms: all of them as a table, the latest ones over time. Pure."""

from audit_pipeline.report.answers.storm import for_others, held_by, unit_of
from audit_pipeline.report.figures.report import Subjects
from audit_pipeline.report.figures.storms import SOURCES_MAX, Bin, Storm, StormTimeline
from audit_pipeline.report.markup import Child, Markup, named, tag
from audit_pipeline.report.plots.bars import Bar, Legend, Level, bar_plot
from audit_pipeline.report.plots.frame import Key, Numbers
from audit_pipeline.report.plots.ticks import linear
from audit_pipeline.report.sections.glance import in_html
from audit_pipeline.report.sections.parts import (
    Cell,
    Column,
    Entry,
    Facets,
    Followed,
    left_out,
    nothing,
    paragraph,
    section,
    table,
)
from audit_pipeline.report.window import Span
from audit_pipeline.report.words import count, latency, length, moment, moment_utc, number_of, span, three_digits
from audit_pipeline.results.tables import BIN_S


def storms_section(found: Subjects) -> Markup:
    storms = found.storms
    if not storms.storms:
        return section("storms", "Connection storms", nothing(f"No connection storm from {span(storms.searched)}."))
    several = len(found.clusters) > 1
    columns = (
        Column("began (UTC)", order="descending"),
        Column("lasted", is_number=True),
        Column("main source"),
        Column("listener"),
        Column("limit"),
        Column("accepted", is_number=True),
        Column("delayed", is_number=True),
        Column("refused", is_number=True),
        Column("peak, 1/s", is_number=True),
        Column("admitted, 1/s", is_number=True),
        Column("p99 of others", is_number=True),
    )
    rows = [_row(storm, several=several) for storm in storms.storms]
    followed = Followed(("cluster", "client", "time"), [_facets(storm) for storm in storms.storms])
    listing = None
    if len(rows) > 1:
        listing = table("All storms, the latest first", columns, rows, table_id="storm-list", followed=followed)
    drawn = [_timeline(timeline, several=several) for timeline in storms.timelines]
    text = paragraph(
        "A storm begins with many connections within ten seconds, or with some that a limit delayed or refused. It "
        "ends with a calm of more than ten seconds, or when its limit changes. Seconds without connections are not "
        "drawn. A delayed connection is accepted or refused later, and counts there."
    )
    return section("storms", "Connection storms", text, drawn, listing, left_out(storms.total - len(rows), "storms"))


def _facets(storm: Storm) -> Facets:
    client = storm.source_client_id or "(none)"
    return Facets(storm.cluster_id, client, None, storm.started_us, storm.ended_us)


def _row(storm: Storm, *, several: bool) -> tuple[Entry, ...]:
    held = storm.held_per_s
    during = storm.others_p99_during_us
    listener: Child = [
        named(storm.listener),
        tag("span", named(storm.cluster_id), class_="cluster") if several else None,
    ]
    return (
        Cell(moment(storm.started_us, seconds=True), storm.started_us),
        Cell(length(storm.ended_us - storm.started_us), storm.ended_us - storm.started_us),
        [named(storm.source_ip), ", ", named(storm.source_client_id or storm.source_principal)],
        listener,
        _limit(storm),
        Cell(count(storm.accepted), storm.accepted),
        Cell(count(storm.limited), storm.limited),
        Cell(count(storm.refused), storm.refused),
        Cell(three_digits(storm.peak_per_s), storm.peak_per_s),
        Cell("not known" if storm.limit else "no limit", -1) if held is None else Cell(three_digits(held), held),
        Cell("no requests", -1) if during is None else Cell(latency(during), during),
    )


def _limit(storm: Storm) -> Child:
    if storm.limit is None:
        return "none"
    value = "" if storm.limit_value is None else f", {count(storm.limit_value)}{unit_of(storm)}"
    return [named(storm.limit), value]


def _timeline(timeline: StormTimeline, *, several: bool) -> Markup:
    storm = timeline.storm
    heading = tag("h3", moment_utc(storm.started_us, seconds=True), ", listener ", named(storm.listener))
    where: Child = [" of cluster ", named(storm.cluster_id)] if several else None
    text = paragraph(
        [named(storm.source_ip), ", ", named(storm.source_client_id or storm.source_principal), where, ": "],
        f"{three_digits(storm.peak_per_s)} connections a second at the peak, accepted and refused ones together; ",
        in_html(held_by(storm)),
        f"; {for_others(storm)}.",
    )
    facets = _facets(storm).attributes()
    follows = "cluster client time"
    return tag("article", heading, text, _plot(timeline), _sources(timeline), data_follows=follows, **facets)


def _plot(timeline: StormTimeline) -> Markup:
    storm, step_us = timeline.storm, timeline.bin_us
    bars = [
        Bar(each.at_us, (_per_s(each.accepted, each), _per_s(each.refused, each)), _per_s(each.limited, each))
        for each in timeline.bins
    ]
    held = storm.held_per_s
    largest = max([held or 0.0, *(max(sum(each.parts), each.mark) for each in bars)])
    level = None
    if held is not None:
        level = Level("most that the limit admitted in a second (held_accepted)", held, f"{three_digits(held)}/s")
    legend = Legend(
        (Key("", "accepted", count(storm.accepted)), Key("", "refused, stacked on accepted", count(storm.refused))),
        Key("", "delayed; each is accepted or refused later", count(storm.limited)),
        level,
    )
    numbers = Numbers(
        ("from (UTC)", "accepted", "delayed", "refused"),
        [
            (moment(each.at_us, seconds=True), *map(count, (each.accepted, each.limited, each.refused)))
            for each in timeline.bins
        ],
    )
    # Bins may begin before the storm does, and end after it.
    span = (
        Span(min(storm.started_us, timeline.bins[0].at_us), max(storm.ended_us, timeline.bins[-1].at_us + step_us))
        if bars
        else Span(storm.started_us, storm.ended_us)
    )
    title = f"Connections by {length(step_us)}"
    return bar_plot(title, bars, step_us, (linear(largest, 1.0, "connections/s"), span), legend, numbers)


def _per_s(number: int, each: Bin) -> float:
    return number / (each.bins * BIN_S)


def _sources(timeline: StormTimeline) -> Markup:
    columns = (
        *(Column(name) for name in ("client id", "address", "software", "principal")),
        *(Column(name, is_number=True) for name in ("accepted", "delayed", "refused")),
    )
    rows = [
        (
            named(each.client_id) if each.client_id is not None else "not reported",
            named(each.client_ip),
            named(each.software) if each.software else "not reported",
            named(each.principal),
            *map(count, (each.accepted, each.limited, each.refused)),
        )
        for each in timeline.sources
    ]
    if timeline.sources_total > len(rows):
        clients = number_of(timeline.sources_total, "client")
        return table(f"The {SOURCES_MAX} clients with the most connections, of {clients}", columns, rows)
    return table("Who took part", columns, rows)
