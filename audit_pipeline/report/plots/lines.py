"""Lines over time. Pure."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from audit_pipeline.report.markup import Markup, tag
from audit_pipeline.report.plots.frame import HEIGHT, WIDTH, Key, Numbers, across, framed, up
from audit_pipeline.report.plots.ticks import Scale, times
from audit_pipeline.report.window import Span
from audit_pipeline.report.words import moment

Series = Sequence[tuple[int, float | None]]
"""A line of a plot: points in time with their values; None where the line is interrupted."""


@dataclass(frozen=True, slots=True)
class Line:
    name: str
    numbers: str
    series: Series


@dataclass(frozen=True, slots=True)
class Band:
    """A period that is marked in the plot, such as a storm."""

    name: str
    span: Span


@dataclass(frozen=True, slots=True)
class Axes:
    """The two axes of a plot.

    A point covers `step_us` from its time on, and is drawn in the middle of this interval.
    """

    scale: Scale
    span: Span
    step_us: int

    def across(self, at_us: int) -> float:
        begin_us, end_us = max(at_us, self.span.from_us), min(at_us + self.step_us, self.span.to_us)
        return across(((begin_us + end_us) / 2 - self.span.from_us) / self.span.length_us)


def line_plot(
    title: str, lines: Sequence[Line], axes: Axes, bands: Sequence[Band], show: Callable[[float], str]
) -> Markup:
    """Return a plot of lines as HTML. `show` formats the values in the table of numbers."""
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
        [axes.across(at_us) / WIDTH for line in lines[:1] for at_us, _ in line.series],
    )
    return framed(title, keys, drawn, (axes.scale, times(span)), numbers, span)


def _band(band: Band, span: Span) -> Markup:
    left = max(0.0, (band.span.from_us - span.from_us) / span.length_us)
    right = min(1.0, (band.span.to_us - span.from_us) / span.length_us)
    # A short band must still be visible.
    width = max(4.0, across(right) - across(left))
    return tag("rect", x=across(left), y=0, width=width, height=HEIGHT, class_="band")


def _path(series: Series, axes: Axes, kind: str) -> Markup:
    parts, is_down = [], False
    for at_us, value in series:
        if value is None:
            is_down = False
            continue
        x, y = axes.across(at_us), up(axes.scale.place(value))
        # A single point is drawn as a dot.
        parts.append(f"L{x:g} {y:g}" if is_down else f"M{x:g} {y:g}h.01")
        is_down = True
    return tag("path", d="".join(parts), class_=kind, vector_effect="non-scaling-stroke")
