"""Requests without transactions, beside a checkout of this project that has none: the processor time of the brokers.

The brokers of both checkouts run at the same time, and get the same requests in turn, in chunks. The median chunk
counts, because other load on the machine disturbs some of them.
"""

import os
import socket
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from time import time
from typing import Self

from benchmarks.brokers import workloads
from benchmarks.brokers.clusters import Cluster, sluicegate_cluster
from benchmarks.record_validation import processor_s, send
from benchmarks.round_table import Found, Measured
from benchmarks.wire import fetch_frame, produce_frame, produce_request
from kafka_bytes.batches import ProducerStamp, encode_batch

_ALONE, _REPLICATED = "alone", "replicated"
"""Topics of one partition, with one replica and with three."""
_CHUNKS, _REQUESTS = 75, 80
_ACKS_ALL = -1
_PRODUCER_ID = 4_000
Frames = Iterator[bytes]


def _same(frame: bytes) -> Frames:
    while True:
        yield frame


def _idempotent() -> Frames:
    """Yield requests of an idempotent producer, with one record each."""
    sequence, now_ms = 0, int(time() * 1000)
    while True:
        batch = encode_batch([(None, bytes(100))], now_ms, ProducerStamp(_PRODUCER_ID, 0, sequence))
        yield produce_request(_ALONE, batch)
        sequence += 1


LOADS: Mapping[str, tuple[str, Callable[[], Frames]]] = {
    "produce, one message": (_ALONE, lambda: _same(produce_frame(_ALONE, 100, 1))),
    "produce, one message of an idempotent producer": (_ALONE, _idempotent),
    "produce, 64 KB": (_ALONE, lambda: _same(produce_frame(_ALONE, 1_000, 65_536))),
    "fetch, 64 KB": (_ALONE, lambda: _same(fetch_frame(_ALONE, 0, 65_536))),
    "produce, one message, acks=all, 3 replicas": (
        _REPLICATED,
        lambda: _same(produce_frame(_REPLICATED, 100, 1, _ACKS_ALL)),
    ),
}
"""The topic and the requests of each row."""


@dataclass(frozen=True)
class _Load:
    """A row under way at one cluster."""

    pids: tuple[int, ...]
    client: socket.socket
    frames: Frames

    def chunk(self) -> float:
        """Return the processor time of the brokers for a request, in microseconds."""
        before_s = sum(map(processor_s, self.pids))
        for _ in range(_REQUESTS):
            send(self.client, next(self.frames))
        return (sum(map(processor_s, self.pids)) - before_s) / _REQUESTS * 1e6


@contextmanager
def _on_one_processor(pids: Collection[int]) -> Iterator[None]:
    """Let this process and these run on one processor only, within the block.

    A request costs twice as much if the broker and its client run on two that wake each other.
    """
    here = os.sched_getaffinity(0)
    processes = (os.getpid(), *pids)
    for pid in processes:
        os.sched_setaffinity(pid, {min(here)})
    try:
        yield
    finally:
        for pid in processes:
            os.sched_setaffinity(pid, here)


class BesideBefore:
    """A cluster of this checkout and one of another. They run within the block, all on one processor."""

    def __init__(self, checkouts: tuple[Path, Path]) -> None:
        self._checkouts = checkouts
        self._running = ExitStack()
        self._clusters: list[Cluster] = []

    def __enter__(self) -> Self:
        with ExitStack() as undo:
            undo.callback(self._running.close)
            for checkout in self._checkouts:
                cluster = self._running.enter_context(sluicegate_cluster(checkout))
                workloads.create_topic(cluster.bootstrap, _ALONE)
                workloads.create_topic(cluster.bootstrap, _REPLICATED, replicas=3)
                cluster.wait_in_sync(_REPLICATED)
                self._clusters.append(cluster)
            pids = [broker.pid for cluster in self._clusters for broker in cluster.brokers.values()]
            self._running.enter_context(_on_one_processor(pids))
            undo.pop_all()
        self.measure()
        return self

    def __exit__(self, *_: object) -> None:
        self._running.close()

    def measure(self) -> tuple[Found, Found]:
        """Measure all rows once: of this checkout, and of the other one. More requests are better."""
        found: tuple[Found, Found] = ({}, {})
        for name, (topic, frames) in LOADS.items():
            with ExitStack() as stack:
                loads = [self._load(stack, cluster, topic, frames()) for cluster in self._clusters]
                costs: list[list[float]] = [[] for _ in loads]
                for number in range(_CHUNKS):
                    for which in (0, 1) if number % 2 else (1, 0):
                        costs[which].append(loads[which].chunk())
            for which, each in enumerate(costs):
                processor_us = median(each)
                found[which][name] = Measured(1e6 / processor_us, processor_us)
        return found

    def _load(self, stack: ExitStack, cluster: Cluster, topic: str, frames: Frames) -> _Load:
        leader = cluster.leader_of(topic)
        brokers = cluster.brokers.values() if topic == _REPLICATED else [leader]
        client = stack.enter_context(socket.create_connection((leader.host, leader.port())))
        return _Load(tuple(broker.pid for broker in brokers), client, frames)
