"""A page that resembles a dashboard in Grafana: its panels in their places, drawn from the answers of a Prometheus.

Grafana itself is in no registry that tests may use. The page follows the dashboard's own JSON: places, titles, queries,
legends, units, stacking and thresholds. It only looks different, and nothing can be clicked.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from math import ceil, floor, isfinite, log10
from typing import Any

from tests.support.dashboards.dashboards import filled_in, legend, panels
from tests.support.processes.prometheus import Prometheus

Json = dict[str, Any]

WIDTH_PX = 1280
_COLUMNS, _ROW_PX, _GAP_PX, _MARGIN_PX = 24, 34, 6, 12
_COLORS = (
    "#73bf69",
    "#f2cc0c",
    "#5794f2",
    "#ff780a",
    "#f2495c",
    "#b877d9",
    "#37872d",
    "#8ab8ff",
    "#fade2a",
    "#ffa6b0",
)
_STAT_COLORS = {"green": "#73bf69", "red": "#f2495c"}
_LEGENDS_MAX = 6
_STYLE = f"""
body {{ margin: 0; padding: {_MARGIN_PX}px; width: {WIDTH_PX - 2 * _MARGIN_PX}px; background: #111217; color: #ccccdc;
  font: 12px 'DejaVu Sans', sans-serif; }}
