"""What clients moved: stacked over time, and as a heat map by topic. Pure. usage.js draws both again for a filter."""

import math
from collections import Counter
from collections.abc import Sequence
from typing import Final

from audit_pipeline.report.figures.moved import Moved
from audit_pipeline.report.markup import Child, Markup, named, tag, together
from audit_pipeline.report.plots.stack import Layer, Steps, stack_plot
from audit_pipeline.report.plots.ticks import linear
from audit_pipeline.report.window import Span
from audit_pipeline.report.words import count, length, size, size_unit

LAYERS_MAX: Final = 8
HEAT_CLIENTS, HEAT_TOPICS = 15, 10
LEVELS: Final = 6
TIMES: Final = 4
"""Factor between the levels of the heat map: a cell of the next level has up to this many times as much."""


def stacked(moved: Moved, shown: Span) -> Markup:
    """Return the chart of the clients that moved most, and of all others together."""
    steps = Steps(moved.begin_us, moved.step_us, shown)
    drawn = min(LAYERS_MAX, len(moved.clients))
    values = [[0.0] * moved.steps for _ in range(drawn + 1)]
    wholes: Counter[int] = Counter()
    for row in moved.rows:
        layer = min(row.client, drawn)
        wholes[layer] += row.moved
        values[layer][row.step] += row.moved
    names = [*moved.clients[:drawn], "others"]
    layers = [
        Layer(name, f"fill-{number}" if number < drawn else "others", size(wholes[number]), values[number])
        for number, name in enumerate(names)
        if wholes[number]
    ]
    largest = max(map(sum, zip(*values, strict=True)))
    factor, unit = size_unit(largest)
    title = f"Bytes by client, {length(moved.step_us)} in each bar"
    plot = stack_plot(title, layers, steps, linear(largest, factor, unit), size)
    return tag("div", plot, id="usage-stack", data_follows="cluster client topic")


def heat_map(moved: Moved) -> Markup:
    """Return the table of clients by topics, in which cells with more bytes have a stronger colour."""
    clients, topics = moved.clients[:HEAT_CLIENTS], moved.topics[:HEAT_TOPICS]
    cells: dict[tuple[int, int], list[int]] = {}
    for row in moved.rows:
        cell = cells.setdefault((min(row.client, len(clients)), min(row.topic, len(topics))), [0, 0, 0])
        for place, number in enumerate((row.produced, row.fetched, row.records or 0)):
            cell[place] += number
    heads = _heads(topics, any(topic == len(topics) for _, topic in cells))
    sides = _heads(clients, any(client == len(clients) for client, _ in cells))
    largest = max(cell[0] + cell[1] for cell in cells.values())
    rows = [
        tag(
            "tr",
            tag("th", shown, scope="row"),
            [_cell(cells.get((client, topic)), largest, (name, head)) for topic, (head, _) in enumerate(heads)],
        )
        for client, (name, shown) in enumerate(sides)
    ]
    title = f"Bytes by client and topic. Each stronger colour is up to {TIMES} times as much."
    made = tag(
        "table",
        tag("thead", tag("tr", tag("td"), [tag("th", shown, scope="col") for _, shown in heads])),
        tag("tbody", rows),
        class_="heat",
        id="usage-heat",
        aria_labelledby="usage-heat-title",
        data_follows="cluster client topic time",
    )
    scrolled = tag("div", made, class_="scroll wide", tabindex="0", role="region", aria_label="Heat map")
    return together(tag("p", title, id="usage-heat-title", class_="unit"), scrolled)


def _heads(names: Sequence[str], has_others: bool) -> list[tuple[str, Child]]:
    return [*((name, named(name)) for name in names), *([("others", tag("em", "others"))] if has_others else [])]


def _cell(cell: list[int] | None, largest: int, names: tuple[str, str]) -> Markup:
    if cell is None:
        return tag("td")
    produced, fetched, records = cell
    told = f"{', '.join(names)}: produced {size(produced)}, fetched {size(fetched)}, {count(records)} records"
    return tag("td", size(produced + fetched), class_=f"heat-{level(produced + fetched, largest)}", title=told)


def level(value: int, largest: int) -> int:
    """Return the strength of a cell's colour: LEVELS for the largest values, 1 for small ones, 0 for none."""
    return max(1, LEVELS - math.floor(math.log(largest / value, TIMES))) if value else 0
