"""`python -m benchmarks.hostile_clients [--clients N] [--seconds S] [TEXT ...]`: an honest client beside hostile ones.

Hostile clients repeat requests that are as large as the limits allow; `tools.request_arrays` has the arrays of all
APIs. In the row `mixed`, each of them repeats the request of another array. In the row `unread`, they request large
answers that they do not read. Meanwhile, an honest client produces a record every 20 ms. Each row shows how long its
produces took, the processor time of the broker, and its memory at the end. `TEXT` selects rows whose name contains it.

The clients share the cores with the broker, so the times hold for an otherwise idle machine. The processor time that
the broker used during a produce hardly depends on other processes: it is how long the produce takes if the broker never
waits for a core.
"""

import argparse
import json
import selectors
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from heapq import heappop, heappush
from pathlib import Path as FilePath
from threading import Event

from broker_runtime.apis.request.call import Api
from broker_runtime.config import broker_settings
from broker_runtime.node.limits import request_limits
from broker_runtime.wire.messages import encode_request_body, frame_request
from broker_runtime.wire.versions import DESCRIBE_CONFIGS
from kafka_bytes.batches import encode_batch
from tests.support.processes.broker_process import BrokerProcess
from tests.support.processes.clients.wire_client import WireClient
from tests.support.requests.filled_requests import filled_request
from tools.request_arrays import Path, arrays_of, served_apis

TOPIC = "wide"
PARTITIONS = 1_000
_BYTES_KEPT_FREE = 1_024
_PRODUCED_EVERY_S = 0.02
_WARM_UP_S = 2.0
_PAUSE_S = 0.5
"""Pause of a hostile client whose connection was closed."""
_REPEATED_EVERY_S = 1.0
_READ_BYTES = 1 << 20
_CPUCLOCK_SCHED = 2
_BROKER_RESOURCE = 4
_WORK = "sluicegate_event_loop_turn_seconds"
_WORK_SHOWN_FROM = 0.02
"""Share of the time from which a kind of work is shown."""


Made = Callable[[], bytes]


def requests() -> dict[str, Made]:
    """Return functions that each make a frame whose request fills one array, by the name of the array.

    The arrays are those of each API that brokers serve.
    """
    limits = request_limits(broker_settings({"node.id": "1"}))

    def frame(api: Api, path: Path, version: int) -> bytes:
        items = limits.items_of(api.key)
        body, _ = filled_request(api.key, version, path, items)
        if len(body) > limits.bytes_max - _BYTES_KEPT_FREE:
            items = items * (limits.bytes_max - _BYTES_KEPT_FREE) // len(body)
            body, _ = filled_request(api.key, version, path, items)
        return frame_request(api.key, version, 1, body)

    return {
        f"{api.name}.{'.'.join(path)}": partial(frame, api, path, version)
        for role, api in served_apis()
        for path, version in (arrays_of(api).items() if role == "broker" else ())
    }


def unread_request() -> bytes:
    """Return a frame of less than a kilobyte whose answer is many times as large."""
    resource = {"resource_type": _BROKER_RESOURCE, "resource_name": "1", "configuration_keys": None}
    content = {"resources": [resource] * 100, "include_synonyms": True, "include_documentation": True}
    return frame_request(DESCRIBE_CONFIGS, 4, 1, encode_request_body(DESCRIBE_CONFIGS, 4, content))


@dataclass
class HostileClient:
    """A client that repeats its request; it discards the answers, or does not read them."""

    address: tuple[str, int]
    frame: bytes
    reads: bool
    answers: int = 0
    closed: int = 0
    connected: socket.socket | None = None
    unsent: memoryview = field(default_factory=lambda: memoryview(b""))
    missing: int = 0
    """Bytes of the answer that have not arrived."""
    head: bytes = b""

    def connect(self) -> socket.socket:
        self.connected = socket.create_connection(self.address)
        self.connected.setblocking(False)
        self.unsent, self.missing, self.head = memoryview(self.frame), 0, b""
        return self.connected

    def wanted(self) -> int:
        """Return the events to wait for."""
        return selectors.EVENT_WRITE if self.unsent else selectors.EVENT_READ

    def go_on(self) -> bool:
        """Send or receive. Returns False when the broker has closed the connection."""
        assert self.connected is not None
        try:
            if self.unsent:
                self.unsent = self.unsent[self.connected.send(self.unsent) :]
                return True
            return not self.reads or self._receive(self.connected)
        except BlockingIOError:
            return True
        except OSError:
            return False

    def _receive(self, connected: socket.socket) -> bool:
        data = connected.recv(_READ_BYTES)
        if not data:
            return False
        if not self.missing:
            self.head += data
            if len(self.head) < 4:
                return True
            data = self.head[4:]
            self.missing, self.head = int.from_bytes(self.head[:4], "big"), b""
        self.missing -= len(data)
        if self.missing <= 0:
            self.answers += 1
            self.missing, self.unsent = 0, memoryview(self.frame)
        return True


