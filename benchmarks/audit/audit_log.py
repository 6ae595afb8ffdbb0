"""Cost of the audit log at level full: `.venv/bin/python -m benchmarks.audit.audit_log [--rows TEXT] [--pairs N]`.

Two brokers of this checkout run, one with the audit log; each row is measured on both in turn, in reversed order each
time. A ratio is taken within each such pair, and the table gives the median with its least and greatest. The table also
gives the processor time of the broker's process for the same work, which depends less on other load of the machine.
Rows that were measured before stay in benchmarks/results/audit-log.json.
"""

import argparse
import json
import os
import tempfile
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.brokers import rows, workloads
from benchmarks.brokers.rows import LIMITED, LISTENER, MESSAGE_MAX, ROOT, compile_broker, production_python
from benchmarks.record_validation import processor_s
from benchmarks.wire import consume_wire, produce_wire
from tests.support.processes.broker_process import BrokerProcess

MEMORY = Path("/dev/shm")
RESULTS = Path(__file__).parents[1] / "results"
UNLIMITED = "FREE"
WITH = {"observer.class.names": "audit-log"}
Turn = Callable[[BrokerProcess, str], tuple[float, float]]
"""Measures a broker with an unused topic name: returns (figure, amount of work)."""


@dataclass(frozen=True)
class Row:
    """One row.

    `least` is a lower bound of the ratio (if more is better), `most` an upper one, `more` bounds the difference.
    """

    name: str
    unit: str
    turn: Turn
    pairs: int
    least: float | None = None
    most: float | None = None
    more: float | None = None


def main() -> None:
    parser = argparse.ArgumentParser("benchmarks.audit.audit_log")
    parser.add_argument("--rows", default="", help="only rows whose name contains this")
    parser.add_argument("--pairs", type=int, help="instead of each row's own number")
    options = parser.parse_args()
    compile_broker(ROOT)
    if MEMORY.is_dir():
        tempfile.tempdir = str(MEMORY)
    path = RESULTS / "audit-log.json"
    kept: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    for row in ROWS:
        if options.rows in row.name:
            kept[row.name] = _measure(row, options.pairs or row.pairs)
            print(_line(row, kept[row.name]), flush=True)
    path.write_text(json.dumps(kept, indent=1) + "\n")
    (RESULTS / "audit-log.md").write_text(_table(kept))


def _measure(row: Row, pairs: int) -> Mapping[str, Any]:
    figures: dict[str, list[float]] = {"without": [], "with": []}
    used: dict[str, list[float]] = {"without": [], "with": []}
    load = [os.getloadavg()[0]]
    with ExitStack() as stack:
        brokers = {"without": stack.enter_context(_broker({})), "with": stack.enter_context(_broker(WITH))}
        for number in range(-1, pairs):
            for who, broker in list(brokers.items())[:: -1 if number % 2 else 1]:
                before = processor_s(broker.pid)
                figure, work = row.turn(broker, f"turn-{number + 1}")
                if number >= 0:
                    # The first pair is a warm-up.
                    figures[who].append(figure)
                    used[who].append((processor_s(broker.pid) - before) / work)
        dropped = brokers["with"].metrics()["sluicegate_audit_dropped_total"]
        if dropped:
            raise RuntimeError(f"the audit log has dropped {dropped:.0f} events")
    load.append(os.getloadavg()[0])
    return {"unit": row.unit, **figures, "used": used, "load": load}


def _broker(properties: Mapping[str, str]) -> BrokerProcess:
    return BrokerProcess(
        listeners=[LISTENER, UNLIMITED],
        properties=MESSAGE_MAX | LIMITED | dict(properties),
        python=production_python(ROOT),
    )


def _led_topic(broker: BrokerProcess, topic: str) -> None:
    """Create a topic, and wait until it accepts records."""
    workloads.create_topic(broker.bootstrap, topic)
    workloads.first_produce(broker.bootstrap, topic)


def _produce(batch_bytes: int, size: int, megabytes: int) -> Turn:
    def turn(broker: BrokerProcess, topic: str) -> tuple[float, float]:
        _led_topic(broker, topic)
        where = (broker.host, broker.port(), topic)
        done = produce_wire(*where, size=size, batch_bytes=batch_bytes, megabytes=megabytes)
        workloads.delete_topic(broker.bootstrap, topic)
        return done["mb_per_s" if size > 100 else "messages_per_s"], megabytes

    return turn


def _produce_librdkafka(broker: BrokerProcess, topic: str) -> tuple[float, float]:
    workloads.create_topic(broker.bootstrap, topic)
    load = {"size": 100, "batch_bytes": 65_536, "one": True}
    rate = workloads.run("produce", broker.bootstrap, topic, seconds=2, **load)["messages_per_s"]
    workloads.delete_topic(broker.bootstrap, topic)
    return rate, rate


