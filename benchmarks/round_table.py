"""Rows of several rounds as a Markdown table: their values, ratios and processor times, and their bounds. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, NamedTuple

Figures = Mapping[str, Any]


class Measured(NamedTuple):
    """A figure, and the broker's processor time in microseconds for one unit of its work, if that was measured."""

    value: float
    processor_us: float | None = None


Found = dict[str, Measured]
"""The figures of one round, by row."""


@dataclass(frozen=True)
class Wanted:
    """The unit of a row, and its bounds: of the ratio ours / theirs, and of our own figure.

    A bound is the least value if more is better, otherwise the greatest. `work` is the unit of the processor time.
    """

    unit: str
    more_is_better: bool = False
    ratio: float | None = None
    own: float | None = None
    work: str | None = None


def figures_of(
    wanted: Wanted,
    ours: Sequence[tuple[float, float | None]],
    theirs: Sequence[tuple[float, float | None]] = (),
) -> Figures:
    """Return one row: values and processor times by round, and the ratios of each round.

    If a value of the other subject is 0, there is no ratio.
    """
    found: dict[str, Any] = {
        "unit": wanted.unit,
        "more_is_better": wanted.more_is_better,
        "wanted_ratio": wanted.ratio,
        "wanted": wanted.own,
        "work": wanted.work,
        "ours": [value for value, _ in ours],
        "ours_processor_us": [spent for _, spent in ours],
    }
    if theirs:
        found |= {"theirs": [value for value, _ in theirs], "theirs_processor_us": [spent for _, spent in theirs]}
        if all(value for value, _ in theirs):
            found["ratio"] = _spread([a / b for (a, _), (b, _) in zip(ours, theirs, strict=True)])
        spent = [a / b for (_, a), (_, b) in zip(ours, theirs, strict=True) if a and b]
        if spent:
            found["processor_ratio"] = _spread(spent)
    return found


def _spread(values: Sequence[float]) -> Mapping[str, float]:
    return {"median": median(values), "least": min(values), "greatest": max(values)}


def table(rows: Mapping[str, Figures], other: str | None) -> str:
    """Return the table of these rows; `other` is the name of the other subject, if there is one."""
    head = ["row", "ours"]
    if other is not None:
        head += [other, "ratio", "processor time, us", "its ratio"]
    head += ["wanted", "reached"]
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    for name, row in rows.items():
        cells = [name, _value(row["ours"], row["unit"])]
        if other is not None:
            cells += [_value(row["theirs"], row["unit"]), _shown(row.get("ratio")), _times(row)]
            cells.append(_shown(row.get("processor_ratio")))
        cells += [_wanted(row), _reached(row)]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _value(values: Sequence[float], unit: str) -> str:
    middle = median(values)
    spread = f" ({_number(min(values))} to {_number(max(values))})" if len(values) > 1 else ""
    return f"{_number(middle)} {unit}{spread}"


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:,.1f}" if value >= 10 else f"{value:,.2f}"


def _shown(ratio: Figures | None) -> str:
    if ratio is None:
        return ""
    return f"{ratio['median']:.2f} ({ratio['least']:.2f} to {ratio['greatest']:.2f})"


def _times(row: Figures) -> str:
    ours, theirs = row["ours_processor_us"], row["theirs_processor_us"]
    if None in ours or None in theirs:
        return ""
    return f"{_number(median(ours))} beside {_number(median(theirs))} a {row['work']}"


def _wanted(row: Figures) -> str:
    sign = ">=" if row["more_is_better"] else "<="
    if row["wanted"] is not None:
        return f"ours {sign} {row['wanted']:g} {row['unit']}"
    return "" if row["wanted_ratio"] is None else f"ratio {sign} {row['wanted_ratio']:g}"


def _reached(row: Figures) -> str:
    if row["wanted"] is not None:
        value, bound = median(row["ours"]), row["wanted"]
    elif row["wanted_ratio"] is not None and "ratio" in row:
        value, bound = row["ratio"]["median"], row["wanted_ratio"]
    else:
        return ""
    return "yes" if (value >= bound if row["more_is_better"] else value <= bound) else "**no**"
