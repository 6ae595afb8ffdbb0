"""Figures to a Markdown table and a picture."""

from collections.abc import Mapping
from pathlib import Path
from statistics import median
from typing import Any

import matplotlib as mpl

mpl.use("Agg")
from matplotlib import pyplot as plt

Figures = Mapping[str, Any]


def write_table(figures: Figures, path: Path) -> None:
    lines = [
        "# Side by side with Apache Kafka 4.3.0",
        "",
        f"{figures['machine']}; {figures['rounds']} rounds, medians; "
        "ratio = ours / theirs within a round (least to greatest).",
        "",
        "| row | ours | Apache Kafka | ratio | floor | reached |",
        "|---|---|---|---|---|---|",
    ]
    for name, row in figures["rows"].items():
        ours, theirs = (median(values) for values in row["values"].values())
        ratio = row["ratio"]
        shown = f"{ratio['median']:.2f} ({ratio['least']:.2f} to {ratio['greatest']:.2f})"
        unit = row["unit"]
        cells = (name, f"{ours:,.1f} {unit}", f"{theirs:,.1f} {unit}", shown, _floor(row), _reached(row))
        lines.append(f"| {' | '.join(cells)} |")
    enforced = figures["apply_to_enforced"]
    lines += [
        "",
        f"Apply to enforced, {enforced['changes']} changes at {enforced['brokers']} brokers: "
        f"p50 {enforced['p50_ms']:.0f} ms, p99 {enforced['p99_ms']:.0f} ms, greatest {enforced['max_ms']:.0f} ms.",
        "",
    ]
    path.write_text("\n".join(lines))


def _floor(row: Figures) -> str:
    if row["floor"] is None:
        return ""
    return f"{'>=' if row['more_is_better'] else '<='} {row['floor']:g}"


def _reached(row: Figures) -> str:
    if row["floor"] is None:
        return ""
    ratio, floor = row["ratio"]["median"], row["floor"]
    return "yes" if (ratio >= floor if row["more_is_better"] else ratio <= floor) else "**no**"


def write_picture(figures: Figures, path: Path) -> None:
    """How many times better, on a logarithmic axis, with the spread over the rounds."""
    names, middle, low, high = [], [], [], []
    for name, row in figures["rows"].items():
        ratio = row["ratio"]
        points = [ratio["median"], ratio["least"], ratio["greatest"]]
        if not row["more_is_better"]:
            points = [1 / point for point in points]
        names.append(name)
        middle.append(points[0])
        low.append(points[0] - min(points))
        high.append(max(points) - points[0])
    figure, axes = plt.subplots(figsize=(9, 0.45 * len(names) + 1.5))
    axes.barh(names, middle, xerr=[low, high], color="#3b7a9e", ecolor="#222222", capsize=3)
    axes.axvline(1, color="#222222", linewidth=1)
    axes.set_xscale("log")
    axes.set_xlabel("times better than Apache Kafka 4.3.0 (1 is equal)")
    axes.invert_yaxis()
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    plt.close(figure)
