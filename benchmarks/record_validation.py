"""Cost of validating every record: `.venv/bin/python -m benchmarks.record_validation`.

One broker has two topics, with sluicegate.record.validation=header and =all. The same batches are sent to both in turn.
The figure is the processor time of the broker's process for each batch, so other load of the machine matters little.
"""

import os
import socket
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import median

from benchmarks.wire import produce_request
from kafka_bytes.batches import encode_batch
from tests.support.logs.packed_batches import packed
from tests.support.processes.broker_process import BrokerProcess
from tests.support.processes.clients.wire_client import WireClient

ROUNDS = 5
BYTES_EACH_ROUND = 10_000_000
SHAPES = ((1, 100), (100, 100), (1_000, 100), (1_000, 1_000))
"""Shapes of batches: (records, bytes of a value)."""
CODECS = {"none": 0, "gzip": 1, "lz4": 3, "zstd": 4}
SETTINGS = ("header", "all")


def main() -> None:
    with BrokerProcess(properties={"message.max.bytes": "2000000"}) as broker:
        with WireClient(("127.0.0.1", broker.port())) as client:
            for setting in SETTINGS:
                configs = [{"name": "sluicegate.record.validation", "value": setting}]
                topic = {"name": setting, "num_partitions": 1, "replication_factor": 1, "assignments": ()}
                client.ask(
                    "create_topics", 7, topics=[topic | {"configs": configs}], timeout=30_000, validate_only=False
                )
        print("| records x bytes | compression | header, us a batch | all, us a batch | ratio |")
        print("|---|---|---|---|---|")
        for count, size in SHAPES:
            for name, codec in CODECS.items():
                figures = _measure(broker, _batch(count, size, codec))
                ratio = median(after / before for before, after in zip(figures["header"], figures["all"], strict=True))
                header, everything = (median(figures[setting]) for setting in SETTINGS)
                print(f"| {count} x {size} | {name} | {header:.0f} | {everything:.0f} | {ratio:.1f} |")


def _batch(count: int, size: int, codec: int) -> bytes:
    """Return a batch of values that are half as compressible as text."""
    values = [os.urandom(size // 2) + bytes(size - size // 2) for _ in range(count)]
    batch = encode_batch([(b"%d" % number, value) for number, value in enumerate(values)], int(time.time() * 1000))
    return packed(codec, batch) if codec else batch


def _measure(broker: BrokerProcess, batch: bytes) -> Mapping[str, list[float]]:
    figures: dict[str, list[float]] = {setting: [] for setting in SETTINGS}
    times = max(10, min(300, BYTES_EACH_ROUND // len(batch)))
    with socket.create_connection(("127.0.0.1", broker.port())) as client:
        for _ in range(ROUNDS):
            for setting in SETTINGS:
                frame = produce_request(setting, batch)
                figures[setting].append(_microseconds(broker.pid, times, lambda: send(client, frame)))  # noqa: B023
    return figures


def send(client: socket.socket, frame: bytes) -> None:
    client.sendall(frame)
    size = int.from_bytes(_exactly(client, 4), "big")
    _exactly(client, size)


def _exactly(client: socket.socket, size: int) -> bytes:
    data = client.recv(size, socket.MSG_WAITALL)
    assert len(data) == size, "the broker hung up"
    return data


def _microseconds(pid: int, times: int, send: Callable[[], None]) -> float:
    before = processor_s(pid)
    for _ in range(times):
        send()
    return (processor_s(pid) - before) / times * 1e6


def processor_s(pid: int) -> float:
    """Return the processor time of all threads. The kernel counts it in nanoseconds."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e9


if __name__ == "__main__":
    main()
