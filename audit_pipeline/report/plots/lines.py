"""Lines over time. Pure."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from audit_pipeline.report.markup import Markup, tag
from audit_pipeline.report.plots.frame import HEIGHT, Key, Numbers, across, framed, up
from audit_pipeline.report.plots.ticks import Scale, times
from audit_pipeline.report.window import Span
from audit_pipeline.report.words import moment

Series = Sequence[tuple[int, float | None]]
"""Points in time, and the value there; None where there is none: the line is broken."""


@dataclass(frozen=True, slots=True)
class Line:
    name: str
    numbers: str
    series: Series


@dataclass(frozen=True, slots=True)
class Band:
    """A stretch that is to be seen in the plot, such as a storm."""

    name: str
    span: Span


@dataclass(frozen=True, slots=True)
class Axes:
    """`step_us` is what a point is about, from its time on: it is drawn in the middle of that."""

    scale: Scale
    span: Span
    step_us: int

    def across(self, at_us: int) -> float:
        begin_us, end_us = max(at_us, self.span.from_us), min(at_us + self.step_us, self.span.to_us)
        return across(((begin_us + end_us) / 2 - self.span.from_us) / self.span.length_us)


def line_plot(
    title: str, lines: Sequence[Line], axes: Axes, bands: Sequence[Band], show: Callable[[float], str]
) -> Markup:
    """`show` writes a value of the table of numbers."""
    span = axes.span
    seen = [band for band in bands if band.span.from_us < span.to_us and band.span.to_us > span.from_us]
    keys = [Key(f"line line-{number}", line.name, line.numbers) for number, line in enumerate(lines)]
    keys += [Key("band", name) for name in dict.fromkeys(band.name for band in seen)]
    drawn = [_band(band, span) for band in seen]
    drawn += [_path(line.series, axes, f"line line-{number}") for number, line in enumerate(lines)]
    numbers = Numbers(
        ("from (UTC)", *(line.name for line in lines)),
        [
            (moment(points[0][0]), *("" if value is None else show(value) for _, value in points))
            for points in zip(*(line.series for line in lines), strict=True)
        ],
    )
    return framed(title, keys, drawn, (axes.scale, times(span)), numbers)


def _band(band: Band, span: Span) -> Markup:
    left = max(0.0, (band.span.from_us - span.from_us) / span.length_us)
    right = min(1.0, (band.span.to_us - span.from_us) / span.length_us)
    # What is short must still be seen.
    width = max(4.0, across(right) - across(left))
    return tag("rect", x=across(left), y=0, width=width, height=HEIGHT, class_="band")


def _path(series: Series, axes: Axes, kind: str) -> Markup:
    parts, is_down = [], False
    for at_us, value in series:
        if value is None:
            is_down = False
            continue
        x, y = axes.across(at_us), up(axes.scale.place(value))
        # A point by itself is a dot, not nothing.
        parts.append(f"L{x:g} {y:g}" if is_down else f"M{x:g} {y:g}h.01")
        is_down = True
    return tag("path", d="".join(parts), class_=kind, vector_effect="non-scaling-stroke")
