"""`python -m benchmarks.cluster_limits`: one rate for three brokers, while the demand moves between them.

Sixty clients connect to one broker again and again, then to the next one, and in the end to all three. Subjects are a
rate of the cluster, and equal fixed parts of it, which is all that users of Apache Kafka can set. Brokers, controller,
clients and the reader of metrics run on one machine. For each move the benchmark measures the time until a second has
90 % of the rate, and the accepted connections from the third second on. The results go to
benchmarks/results/cluster-limits.json and .md.
"""

import argparse
import json
import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from benchmarks.brokers.rows import LISTENER, RATE_KEY, ROOT, compile_broker, machine, production_python
from benchmarks.rounds import spread, write
from tests.support.processes.broker_process import BrokerGroup, BrokerProcess
from tests.support.processes.clients.admitted import Admitted
from tests.support.processes.clients.broker_admin import set_default_config, until
from tests.support.processes.clients.reconnecting import Reconnecting

RESULTS = Path(__file__).parent / "results" / "cluster-limits"
RATES = (100, 500)
CLIENTS = 60
_BROKERS = 3
_PREFIX = f"listener.name.{LISTENER.lower()}."
_PHASE_S, _MOVED_S, _ENOUGH = 10.0, 3.0, 0.9
_MOVES = ((0,), (1,), (2,), (0, 1, 2))
"""The brokers to which clients connect, phase by phase."""
_CPU = "process_cpu_seconds_total"
_REPORTS = 'sluicegate_cluster_connection_rate_reports_total{outcome="answered"}'


def limits(subject: str, rate: int) -> Mapping[str, str]:
    """Return the dynamic configuration of a subject."""
    if subject == "rate of the cluster":
        return {_PREFIX + RATE_KEY: str(rate), f"{_PREFIX}connection.quota.scope": "cluster"}
    return {_PREFIX + RATE_KEY: str(rate // _BROKERS)}


SUBJECTS = ("rate of the cluster", "equal fixed parts")


def _in_force(broker: BrokerProcess, subject: str) -> bool:
    status, body = broker.get("/connection-limits?held=true")
    listener: Mapping[str, Any] = json.loads(body)["listeners"][LISTENER] if status == 200 else {}
    if subject == SUBJECTS[0]:
        return bool(listener) and (listener["cluster"] or {}).get("share", 0) > 0
    return bool(listener) and listener["connection_creation_rate"] is not None


def measure(subject: str, rate: int) -> dict[str, Any]:
    """Move the demand through all phases, and return the figures of each."""
    bucket = {"connection.quota.strategy": "token-bucket"}
    group = BrokerGroup(
        _BROKERS, listeners=[LISTENER], properties=bucket, python=production_python(ROOT), checkout=ROOT
    )
    with group:
        for key, value in limits(subject, rate).items():
            set_default_config(group.brokers[0], key, value)
        until(lambda: all(_in_force(broker, subject) for broker in group.brokers), "limits in force")
        before, reports, began_s = group.controller.metrics()[_CPU], _reports(group), time.monotonic()
        phases = []
        with Admitted(group.brokers, LISTENER) as found:
            for brokers in _MOVES:
                with ExitStack() as running:
                    for one in brokers:
                        broker = group.brokers[one]
                        clients = Reconnecting((broker.host, broker.port(LISTENER)), CLIENTS)
                        running.enter_context(clients)
                    begin_s = time.monotonic()
                    found.wait(_PHASE_S)
                phases.append(_phase(found, begin_s, rate))
        length_s = time.monotonic() - began_s
        return {
            "phases": phases,
            "most_in_10_s": found.most_per_s(10) / rate,
            "controller_cpu": (group.controller.metrics()[_CPU] - before) / length_s,
            "reports_per_s": (_reports(group) - reports) / length_s,
        }


def _reports(group: BrokerGroup) -> float:
    return sum(broker.metrics().get(_REPORTS, 0.0) for broker in group.brokers)


def _phase(found: Admitted, begin_s: float, rate: int) -> dict[str, float | None]:
    """Return the seconds until a second has enough connections, and the share of the rate after three seconds."""
    ends = [at_s for at_s, _ in found.samples if begin_s + 1 <= at_s <= begin_s + _PHASE_S]
    enough = (end_s - begin_s for end_s in ends if found.per_s(end_s - 1, end_s) >= _ENOUGH * rate)
    return {
        "until_enough_s": next(enough, None),
        "share_after_3_s": found.per_s(begin_s + _MOVED_S, begin_s + _PHASE_S) / rate,
    }


def table(results: Mapping[str, Any]) -> str:
    """Return the results as Markdown: medians, and the least and greatest of the rounds."""
    lines = [
        "# Rates of the cluster",
        "",
        f"{results['machine']}; {results['rounds']} rounds. {CLIENTS} clients connect again and again, to one broker "
        f"of three for {_PHASE_S:g} s each, then to all. Medians (least to greatest) over rounds and moves. The time "
        "until 90 % ends with the first second that has 90 % of the rate, so it is at least 1 s.",
        "",
        "| rate | subject | until 90 % | share after 3 s | share, clients at all brokers | most in 10 s "
        "| controller's CPU | reports/s |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for rate, subjects in results["rates"].items():
        for subject, rounds in subjects.items():
            moves = [phase for one in rounds for phase in one["phases"][:-1]]
            at_all = [one["phases"][-1]["share_after_3_s"] for one in rounds]
            reached = [phase["until_enough_s"] for phase in moves if phase["until_enough_s"] is not None]
            missed = len(moves) - len(reached)
            until_enough = f"{spread(reached, 1)} s" if reached else "never"
            if reached and missed:
                until_enough += f", {missed} of {len(moves)} never"
            cells = [
                f"{rate}/s",
                subject,
                until_enough,
                spread([phase["share_after_3_s"] for phase in moves], 2),
                spread(at_all, 2),
                spread([one["most_in_10_s"] for one in rounds], 2),
                spread([100 * one["controller_cpu"] for one in rounds], 1) + " %",
                spread([one["reports_per_s"] for one in rounds], 1),
            ]
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join([*lines, ""])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--rates", type=int, nargs="+", default=RATES)
    parser.add_argument("--dry", action="store_true", help="print the table, and write no results")
    asked = parser.parse_args()
    compile_broker(ROOT)
    rates: dict[str, dict[str, list[Any]]] = {}
    for rate in asked.rates:
        found: dict[str, list[Any]] = {subject: [] for subject in SUBJECTS}
        for _ in range(asked.rounds):
            for subject in SUBJECTS:
                found[subject].append(measure(subject, rate))
                print(rate, subject, found[subject][-1], flush=True)
        rates[str(rate)] = found
    results = {"machine": machine(), "rounds": asked.rounds, "rates": rates}
    print(table(results))
    if not asked.dry:
        write(results, table(results), RESULTS)


if __name__ == "__main__":
    main()
