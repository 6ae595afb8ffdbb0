"""Converts the figures of all rounds to JSON and to a table."""

import math
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

Figures = Mapping[str, float]

MEMORY = "memory at its most until then (VmHWM), MiB"

WANTED: Mapping[str, float] = {
    **{f"{phase}: {MEMORY}": 175 for phase in ("start", "idle", "quiet", "busy", "sick", "roll")},
    "start: all Ready, s": 130,
    "idle: processor, % of a core": 3,
    "idle: requests a minute besides the Lease": 30,
    "quiet: enforced p99, s": 1,
    "busy: enforced p99, s": 1,
    "sick: enforced p99, s": 1,
    "roll: enforced p99, s": 1,
    "wide: enforced p99, s": 2,
    "flood: all in force after the last write, s": 3,
    "Leases lost": 0,
    "iterations that worked over 50 ms": 0,
}
"""Targets: at or below this a figure is reached.

`wide` has one cluster and a thousand quotas more than the promise on memory covers.
"""

BESIDE: Mapping[str, str] = {
    f"start: {MEMORY}": "Strimzi's default limit is 384 Mi, raised from 256; out of memory with it:"
    " its issues 4471, 5040, 6854, 11964",
    "start: all Ready, s": "Strimzi's issues 4902 and 4914: 30 to 90 s for about 100 clusters of which none changed,"
    " over 30 s for 20",
    "idle: processor, % of a core": "Strimzi looks at all clusters at once every two minutes, its default; its issue"
    " 4902 shows the processor's spikes",
    "quiet: enforced p99, s": "Strimzi has no limit of an address; what its watch has missed it finds with the next"
    " two minutes' tick",
}
"""Figures that others published about their products, not measured here."""


def summarized(rounds: Sequence[Figures]) -> Mapping[str, Mapping[str, Any]]:
    """Return all rounds by row, with their median, least and greatest. Missing and infinite numbers are None."""
    rows = dict.fromkeys(row for figures in rounds for row in figures)
    return {row: _summary(row, [_number(figures.get(row)) for figures in rounds]) for row in rows}


def _number(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else round(value, 3)


def _summary(row: str, values: Sequence[float | None]) -> Mapping[str, Any]:
    known = [value for value in values if value is not None]
    found: dict[str, Any] = {"rounds": list(values)}
    if known:
        found |= {"median": median(known), "least": min(known), "greatest": max(known)}
    if row in WANTED:
        found |= {"wanted": WANTED[row], "reached": len(known) == len(values) and median(known) <= WANTED[row]}
    return found


def table(figures: Mapping[str, Any]) -> str:
    size = figures["size"]
    lines = [
        "# One operator and many clusters",
        "",
        f"{size['clusters']} clusters x {size['brokers']} brokers, {size['quotas']:,} ConnectionQuotas,"
        f" {size['topics']:,} Topics{_wide(size)}; {figures['machine']}; {figures['rounds']} rounds, medians (least to"
        " greatest)."
        " The played brokers, which are one process, the API server with its audit log and etcd share the cores with"
        " the operator.",
        "",
        "| row | found | wanted | reached | beside |",
        "|---|---|---|---|---|",
    ]
    lines += [_line(row, summary) for row, summary in figures["rows"].items()]
    for name, requests in figures["requests"].items():
        lines += ["", f"Requests of the operator's own account ({name}):", ""]
        lines += [f"- {key}: {count:.3g}" for key, count in requests.items()] or ["- none"]
    return "\n".join([*lines, ""])


def _wide(size: Mapping[str, int]) -> str:
    """Describe what the last phase adds."""
    brokers, quotas = size.get("wide", 0), size.get("wide_quotas", 0)
    if not brokers:
        return ""
    return f"; in the phase `wide` one more cluster of {brokers} brokers with {quotas:,} ConnectionQuotas"


def _line(row: str, summary: Mapping[str, Any]) -> str:
    wanted = f"<= {summary['wanted']:g}" if "wanted" in summary else ""
    reached = {True: "yes", False: "**no**"}[summary["reached"]] if "wanted" in summary else ""
    return f"| {row} | {_found(summary)} | {wanted} | {reached} | {BESIDE.get(row, '')} |"


def _found(summary: Mapping[str, Any]) -> str:
    if "median" not in summary:
        return "never"
    lost = sum(value is None for value in summary["rounds"])
    spread = f" ({_short(summary['least'])} to {_short(summary['greatest'])})" if len(summary["rounds"]) > 1 else ""
    return _short(summary["median"]) + spread + (f", and {lost} never" if lost else "")


def _short(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
