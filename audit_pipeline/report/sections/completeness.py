"""What the audit log lacks, by day and broker, and which files were set aside. Pure."""

from itertools import groupby

from audit_pipeline.report.figures.completeness import BROKERS_MAX, BrokerLog, Completeness, Day, FaultyBroker, Stretch
from audit_pipeline.report.figures.report import Subjects
from audit_pipeline.report.markup import Child, Markup, named, tag, together
from audit_pipeline.report.sections.parts import (
    Column,
    Facets,
    Followed,
    left_out,
    mark,
    nothing,
    paragraph,
    section,
    table,
)
from audit_pipeline.report.window import DAY_US, MINUTE_US, Span, day_us
from audit_pipeline.report.words import count, moment_utc, number_of, span

_FAULTS = ("missing", "holes", "files set aside", "rows set aside")


def completeness_section(found: Subjects) -> Markup:
    log, several = found.completeness, len(found.clusters) > 1
    text = paragraph(
        "Missing events are those that a broker reported as lost (gaps). Holes are event numbers without any "
        "record. Files that are set aside are not in any result."
    )
    columns = (
        Column("day (UTC)", is_whole=True),
        Column("verdict"),
        *(Column(name, is_number=True) for name in ("brokers", "events", *_FAULTS)),
    )
    days = table(
        "Days, the latest first",
        columns,
        [_day(day, several=several) for day in log.days],
        followed=Followed(("cluster", "time"), [_of_day(day) for day in log.days]),
    )
    return section(
        "completeness",
        "Completeness by day and broker",
        text,
        _brokers(log, several=several),
        days,
        _faulty(log, several=several),
        _silent(log),
    )


def _brokers(log: Completeness, *, several: bool) -> Child:
    if not log.brokers:
        return None
    length_min = log.brokers[0].cell_us // MINUTE_US
    columns = (
        Column("broker"),
        Column("complete until", is_whole=True),
        Column("last event", is_whole=True),
        Column(f"timeline, {count(length_min)} minutes each"),
    )
    rows = [_broker(broker, several=several) for broker in log.brokers[:BROKERS_MAX]]
    caption = (
        "Brokers. High bars: events are missing, or none has landed since a boot without an end. Low bars: events, "
        "none missing"
    )
    followed = Followed(("cluster",), [Facets(broker.cluster_id) for broker in log.brokers[:BROKERS_MAX]])
    listing = table(caption, columns, rows, followed=followed)
    return [listing, left_out(len(log.brokers) - len(rows), "brokers")]


def _broker(broker: BrokerLog, *, several: bool) -> tuple[Child, ...]:
    where = [
        f"broker {broker.broker_id}",
        tag("span", named(broker.cluster_id), class_="cluster") if several else None,
    ]
    last = mark("never", "bad") if broker.last_us is None else moment_utc(broker.last_us, seconds=True)
    until: Child = None if broker.complete_until_us is None else moment_utc(broker.complete_until_us, seconds=True)
    if broker.open_since_us is not None:
        last = together(last, mark(" (open)", "bad"))
    return where, until, last, _timeline(broker)


_HEIGHT = 16
_HEIGHTS = {Stretch.HEARD: 8, Stretch.FAULTY: _HEIGHT, Stretch.OPEN: _HEIGHT}
_KINDS = {Stretch.HEARD: "fill fill-2", Stretch.FAULTY: "fill fill-1", Stretch.OPEN: "band"}


def _timeline(broker: BrokerLog) -> Markup:
    """Return a bar for each run of equal cells; silent ones have none."""
    share, drawn, place = 100 / max(1, len(broker.cells)), [], 0
    for cell, run in groupby(broker.cells):
        cells = len(list(run))
        if cell is not Stretch.SILENT:
            from_us = broker.begin_us + place * broker.cell_us
            title = tag("title", f"{cell}, {span(Span(from_us, from_us + cells * broker.cell_us))}")
            height = _HEIGHTS[cell]
            drawn.append(
                tag(
                    "rect",
                    title,
                    x=f"{place * share:.4g}%",
                    y=_HEIGHT - height,
                    width=f"{cells * share:.4g}%",
                    height=height,
                    class_=_KINDS[cell],
                )
            )
        place += cells
    return tag(
        "svg",
        drawn,
        class_="bar",
        width="100%",
        height=_HEIGHT,
        role="img",
        aria_label=f"timeline of broker {broker.broker_id}",
    )


def quarantine_section(found: Subjects) -> Markup:
    log = found.completeness
    if not log.reasons:
        return section("quarantine", "Quarantine", nothing("Nothing was set aside."))
    text = paragraph(
        "Files that are set aside are not in any result. Only files that were damaged after their day was built "
        "are in its results; the last column shows which. A duplicate repeats another file, so it leaves nothing "
        "missing."
    )
    reasons = table(
        "Why",
        (Column("reason"), Column("files", is_number=True), Column("rows, where known", is_number=True)),
        [
            (reason.reason, count(reason.files), "" if reason.rows is None else count(reason.rows))
            for reason in log.reasons
        ],
    )
    columns = (
        Column("file"),
        Column("day (UTC)", is_whole=True),
        Column("table"),
        Column("reason"),
        Column("rows", is_number=True),
        Column("what is wrong"),
    )
    files = [
        (
            tag("bdi", file.path, class_="path"),
            file.day or "not known",
            file.table or "not known",
            file.reason,
            "" if file.rows is None else count(file.rows),
            None if file.detail is None else tag("bdi", file.detail, class_="path"),
        )
        for file in log.files
    ]
    total = sum(reason.files for reason in log.reasons)
    listing = table("Files, the latest first, duplicates last", columns, files)
    return section("quarantine", "Quarantine", text, reasons, listing, left_out(total - len(files), "files"))


def _of_day(each: Day | FaultyBroker) -> Facets:
    from_us = day_us(each.day)
    return Facets(each.cluster_id, from_us=from_us, to_us=from_us + DAY_US)


def _day(day: Day, *, several: bool) -> tuple[Child, ...]:
    numbers = (day.brokers, day.events, day.missing, day.holes, day.quarantined_files, day.quarantined_rows)
    where: Child = [day.day, tag("span", named(day.cluster_id), class_="cluster") if several else None]
    verdict = mark("complete", "good") if day.is_complete else mark("incomplete", "bad")
    return (where, verdict, *map(count, numbers))


def _faulty(log: Completeness, *, several: bool) -> Child:
    if not log.faulty:
        return None
    names = ("events", "gaps", *_FAULTS)
    columns = (Column("day and broker"), *(Column(name, is_number=True) for name in names))
    rows = []
    for each in log.faulty:
        numbers = (each.events, each.gaps, each.missing, each.holes, each.quarantined_files, each.quarantined_rows)
        where: Child = [
            f"{each.day}, broker {each.broker_id}",
            tag("span", named(each.cluster_id), class_="cluster") if several else None,
        ]
        rows.append((where, *map(count, numbers)))
    followed = Followed(("cluster", "time"), [_of_day(each) for each in log.faulty])
    listing = table("Brokers with missing events, the most first", columns, rows, followed=followed)
    return [listing, left_out(log.faulty_total - len(rows), "days of brokers")]


def _silent(log: Completeness) -> Child:
    if not log.silent:
        return None
    days = ", ".join(f"broker {each.broker_id} on {each.day}" for each in log.silent)
    more = log.silent_total - len(log.silent)
    rest = f" and {number_of(more, 'more day')}" if more else ""
    return paragraph(f"No event at all: {days}{rest}. A broker that was down or removed records nothing.")
