"""The command line and the rounds of a comparison beside Apache Kafka and an earlier checkout. Shell."""

import argparse
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from benchmarks.brokers.rows import ROOT, compile_broker, machine, needs, production_python
from benchmarks.report import APACHE_KAFKA
from benchmarks.round_table import Figures, Found, Measured, Wanted, figures_of
from benchmarks.rounds import write

KAFKA, BEFORE, ALONE = "kafka", "before", "alone"
"""The tables of a comparison: beside Apache Kafka, beside the earlier checkout, and without another subject."""
Rounds = dict[str, list[Measured]]
Tables = Mapping[str, Mapping[str, Figures]]

_MEMORY = Path("/dev/shm")
_RESULTS = Path(__file__).parent / "results"


def options_of(
    name: str, description: str | None, lacks: str, only: tuple[str, Sequence[str]], arguments: Sequence[str] | None
) -> argparse.Namespace | None:
    """Return the options of `benchmarks.NAME` once its brokers can run; None, with a message, if something is missing.

    `lacks` is what the earlier checkout does not have. `only` is the option that chooses what to measure, and its
    choices; its value is the attribute `only`, None for everything.
    """
    option, choices = only
    parser = argparse.ArgumentParser(f"benchmarks.{name}", description=description)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--before", type=Path, help=f"another checkout of this project, without {lacks}")
    parser.add_argument(option, dest="only", nargs="+", choices=choices, help="only these; nothing is written then")
    parser.add_argument("--seconds", type=float, default=3.0, help="length of a measurement")
    parser.add_argument("--note", default="", help="what else ran on the machine; it is written beside the results")
    options = parser.parse_args(arguments)
    if (missing := needs()) is not None:
        print(f"the comparison is left out: {missing}")
        return None
    for checkout in (ROOT, options.before):
        if checkout is not None:
            if not Path(production_python(checkout)).exists():
                parser.error(f"run `make .venv-runtime/.installed` in {checkout} first")
            compile_broker(checkout)
    if _MEMORY.is_dir():
        tempfile.tempdir = str(_MEMORY)
    return options


def publish(
    name: str, options: argparse.Namespace, rounds: Iterable[Tables], page_of: Callable[[Figures], str]
) -> None:
    """Print the page of the last round, and write the results of each round to benchmarks/results/NAME.json and .md."""
    page = ""
    for number, rows in enumerate(rounds, 1):
        described = {"machine": machine(), "beside": APACHE_KAFKA, "rounds": number, "note": options.note}
        figures: Figures = {**described, "rows": rows}
        page = page_of(figures)
        if not options.only:
            # After each round, so that an aborted run keeps its results.
            write(figures, page, _RESULTS / name)
    print(page)


def add(rounds: Rounds, found: Found) -> None:
    """Add the figures of a round, and print them."""
    for name, measured in found.items():
        spent = "" if measured.processor_us is None else f" ({measured.processor_us:,.0f} us of processor time)"
        print(f"  {name}: {measured.value:,.2f}{spent}", flush=True)
        rounds.setdefault(name, []).append(measured)


def rows_of(wanted: Mapping[str, Wanted], ours: Rounds, theirs: Rounds) -> Mapping[str, Figures]:
    """Return the measured rows of a table, in the order of `wanted`."""
    return {name: figures_of(row, ours[name], theirs.get(name, ())) for name, row in wanted.items() if name in ours}
