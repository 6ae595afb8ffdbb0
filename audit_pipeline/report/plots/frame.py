"""The frame of every plot: a title with the unit, a legend, axes, and its numbers as a table. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest

from audit_pipeline.report.markup import Child, Markup, tag, together
from audit_pipeline.report.plots.ticks import Scale, Tick
from audit_pipeline.report.window import SECOND_US, Span

HEIGHT = 180
WIDTH = 1000
"""Width of the part of a plot that is stretched to the available width."""
_ABOVE, _BELOW = 10, 26
_AXIS_WIDTH = 56
_EDGE = 0.011
"""Share of a narrow plot that half a character takes. Labels that are closer to an end are aligned with it."""


@dataclass(frozen=True, slots=True)
class Key:
    """An entry of a plot's legend: how it is drawn, its name, and its most important numbers."""

    swatch: str
    name: str
    numbers: str = ""


@dataclass(frozen=True, slots=True)
class Numbers:
    """The numbers of a plot, to read and copy.

    `places` are the positions of the rows from 0 to 1 along the time axis: the pointer shows the row next to it.
    """

    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    places: Sequence[float] = ()


def framed(
    title: str,
    keys: Sequence[Key],
    inside: Child,
    axes: tuple[Scale, Sequence[Tick]],
    numbers: Numbers,
    span: Span | None = None,
) -> Markup:
    """Return the plot with its frame, axes and legend.

    `inside` is drawn in a field of WIDTH by HEIGHT. The page's filter zooms a plot with a span.
    """
    scale, times = axes
    caption = tag("figcaption", tag("strong", title), " ", tag("span", f"{scale.unit}, times in UTC", class_="unit"))
    field = tag(
        "svg",
        inside,
        x="0",
        y=_ABOVE,
        width="100%",
        height=HEIGHT,
        viewBox=f"0 0 {WIDTH} {HEIGHT}",
        preserveAspectRatio="none",
        overflow="visible",
    )
    plot = tag(
        "svg",
        [_grid_line(tick) for tick in scale.ticks],
        field,
        [_time_label(tick) for tick in times],
        class_="field",
        width="100%",
        height=_ABOVE + HEIGHT + _BELOW,
        role="img",
        aria_label=f"{title}, {scale.unit}. " + "; ".join(f"{key.name} {key.numbers}".strip() for key in keys),
    )
    axis = tag(
        "svg",
        [tag("text", tick.label, x=_AXIS_WIDTH - 8, y=_y(tick) + 4, text_anchor="end") for tick in scale.ticks],
        class_="axis",
        width=_AXIS_WIDTH,
        height=_ABOVE + HEIGHT + _BELOW,
        aria_hidden="true",
    )
    return tag(
        "figure",
        caption,
        _legend(keys),
        tag("div", axis, plot, class_="plot"),
        _table(numbers),
        class_="chart",
        data_follows="time" if span else None,
        data_since=span.from_us // SECOND_US if span else None,
        data_until=-(-span.to_us // SECOND_US) if span else None,
    )


def across(at: float) -> float:
    """Return the position in a plot's drawing area, from a share of its width."""
    return round(at * WIDTH, 2)


def up(part: float) -> float:
    return round(HEIGHT * (1 - part), 2)


def _y(tick: Tick) -> float:
    return _ABOVE + up(tick.at)


def _grid_line(tick: Tick) -> Markup:
    return tag("line", x1="0", x2="100%", y1=_y(tick), y2=_y(tick), class_="base" if tick.at == 0 else "grid")


def _time_label(tick: Tick) -> Markup:
    edge = _EDGE * len(tick.label)
    anchor = "start" if tick.at < edge else "end" if tick.at > 1 - edge else "middle"
    place = f"{tick.at * 100:.4g}%"
    mark = tag("line", x1=place, x2=place, y1=_ABOVE + HEIGHT, y2=_ABOVE + HEIGHT + 5, class_="base time")
    kind = "minor time" if tick.is_minor else "time"
    return together(mark, tag("text", tick.label, x=place, y=_ABOVE + HEIGHT + 20, text_anchor=anchor, class_=kind))


def _legend(keys: Sequence[Key]) -> Markup:
    return tag("ul", [tag("li", _swatch(key.swatch), _named_numbers(key)) for key in keys], class_="legend")


def _named_numbers(key: Key) -> Markup:
    return together(tag("span", key.name), tag("span", key.numbers, class_="unit") if key.numbers else None)


def _swatch(kind: str) -> Markup:
    drawn = (
        tag("rect", x=0, y=1, width=22, height=10, class_=kind)
        if kind.startswith(("fill", "band"))
        else tag("line", x1=1, x2=21, y1=6, y2=6, class_=kind)
    )
    return tag("svg", drawn, width=22, height=12, aria_hidden="true")


def _table(numbers: Numbers) -> Markup:
    head = tag("tr", [tag("th", name, scope="col") for name in numbers.head])
    rows = [
        tag("tr", [tag("td", cell) for cell in row], data_place=None if place is None else round(place, 4))
        for row, place in zip_longest(numbers.rows, numbers.places)
    ]
    table = tag("table", tag("thead", head), tag("tbody", rows), class_="numbers")
    scrolled = tag("div", table, class_="scroll low", tabindex="0", role="region", aria_label="Numbers of the plot")
    return tag("details", tag("summary", f"The {len(numbers.rows)} points as numbers"), scrolled)
