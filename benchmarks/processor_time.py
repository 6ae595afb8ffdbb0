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
from pathlib import Path
from statistics import median

from benchmarks.brokers import workloads
from benchmarks.brokers.clusters import sluicegate_cluster
from benchmarks.brokers.replicated_rows import TOPIC, create_topic
from benchmarks.brokers.rows import LISTENER, ROOT, Maker, Subject, apache_kafka, compile_broker, sluicegate

MEMORY = Path("/dev/shm")
SECONDS = 4
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


@dataclass(frozen=True)
class ReplicatedLoad:
    """A producer with acks=all and batches of this size, of which three brokers have a copy each."""

    name: str
    batch_bytes: int
    megabytes: int


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
REPLICATED_LOADS: Sequence[ReplicatedLoad] = (
    ReplicatedLoad("acks=all, 3 replicas, 1 MB batches", 1_000_000, 600),
    ReplicatedLoad("acks=all, 3 replicas, 64 KB batches", 65_536, 600),
)


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
    loads = [load for load in LOADS if options.rows in load.name]
    if options.before is not None:
        replicated = [load for load in REPLICATED_LOADS if options.rows in load.name]
        compared: Sequence[Load | ReplicatedLoad] = (*loads, *replicated)
        for each in compared:
            print(_compared(each, options.before, options.rounds), flush=True)
        return 0
    make = apache_kafka if options.kafka else sluicegate(ROOT)
    for load in loads:
        print(f"{load.name}: {_measure(load, make)}", flush=True)
    return 0


def _compared(load: Load | ReplicatedLoad, before: Path, rounds: int) -> str:
    """Return a row of the table: microseconds of this checkout and of `before` for a unit, and their ratio."""
    costs: list[tuple[float, float]] = []
    for _ in range(rounds):
        now, then = (
            _cost(load, sluicegate(checkout)) if isinstance(load, Load) else _replicated_cost(load, checkout)
            for checkout in (ROOT, before)
        )
        costs.append((now, then))
    ratios = [now / then for now, then in costs]
    us = " | ".join(f"{median(each) * 1e6:,.1f} us" for each in zip(*costs, strict=True))
    unit = load.unit if isinstance(load, Load) else "MB"
    return f"| {load.name} | {unit} | {us} | {median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f}) |"


def _cost(load: Load, make: Maker) -> float:
    """Return the seconds of the broker's processor time for a unit."""
    with _prepared(load, make) as subject:
        before = sum(process_times(subject.pid))
        rate = load.run(subject)[load.rate]
        return (sum(process_times(subject.pid)) - before) / (rate * SECONDS)


def _replicated_cost(load: ReplicatedLoad, checkout: Path) -> float:
    """Return the seconds of the processor time of all brokers for a megabyte."""
    with sluicegate_cluster(checkout) as cluster:
        create_topic(cluster)
        leader = cluster.leader_of(TOPIC)
        where = (leader.host, leader.port(), TOPIC)
        options = {"size": 1000, "batch_bytes": load.batch_bytes, "acks": -1}
        workloads.run("produce_wire", *where, megabytes=load.megabytes // 2, **options)
        pids = [broker.pid for broker in cluster.brokers.values()]
        before = sum(sum(process_times(pid)) for pid in pids)
        workloads.run("produce_wire", *where, megabytes=load.megabytes, **options)
        return (sum(sum(process_times(pid)) for pid in pids) - before) / load.megabytes


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
