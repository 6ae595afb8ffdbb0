"""Contests: measured in rounds, each subject in turn, and written as a table. A ratio is taken within a round."""

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from benchmarks.push_rows import Contest

Rounds = Mapping[str, Sequence[Sequence[float]]]
"""By the subject: by the round, the figures of a contest."""


def measure_contest(contest: Contest, rounds: int) -> Mapping[str, Any]:
    """Says each round as it is done."""
    measured: dict[str, list[Sequence[float]]] = {subject: [] for subject in contest.subjects}
    for _ in range(rounds):
        for subject, measure in contest.subjects.items():
            measured[subject].append(measure())
            said = ", ".join(
                f"{value:,.2f} {figure}" for figure, value in zip(contest.figures, measured[subject][-1], strict=True)
            )
            print(f"{contest.name}: {subject}: {said}", flush=True)
    return {"note": contest.note, "figures": _figures(contest.figures, measured)}


def _figures(names: Sequence[str], measured: Rounds) -> Mapping[str, Any]:
    """By the name of the figure and the subject: all rounds, and the ratio of the first subject to this one."""
    found: dict[str, dict[str, Any]] = {}
    first = next(iter(measured))
    for at, name in enumerate(names):
        ours = [figures[at] for figures in measured[first]]
        found[name] = {}
        for subject, rounds in measured.items():
            theirs = [figures[at] for figures in rounds]
            found[name][subject] = {"rounds": theirs}
            if subject != first and all(theirs):
                found[name][subject]["ratio"] = _ratio(ours, theirs)
    return found


def _ratio(ours: Sequence[float], theirs: Sequence[float]) -> Mapping[str, float]:
    ratios = [a / b for a, b in zip(ours, theirs, strict=True)]
    return {"median": median(ratios), "least": min(ratios), "greatest": max(ratios)}


def contest_table(measured: Mapping[str, Any], *, machine: str, rounds: int) -> str:
    """`measured` by the name of the contest."""
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
    said = _short(median(cell["rounds"]))
    ratio = cell.get("ratio")
    if ratio is None:
        return f"{said} ({_short(min(cell['rounds']))} to {_short(max(cell['rounds']))})"
    return f"{said} [{ratio['median']:.2f} ({ratio['least']:.2f} to {ratio['greatest']:.2f})]"


def _short(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
