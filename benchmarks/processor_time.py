"""Processor time of the broker (user, system) and of its client for one unit of a row's work.

`.venv/bin/python -m benchmarks.processor_time [--kafka] [--rows TEXT]`; not part of `make bench`. Processor time
depends less than a rate on other load of the machine, so it shows what limits a row even on shared cores.
"""

import argparse
import os
import resource
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.brokers import workloads
from benchmarks.brokers.rows import LISTENER, ROOT, Subject, apache_kafka, compile_broker, sluicegate

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
        "consume, 8 MB fetches",
        "MB",
        "mb_per_s",
        _wire("produce_wire", size=1000, batch_bytes=1_000_000, megabytes=1_000),
        _wire("consume_wire", seconds=SECONDS, max_bytes=8_000_000),
    ),
    Load("consume, librdkafka", "MB", "mb_per_s", _large_batches(3), _librdkafka("consume", seconds=SECONDS)),
    Load("connect, ApiVersions, close", "connection", "per_s", _connect(2), _connect(SECONDS)),
)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser("benchmarks.processor_time")
    parser.add_argument("--kafka", action="store_true", help="of Apache Kafka instead")
    parser.add_argument("--rows", default="", help="only those whose name contains this")
    options = parser.parse_args(arguments)
    if MEMORY.is_dir():
        tempfile.tempdir = str(MEMORY)
    compile_broker(ROOT)
    make = apache_kafka if options.kafka else sluicegate(ROOT)
    for load in LOADS:
        if options.rows in load.name:
            with make({}) as subject:
                workloads.create_topic(subject.bootstrap, "load")
                load.prepare(subject)
                print(f"{load.name}: {_measure(load, subject)}", flush=True)
    return 0


def _measure(load: Load, subject: Subject) -> str:
    """Measure the load. The client's time includes its start."""
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