h1 {{ font-size: 17px; font-weight: 500; margin: 0 0 4px; }} p {{ margin: 0 0 10px; color: #8e8ea0; }}
main {{ display: grid; grid-template-columns: repeat({_COLUMNS}, 1fr); grid-auto-rows: {_ROW_PX}px; gap: {_GAP_PX}px; }}
h2 {{ font-size: 14px; font-weight: 500; margin: 0; align-self: end; }}
section {{ background: #181b1f; border: 1px solid #24262c; border-radius: 3px; padding: 6px 8px; overflow: hidden;
  position: relative; }}
h3 {{ font-size: 12px; font-weight: 500; margin: 0; white-space: nowrap; }}
.stat {{ font-size: 34px; text-align: center; position: absolute; inset: 42px 0 0 0; }}
.none {{ position: absolute; inset: 45% 0 0 0; text-align: center; color: #8e8ea0; }}
.legend {{ position: absolute; left: 8px; right: 8px; bottom: 4px; height: 28px; overflow: hidden; font-size: 10px; }}
.legend span {{ margin-right: 10px; white-space: nowrap; display: inline-block; }}
.legend i {{ display: inline-block; width: 12px; height: 3px; margin: 0 4px 3px 0; vertical-align: middle; }}
text {{ fill: #8e8ea0; font-size: 10px; }}
"""

Point = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Span:
    """The time range to draw, in seconds since the epoch; `rate_interval` stands for Grafana's."""

    start_s: float
    end_s: float
    step_s: float
    rate_interval: str


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a panel: its legend and its points."""

    name: str
    points: Sequence[Point]


def dashboard_page(dashboard: Json, prometheus: Prometheus, span: Span) -> str:
    rows = [
        f'<h2 style="{_place(row["gridPos"])}">{escape(row["title"])}</h2>'
        for row in dashboard["panels"]
        if row["type"] == "row"
    ]
    drawn = [_panel(panel, _lines(dashboard, panel, prometheus, span), span) for panel in panels(dashboard)]
    return (
        f'<!doctype html><meta charset="utf-8"><title>{escape(dashboard["title"])}</title><style>{_STYLE}</style>'
        f"<h1>{escape(dashboard['title'])}</h1><p>{escape(dashboard['description'])}</p>"
        f"<main>{''.join(rows)}{''.join(drawn)}</main>"
    )


def _lines(dashboard: Json, panel: Json, prometheus: Prometheus, span: Span) -> list[Line]:
    found = []
    for target in panel["targets"]:
        expression = filled_in(dashboard, target["expr"], span.rate_interval)
        for series in prometheus.series(expression, span.start_s, span.end_s, span.step_s):
            points = [(at, float(text)) for at, text in series["values"]]
            name = legend(target["legendFormat"], series["metric"])
            found.append(Line(name, [point for point in points if isfinite(point[1])]))
    return sorted((line for line in found if line.points), key=lambda line: line.name)


def _place(grid: Json) -> str:
    return f"grid-column: {grid['x'] + 1} / span {grid['w']}; grid-row: {grid['y'] + 1} / span {grid['h']}"


def _panel(panel: Json, lines: Sequence[Line], span: Span) -> str:
    grid = panel["gridPos"]
    if not lines:
        body = '<div class="none">No data</div>'
    elif panel["type"] == "stat":
        body = _stat(panel, lines)
    else:
        column_px = (WIDTH_PX - 2 * _MARGIN_PX + _GAP_PX) / _COLUMNS
        width = grid["w"] * column_px - _GAP_PX - 18
        height = grid["h"] * (_ROW_PX + _GAP_PX) - _GAP_PX - 64
        body = _Plot(panel, lines, span, width, height).svg() + _legends(lines)
    return f'<section style="{_place(grid)}"><h3>{escape(panel["title"])}</h3>{body}</section>'


def _stat(panel: Json, lines: Sequence[Line]) -> str:
    defaults = panel["fieldConfig"]["defaults"]
    value = lines[0].points[-1][1]
    color = "green"
    for step in defaults["thresholds"]["steps"]:
        if step["value"] is None or value >= step["value"]:
            color = step["color"]
    shown = escape(shown_in(defaults["unit"], value))
    return f'<div class="stat" style="color: {_STAT_COLORS[color]}">{shown}</div>'


def _legends(lines: Sequence[Line]) -> str:
    """The legend of a panel; if there are many lines, only those with the highest values."""
    highest = sorted(range(len(lines)), key=lambda index: -max(value for _, value in lines[index].points))
    shown = [
        f'<span><i style="background: {_COLORS[index % len(_COLORS)]}"></i>{escape(lines[index].name)}</span>'
        for index in sorted(highest[:_LEGENDS_MAX])
    ]
    more = f"<span>and {len(lines) - _LEGENDS_MAX} more</span>" if len(lines) > _LEGENDS_MAX else ""
    return f'<div class="legend">{"".join(shown)}{more}</div>'


class _Plot:
    """Lines of one panel in a rectangle of pixels."""

    LEFT_PX, BOTTOM_PX = 58, 16

    def __init__(self, panel: Json, lines: Sequence[Line], span: Span, width: float, height: float) -> None:
        defaults = panel["fieldConfig"]["defaults"]
        self._unit = defaults["unit"]
        self._stacked = "stacking" in defaults["custom"]
        self._span, self._width, self._height = span, width, height
        self._lines = _stack(lines) if self._stacked else [line.points for line in lines]
        top = max((value for points in self._lines for _, value in points), default=0.0)
        self._step = _nice_step(top, 1024 if self._unit == "bytes" else 1000)
        self._top = max(ceil(top / self._step - 1e-9), 1) * self._step

    def svg(self) -> str:
        parts = [*self._grid(), *self._times()]
        # The highest of a stack first: the lower ones cover their own part of it.
        drawn = list(enumerate(self._lines))
        for index, points in reversed(drawn) if self._stacked else drawn:
            color = _COLORS[index % len(_COLORS)]
            for piece in self._without_gaps(points):
                parts += self._piece(piece, color)
        return f'<svg width="{self._width:.0f}" height="{self._height:.0f}">{"".join(parts)}</svg>'

    def _piece(self, points: Sequence[Point], color: str) -> list[str]:
        path = " ".join(f"{self._x(at):.1f},{self._y(value):.1f}" for at, value in points)
        line = f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="1.3"/>'
        if not self._stacked:
            return [line]
        first, last, floor_px = self._x(points[0][0]), self._x(points[-1][0]), self._y(0)
        area = f"{first:.1f},{floor_px:.1f} {path} {last:.1f},{floor_px:.1f}"
        return [
            f'<polygon points="{area}" fill="#181b1f"/>',
            f'<polygon points="{area}" fill="{color}" fill-opacity="0.35"/>',
            line,
        ]

    def _without_gaps(self, points: Sequence[Point]) -> list[list[Point]]:
        """Pieces of a line: where a series has no points there is no line, as in Grafana."""
        pieces: list[list[Point]] = []
        for point in points:
            if not pieces or point[0] - pieces[-1][-1][0] > 1.5 * self._span.step_s:
                pieces.append([])
            pieces[-1].append(point)
        return pieces

    def _x(self, at_s: float) -> float:
        share = (at_s - self._span.start_s) / (self._span.end_s - self._span.start_s)
        return self.LEFT_PX + share * (self._width - self.LEFT_PX - 6)

    def _y(self, value: float) -> float:
        return (self._height - self.BOTTOM_PX) - value / self._top * (self._height - self.BOTTOM_PX - 8)

    def _grid(self) -> list[str]:
        parts = []
        for number in range(round(self._top / self._step) + 1):
            value, y = number * self._step, self._y(number * self._step)
            parts.append(
                f'<line x1="{self.LEFT_PX}" x2="{self._width:.0f}" y1="{y:.1f}" y2="{y:.1f}" stroke="#24262c"/>'
            )
            text = escape(shown_in(self._unit, value))
            parts.append(f'<text x="{self.LEFT_PX - 5}" y="{y + 3:.1f}" text-anchor="end">{text}</text>')
        return parts

    def _times(self) -> list[str]:
        seconds = self._span.end_s - self._span.start_s
        step_s = next((step for step in (5, 10, 20, 30, 60, 120, 300) if seconds / step <= 5), 600)
        y = self._height - 3
        return [
            f'<text x="{self._x(self._span.start_s + at):.1f}" y="{y:.0f}" text-anchor="middle">'
            f"{at // 60}:{at % 60:02d}</text>"
            for at in range(step_s, floor(seconds), step_s)
        ]


def _stack(lines: Sequence[Line]) -> list[Sequence[Point]]:
    """Lines stacked on those before them."""
    below: dict[float, float] = {}
    found: list[Sequence[Point]] = []
    for line in lines:
        for at, value in line.points:
            below[at] = below.get(at, 0.0) + value
        found.append([(at, below[at]) for at, _ in line.points])
    return found


def _nice_step(top: float, base: int) -> float:
    """Distance between the lines of a grid of about four; `base` is that of the unit's prefixes."""
    if top <= 0:
        return 0.25
    if top >= base:
        return base * _nice_step(top / base, base)
    rough = top / 4
    power: float = 10 ** floor(log10(rough))
    return next(step * power for step in (1, 2, 2.5, 5, 10) if step * power >= rough)


def shown_in(unit: str, value: float) -> str:
    """A value of that unit as Grafana writes it."""
    return _UNITS[unit](value)


def _scaled(value: float, base: float, prefixes: Sequence[str]) -> str:
    prefix = 0
    while abs(value) >= base and prefix + 1 < len(prefixes):
        value, prefix = value / base, prefix + 1
    digits = f"{value:.3g}" if abs(value) < 1000 else f"{value:.0f}"
    return f"{digits}{prefixes[prefix]}"


def _short(value: float) -> str:
    return _scaled(value, 1000, ("", " K", " Mil", " Bil"))


def _seconds(value: float) -> str:
    if value == 0 or value >= 1:
        return f"{value:.3g} s" if value < 60 else f"{value / 60:.3g} min"
    return f"{value * 1e3:.3g} ms" if value >= 1e-3 else f"{value * 1e6:.3g} µs"


def _bytes(value: float) -> str:
    return _scaled(value, 1024, (" B", " KiB", " MiB", " GiB"))


_UNITS: dict[str, Callable[[float], str]] = {
    "short": _short,
    "s": _seconds,
    "ms": lambda value: _seconds(value / 1000),
    "bytes": _bytes,
    "Bps": lambda value: _scaled(value, 1000, (" B/s", " kB/s", " MB/s", " GB/s")),
    "percentunit": lambda value: f"{value * 100:.3g}%",
    "reqps": lambda value: f"{_short(value)} req/s",
    "ops": lambda value: f"{_short(value)}/s",
}
