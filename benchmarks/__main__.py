"""`make bench`: both subjects in turn, row by row, several rounds; writes a table and a picture to benchmarks/results/.

A ratio is taken within each round, so that a machine whose speed drifts does not bend it; the table gives the median
ratio with its least and greatest, and both subjects' medians. Nothing is thrown away.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks import controller_rows, replicated_rows
from benchmarks.apply_to_enforced import measure_apply_to_enforced
from benchmarks.replicated_rows import ClusterRow
from benchmarks.report import write_picture, write_table
from benchmarks.rows import ROWS, SUBJECTS, Row, machine, needs

MEMORY = Path("/dev/shm")
RESULTS = Path(__file__).parent / "results"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser("benchmarks")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--rows", default="", help="only rows whose name contains this")
    options = parser.parse_args(arguments)
    RESULTS.mkdir(exist_ok=True)
    if MEMORY.is_dir():
        # The disk of the machine is not what is compared: its write-back throttles both subjects alike.
        tempfile.tempdir = str(MEMORY)
    enforced = measure_apply_to_enforced(changes=100, brokers=3)
    print("apply to enforced:", enforced, flush=True)
    missing = needs()
    if missing:
        print(f"the comparison with Apache Kafka is left out: {missing}")
        return 0
    measured = {row.name: _measure(row, options.rounds) for row in ROWS if options.rows in row.name}
    for group in (*replicated_rows.ROWS, *controller_rows.ROWS):
        if any(options.rows in name for name in group.names):
            measured |= _measure_clusters(group, options.rounds)
    figures = {"machine": machine(), "rounds": options.rounds, "apply_to_enforced": enforced, "rows": measured}
    if options.rows:
        print(json.dumps(figures, indent=1))
        return 0
    (RESULTS / "latest.json").write_text(json.dumps(figures, indent=1) + "\n")
    write_table(figures, RESULTS / "latest.md")
    write_picture(figures, RESULTS / "latest.png")
    print((RESULTS / "latest.md").read_text())
    return 0


def _measure(row: Row, rounds: int) -> Mapping[str, object]:
    values: dict[str, list[float]] = {name: [] for name in SUBJECTS}
    for _ in range(rounds):
        for name, make in SUBJECTS.items():
            values[name].append(row.measure(make))
            print(f"{row.name}: {name} {values[name][-1]:,.2f} {row.unit}", flush=True)
    return _figures(values, row.unit, row.more_is_better, row.floor)


def _measure_clusters(row: ClusterRow[Any], rounds: int) -> Mapping[str, Mapping[str, object]]:
    missing = row.missing()
    if missing:
        print(f"{row.names}: left out: {missing}")
        return {}
    values: list[dict[str, list[float]]] = [{name: [] for name in row.makers} for _ in row.names]
    for _ in range(rounds):
        for name, make in row.makers.items():
            for found, kept in zip(row.measure(make), values, strict=True):
                kept[name].append(found)
            print(f"{row.names}: {name} {[kept[name][-1] for kept in values]} {row.unit}", flush=True)
    return {
        name: _figures(kept, row.unit, row.more_is_better, floor)
        for name, kept, floor in zip(row.names, values, row.floors, strict=True)
    }


def _figures(
    values: Mapping[str, Sequence[float]], unit: str, more_is_better: bool, floor: float | None
) -> Mapping[str, object]:
    ours, theirs = values.values()
    ratios = [a / b for a, b in zip(ours, theirs, strict=True)]
    return {
        "unit": unit,
        "more_is_better": more_is_better,
        "floor": floor,
        "values": values,
        "ratio": {"median": median(ratios), "least": min(ratios), "greatest": max(ratios)},
    }


if __name__ == "__main__":
    sys.exit(main())