class Attack:
    """Hostile clients in one process. Those that do not read send another request each second."""

    def __init__(self, address: tuple[str, int], frames: Sequence[bytes], clients: int, *, reads: bool) -> None:
        self._selector = selectors.DefaultSelector()
        self._every = [HostileClient(address, frames[n % len(frames)], reads) for n in range(clients)]
        self._waiting: list[tuple[float, int, HostileClient]] = []
        """Clients that pause, with the end of the pause."""

    def run(self) -> None:
        """Attack until standard input ends; then print figures."""
        self._selector.register(sys.stdin, selectors.EVENT_READ)
        for each in self._every:
            self._selector.register(each.connect(), each.wanted(), each)
        print("ready", flush=True)
        while True:
            for key, _ in self._selector.select(0.05):
                if key.data is None:
                    totals = {name: sum(getattr(each, name) for each in self._every) for name in ("answers", "closed")}
                    print(json.dumps(totals))
                    return
                self._advance(key.data, key)
            self._resume(time.monotonic())

    def _advance(self, each: HostileClient, key: selectors.SelectorKey) -> None:
        assert each.connected is not None
        if not each.go_on():
            self._selector.unregister(each.connected)
            each.connected.close()
            each.connected = None
            each.closed += 1
            self._pause(each, _PAUSE_S)
        elif not each.reads and not each.unsent:
            self._selector.unregister(each.connected)
            self._pause(each, _REPEATED_EVERY_S)
        elif key.events != each.wanted():
            self._selector.modify(each.connected, each.wanted(), each)

    def _pause(self, each: HostileClient, pause_s: float) -> None:
        heappush(self._waiting, (time.monotonic() + pause_s, id(each), each))

    def _resume(self, now_s: float) -> None:
        while self._waiting and self._waiting[0][0] <= now_s:
            *_, each = heappop(self._waiting)
            if each.connected is not None:
                each.unsent = memoryview(each.frame)
            self._selector.register(each.connected or each.connect(), each.wanted(), each)


@dataclass(frozen=True)
class Measured:
    """The figures of one row: times of produces in milliseconds."""

    count: int
    p50_ms: float
    p99_ms: float
    longest_ms: float
    processor_p99_ms: float
    """Processor time of the broker during a produce."""
    broker_share: float
    """Processor time of the broker, as a share of one core."""
    resident_mb: float
    work: Mapping[str, float]
    """Share of the time for which each kind of work kept the event loop busy."""
    hostile: Mapping[str, int]


def _pause(seconds: float) -> None:
    Event().wait(seconds)


def _processor_s(pid: int) -> float:
    """Return the processor time of all threads of a process: clock_getcpuclockid(3) has this id for Linux."""
    return time.clock_gettime(~pid << 3 | _CPUCLOCK_SCHED)


def _work_s(broker: BrokerProcess) -> dict[str, float]:
    """Return the time for which each kind of work has kept the event loop busy, in seconds."""
    found = broker.metrics().items()
    return {name.split('"')[1]: value for name, value in found if name.startswith(_WORK + "_sum{")}


def _produce(client: WireClient) -> None:
    records = bytes(encode_batch([(None, b"honest")], 0))
    data = [{"name": "honest", "partition_data": [{"index": 0, "records": records}]}]
    answer = client.ask("produce", 9, transactional_id=None, acks=1, timeout=30_000, topic_data=data)
    (part,) = answer["responses"][0]["partition_responses"]
    if part["error_code"] != "none":
        raise RuntimeError(f"the honest client's record was refused: {part}")


def _measured(client: WireClient, pid: int) -> tuple[float, float]:
    """Produce a record. Returns the time that it took, and the broker's processor time meanwhile, in seconds."""
    began_s, processor_s = time.monotonic(), _processor_s(pid)
    _produce(client)
    return time.monotonic() - began_s, _processor_s(pid) - processor_s


