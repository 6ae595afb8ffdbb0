"""`python -m benchmarks.security`: what TLS, ACLs and client quotas cost, beside Apache Kafka with the JDK's TLS.

Both brokers run in turn, phase by phase, in several rounds. Ratios are taken within a round. `--before CHECKOUT`
compares rows without TLS with an earlier checkout of this project. The results go to benchmarks/results/security.json
and .md; with `--phases` nothing is written.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import median

from benchmarks.report import APACHE_KAFKA
from benchmarks.rows import ROOT, compile_broker, machine, needs, production_python
from benchmarks.security import phases
from benchmarks.security.acl_checks import ACLS, checks_us
from benchmarks.security.phases import Durations, Found, Session
from benchmarks.security.subjects import SECURE, Maker, ours, ours_without_tls, theirs
from benchmarks.security.table import Figures, figures_of, table
from benchmarks.security.wanted import ALONE, BESIDE_BEFORE, BESIDE_KAFKA, Wanted
from tests.support.tls.secure_broker import TlsWorld

_MEMORY = Path("/dev/shm")
_RESULTS = Path(__file__).parents[1] / "results"
_KAFKA, _BEFORE, _ALONE = "kafka", "before", "alone"
_MEGABYTES_PER_S = 200.0
_ON_BROKER: Mapping[str, Callable[[Session], Found]] = {
    "traffic": lambda session: phases.traffic(session, encrypted=True),
    "handshakes": phases.handshakes,
    "storms": phases.storms,
    "neighbours": phases.neighbours,
}
_PHASES = (*_ON_BROKER, "memory", _BEFORE, "acls")
Rounds = dict[str, list[phases.Measured]]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser("benchmarks.security", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--before", type=Path, help="another checkout of this project, without TLS")
    parser.add_argument("--phases", nargs="+", choices=_PHASES, help="only these; nothing is written then")
    parser.add_argument("--seconds", type=float, default=3.0, help="length of a measurement")
    parser.add_argument("--note", default="", help="what else ran on the machine; it is written beside the results")
    options = parser.parse_args(arguments)
    if (missing := needs()) is not None:
        print(f"the comparison is left out: {missing}")
        return 0
    for checkout in (ROOT, options.before):
        if checkout is not None:
            if not Path(production_python(checkout)).exists():
                parser.error(f"run `make .venv-runtime/.installed` in {checkout} first")
            compile_broker(checkout)
    if _MEMORY.is_dir():
        tempfile.tempdir = str(_MEMORY)
    page = ""
    for number, measured in enumerate(_measured(options), 1):
        described = {"machine": machine(), "beside": APACHE_KAFKA, "rounds": number, "note": options.note}
        figures: Figures = {**described, "rows": measured}
        page = _page(figures)
        if not options.phases:
            # After each round, so that an aborted run keeps its results.
            (_RESULTS / "security.json").write_text(json.dumps(figures, indent=1) + "\n")
            (_RESULTS / "security.md").write_text(page)
    print(page)
    return 0


def _measured(options: argparse.Namespace) -> Iterator[Mapping[str, Mapping[str, Figures]]]:
    """Measure; after each round yield the rows of all rounds by table. The subjects take turns in being the first."""
    chosen = options.phases or _PHASES
    lengths = Durations(options.seconds, _MEGABYTES_PER_S * options.seconds)
    found: dict[str, tuple[Rounds, Rounds]] = {name: ({}, {}) for name in (_KAFKA, _BEFORE, _ALONE)}
    with tempfile.TemporaryDirectory() as folder:
        world = TlsWorld(Path(folder))
        for number in range(options.rounds):
            order = (0, 1) if number % 2 == 0 else (1, 0)
            print(f"round {number + 1}", flush=True)
            for subject in order:
                make = partial(theirs, world) if subject else partial(ours, ROOT, world)
                _add(found[_KAFKA][subject], _on_broker(make(), world, lengths, chosen))
                if "memory" in chosen:
                    _add(found[_KAFKA][subject], phases.memory(make((SECURE,)), str(world.trusted)))
            if _BEFORE in chosen and options.before is not None:
                for subject in order:
                    make_old = ours_without_tls(options.before if subject else ROOT)
                    _add(found[_BEFORE][subject], _without_tls(make_old, world, lengths))
            if "acls" in chosen:
                checks = [phases.Measured(median(each)) for each in checks_us(ACLS)]
                _add(found[_ALONE][0], dict(zip(ALONE, checks, strict=True)))
            wanted = {_KAFKA: BESIDE_KAFKA, _BEFORE: BESIDE_BEFORE, _ALONE: ALONE}
            yield {name: _rows(wanted[name], *rounds) for name, rounds in found.items()}


def _on_broker(make: Maker, world: TlsWorld, lengths: Durations, chosen: Sequence[str]) -> Found:
    found: Found = {}
    wanted = [phase for name, phase in _ON_BROKER.items() if name in chosen]
    if wanted:
        with make() as broker:
            session = Session(broker, world, lengths)
            for phase in wanted:
                found |= phase(session)
    return found


def _without_tls(make: Maker, world: TlsWorld, lengths: Durations) -> Found:
    with make() as broker:
        session = Session(broker, world, lengths)
        return phases.traffic(session, encrypted=False) | phases.connections(session)


def _add(rounds: Rounds, found: Found) -> None:
    for name, measured in found.items():
        print(f"  {name}: {measured.value:,.2f}", flush=True)
        rounds.setdefault(name, []).append(measured)


def _rows(wanted: Mapping[str, Wanted], ours: Rounds, theirs: Rounds) -> Mapping[str, Figures]:
    return {name: figures_of(row, ours[name], theirs.get(name, ())) for name, row in wanted.items() if name in ours}


def _page(figures: Figures) -> str:
    rows = figures["rows"]
    note = f" {figures['note']}" if figures["note"] else ""
    parts = [
        "# TLS, ACLs and client quotas",
        f"{figures['machine']}; {figures['rounds']} rounds, medians (least to greatest); ratio = ours / theirs within "
        f"a round. Processor time is that of the broker.{note}",
        f"## Beside {APACHE_KAFKA} with the JDK's TLS",
        table(rows[_KAFKA], APACHE_KAFKA),
    ]
    if rows[_BEFORE]:
        parts += ["## Without TLS, beside this project before it had TLS, SASL and ACLs", table(rows[_BEFORE], _BEFORE)]
    parts += ["## One check with ACLs, processor time", table(rows[_ALONE], None)]
    return "\n\n".join(part.strip() for part in parts) + "\n"


if __name__ == "__main__":
    sys.exit(main())
