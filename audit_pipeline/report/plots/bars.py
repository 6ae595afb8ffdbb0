"""Stacked bars over time, with lines for other numbers. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from audit_pipeline.report.markup import Markup, tag
from audit_pipeline.report.plots.frame import Key, Numbers, across, framed, up
from audit_pipeline.report.plots.ticks import Scale, times
from audit_pipeline.report.window import Span


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar of a plot, from a time on. `parts` are stacked from below, `mark` is a line at its height."""

    at_us: int
    parts: tuple[float, ...]
    mark: float


@dataclass(frozen=True, slots=True)
class Level:
    """A line across a whole plot, at a value."""

    name: str
    value: float
    numbers: str


@dataclass(frozen=True, slots=True)
class Legend:
    parts: tuple[Key, ...]
    mark: Key
    level: Level | None


def bar_plot(
    title: str, bars: Sequence[Bar], width_us: int, axes: tuple[Scale, Span], legend: Legend, numbers: Numbers
) -> Markup:
    """Return a plot in which each bar is `width_us` wide."""
    scale, span = axes
    wide = across(width_us / span.length_us)
    drawn = []
    for bar in bars:
        left, below = across((bar.at_us - span.from_us) / span.length_us), 0.0
        for number, part in enumerate(bar.parts):
            top = scale.place(below + part)
            height = up(scale.place(below)) - up(top)
            if height > 0:
                drawn.append(
                    tag("rect", x=left, y=up(top), width=wide * 0.86, height=height, class_=f"fill fill-{number}")
                )
            below += part
        if bar.mark:
            y = up(scale.place(bar.mark))
            # The line may be in front of a bar, and has to be distinguishable from it.
            drawn += [_level(left, left + wide * 0.86, y, kind) for kind in ("casing", "line held")]
    keys = [*(Key(f"fill fill-{number}", key.name, key.numbers) for number, key in enumerate(legend.parts))]
    keys.append(Key("line held", legend.mark.name, legend.mark.numbers))
    if legend.level is not None:
        drawn.append(_level(0, across(1), up(scale.place(legend.level.value)), "line limit"))
        keys.append(Key("line limit", legend.level.name, legend.level.numbers))
    middles = [(bar.at_us + width_us / 2 - span.from_us) / span.length_us for bar in bars]
    return framed(title, keys, drawn, (scale, times(span)), replace(numbers, places=middles))


def _level(from_x: float, to_x: float, y: float, kind: str) -> Markup:
    return tag("path", d=f"M{from_x:g} {y:g}H{to_x:g}", class_=kind, vector_effect="non-scaling-stroke")
