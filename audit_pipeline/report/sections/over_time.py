"""Traffic and latency over time. Pure."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from audit_pipeline.report.figures.latency import ApiLatency
from audit_pipeline.report.figures.report import Subjects
from audit_pipeline.report.figures.traffic import ClusterTraffic, Point
from audit_pipeline.report.markup import Markup, named, tag
from audit_pipeline.report.plots.lines import Axes, Band, Line, line_plot
from audit_pipeline.report.plots.ticks import linear, logarithmic
from audit_pipeline.report.sections.parts import nothing, paragraph, section
from audit_pipeline.report.window import SECOND_US, Span
from audit_pipeline.report.words import about, latency, length, number_of, rate, size, size_unit, span, three_digits

_MILLISECOND_US = 1000.0


def traffic_section(found: Subjects) -> Markup:
    traffic = found.traffic
    plots = [
        _traffic_plots(cluster, found)
        for cluster in traffic.clusters
        if any(point.requests for point in cluster.points)
    ]
    left_out = traffic.clusters_left_out
    others = paragraph(f"Not drawn: {number_of(left_out, 'more cluster')} with fewer events.") if left_out else None
    text = paragraph(
        f"Requests of clients, {span(found.windows.shown)}. Each rate is an average over "
        f"{length(found.windows.step_us)}, the last one over the part that has passed. Days without an event are "
        f"not drawn. Replication between brokers is not included; it fetched {size(traffic.follower_bytes)}."
    )
    quiet = nothing("No client made a request in this time.")
    return section("traffic", "Traffic over time", text, plots or quiet, others)


def latency_section(found: Subjects) -> Markup:
    apis = found.latency.apis
    if not apis:
        quiet = nothing("No request has a latency: the audit log may have been recorded at a level without latencies.")
        return section("latency", "Latency over time", quiet)
    text = paragraph(
        "Latency of clients' requests without an error, in all clusters; the wait of a Fetch for data is not "
        "included. Half of the requests took at most p50, 99 of 100 at most p99. The scale is logarithmic."
    )
    plots = tag("div", [_latency_plot(api, found) for api in apis], class_="charts")
    left_out = found.latency.apis_left_out
    others = tag(
        "p",
        f"Not drawn: {number_of(left_out, 'more API')} with fewer requests; see report.json and the table latency.",
        class_="unit",
    )
    return section("latency", "Latency over time", text, plots, others if left_out else None)


def _traffic_plots(cluster: ClusterTraffic, found: Subjects) -> Markup:
    heading = tag("h3", "Cluster ", named(cluster.cluster_id)) if len(found.clusters) > 1 else None
    points = _without_a_sliver(cluster.points)
    in_bytes = _line("In", points, lambda point: point.in_bytes, rate)
    out_bytes = _line("Out", points, lambda point: point.out_bytes, rate)
    largest = max(_largest(in_bytes), _largest(out_bytes))
    factor, unit = size_unit(largest)
    scale = linear(largest, factor, f"{unit}/s")
    bands = _storms(found, cluster.cluster_id)
    shown, step_us = found.windows.shown, found.windows.step_us
    moved = line_plot("Bytes of clients", [in_bytes, out_bytes], Axes(scale, shown, step_us), bands, rate)
    requests = _line("Requests", points, lambda point: point.requests, _per_second)
    errors = _line("With an error", points, lambda point: point.errors, _per_second)
    scale = linear(_largest(requests), *_thousands(_largest(requests)))
    asked = line_plot("Requests of clients", [requests, errors], Axes(scale, shown, step_us), bands, _per_second)
    charts = tag("div", moved, asked, class_="charts")
    return tag("div", heading, charts, data_follows="cluster", data_cluster=cluster.cluster_id)


def _latency_plot(api: ApiLatency, found: Subjects) -> Markup:
    step_us = found.windows.coarse_step_us
    at = {point.at_us: point for point in api.points}
    times = range(min(at), max(at) + step_us, step_us)
    p50 = [(time, float(at[time].p50_us) if time in at else None) for time in times]
    p99 = [(time, float(at[time].p99_us) if time in at else None) for time in times]
    known = [value for _, value in (*p50, *p99) if value is not None]
    lines = [
        Line("p50", f"{latency(api.whole.p50_us)} over all", p50),
        Line("p99", f"{latency(api.whole.p99_us)} over all", p99),
    ]
    scale = logarithmic(min(known), max(known), _MILLISECOND_US, "ms")
    axes = Axes(scale, found.windows.shown, step_us)
    title = f"{api.api}, {about(api.whole.requests)} requests"
    return line_plot(title, lines, axes, _storms(found, None), lambda value: latency(round(value)))


def _line(name: str, points: Sequence[Point], number: Callable[[Point], int], show: Callable[[float], str]) -> Line:
    series = [(point.at_us, point.per_second(number(point))) for point in points]
    covered_us = sum(point.covered_us for point in points)
    mean = sum(number(point) for point in points) * SECOND_US / covered_us
    line = Line(name, "", series)
    return replace(line, numbers=f"mean {show(mean)}, maximum {show(_largest(line))}")


def _largest(line: Line) -> float:
    return max(value for _, value in line.series if value is not None)


def _without_a_sliver(points: Sequence[Point]) -> Sequence[Point]:
    """Drop a last step that is mostly still to come: its rate means little."""
    if len(points) > 2 and points[-1].covered_us * 4 < points[-2].covered_us:
        return points[:-1]
    return points


def _storms(found: Subjects, cluster_id: str | None) -> list[Band]:
    return [
        Band("connection storm", Span(storm.started_us, storm.ended_us))
        for storm in found.storms.storms
        if cluster_id in (None, storm.cluster_id)
    ]


def _per_second(number: float) -> str:
    return f"{three_digits(number)}/s"


def _thousands(largest: float) -> tuple[float, str]:
    return (1000.0, "thousand requests/s") if largest >= 10_000 else (1.0, "requests/s")
