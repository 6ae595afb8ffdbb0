"""The rows of the comparison: each measures one figure, for both subjects in turn, several times."""

import contextlib
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from benchmarks.brokers import workloads
from tests.support.obtain.java import java
from tests.support.processes.apache_kafka import ApacheKafka
from tests.support.processes.broker_process import BrokerProcess

ROOT = Path(__file__).resolve().parents[2]
LISTENER = "STORM"
RATE_KEY = "max.connection.creation.rate"
STORM_LIMIT = 100
MESSAGE_MAX = {"message.max.bytes": "2000000"}


class Subject(Protocol):
    """A running broker with a PLAINTEXT listener and a listener for the storm."""

    host: str

    @property
    def bootstrap(self) -> str: ...

    @property
    def pid(self) -> int: ...

    @property
    def started_in_s(self) -> float: ...

    def port(self, listener: str = ...) -> int: ...


Maker = Callable[[Mapping[str, str]], contextlib.AbstractContextManager[Subject]]


def production_python(checkout: Path) -> str:
    """Return the Python of a production environment, without packages for developers. `make` must have created it."""
    return str(checkout / ".venv-runtime" / "bin" / "python")


def compile_broker(checkout: Path) -> None:
    """Compile the broker as in an image, because compiling modules at the start would take memory of the process."""
    packages = ("broker_runtime", "connection_limits", "kafka_bytes")
    command = [production_python(checkout), "-m", "compileall", "-q", *packages]
    subprocess.run(command, cwd=checkout, check=True)


def sluicegate(checkout: Path) -> Maker:
    def make(properties: Mapping[str, str]) -> contextlib.AbstractContextManager[Subject]:
        return BrokerProcess(
            listeners=[LISTENER],
            properties=MESSAGE_MAX | dict(properties),
            python=production_python(checkout),
            checkout=checkout,
        )

    return make


def apache_kafka(properties: Mapping[str, str]) -> contextlib.AbstractContextManager[Subject]:
    return ApacheKafka(listeners=[LISTENER], properties=MESSAGE_MAX | dict(properties), heap_mb=1024)


@dataclass(frozen=True)
class Row:
    """One row. `floor` bounds the ratio of ours to theirs: from below if more is better, else from above."""

    name: str
    unit: str
    more_is_better: bool
    floor: float | None
    measure: Callable[[Maker], float]


def resident_mb(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("VmRSS:")).split()[1]) / 1024


def _produce(unit: str, **options: object) -> Callable[[Maker], float]:
    def measure(make: Maker) -> float:
        with make({}) as subject:
            workloads.create_topic(subject.bootstrap, "load")
            workloads.run("produce", subject.bootstrap, "load", seconds=1, **options)
            return workloads.run("produce", subject.bootstrap, "load", seconds=4, **options)[unit]

    return measure


def _produce_wire(**options: int) -> Callable[[Maker], float]:
    def measure(make: Maker) -> float:
        with make({}) as subject:
            workloads.create_topic(subject.bootstrap, "load")
            where = (subject.host, subject.port(), "load")
            workloads.run("produce_wire", *where, megabytes=500, **options)
            return workloads.run("produce_wire", *where, megabytes=1_000, **options)["mb_per_s"]

    return measure


def _consume_wire(make: Maker) -> float:
    with make({}) as subject:
        workloads.create_topic(subject.bootstrap, "load")
        where = (subject.host, subject.port(), "load")
        workloads.run("produce_wire", *where, size=1000, batch_bytes=1_000_000, megabytes=1_000)
        workloads.run("consume_wire", *where, seconds=2, max_bytes=8_000_000)
        return workloads.run("consume_wire", *where, seconds=4, max_bytes=8_000_000)["mb_per_s"]


def _consume(make: Maker) -> float:
    with make({}) as subject:
        workloads.create_topic(subject.bootstrap, "load")
        workloads.run("produce", subject.bootstrap, "load", size=1000, batch_bytes=1_000_000, seconds=3)
        workloads.run("consume", subject.bootstrap, "load", seconds=2)
        return workloads.run("consume", subject.bootstrap, "load", seconds=4)["mb_per_s"]


def _connections(make: Maker) -> float:
    with make({}) as subject:
        workloads.run("connect", subject.host, subject.port(LISTENER), seconds=2)
        return workloads.run("connect", subject.host, subject.port(LISTENER), seconds=4)["per_s"]


def _storm(properties: Mapping[str, str], *, storm: bool) -> Callable[[Maker], float]:
    """Measure p99 on PLAINTEXT with a produce every 4 ms, while 64 workers connect on the other listener."""

    def measure(make: Maker) -> float:
        with make(properties) as subject:
            workloads.create_topic(subject.bootstrap, "paced")
            workloads.run("paced_produce", subject.bootstrap, "paced", seconds=4)
            connecting = None
            if storm:
                connecting = workloads.start("connect", subject.host, subject.port(LISTENER), seconds=13)
                # The windowed limit admits its burst first; only the storm after it is measured.
                workloads.run("paced_produce", subject.bootstrap, "paced", seconds=3)
            figures = workloads.run("paced_produce", subject.bootstrap, "paced", seconds=8)
            if connecting is not None:
                workloads.finish(connecting)
            return figures["p99_ms"]

    return measure


def _worst_connect(properties: Mapping[str, str]) -> Callable[[Maker], float]:
    """Measure the slowest connect of 64 workers that connect repeatedly.

    A client on PLAINTEXT produces every 4 ms at the same time.
    """

    def measure(make: Maker) -> float:
        with make(properties) as subject:
            workloads.create_topic(subject.bootstrap, "paced")
            workloads.run("paced_produce", subject.bootstrap, "paced", seconds=4)
            connecting = workloads.start("connect", subject.host, subject.port(LISTENER), seconds=8)
            workloads.run("paced_produce", subject.bootstrap, "paced", seconds=8)
            figures = workloads.finish(connecting)
            if figures["refused"]:
                raise RuntimeError(f"{figures['refused']} connections failed in a storm")
            return figures["worst_ms"]

    return measure


