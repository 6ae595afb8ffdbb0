"""Processor time of the broker (user, system) and of its client for one unit of a row's work.

`.venv/bin/python -m benchmarks.processor_time [--kafka] [--before CHECKOUT] [--rows TEXT]`; not part of `make bench`.
Processor time depends less than a rate on other load of the machine, so it shows what limits a row on shared cores.

With `--before`, each load runs on this checkout and on an earlier one in turn, and the table has the ratio of the
brokers' processor time within each round. The loads with acks=all count three brokers together.
"""

import argparse
import os
import resource
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from benchmarks.brokers import workloads
from benchmarks.brokers.clusters import sluicegate_cluster
from benchmarks.brokers.replicated_rows import TOPIC, create_topic
from benchmarks.brokers.rows import LISTENER, ROOT, Maker, Subject, apache_kafka, compile_broker, sluicegate
from benchmarks.round_table import Figures, Measured, Wanted, figures_of, table

MEMORY = Path("/dev/shm")
SECONDS = 4
REPLICATED_MB = 600
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")

Workload = Callable[[Subject], Mapping[str, float]]


@dataclass(frozen=True)
class Load:
    """One load.

    `run` lasts SECONDS and returns units per second, under the name `rate`. `prepare` is not measured: it warms up, or
    writes the data to read.
    """

    name: str
    unit: str
    rate: str
    prepare: Workload
    run: Workload

    def measured(self, checkout: Path) -> Measured:
        """Return the rate, and the processor time of this checkout's broker for a unit."""
        with _prepared(self, sluicegate(checkout)) as subject:
            before = sum(process_times(subject.pid))
            rate = self.run(subject)[self.rate]
            return Measured(rate, (sum(process_times(subject.pid)) - before) * 1e6 / (rate * SECONDS))


def _wire(name: str, **options: int) -> Workload:
    return lambda subject: workloads.run(name, subject.host, subject.port(), "load", **options)


def _librdkafka(name: str, **options: object) -> Workload:
    return lambda subject: workloads.run(name, subject.bootstrap, "load", **options)


def _connect(seconds: int) -> Workload:
    return lambda subject: workloads.run("connect", subject.host, subject.port(LISTENER), seconds=seconds)


def _one_by_one(seconds: int) -> Workload:
    return _librdkafka("produce", size=100, batch_bytes=100_000, one=True, seconds=seconds)


def _large_batches(seconds: int) -> Workload:
    return _librdkafka("produce", size=1000, batch_bytes=1_000_000, seconds=seconds)


LOADS: Sequence[Load] = (
    Load(
        "produce, librdkafka, one 100 B message a batch",
        "message",
        "messages_per_s",
        _one_by_one(1),
        _one_by_one(SECONDS),
    ),
    Load("produce, librdkafka, 1 MB batches", "MB", "mb_per_s", _large_batches(1), _large_batches(SECONDS)),
    Load(
        "produce, librdkafka, 64 KB batches",
        "MB",
        "mb_per_s",
        _librdkafka("produce", size=1000, batch_bytes=65_536, seconds=1),
        _librdkafka("produce", size=1000, batch_bytes=65_536, seconds=SECONDS),
    ),
    Load(
        "consume, 8 MB fetches",
        "MB",
        "mb_per_s",
        _wire("produce_wire", size=1000, batch_bytes=1_000_000, megabytes=1_000),
        _wire("consume_wire", seconds=SECONDS, max_bytes=8_000_000),
    ),
    Load("consume, librdkafka", "MB", "mb_per_s", _large_batches(3), _librdkafka("consume", seconds=SECONDS)),
    Load("connect, ApiVersions, close", "connection", "per_s", _connect(2), _connect(SECONDS)),
)
REPLICATED = {
    "acks=all, 3 replicas, 1 MB batches": 1_000_000,
    "acks=all, 3 replicas, 64 KB batches": 65_536,
}
"""The size of a batch, in bytes, by load. The processor time is that of three brokers together."""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser("benchmarks.processor_time")
    parser.add_argument("--kafka", action="store_true", help="of Apache Kafka instead")
    parser.add_argument("--before", type=Path, help="beside another checkout of this project")
    parser.add_argument("--rounds", type=int, default=3, help="with --before")
    parser.add_argument("--rows", default="", help="only those whose name contains this")
    options = parser.parse_args(arguments)
    if MEMORY.is_dir():
        tempfile.tempdir = str(MEMORY)
    for checkout in (ROOT, options.before):
        if checkout is not None:
            compile_broker(checkout)
    if options.before is not None:
        print(table(dict(_compared(options.before, options.rounds, options.rows)), "before"))
        return 0
    make = apache_kafka if options.kafka else sluicegate(ROOT)
    for load in LOADS:
        if options.rows in load.name:
            print(f"{load.name}: {_measure(load, make)}", flush=True)
    return 0


def _compared(before: Path, rounds: int, rows: str) -> Iterator[tuple[str, Figures]]:
    """Yield the rows of the table: this checkout beside `before`, in turn in each round."""
    measures: dict[str, tuple[Wanted, Callable[[Path], Measured]]] = {
        load.name: (Wanted(f"{load.unit}/s", more_is_better=True, work=load.unit), load.measured) for load in LOADS
    }
    for name, batch_bytes in REPLICATED.items():
        measures[name] = Wanted("MB/s", more_is_better=True, work="MB"), partial(_replicated, batch_bytes)
    for name, (wanted, measure) in measures.items():
        if rows in name:
            pairs = [(measure(ROOT), measure(before)) for _ in range(rounds)]
            yield name, figures_of(wanted, *zip(*pairs, strict=True))


def _replicated(batch_bytes: int, checkout: Path) -> Measured:
    """Return the rate of a producer with acks=all, and the processor time of all brokers for a megabyte."""
    with sluicegate_cluster(checkout) as cluster:
        create_topic(cluster)
        leader = cluster.leader_of(TOPIC)
        where = (leader.host, leader.port(), TOPIC)
        options = {"size": 1000, "batch_bytes": batch_bytes, "acks": -1}
        workloads.run("produce_wire", *where, megabytes=REPLICATED_MB // 2, **options)
        pids = [broker.pid for broker in cluster.brokers.values()]
        before = sum(sum(process_times(pid)) for pid in pids)
        rate = workloads.run("produce_wire", *where, megabytes=REPLICATED_MB, **options)["mb_per_s"]
        spent_s = sum(sum(process_times(pid)) for pid in pids) - before
        return Measured(rate, spent_s * 1e6 / REPLICATED_MB)


@contextmanager
def _prepared(load: Load, make: Maker) -> Iterator[Subject]:
    with make({}) as subject:
        workloads.create_topic(subject.bootstrap, "load")
        load.prepare(subject)
        yield subject


def _measure(load: Load, make: Maker) -> str:
    """Measure the load. The client's time includes its start."""
    with _prepared(load, make) as subject:
        broker_before, client_before = process_times(subject.pid), _of_children()
        rate = load.run(subject)[load.rate]
        user, system = (now - then for now, then in zip(process_times(subject.pid), broker_before, strict=True))
        client = _of_children() - client_before
    user, system, client = (seconds * 1e6 / (rate * SECONDS) for seconds in (user, system, client))
    broker = f"broker {user:,.1f} user, {system:,.1f} system"
    return f"us a {load.unit}: {broker}; client {client:,.1f} (at {rate:,.0f} a second)"


def process_times(pid: int) -> tuple[float, float]:
    """Return the seconds in user mode and in the system."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) / _TICKS_PER_S, int(fields[12]) / _TICKS_PER_S


def _of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    sys.exit(main())
