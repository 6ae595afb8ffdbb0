"""Where the time of a row goes: processor time of the broker (user, system) and of its client, while the row runs.

`.venv/bin/python -m benchmarks.processor_time [--kafka] [--rows TEXT]`: cores are processor time by wall time, so a
client that has one core or more for itself is what limits its row. Not part of `make bench`.
"""

import argparse
import os
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks import workloads
from benchmarks.rows import LISTENER, ROOT, Subject, apache_kafka, compile_broker, sluicegate

MEMORY = Path("/dev/shm")
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Load:
    """`prepare` is not measured: it warms up, or writes what is read."""

    name: str
    run: Callable[[Subject], Mapping[str, float]]
    prepare: Callable[[Subject], object] = lambda _: None


def _wire(name: str, **options: int) -> Callable[[Subject], Mapping[str, float]]:
    return lambda subject: workloads.run(name, subject.host, subject.port(), "load", **options)


def _librdkafka(name: str, **options: object) -> Callable[[Subject], Mapping[str, float]]:
    return lambda subject: workloads.run(name, subject.bootstrap, "load", **options)


LOADS: Sequence[Load] = (
    Load(
        "produce, one 100 B message a batch",
        _librdkafka("produce", size=100, batch_bytes=100_000, one=True, seconds=4),
        _librdkafka("produce", size=100, batch_bytes=100_000, one=True, seconds=1),
    ),
    Load(
        "produce, librdkafka, 1 MB batches",
        _librdkafka("produce", size=1000, batch_bytes=1_000_000, seconds=4),
        _librdkafka("produce", size=1000, batch_bytes=1_000_000, seconds=1),
    ),
    Load(
        "consume, 8 MB fetches",
        _wire("consume_wire", seconds=4, max_bytes=8_000_000),
        _wire("produce_wire", size=1000, batch_bytes=1_000_000, megabytes=1_000),
    ),
    Load(
        "consume, librdkafka",
        _librdkafka("consume", seconds=4),
        _librdkafka("produce", size=1000, batch_bytes=1_000_000, seconds=3),
    ),
    Load(
        "connect, ApiVersions, close",
        lambda subject: workloads.run("connect", subject.host, subject.port(LISTENER), seconds=4),
        lambda subject: workloads.run("connect", subject.host, subject.port(LISTENER), seconds=2),
    ),
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
    """The client's start is in its time, and in the wall time."""
    before, client, began = _ticks(subject.pid), _of_children(), time.perf_counter()
    figures = load.run(subject)
    wall = time.perf_counter() - began
    user, system = ((now - then) / _TICKS_PER_S / wall for now, then in zip(_ticks(subject.pid), before, strict=True))
    theirs = (_of_children() - client) / wall
    found = ", ".join(f"{name} {value:,.1f}" for name, value in figures.items())
    return f"broker {user:.2f} user + {system:.2f} system, client {theirs:.2f} cores; {found}"


def _ticks(pid: int) -> tuple[int, int]:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]), int(fields[12])


def _of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    sys.exit(main())