def _in_a_row(make: Maker) -> float:
    with make({}) as subject:
        return workloads.run("one_after_another", subject.host, subject.port(LISTENER), connections=500)["seconds"]


def _come_back(make: Maker) -> float:
    with make({}) as subject:
        workloads.run("connect", subject.host, subject.port(LISTENER), seconds=2)
        figures = workloads.run("come_back", subject.host, subject.port(LISTENER), clients=5_000)
        if figures["refused"]:
            raise RuntimeError(f"{figures['refused']} of 5,000 clients were not answered")
        return figures["seconds"]


def _start_up(make: Maker) -> float:
    """Time from the start of the process to the first acknowledged record, on an existing data folder."""
    with make({}) as subject:
        workloads.create_topic(subject.bootstrap, "load")
        workloads.run("produce", subject.bootstrap, "load", size=100, batch_bytes=10_000, seconds=0.2)
        assert isinstance(subject, BrokerProcess | ApacheKafka)
        subject.stop()
        began = time.perf_counter()
        subject.start()
        workloads.first_produce(subject.bootstrap, "load")
        return time.perf_counter() - began


def _idle_memory(make: Maker) -> float:
    with make({}) as subject:
        workloads.create_topic(subject.bootstrap, "load")
        return resident_mb(subject.pid)


def _memory_with_connections(make: Maker) -> float:
    with make({}) as subject, _idle_connections(subject, 5_000):
        return resident_mb(subject.pid)


@contextlib.contextmanager
def _idle_connections(subject: Subject, count: int) -> Iterator[None]:
    holder = workloads.start("hold_idle", subject.host, subject.port(LISTENER), connections=count)
    assert holder.stdout is not None
    assert holder.stdin is not None
    if not holder.stdout.readline():
        raise RuntimeError("the idle connections could not be opened")
    try:
        yield
    finally:
        holder.stdin.close()
        holder.wait(30)
        holder.stdout.close()


def _memory_after_load(make: Maker) -> float:
    with make({}) as subject:
        workloads.create_topic(subject.bootstrap, "load")
        workloads.run("produce", subject.bootstrap, "load", size=1000, batch_bytes=1_000_000, seconds=5)
        workloads.run("produce", subject.bootstrap, "load", size=100, batch_bytes=100, seconds=3, one=True)
        workloads.run("consume", subject.bootstrap, "load", seconds=4)
        workloads.run("connect", subject.host, subject.port(LISTENER), seconds=3)
        return resident_mb(subject.pid)


LIMITED = {f"listener.name.storm.{RATE_KEY}": str(STORM_LIMIT)}

ROWS = (
    Row("produce, 1 MB batches", "MB/s", True, 1.5, _produce_wire(size=1000, batch_bytes=1_000_000)),
    Row("produce, 64 KB batches", "MB/s", True, 1.5, _produce_wire(size=1000, batch_bytes=65_536)),
    Row("produce, librdkafka, 1 MB batches", "MB/s", True, 1.5, _produce("mb_per_s", size=1000, batch_bytes=1_000_000)),
    Row("produce, librdkafka, 64 KB batches", "MB/s", True, 1.5, _produce("mb_per_s", size=1000, batch_bytes=65_536)),
    Row(
        "produce, librdkafka, one 100 B message a batch",
        "messages/s",
        True,
        2.0,
        _produce("messages_per_s", size=100, batch_bytes=65_536, one=True),
    ),
    Row("consume, 8 MB fetches", "MB/s", True, 1.2, _consume_wire),
    Row("consume, librdkafka", "MB/s", True, 1.2, _consume),
    Row("connect, ApiVersions, close", "connections/s", True, 1.5, _connections),
    Row("produce p99 without a storm", "ms", False, None, _storm({}, storm=False)),
    Row("produce p99 in a storm without a limit", "ms", False, 0.7, _storm({}, storm=True)),
    Row("produce p99 in a storm limited to 100/s", "ms", False, 0.7, _storm(LIMITED, storm=True)),
    Row("worst connect in a storm without a limit", "ms", False, 0.7, _worst_connect({})),
    Row("worst connect in a storm limited to 100/s", "ms", False, 1.0, _worst_connect(LIMITED)),
    Row("500 connections, one after another", "s", False, 0.7, _in_a_row),
    Row("5,000 clients that come back at once", "s", False, 0.7, _come_back),
    Row("start-up to first produce", "s", False, 0.25, _start_up),
    Row("resident memory, idle", "MB", False, 0.125, _idle_memory),
    Row("resident memory, 5,000 idle connections", "MB", False, None, _memory_with_connections),
    Row("resident memory after load", "MB", False, 0.125, _memory_after_load),
)


def machine() -> str:
    """Describe the machine, Java and the clients of the figures."""
    version = subprocess.run([java(), "-version"], capture_output=True, text=True, check=True).stderr.splitlines()[0]
    return f"{processors()}; {version}; librdkafka clients on the same cores"


def processors() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    model = next((line.split(":", 1)[1].strip() for line in lines if "model name" in line), "unknown processor")
    return f"{sum(line.startswith('processor') for line in lines)} cores, {model}"


def needs() -> str | None:
    """Return why the comparison cannot run on this machine; None if it can."""
    for tool in ("java", "mvn"):
        if shutil.which(tool) is None:
            return f"{tool} is not installed"
    return None
