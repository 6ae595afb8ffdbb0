"""`python -m benchmarks.transactions`: transactions beside Apache Kafka, and what they cost everybody else.

Three brokers of each subject run in turn, phase by phase, in several rounds. Ratios are taken within a round. `--before
CHECKOUT` compares requests without transactions with an earlier checkout of this project. The results go to
benchmarks/results/transactions.json and .md; with `--rows` nothing is written.
"""

import argparse
import sys
from collections.abc import Iterator, Sequence

from benchmarks.brokers.rows import ROOT
from benchmarks.comparison import ALONE, BEFORE, KAFKA, Rounds, Tables, add, options_of, publish, rows_of
from benchmarks.groups.group_rows import three_of_ours, three_of_theirs
from benchmarks.report import APACHE_KAFKA
from benchmarks.round_table import Figures, Found, table
from benchmarks.transactions import wanted
from benchmarks.transactions.before import BesideBefore
from benchmarks.transactions.hanging import longest_turn
from benchmarks.transactions.phases import PHASES, SETTINGS, begun

_HANGING = "hanging"
_WANTED = {KAFKA: wanted.BESIDE_KAFKA, BEFORE: wanted.BESIDE_BEFORE, ALONE: wanted.ALONE}
_ROWS = (*PHASES, BEFORE, _HANGING)
_ONCE = ("ids", _HANGING)
"""Rows of the first round only: they take long, and vary little."""


def main(arguments: Sequence[str] | None = None) -> int:
    options = options_of("transactions", __doc__, "transactions", ("--rows", _ROWS), arguments)
    if options is not None:
        publish("transactions", options, _measured(options), _page)
    return 0


def _measured(options: argparse.Namespace) -> Iterator[Tables]:
    """Measure; after each round yield the rows of all rounds by table. The subjects take turns in being the first."""
    asked = options.only or _ROWS
    found: dict[str, tuple[Rounds, Rounds]] = {name: ({}, {}) for name in _WANTED}
    for number in range(options.rounds):
        order = (0, 1) if number % 2 == 0 else (1, 0)
        print(f"round {number + 1}", flush=True)
        chosen = [name for name in asked if number == 0 or name not in _ONCE]
        if any(name in chosen for name in PHASES):
            for subject in order:
                add(found[KAFKA][subject], _on_cluster(subject == 1, options.seconds, chosen))
        if BEFORE in chosen and options.before is not None:
            with BesideBefore((ROOT, options.before)) as beside:
                for rounds, each in zip(found[BEFORE], beside.measure(), strict=True):
                    add(rounds, each)
        if _HANGING in chosen:
            add(found[ALONE][0], longest_turn())
        yield {name: rows_of(_WANTED[name], *rounds) for name, rounds in found.items()}


def _on_cluster(is_kafka: bool, seconds: float, chosen: Sequence[str]) -> Found:
    found: Found = {}
    with three_of_theirs(SETTINGS) if is_kafka else three_of_ours(ROOT, SETTINGS) as cluster:
        session = begun(cluster, seconds, is_java=is_kafka)
        for name, phase in PHASES.items():
            if name in chosen:
                found |= phase(session)
    return found


def _page(figures: Figures) -> str:
    rows = figures["rows"]
    note = f" {figures['note']}" if figures["note"] else ""
    parts = [
        "# Transactions",
        f"{figures['machine']}; {figures['rounds']} rounds, medians (least to greatest); ratio = ours / theirs within "
        f"a round. Processor time is that of all three brokers.{note}",
    ]
    if rows[KAFKA]:
        parts += [f"## Three brokers beside {APACHE_KAFKA}", table(rows[KAFKA], APACHE_KAFKA)]
    if rows[BEFORE]:
        parts += ["## Without transactions, beside this project before it had them", table(rows[BEFORE], BEFORE)]
    if rows[ALONE]:
        parts += ["## One broker in memory", table(rows[ALONE], None)]
    return "\n\n".join(part.strip() for part in parts) + "\n"


if __name__ == "__main__":
    sys.exit(main())
