"""Writes figures as a Markdown table and as a picture."""

from collections.abc import Mapping
from pathlib import Path
from statistics import median
from typing import Any

import matplotlib as mpl

mpl.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.ticker import FuncFormatter

Figures = Mapping[str, Any]
APACHE_KAFKA = "Apache Kafka 4.3.0"


def write_table(figures: Figures, path: Path) -> None:
    lines = [
        f"# Side by side with {_other(figures)}",
        "",
        f"{figures['machine']}; {figures['rounds']} rounds, medians; "
        "ratio = ours / theirs within a round (least to greatest).",
        "",
        f"| row | ours | {figures['beside']} | ratio | floor | reached |",
        "|---|---|---|---|---|---|",
    ]
    for name, row in figures["rows"].items():
        ours, theirs = median(row["ours"]), median(row["theirs"])
        ratio = row["ratio"]
        shown = f"{ratio['median']:.2f} ({ratio['least']:.2f} to {ratio['greatest']:.2f})"
        unit = row["unit"]
        cells = (name, f"{ours:,.1f} {unit}", f"{theirs:,.1f} {unit}", shown, _floor(row), _reached(row))
        lines.append(f"| {' | '.join(cells)} |")
    if enforced := figures.get("apply_to_enforced"):
        lines += [
            "",
            f"Apply to enforced, {enforced['changes']} changes at {enforced['brokers']} brokers: "
            f"p50 {enforced['p50_ms']:.0f} ms, p99 {enforced['p99_ms']:.0f} ms, greatest {enforced['max_ms']:.0f} ms.",
        ]
    lines.append("")
    path.write_text("\n".join(lines))


def _other(figures: Figures) -> str:
    return APACHE_KAFKA if figures["beside"] == APACHE_KAFKA else "this project as it was before"


def _floor(row: Figures) -> str:
    if row["floor"] is None:
        return ""
    return f"{'>=' if row['more_is_better'] else '<='} {row['floor']:.3g}"


def _reached(row: Figures) -> str:
    if row["floor"] is None:
        return ""
    ratio, floor = row["ratio"]["median"], row["floor"]
    return "yes" if (ratio >= floor if row["more_is_better"] else ratio <= floor) else "**no**"


def write_picture(figures: Figures, path: Path) -> None:
    """Plot how many times better each row is.

    Points lie around 1, with the spread over the rounds and the median's number.
    """
    rows = figures["rows"]
    better = [_times_better(row) for row in rows.values()]
    figure, axes = plt.subplots(figsize=(10, 0.4 * len(rows) + 1.5))
    for line, (least, middle, greatest) in enumerate(better):
        color = "#2f7d4f" if middle >= 1 else "#b3402e"
        axes.plot([least, greatest], [line, line], color=color, linewidth=2, solid_capstyle="butt")
        axes.plot(middle, line, "o", color=color, markersize=6)
        axes.annotate(
            f"{middle:.3g}", (greatest, line), xytext=(8, 0), textcoords="offset points", va="center", fontsize=8
        )
    axes.axvline(1, color="#222222", linewidth=1)
    axes.set_xscale("log")
    ends = [end for least, _, greatest in better for end in (least, greatest)]
    axes.set_xlim(min(0.5, *ends) / 1.2, max(2, *ends) * 3)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda times, _: f"{times:g}"))
    axes.set_xlabel(f"times better than {_other(figures)} (1 is equal)")
    axes.set_yticks(range(len(rows)), list(rows))
    axes.grid(axis="y", color="#dddddd", linewidth=0.5)
    axes.set_axisbelow(True)
    axes.invert_yaxis()
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    plt.close(figure)


def _times_better(row: Figures) -> tuple[float, float, float]:
    """Return the least, median and greatest ratio."""
    ratio = row["ratio"]
    least, middle, greatest = float(ratio["least"]), float(ratio["median"]), float(ratio["greatest"])
    return (least, middle, greatest) if row["more_is_better"] else (1 / greatest, 1 / middle, 1 / least)
