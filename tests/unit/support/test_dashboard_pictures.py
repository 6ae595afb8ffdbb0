"""Pictures of dashboards follow the dashboard's JSON and the answers of a Prometheus."""

from typing import Any

import pytest

from tests.support.dashboards.dashboard_pictures import Span, dashboard_page, shown_in
from tests.support.dashboards.dashboards import filled_in, legend
from tools.grafana import Dashboard, Panel, Query, Row, Stat

SPAN = Span(0, 60, 10, "30s")
DASHBOARD = Dashboard(
    "an-example",
    "An example",
    "of a dashboard",
    (("pod", "label_values(up, pod)"),),
    (
        Row(
            "Row",
            (
                Stat("Broken", "", [Query("broken")], bad=1),
                Panel("Lines", "", [Query('rate(lines{pod=~"$pod"}[$__rate_interval])', "of {{pod}}")], unit="s"),
                Panel("Nothing", "", [Query("nothing")]),
            ),
        ),
    ),
).model()


class Answers:
    """A Prometheus with these series."""

    def __init__(self, **series: list[tuple[dict[str, str], list[float | None]]]) -> None:
        self._series = series
        self.asked: list[str] = []

    def series(self, expression: str, start_s: float, end_s: float, step_s: float) -> list[dict[str, Any]]:
        self.asked.append(expression)
        name = next((name for name in self._series if name in expression), "")
        found = []
        for labels, values in self._series.get(name, []):
            points = [(start_s + step_s * at, str(value)) for at, value in enumerate(values) if value is not None]
            found.append({"metric": labels, "values": points})
        return found


def page(**series: list[tuple[dict[str, str], list[float | None]]]) -> str:
    return dashboard_page(DASHBOARD, Answers(**series), SPAN)  # type: ignore[arg-type]


def test_a_panel_has_the_legend_of_each_series_and_gaps_without_values() -> None:
    drawn = page(lines=[({"pod": "one"}, [1, 2, None, 2, 1]), ({"pod": "<two>"}, [3, 3, 3, 3, 3])])
    assert drawn.count("<polyline") == 3
    assert "of one" in drawn
    assert "of &lt;two&gt;" in drawn
    assert "3 s</text>" in drawn


def test_a_number_is_coloured_by_its_thresholds_and_a_panel_without_series_says_so() -> None:
    well, ill = (page(broken=[({}, [value])]) for value in (0, 1))
    assert ("#f2495c" in well, "#f2495c" in ill) == (False, True)
    assert well.count("No data") == 2


def test_variables_are_in_their_places_and_an_unknown_one_is_a_fault() -> None:
    assert filled_in(DASHBOARD, 'x{pod=~"$pod"}[$__rate_interval]', "30s") == 'x{pod=~".+"}[30s]'
    with pytest.raises(AssertionError, match="a variable that is not there"):
        filled_in(DASHBOARD, "x[$else]", "30s")


@pytest.mark.parametrize(
    ("unit", "value", "shown"),
    [
        ("short", 1500, "1.5 K"),
        ("s", 0.0005, "500 µs"),
        ("s", 0.25, "250 ms"),
        ("ms", 1500, "1.5 s"),
        ("bytes", 3 * 1024**2, "3 MiB"),
        ("Bps", 2500, "2.5 kB/s"),
        ("percentunit", 0.5, "50%"),
        ("reqps", 12, "12 req/s"),
    ],
)
def test_values_are_written_in_their_units(unit: str, value: float, shown: str) -> None:
    assert shown_in(unit, value) == shown


def test_a_legend_is_filled_in_or_made_of_the_labels() -> None:
    assert legend("{{pod}} of {{cluster}}", {"pod": "one"}) == "one of "
    assert legend("__auto", {"__name__": "up", "pod": "one"}) == "pod=one"


def test_panels_lie_beside_each_other_and_never_on_each_other() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        grid = panel["gridPos"]
        cells = {(grid["x"] + x, grid["y"] + y) for x in range(grid["w"]) for y in range(grid["h"])}
        assert not cells & taken
        assert grid["x"] + grid["w"] <= 24
        taken |= cells
