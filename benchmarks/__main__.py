"""`make bench`: measures two subjects in turn, row by row, in several rounds.

It writes a table and a picture to benchmarks/results/. The other subject is Apache Kafka, or an earlier version of this
project (`--before CHECKOUT`). A ratio is taken within each round, so that a drift of the machine's speed does not
distort it. The table gives the median ratio with its least and greatest, and the medians of both subjects. No
measurement is discarded.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.apply_to_enforced import measure_apply_to_enforced
from benchmarks.brokers import controller_rows, idle_partition_rows, partition_rows, replicated_rows
from benchmarks.brokers.replicated_rows import ClusterRow
from benchmarks.brokers.rows import (
    ROOT,
    ROWS,
    Row,
    apache_kafka,
    compile_broker,
    machine,
    needs,
    production_python,
    sluicegate,
)
from benchmarks.groups import group_rows, push_report, push_rows, reading_rows
from benchmarks.report import APACHE_KAFKA, write_picture, write_table

MEMORY = Path("/dev/shm")
RESULTS = Path(__file__).parent / "results"
CLUSTER_ROWS: Sequence[ClusterRow[Any]] = (
    *replicated_rows.ROWS,
    *idle_partition_rows.ROWS,
    *partition_rows.ROWS,
    *controller_rows.ROWS,
)
NOT_SLOWER = 0.97
"""Bound of every row in a comparison with an earlier version of this project, instead of its floor against Kafka."""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser("benchmarks")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--rows", default="", help="only rows whose name contains this; nothing is written then")
    parser.add_argument("--before", type=Path, help="compare with another checkout of this project, not with Kafka")
    parser.add_argument(
        "--groups", type=int, metavar="MEMBERS", help="the rows of consumer groups instead, with so many members"
    )
    parser.add_argument(
        "--push",
        action="store_true",
        help="of these only the rows that have the push protocol beside the classic one and KIP-848",
    )
    options = parser.parse_args(arguments)
    if options.push and (not options.groups or options.before is not None):
        parser.error("--push needs --groups MEMBERS, and is not compared with another checkout")
    if options.before is not None and not Path(production_python(options.before)).exists():
        parser.error(f"run `make .venv-runtime/.installed` in {options.before} first")
    for checkout in (ROOT, options.before):
        if checkout is not None:
            compile_broker(checkout)
    RESULTS.mkdir(exist_ok=True)
    if MEMORY.is_dir():
        # Keep data in memory: the comparison excludes the disk, whose write-back throttles both subjects alike.
        tempfile.tempdir = str(MEMORY)
    if options.push:
        return _push(options)
    enforced = {} if options.groups else {"apply_to_enforced": measure_apply_to_enforced(changes=100, brokers=3)}
    print(enforced, flush=True)
    missing = needs()
    if missing and options.before is None:
        print(f"the comparison with Apache Kafka is left out: {missing}")
        return 0
    alone: Sequence[Row] = () if options.groups else ROWS
    measured = {row.name: _measure(row, options) for row in alone if options.rows in row.name}
    for group in group_rows.rows(options.groups) if options.groups else CLUSTER_ROWS:
        if any(options.rows in name for name in group.names):
            measured |= _measure_clusters(group, options)
    figures = {
        "machine": machine(),
        "beside": APACHE_KAFKA if options.before is None else "before",
        "rounds": options.rounds,
        **enforced,
        "rows": measured,
    }
    if options.rows:
        print(json.dumps(figures, indent=1))
        return 0
    name = "groups" if options.groups else "latest" if options.before is None else "before"
    (RESULTS / f"{name}.json").write_text(json.dumps(figures, indent=1) + "\n")
    write_table(figures, RESULTS / f"{name}.md")
    write_picture(figures, RESULTS / f"{name}.png")
    print((RESULTS / f"{name}.md").read_text())
    return 0


def _push(options: argparse.Namespace) -> int:
    """Measure contests in the same way. Subjects are protocols of this project and, if available, of Apache Kafka."""
    missing = needs()
    contests = (*push_rows.crowd_rows(options.groups), *reading_rows.rows())
    if missing:
        print(f"the comparison is left out: {missing}")
        return 0
    measured: dict[str, Mapping[str, object]] = {}
    table = ""
    for contest in contests:
        if options.rows not in contest.name:
            continue
        measured[contest.name] = push_report.measure_contest(contest, options.rounds)
        table = push_report.contest_table(measured, machine=machine(), rounds=options.rounds)
        if not options.rows:
            # Write after each contest, so that an aborted run of an hour keeps its results.
            figures = {"machine": machine(), "rounds": options.rounds, "members": options.groups, "rows": measured}
            (RESULTS / "push.json").write_text(json.dumps(figures, indent=1) + "\n")
            (RESULTS / "push.md").write_text(table)
    print(table)
    return 0


def _measure(row: Row, options: argparse.Namespace) -> Mapping[str, object]:
    makers = (sluicegate(ROOT), apache_kafka if options.before is None else sluicegate(options.before))
    values: tuple[list[float], list[float]] = ([], [])
    for _ in range(options.rounds):
        for make, found in zip(makers, values, strict=True):
            found.append(row.measure(make))
        print(f"{row.name}: {values[0][-1]:,.2f} beside {values[1][-1]:,.2f} {row.unit}", flush=True)
    floor = row.floor if options.before is None else _not_worse(row.more_is_better)
    return _figures(*values, row.unit, row.more_is_better, floor)


def _measure_clusters(row: ClusterRow[Any], options: argparse.Namespace) -> Mapping[str, Mapping[str, object]]:
    missing = row.missing()
    if missing:
        print(f"{row.names}: left out: {missing}")
        return {}
    makers = (row.ours(ROOT), row.theirs if options.before is None else row.ours(options.before))
    values: list[tuple[list[float], list[float]]] = [([], []) for _ in row.names]
    for _ in range(options.rounds):
        for subject, make in enumerate(makers):
            for found, kept in zip(row.measure(make), values, strict=True):
                kept[subject].append(found)
        for name, (ours, theirs) in zip(row.names, values, strict=True):
            print(f"{name}: {ours[-1]:,.2f} beside {theirs[-1]:,.2f} {row.unit}", flush=True)
    floors = row.floors if options.before is None else [_not_worse(row.more_is_better)] * len(row.names)
    return {
        name: _figures(ours, theirs, row.unit, row.more_is_better, floor)
        for name, (ours, theirs), floor in zip(row.names, values, floors, strict=True)
    }


def _not_worse(more_is_better: bool) -> float:
    return NOT_SLOWER if more_is_better else 1 / NOT_SLOWER


def _figures(
    ours: Sequence[float], theirs: Sequence[float], unit: str, more_is_better: bool, floor: float | None
) -> Mapping[str, object]:
    ratios = [a / b for a, b in zip(ours, theirs, strict=True)]
    return {
        "unit": unit,
        "more_is_better": more_is_better,
        "floor": floor,
        "ours": ours,
        "theirs": theirs,
        "ratio": {"median": median(ratios), "least": min(ratios), "greatest": max(ratios)},
    }


if __name__ == "__main__":
    sys.exit(main())
