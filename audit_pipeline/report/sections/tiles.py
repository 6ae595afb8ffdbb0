"""The tiles that the page opens with: one number each, and its line over the time shown. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from audit_pipeline.report.figures.completeness import Completeness
from audit_pipeline.report.figures.report import Subjects
from audit_pipeline.report.markup import Child, Markup, tag
from audit_pipeline.report.plots.spark import sparkline
from audit_pipeline.report.words import about, count, latency, moment, percent, size


@dataclass(frozen=True, slots=True)
class Tile:
    """A key figure at the top of the page. `anchor` is the section with details, `series` the sparkline's values."""

    name: str
    number: Child
    anchor: str
    series: Sequence[float] = ()
    below: str | None = None
    tone: str | None = None


def tiles(found: Subjects | None) -> Markup | None:
    if found is None:
        return None
    made = [_tile(each) for each in (*_moved(found), *_latency(found), *_heard(found.completeness))]
    return tag("ul", made, class_="tiles", aria_label="At a glance")


def _tile(tile: Tile) -> Markup:
    link = tag("a", tile.name, href=f"#{tile.anchor}")
    below = tag("span", tile.below, class_="unit") if tile.below else None
    return tag(
        "li", link, tag("strong", tile.number, class_=tile.tone), below, sparkline(tile.series) if tile.series else None
    )


def _moved(found: Subjects) -> Iterator[Tile]:
    whole, steps = found.overall, found.overall.steps
    yield Tile("Requests", about(whole.requests), "traffic", [step.requests for step in steps])
    yield Tile("In", size(whole.in_bytes), "traffic", [step.in_bytes for step in steps])
    yield Tile("Out", size(whole.out_bytes), "traffic", [step.out_bytes for step in steps])
    share = f"{percent(whole.errors / whole.requests)} of requests" if whole.requests else None
    yield Tile("Errors", about(whole.errors), "failures", [step.errors for step in steps], share)


def _latency(found: Subjects) -> Iterator[Tile]:
    for api in found.latency.apis[:2]:
        series = [point.p99_us for point in api.points]
        yield Tile(f"{api.api} p99", latency(api.whole.p99_us), "latency", series)


def _heard(log: Completeness) -> Iterator[Tile]:
    heard = sum(not broker.is_absent for broker in log.brokers)
    tone = "good" if heard == len(log.brokers) else "bad"
    yield Tile("Brokers heard", f"{count(heard)} of {count(len(log.brokers))}", "completeness", tone=tone)
    until = [broker.complete_until_us for broker in log.brokers]
    known = [at_us for at_us in until if at_us is not None]
    if not known or len(known) < len(until):
        yield Tile("Complete until", "not known", "completeness", below="a broker has no event", tone="bad")
        return
    tone = "good" if log.is_complete else "bad"
    yield Tile("Complete until", moment(min(known)), "completeness", below="UTC, the earliest broker", tone=tone)
