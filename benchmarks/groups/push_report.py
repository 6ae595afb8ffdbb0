"""Contests: measured in rounds, each subject in turn, and written as a table. Ratios are taken within a round."""

from collections.abc import Mapping, Sequence
from math import isnan
from statistics import median
from typing import Any

from benchmarks.groups.push_rows import Contest

Round = Sequence[float] | None
"""The figures of a contest; None if the measurement failed."""


def measure_contest(contest: Contest, rounds: int) -> Mapping[str, Any]:
    """Measure a contest, and print each round when it ends.

    A failed round does not end a run of hours: the table shows the number of failures.
    """
    measured: dict[str, list[Round]] = {subject: [] for subject in contest.subjects}
    for _ in range(rounds):
        for subject, measure in contest.subjects.items():
            found: Round = None
            try:
                found = measure()
                figures = zip(contest.figures, found, strict=True)
                said = ", ".join(f"{value:,.2f} {figure}" for figure, value in figures)
            except (RuntimeError, ValueError) as error:
                said = f"failed: {error!r}"
            measured[subject].append(found)
            print(f"{contest.name}: {subject}: {said}", flush=True)
    return {"note": contest.note, "figures": _figures(contest.figures, measured)}


def _figures(names: Sequence[str], measured: Mapping[str, Sequence[Round]]) -> Mapping[str, Any]:
    """Return, by figure and subject, all rounds and the ratio of the first subject to this one."""
    found: dict[str, dict[str, Any]] = {}
    first = next(iter(measured))
    for at, name in enumerate(names):
        ours = [_figure(each, at) for each in measured[first]]
        found[name] = {}
        for subject, rounds in measured.items():
            theirs = [_figure(each, at) for each in rounds]
            found[name][subject] = {"rounds": theirs}
            both = [(a, b) for a, b in zip(ours, theirs, strict=True) if a is not None and b is not None]
            if subject != first and both and all(b for _, b in both):
                ratios = [a / b for a, b in both]
                spread = {"median": median(ratios), "least": min(ratios), "greatest": max(ratios)}
                found[name][subject]["ratio"] = spread
    return found


def _figure(measured: Round, at: int) -> float | None:
    """Return the figure; None if there was none, because JSON has no NaN."""
    return None if measured is None or isnan(measured[at]) else measured[at]


def contest_table(measured: Mapping[str, Any], *, machine: str, rounds: int) -> str:
    """Return the table. `measured` is keyed by the name of the contest."""
    lines = [
        "# The push protocol beside the classic one and KIP-848",
        "",
        f"{machine}; {rounds} rounds, medians. In brackets: push / this one within a round, median (least to "
        "greatest); below 1 push has less.",
    ]
    for name, contest in measured.items():
        subjects = list(next(iter(contest["figures"].values())))
        lines += ["", f"## {name}", ""]
        lines += [contest["note"], ""] if contest["note"] else []
        lines += [_line(["", *subjects]), _line(["---"] * (len(subjects) + 1))]
        lines += [_line([figure, *map(_cell, cells.values())]) for figure, cells in contest["figures"].items()]
    return "\n".join([*lines, ""])


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _cell(cell: Mapping[str, Any]) -> str:
    rounds = [each for each in cell["rounds"] if each is not None]
    if not rounds:
        return "none"
    lost = len(cell["rounds"]) - len(rounds)
    said = _short(median(rounds)) + (f" (without {lost} that failed)" if lost else "")
    ratio = cell.get("ratio")
    if ratio is None:
        return f"{said} ({_short(min(rounds))} to {_short(max(rounds))})"
    return f"{said} [{ratio['median']:.2f} ({ratio['least']:.2f} to {ratio['greatest']:.2f})]"


def _short(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
