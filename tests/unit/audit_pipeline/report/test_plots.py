"""Axes have round marks, and what is plotted is where it belongs."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from audit_pipeline.report.plots.bars import Bar, Legend, Level, bar_plot
from audit_pipeline.report.plots.frame import HEIGHT, WIDTH, Key, Numbers
from audit_pipeline.report.plots.lines import Axes, Band, Line, line_plot
from audit_pipeline.report.plots.spark import sparkline
from audit_pipeline.report.plots.ticks import TIMES_MAX, linear, logarithmic, times
from audit_pipeline.report.window import DAY_US, HOUR_US, MINUTE_US, SECOND_US, Span

HOUR = Span(0, HOUR_US)


@pytest.mark.parametrize(
    ("largest", "factor", "labels"),
    [
        (0, 1, ["0", "0.25", "0.5", "0.75", "1"]),
        (52_000, 1024, ["0", "20", "40", "60"]),
        (7, 1, ["0", "2", "4", "6", "8"]),
        (100, 1, ["0", "25", "50", "75", "100"]),
        (0.3, 1, ["0", "0.1", "0.2", "0.3"]),
    ],
)
def test_an_axis_has_round_numbers(largest: float, factor: float, labels: list[str]) -> None:
    assert [tick.label for tick in linear(largest, factor, "x").ticks] == labels


@given(st.floats(1e-6, 1e15))
def test_an_axis_holds_its_largest_value_and_has_few_marks(largest: float) -> None:
    scale = linear(largest, 1.0, "x")
    assert 0.5 < scale.place(largest) <= 1 + 1e-9
    assert 3 <= len(scale.ticks) <= 6
    assert len({tick.label for tick in scale.ticks}) == len(scale.ticks)


@given(st.floats(1, 1e9), st.floats(1, 1e9))
def test_a_scale_of_powers_of_ten_holds_all_values(one: float, other: float) -> None:
    smallest, largest = sorted((one, other))
    scale = logarithmic(smallest, largest, 1000.0, "ms")
    assert 0 <= scale.place(smallest) <= scale.place(largest) <= 1
    assert 2 <= len(scale.ticks) <= 6
    assert scale.ticks[0].at == 0


@given(st.integers(0, 10**15), st.integers(SECOND_US, 2000 * DAY_US))
def test_times_are_inside_and_few(from_us: int, length_us: int) -> None:
    ticks = times(Span(from_us, from_us + length_us))
    assert len(ticks) <= TIMES_MAX + 1
    assert all(0 <= tick.at < 1 for tick in ticks)


def test_times_are_told_by_the_clock_and_days_by_their_date() -> None:
    day_us = 1_795_305_600_000_000
    assert [tick.label for tick in times(Span(day_us, day_us + DAY_US))] == ["22 Nov", "06:00", "12:00", "18:00"]
    assert [tick.label for tick in times(Span(day_us, day_us + MINUTE_US))][:2] == ["22 Nov", "00:00:20"]


def test_a_line_is_broken_where_nothing_is_known_and_a_point_by_itself_is_a_dot() -> None:
    series = [(0, 1.0), (20 * MINUTE_US, None), (40 * MINUTE_US, 0.0)]
    axes = Axes(linear(1.0, 1.0, "x"), HOUR, 20 * MINUTE_US)
    made = line_plot("T", [Line("a", "", series)], axes, [], str)
    (path,) = re.findall(r'<path d="([^"]*)" class="line line-0"', made)
    assert path == f"M166.67 0h.01M833.33 {HEIGHT}h.01"
    assert re.findall(r'<tr data-place="([^"]*)">', made) == ["0.1667", "0.5", "0.8333"]
    assert "<td>1970-01-01 00:20</td><td></td>" in made


def test_a_band_within_the_plot_is_drawn_and_described() -> None:
    axes = Axes(linear(1.0, 1.0, "x"), HOUR, MINUTE_US)
    inside = Band("storm", Span(30 * MINUTE_US, 2 * HOUR_US))
    outside = Band("other", Span(2 * HOUR_US, 3 * HOUR_US))
    made = line_plot("T", [], axes, [inside, outside], str)
    assert f'<rect x="500" y="0" width="500" height="{HEIGHT}" class="band">' in made
    assert "storm" in made
    assert "other" not in made


def test_bars_are_stacked_and_the_limit_is_a_line_across_them() -> None:
    legend = Legend((Key("", "accepted"), Key("", "refused")), Key("", "held"), Level("limit", 5.0, "5/s"))
    scale = linear(20.0, 1.0, "x")
    made = bar_plot("T", [Bar(0, (5.0, 10.0), 20.0)], HOUR_US, (scale, HOUR), legend, Numbers(("n",), [("1",)]))
    assert '<tr data-place="0.5">' in made
    heights = re.findall(r'<rect x="0" y="([\d.]+)" width="860" height="([\d.]+)" class="fill fill-(\d)"', made)
    assert [(float(y), float(height)) for y, height, _ in heights] == [
        (HEIGHT * 0.75, HEIGHT * 0.25),
        (HEIGHT * 0.25, HEIGHT * 0.5),
    ]
    assert f'd="M0 {HEIGHT * 0.75:g}H{WIDTH}" class="line limit"' in made
    assert 'd="M0 0H860" class="line held"' in made


def test_a_sparkline_reaches_from_zero_to_its_largest_value() -> None:
    made = sparkline([0, 5, 20])
    assert made is not None
    assert 'd="M0 24L50 18L100 0"' in made


@pytest.mark.parametrize("values", [[], [3], [0, 0, 0]])
def test_too_few_values_and_zeros_make_no_sparkline(values: list[int]) -> None:
    assert sparkline(values) is None
