"""`python -m benchmarks.adaptive_rates`: an adaptive rate beside the best fixed one, and beside Apache Kafka with it.

A storm of 500, 2,000 and 8,000 attempts a second hits one listener without TLS, while a client produces every 4 ms on
another one. Fixed rates are tried from low to high. The best one is the highest at which the client's p99 keeps the
objective. Each measurement begins when the storm has lasted for six seconds. All subjects of a round run in turn on one
machine, which also has the clients. The results go to benchmarks/results/adaptive-rates.json and .md.
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.brokers import workloads
from benchmarks.brokers.rows import (
    LISTENER,
    RATE_KEY,
    ROOT,
    Maker,
    apache_kafka,
    compile_broker,
    machine,
    needs,
    sluicegate,
)
from benchmarks.rounds import spread, write

RESULTS = Path(__file__).parent / "results" / "adaptive-rates"
OBJECTIVE_MS = 20
MIN_RATE, MAX_RATE = 50, 10_000
FIXED_RATES: Mapping[int, Sequence[int]] = {
    500: (100, 200, 400),
    2_000: (200, 400, 800, 1_600),
    8_000: (200, 400, 800, 1_600, 3_200),
}
"""Fixed rates that are tried, by attempts a second; after them, none."""
_PREFIX = f"listener.name.{LISTENER.lower()}."
_SETTLED_S, _MEASURED_S, _END_S = 6, 6, 2
_SOURCES = "127.0.1.1-127.0.1.8"
_BUCKET = {"connection.quota.strategy": "token-bucket"}


class Found(NamedTuple):
    """One measurement: connections that were accepted a second, and the p99 of the client's produce in ms."""

    accepted_per_s: float
    p99_ms: float


def measure(make: Maker, properties: Mapping[str, str], attempts: int) -> Found:
    """Measure a new broker with these properties in a storm of `attempts` a second."""
    with make(properties) as subject:
        workloads.create_topic(subject.bootstrap, "paced")
        workloads.run("paced_produce", subject.bootstrap, "paced", seconds=3)
        to = f"{subject.host}:{subject.port(LISTENER)}"
        seconds = _SETTLED_S + _MEASURED_S + _END_S
        options = ["--to", to, "--rate", str(attempts), "--sources", _SOURCES, "--seconds", str(seconds), "-o", "json"]
        command = [sys.executable, "-m", "sluicegate_operator.cli.main", "storm", *options]
        storm = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
        workloads.run("paced_produce", subject.bootstrap, "paced", seconds=_SETTLED_S)
        figures = workloads.run("paced_produce", subject.bootstrap, "paced", seconds=_MEASURED_S)
        out, _ = storm.communicate(timeout=workloads.RUN_TIMEOUT_S)
    report: Mapping[str, Any] = json.loads(out)
    by_second = {int(second): count for second, count in report["accepted_by_second"].items()}
    measured = [by_second.get(second, 0) for second in range(_SETTLED_S, _SETTLED_S + _MEASURED_S)]
    return Found(sum(measured) / len(measured), figures["p99_ms"])


def fixed(rate: int | None) -> Mapping[str, str]:
    return {} if rate is None else {_PREFIX + RATE_KEY: str(rate)}


def adaptive() -> Mapping[str, str]:
    return {
        _PREFIX + RATE_KEY: str(MAX_RATE),
        f"{_PREFIX}connection.quota.adaptive.p99.ms": str(OBJECTIVE_MS),
        f"{_PREFIX}connection.quota.adaptive.min.rate": str(MIN_RATE),
    }


def one_round(attempts: int) -> dict[str, Any]:
    """Measure all subjects in one storm."""
    ours = sluicegate(ROOT)
    found: dict[str, Found] = {}
    best: int | None = FIXED_RATES[attempts][0]
    for rate in (*FIXED_RATES[attempts], None):
        found[f"fixed {rate or 'none'}"] = tried = measure(ours, _BUCKET | dict(fixed(rate)), attempts)
        print(attempts, rate, tried, flush=True)
        if tried.p99_ms <= OBJECTIVE_MS:
            best = rate
    found["adaptive"] = measure(ours, adaptive(), attempts)
    found["Apache Kafka"] = measure(apache_kafka, fixed(best), attempts)
    print(attempts, "adaptive", found["adaptive"], "Kafka", found["Apache Kafka"], flush=True)
    share = found["adaptive"].accepted_per_s / max(found[f"fixed {best or 'none'}"].accepted_per_s, 1e-9)
    return {"best": best, "share": share, "found": {name: one._asdict() for name, one in found.items()}}


def table(results: Mapping[str, Any]) -> str:
    """Return the results as Markdown, with medians and the least and greatest of the rounds."""
    lines = [
        "# Adaptive rates",
        "",
        f"{results['machine']}; {results['rounds']} rounds. Objective: p99 of {OBJECTIVE_MS} ms. Medians (least to "
        "greatest): connections accepted a second, and the p99 of a client that produces every 4 ms.",
        "",
        "| storm | subject | accepted/s | client's p99 | share of the best fixed rate |",
        "|---|---|---|---|---|",
    ]
    for attempts, rounds in results["storms"].items():
        bests = ", ".join(str(one["best"] or "none") for one in rounds)
        for name in rounds[0]["found"]:
            rows = [one["found"][name] for one in rounds]
            accepted = spread([row["accepted_per_s"] for row in rows], 0)
            p99 = spread([row["p99_ms"] for row in rows], 1)
            share = spread([one["share"] for one in rounds], 2) if name == "adaptive" else ""
            shown = f"{name} with {bests}" if name == "Apache Kafka" else name
            lines.append(f"| {attempts}/s | {shown} | {accepted} | {p99} ms | {share} |")
    return "\n".join([*lines, ""])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--storms", type=int, nargs="+", choices=tuple(FIXED_RATES), default=tuple(FIXED_RATES))
    asked = parser.parse_args()
    if lacks := needs():
        sys.exit(lacks)
    compile_broker(ROOT)
    storms = {str(attempts): [one_round(attempts) for _ in range(asked.rounds)] for attempts in asked.storms}
    results = {"machine": machine(), "rounds": asked.rounds, "storms": storms}
    print(table(results))
    if tuple(asked.storms) == tuple(FIXED_RATES):
        write(results, table(results), RESULTS)


if __name__ == "__main__":
    main()