def measure(broker: BrokerProcess, frames: Sequence[bytes], clients: int, seconds: float, *, reads: bool) -> Measured:
    """Measure an honest client for `seconds`, beside `clients` hostile ones that repeat these frames."""
    folder = broker.folder / "frames"
    folder.mkdir(exist_ok=True)
    for number, frame in enumerate(frames):
        (folder / f"{number:03}").write_bytes(frame)
    command = [sys.executable, "-m", "benchmarks.hostile_clients", "--attack", str(folder), f"--clients={clients}"]
    command += ["--to", f"{broker.host}:{broker.port()}", *(() if reads else ("--unread",))]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdin is not None
            assert process.stdout is not None
            if process.stdout.readline() != "ready\n":
                raise RuntimeError("the hostile clients did not start")
            with WireClient((broker.host, broker.port())) as client:
                end_s = time.monotonic() + _WARM_UP_S
                while time.monotonic() < end_s:
                    _produce(client)
                    _pause(_PRODUCED_EVERY_S)
                before_s, work_s, took = _processor_s(broker.pid), _work_s(broker), []
                end_s = time.monotonic() + seconds
                while time.monotonic() < end_s:
                    took.append(_measured(client, broker.pid))
                    _pause(_PRODUCED_EVERY_S)
                share = (_processor_s(broker.pid) - before_s) / seconds
                work = {name: (taken_s - work_s[name]) / seconds for name, taken_s in _work_s(broker).items()}
            hostile = json.loads(process.communicate("over\n", timeout=60)[0])
        finally:
            process.kill()
    for path in folder.iterdir():
        path.unlink()
    waits, processor = (sorted(times) for times in zip(*took, strict=True))
    return Measured(
        len(waits),
        waits[len(waits) // 2] * 1e3,
        waits[len(waits) * 99 // 100] * 1e3,
        waits[-1] * 1e3,
        processor[len(processor) * 99 // 100] * 1e3,
        share,
        broker.resident_bytes() / 1e6,
        work,
        hostile,
    )


def rows(names: Sequence[str]) -> Iterator[tuple[str, Sequence[bytes], bool]]:
    """Yield the name of each selected row, its frames, and whether the hostile clients read their answers."""
    by_array = requests()
    every: dict[str, tuple[Sequence[Made], bool]] = {
        "nobody": ((), True),
        "unread": ((unread_request,), False),
        "mixed": (list(by_array.values()), True),
    }
    chosen = every if not names else {**every, **{name: ((made,), True) for name, made in by_array.items()}}
    for name, (made, reads) in chosen.items():
        if not names or any(text in name for text in names):
            yield name, [make() for make in made], reads


def _prepare(broker: BrokerProcess) -> None:
    with WireClient((broker.host, broker.port())) as client:
        topics = [
            {"name": name, "num_partitions": count, "replication_factor": 1, "assignments": [], "configs": []}
            for name, count in ((TOPIC, PARTITIONS), ("honest", 1))
        ]
        client.ask("create_topics", 7, topics=topics, timeout=60_000, validate_only=False)
        deadline_s = time.monotonic() + 60
        while time.monotonic() < deadline_s:
            try:
                _produce(client)
            except RuntimeError:
                _pause(_PAUSE_S)
            else:
                return
        raise RuntimeError("the topics were not created within a minute")


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("names", nargs="*", metavar="TEXT")
    parser.add_argument("--clients", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--attack", type=FilePath, help=argparse.SUPPRESS)
    parser.add_argument("--to", help=argparse.SUPPRESS)
    parser.add_argument("--unread", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.attack is not None:
        host, _, port = given.to.rpartition(":")
        sent = [path.read_bytes() for path in sorted(given.attack.iterdir())]
        Attack((host, int(port)), sent, given.clients, reads=not given.unread).run()
        return
    for name, frames, reads in rows(given.names):
        with BrokerProcess() as broker:
            _prepare(broker)
            found = measure(broker, frames, given.clients if frames else 0, given.seconds, reads=reads)
        print(f"{name:40} {_shown(found)}", flush=True)


def _shown(found: Measured) -> str:
    work = sorted(((share, work) for work, share in found.work.items() if share > _WORK_SHOWN_FROM), reverse=True)
    return (
        f"p50 {found.p50_ms:.1f} ms, p99 {found.p99_ms:.1f} ms (processor time of the broker"
        f" {found.processor_p99_ms:.1f} ms), longest {found.longest_ms:.1f} ms of {found.count} produces;"
        f" broker {found.broker_share:.0%} of a core, {found.resident_mb:.0f} MB; hostile {dict(found.hostile)};"
        f" {', '.join(f'{work} {share:.0%}' for share, work in work)}"
    )


if __name__ == "__main__":
    main(sys.argv[1:])
