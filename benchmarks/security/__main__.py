"""`python -m benchmarks.security`: what TLS, ACLs and client quotas cost, beside Apache Kafka with the JDK's TLS.

Both brokers run in turn, phase by phase, in several rounds. Ratios are taken within a round. `--before CHECKOUT`
compares rows without TLS with an earlier checkout of this project. The results go to benchmarks/results/security.json
and .md; with `--phases` nothing is written.
"""

import argparse
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import median

from benchmarks.brokers.rows import ROOT
from benchmarks.comparison import ALONE, BEFORE, KAFKA, Rounds, Tables, add, options_of, publish, rows_of
from benchmarks.report import APACHE_KAFKA
from benchmarks.round_table import Figures, Found, Measured, table
from benchmarks.security import phases, wanted
from benchmarks.security.acl_checks import ACLS, checks_us
from benchmarks.security.phases import Durations, Session
from benchmarks.security.subjects import SECURE, Maker, ours, ours_without_tls, theirs
from tests.support.tls.secure_broker import TlsWorld

_WANTED = {KAFKA: wanted.BESIDE_KAFKA, BEFORE: wanted.BESIDE_BEFORE, ALONE: wanted.ALONE}
_MEGABYTES_PER_S = 200.0
_ON_BROKER: Mapping[str, Callable[[Session], Found]] = {
    "traffic": lambda session: phases.traffic(session, encrypted=True),
    "handshakes": phases.handshakes,
    "storms": phases.storms,
    "neighbours": phases.neighbours,
}
_PHASES = (*_ON_BROKER, "memory", BEFORE, "acls")


def main(arguments: Sequence[str] | None = None) -> int:
    options = options_of("security", __doc__, "TLS", ("--phases", _PHASES), arguments)
    if options is not None:
        publish("security", options, _measured(options), _page)
    return 0


def _measured(options: argparse.Namespace) -> Iterator[Tables]:
    """Measure; after each round yield the rows of all rounds by table. The subjects take turns in being the first."""
    chosen = options.only or _PHASES
    lengths = Durations(options.seconds, _MEGABYTES_PER_S * options.seconds)
    found: dict[str, tuple[Rounds, Rounds]] = {name: ({}, {}) for name in _WANTED}
    with tempfile.TemporaryDirectory() as folder:
        world = TlsWorld(Path(folder))
        for number in range(options.rounds):
            order = (0, 1) if number % 2 == 0 else (1, 0)
            print(f"round {number + 1}", flush=True)
            for subject in order:
                make = partial(theirs, world) if subject else partial(ours, ROOT, world)
                add(found[KAFKA][subject], _on_broker(make(), world, lengths, chosen))
                if "memory" in chosen:
                    add(found[KAFKA][subject], phases.memory(make((SECURE,)), str(world.trusted)))
            if BEFORE in chosen and options.before is not None:
                for subject in order:
                    make_old = ours_without_tls(options.before if subject else ROOT)
                    add(found[BEFORE][subject], _without_tls(make_old, world, lengths))
            if "acls" in chosen:
                checks = [Measured(median(each)) for each in checks_us(ACLS)]
                add(found[ALONE][0], dict(zip(wanted.ALONE, checks, strict=True)))
            yield {name: rows_of(_WANTED[name], *rounds) for name, rounds in found.items()}


def _on_broker(make: Maker, world: TlsWorld, lengths: Durations, chosen: Sequence[str]) -> Found:
    found: Found = {}
    asked = [phase for name, phase in _ON_BROKER.items() if name in chosen]
    if asked:
        with make() as broker:
            session = Session(broker, world, lengths)
            for phase in asked:
                found |= phase(session)
    return found


def _without_tls(make: Maker, world: TlsWorld, lengths: Durations) -> Found:
    with make() as broker:
        session = Session(broker, world, lengths)
        return phases.traffic(session, encrypted=False) | phases.connections(session)


def _page(figures: Figures) -> str:
    rows = figures["rows"]
    note = f" {figures['note']}" if figures["note"] else ""
    parts = [
        "# TLS, ACLs and client quotas",
        f"{figures['machine']}; {figures['rounds']} rounds, medians (least to greatest); ratio = ours / theirs within "
        f"a round. Processor time is that of the broker.{note}",
        f"## Beside {APACHE_KAFKA} with the JDK's TLS",
        table(rows[KAFKA], APACHE_KAFKA),
    ]
    if rows[BEFORE]:
        parts += ["## Without TLS, beside this project before it had TLS, SASL and ACLs", table(rows[BEFORE], BEFORE)]
    parts += ["## One check with ACLs, processor time", table(rows[ALONE], None)]
    return "\n\n".join(part.strip() for part in parts) + "\n"


if __name__ == "__main__":
    sys.exit(main())
