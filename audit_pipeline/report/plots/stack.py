"""Values of several names over time, stacked. Pure. usage.js draws the same chart for a filter."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from audit_pipeline.report.markup import Markup, tag
from audit_pipeline.report.plots.frame import Key, Numbers, across, framed, up
from audit_pipeline.report.plots.ticks import Scale, times
from audit_pipeline.report.window import Span
from audit_pipeline.report.words import moment


@dataclass(frozen=True, slots=True)
class Layer:
    """A layer of a stacked plot: a name with its value in each step, from the first one on.

    `kind` is the class of its colour.
    """

    name: str
    kind: str
    numbers: str
    values: Sequence[float]


@dataclass(frozen=True, slots=True)
class Steps:
    """Steps of time of equal length. The first and last may be partly outside of the span."""

    begin_us: int
    step_us: int
    span: Span

    def bounds(self, number: int) -> tuple[float, float]:
        """Return the beginning and end of a step, from 0 to 1 along the span."""
        ends = (self.begin_us + place * self.step_us for place in (number, number + 1))
        begin, end = (min(1.0, max(0.0, (at_us - self.span.from_us) / self.span.length_us)) for at_us in ends)
        return begin, end


def stack_plot(title: str, layers: Sequence[Layer], steps: Steps, scale: Scale, show: Callable[[float], str]) -> Markup:
    """Return a plot with a stacked bar for each step. The first layer is at the bottom; `show` formats the values."""
    below = [0.0] * max(len(layer.values) for layer in layers)
    drawn = []
    for layer in layers:
        drawn.append(tag("path", d=_bars(layer, below, steps, scale), class_=f"fill {layer.kind}"))
        below = [under + value for under, value in zip(below, layer.values, strict=True)]
    numbers = Numbers(
        ("from (UTC)", *(layer.name for layer in layers)),
        [
            (moment(max(steps.span.from_us, steps.begin_us + number * steps.step_us)), *map(show, values))
            for number, values in enumerate(zip(*(layer.values for layer in layers), strict=True))
        ],
    )
    middles = [sum(steps.bounds(number)) / 2 for number in range(len(numbers.rows))]
    keys = [Key(f"fill {layer.kind}", layer.name, layer.numbers) for layer in layers]
    axes = (scale, times(steps.span))
    return framed(title, keys, drawn, axes, replace(numbers, places=middles), steps.span)


def _bars(layer: Layer, below: Sequence[float], steps: Steps, scale: Scale) -> str:
    parts = []
    for number, (under, value) in enumerate(zip(below, layer.values, strict=True)):
        if value:
            left, right = (across(place) for place in steps.bounds(number))
            top, bottom = up(scale.place(under + value)), up(scale.place(under))
            parts.append(f"M{left:g} {bottom:g}H{right:g}V{top:g}H{left:g}Z")
    return "".join(parts)