def _consume(max_bytes: int) -> Turn:
    def turn(broker: BrokerProcess, topic: str) -> tuple[float, float]:
        where = (broker.host, broker.port(), "read")
        if topic == "turn-0":
            _led_topic(broker, "read")
            produce_wire(*where, size=1000, batch_bytes=65_536, megabytes=300)
        rate = consume_wire(*where, seconds=1.5, max_bytes=max_bytes)["mb_per_s"]
        return rate, rate

    return turn


def _connect(broker: BrokerProcess, topic: str) -> tuple[float, float]:
    del topic
    rate = workloads.run("connect", broker.host, broker.port(UNLIMITED), seconds=2)["per_s"]
    return rate, rate


def _p99_in_a_storm(listener: str) -> Turn:
    """Measure the p99 in ms of a client that produces every 4 ms."""

    def turn(broker: BrokerProcess, topic: str) -> tuple[float, float]:
        workloads.create_topic(broker.bootstrap, topic)
        storm = workloads.start("connect", broker.host, broker.port(listener), seconds=10)
        # The limit admits its burst first; only the storm after it is measured.
        workloads.run("paced_produce", broker.bootstrap, topic, seconds=2)
        p99 = workloads.run("paced_produce", broker.bootstrap, topic, seconds=4)["p99_ms"]
        workloads.finish(storm)
        workloads.delete_topic(broker.bootstrap, topic)
        return p99, 1

    return turn


def _memory_after_load(broker: BrokerProcess, topic: str) -> tuple[float, float]:
    """Measure the broker's memory in MB after load. It accumulates over the pairs."""
    workloads.create_topic(broker.bootstrap, topic)
    for load in ({"size": 1000, "batch_bytes": 1_000_000}, {"size": 100, "batch_bytes": 100, "one": True}):
        workloads.run("produce", broker.bootstrap, topic, seconds=2, **load)
    workloads.run("consume", broker.bootstrap, topic, seconds=2)
    workloads.run("connect", broker.host, broker.port(UNLIMITED), seconds=2)
    workloads.delete_topic(broker.bootstrap, topic)
    return rows.resident_mb(broker.pid), 1


def _memory_idle(broker: BrokerProcess, topic: str) -> tuple[float, float]:
    workloads.create_topic(broker.bootstrap, topic)
    return rows.resident_mb(broker.pid), 1


ROWS = (
    Row("produce, 64 KB batches", "MB/s", _produce(65_536, 1000, 500), 12, least=0.97),
    Row("produce, librdkafka, one 100 B message a batch", "messages/s", _produce_librdkafka, 12, least=0.90),
    Row("produce, one 100 B message a batch", "messages/s", _produce(1, 100, 3), 20, least=0.90),
    Row("fetch, 64 KB", "MB/s", _consume(65_536), 16, least=0.95),
    Row("fetch, 8 MB", "MB/s", _consume(8_000_000), 10, least=0.95),
    Row("connect, ApiVersions, close", "connections/s", _connect, 10),
    Row("produce p99 in a storm without a limit", "ms", _p99_in_a_storm(UNLIMITED), 6, most=1.1),
    Row("produce p99 in a storm limited to 100/s", "ms", _p99_in_a_storm(LISTENER), 6, most=1.1),
    Row("resident memory, idle", "MB", _memory_idle, 3, more=3.0),
    Row("resident memory after load", "MB", _memory_after_load, 4, more=3.0),
)


def _table(kept: Mapping[str, Any]) -> str:
    head = (
        "# The audit log at level full\n\n"
        "Without and with, in turn; medians of all pairs, the ratio (for memory the difference) with its least and\n"
        "greatest. *Processor*: of the broker's process for the same work, without divided by with.\n\n"
        "| row | without | with | ratio | wanted | reached | processor | load of the machine |\n"
        "|---|---|---|---|---|---|---|---|\n"
    )
    return head + "".join(_line(row, kept[row.name]) + "\n" for row in ROWS if row.name in kept)


def _line(row: Row, found: Mapping[str, Any]) -> str:
    pairs = list(zip(found["with"], found["without"], strict=True))
    compared = [a - b if row.more is not None else a / b for a, b in pairs]
    middle, unit = median(compared), row.unit
    used = [b / a for a, b in zip(found["used"]["with"], found["used"]["without"], strict=True)]
    if row.more is not None:
        shown, wanted, reached = f"{middle:+.1f} MB", f"<= +{row.more:g} MB", middle <= row.more
        shown += f" ({min(compared):+.1f} to {max(compared):+.1f})"
    else:
        shown = f"{middle:.3f} ({min(compared):.2f} to {max(compared):.2f})"
        wanted = f">= {row.least}" if row.least else f"<= {row.most}" if row.most else ""
        reached = middle >= row.least if row.least else middle <= (row.most or middle)
    processor = "" if unit in ("ms", "MB") else f"{median(used):.2f} ({min(used):.2f} to {max(used):.2f})"
    cells = (
        row.name,
        f"{median(found['without']):,.1f} {unit}",
        f"{median(found['with']):,.1f} {unit}",
        shown,
        wanted,
        ("yes" if reached else "**no**") if wanted else "",
        processor,
        f"{max(found['load']):.0f}",
    )
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    main()
