"""Cost of trying limits on a day of connections: `.venv/bin/python -m benchmarks.audit.what_if`; `--write` keeps it.

A day of connections of several brokers is made up as landed segments: a steady flow, and a storm of ten minutes that
has half of the connections. A rate of the listener is tried on it, by Spark (local[2]) and in one process. Each round
is a process of its own. Processor time counts all of its processes, because other programs may use the same cores.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

from audit_pipeline.contract import contract
from audit_pipeline.hours import HOUR_US
from audit_pipeline.jobs.session import spark_session
from audit_pipeline.jobs.tried_days import parts_of_day, what_if
from audit_pipeline.reading.connection_log import ConnectionLog
from audit_pipeline.reading.tried_limits import try_limits
from audit_pipeline.report.words import number_of
from audit_pipeline.sources.landed import LandedSegments
from audit_pipeline.spool.segment import Footer, folder_of, packed, segment_name
from audit_pipeline.spool.tables import arrow_schema
from audit_pipeline.spool.targets import FolderTarget
from audit_pipeline.what_if.limits import limits_in
from benchmarks.audit.audit_build import children, processor_s_of
from benchmarks.brokers.rows import machine
from benchmarks.rounds import spread, write

RESULTS: Final = Path(__file__).parents[1] / "results"
DAY: Final = date(2026, 11, 24)
DAY_US: Final = int(datetime(DAY.year, DAY.month, DAY.day, tzinfo=UTC).timestamp()) * 1_000_000
CONNECTIONS: Final = 5_000_000
BROKERS: Final = 3
ROUNDS: Final = 3
ADDRESSES: Final = 5_000
STORM_US: Final = 600_000_000
SUBJECTS: Final = ("spark", "process")
RATE: Final = "listener.name.external.max.connection.creation.rate"
LIMITS: Final = json.dumps(
    {"configs": {RATE: "200", "connection.quota.strategy": "token-bucket"}, "quotas": [], "names": [], "notes": []}
)


@dataclass(frozen=True, slots=True)
class Round:
    """Seconds, processor time in seconds, and peak memory in MB of the largest process; `delayed` is a check."""

    seconds: float
    processor_s: float
    memory_mb: float
    connections: int
    delayed: int


def write_day(folder: Path, connections: int, brokers: int) -> None:
    """Write the segments of a day, one for each broker and hour."""
    random = np.random.default_rng(31)
    for broker in range(brokers):
        count = connections // brokers
        steady = random.integers(0, 24 * HOUR_US, count - count // 2)
        storm = 10 * HOUR_US + random.integers(0, STORM_US, count // 2)
        came = np.sort(np.concatenate([steady, storm]))
        stays = random.integers(1_000, 20_000_000, count)
        addresses = random.integers(0, ADDRESSES, count)
        _write_broker(folder, broker, came, stays, addresses)


def _write_broker(folder: Path, broker: int, came: Any, stays: Any, addresses: Any) -> None:
    count = len(came)
    at_us = np.concatenate([came, came + stays])
    numbers = np.concatenate([np.arange(count), np.arange(count)])
    is_closed = np.arange(2 * count) >= count
    order = np.argsort(at_us, kind="stable")
    order = order[at_us[order] < 24 * HOUR_US]
    names = pa.array([f"10.{number >> 8}.{number & 255}.1" for number in range(ADDRESSES)])
    hours = np.searchsorted(at_us[order], np.arange(25) * HOUR_US)
    for hour in range(24):
        some = order[hours[hour] : hours[hour + 1]]
        if not len(some):
            continue
        closed, seq = is_closed[some], np.arange(hours[hour], hours[hour + 1]) + 1
        nothing = len(some)
        given = {
            "cluster_id": pa.repeat("cluster", nothing),
            "broker_id": pa.repeat(pa.scalar(broker, pa.int32()), nothing),
            "boot_id": pa.repeat("0001", nothing),
            "seq": pa.array(seq),
            "ts": pa.array(at_us[some] + DAY_US, pa.int64()).cast(pa.timestamp("us", tz="UTC")),
            "connection_id": pa.array(numbers[some] + 1),
            "listener": pa.repeat("EXTERNAL", nothing),
            "client_ip": names.take(pa.array(addresses[numbers[some]])),
            "client_port": pa.array((numbers[some] % 50_000).astype(np.int32)),
            "principal": pa.repeat("User:ANONYMOUS", nothing),
            "event": pa.array(np.where(closed, "closed", "accepted")),
            "duration_us": pa.array(stays[numbers[some]], mask=~closed),
            "arrived_us": pa.array(at_us[some] + HOUR_US, mask=closed),
            "decided_us": pa.array(at_us[some] + HOUR_US),
        }
        schema = arrow_schema("connection")
        columns = [given.get(field.name, pa.nulls(nothing, field.type)) for field in schema]
        rows = pa.Table.from_arrays(
            [column.cast(field.type) for column, field in zip(columns, schema, strict=True)], schema=schema
        )
        opened_us = DAY_US + hour * HOUR_US
        end = "stopped" if hour == 23 else "next"
        footer = Footer(
            contract().version, "cluster", broker, "0001", (hour, hour), int(seq[0]), int(seq[-1]), opened_us,
            opened_us + HOUR_US - 1, end, {"connection": nothing},
        )  # fmt: skip
        path = folder / folder_of("connection", opened_us) / segment_name("cluster", broker, "0001", f"{hour:08d}")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(packed(rows, footer))


def by_spark(segments: Path) -> tuple[int, int, float]:
    """Return the connections, how many of them the limit would have delayed, and the processor time in seconds."""
    source = LandedSegments([str(segments)], None, DAY_US + 48 * HOUR_US)
    with spark_session("what-if", {"spark.master": "local[2]"}) as spark:
        rows = what_if(spark, parts_of_day(source.files(DAY), DAY), LIMITS)
        (row,) = rows.groupBy().sum("connections", "delayed").collect()
        processor_s = processor_s_of_tree(os.getpid())
    return row[0], row[1], processor_s


def in_process(segments: Path) -> tuple[int, int, float]:
    summary, _ = try_limits(ConnectionLog(FolderTarget(segments), None, None), limits_in(LIMITS))
    delayed = sum(len(tally.delays_us) for tally in summary.replayed.values())
    return summary.connections, delayed, processor_s_of_tree(os.getpid())


def processor_s_of_tree(pid: int) -> float:
    """Return the processor time of a process and of all that it has started, in seconds."""
    return processor_s_of(pid) + sum(map(processor_s_of_tree, children(pid)))


def work(subject: str, segments: Path) -> None:
    began_s = time.monotonic()
    connections, delayed, processor_s = (by_spark if subject == "spark" else in_process)(segments)
    own, others = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    memory_mb = max(own.ru_maxrss, others.ru_maxrss) / 1024
    print(json.dumps(asdict(Round(time.monotonic() - began_s, processor_s, memory_mb, connections, delayed))))


def measured(subject: str, segments: Path) -> Round:
    command = [sys.executable, "-m", "benchmarks.audit.what_if", "--work", subject, "--segments", str(segments)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return Round(**json.loads(done.stdout.splitlines()[-1]))


def table(rounds: dict[str, list[Round]], connections: int, brokers: int, load: float) -> str:
    lines = [
        f"# What-if: a day of {connections:,} connections of {brokers} brokers",
        "",
        f"Spark with two cores, and one process. Medians of {number_of(len(rounds['spark']), 'round')}, with the least "
        f"and the greatest. Load of the machine at the start: {load:.1f}. Processor time does not depend on the load. "
        "Memory is that of the largest process.",
        "",
        "| | seconds | processor time, s | memory, MB | delayed connections |",
        "|---|---|---|---|---|",
    ]
    for subject, found in rounds.items():
        cells = (spread([getattr(one, name) for one in found], 0) for name in ("seconds", "processor_s", "memory_mb"))
        lines.append(f"| {subject} | {' | '.join(cells)} | {found[0].delayed:,} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--connections", type=int, default=CONNECTIONS)
    parser.add_argument("--brokers", type=int, default=BROKERS)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--write", action="store_true", help="keep the figures in benchmarks/results")
    parser.add_argument("--work", choices=SUBJECTS, help=argparse.SUPPRESS)
    parser.add_argument("--segments", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.work:
        work(given.work, given.segments)
        return
    load = os.getloadavg()[0]
    rounds: dict[str, list[Round]] = {subject: [] for subject in SUBJECTS}
    with tempfile.TemporaryDirectory(prefix="sluicegate-what-if-") as folder:
        segments = Path(folder)
        write_day(segments, given.connections, given.brokers)
        for _ in range(given.rounds):
            for subject in SUBJECTS:
                rounds[subject].append(measured(subject, segments))
    found = {(one.connections, one.delayed) for each in rounds.values() for one in each}
    if len(found) != 1:
        raise SystemExit(f"the rounds differ: {sorted(found)}")
    text = table(rounds, given.connections, given.brokers, load)
    print(text)
    if given.write:
        figures = {name: [asdict(one) for one in each] for name, each in rounds.items()}
        document = {"machine": machine(), "load": load, "connections": given.connections, "rounds": figures}
        write(document, text, RESULTS / "what-if")


if __name__ == "__main__":
    main()
