"""Measure a running cluster of three brokers, phase by phase. Each phase returns its figures by row.

Processor times are those of the three brokers together. The controllers have next to nothing to do.
"""

import re
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from statistics import median

from benchmarks.brokers import workloads
from benchmarks.brokers.clusters import TIMING, Cluster
from benchmarks.brokers.rows import resident_mb
from benchmarks.processor_time import process_times
from benchmarks.record_validation import processor_s, send
from benchmarks.round_table import Found, Measured
from benchmarks.transactions.wanted import (
    ALONE_COMMIT,
    IDS,
    INIT_IDS,
    MEMORY_OF_IDS,
    PRODUCERS,
    READ_PROCESSOR,
    READ_RATE,
    SIZES,
    VERSIONS,
    commit_of,
    rate_of,
)
from benchmarks.wire import fetch_frame

SETTINGS: Mapping[str, str] = TIMING | {
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
}
_TOPIC, _PARTITIONS = "transacted", 6
_WARM_IDS, _AT_ONCE, _CONNECTIONS = 1_000, 10_000, 32
_WARM_S = 5.0
"""Time in which Java compiles what transactions need, before the warm-up of each row."""
_PAUSE_S = 0.03
"""The pause of the producer that commits alone: by then its last transaction is complete."""
_FETCH_BYTES = 1_048_576
_CHUNKS, _FETCHES = 12, 25
"""Fetches are sent in chunks, because other load on the machine disturbs some of them."""
_JCMD_S = 60.0
_HEAP_USED = re.compile(r"used (\d+)K")


@dataclass(frozen=True)
class Session:
    """A running cluster, and the length of each measurement in seconds."""

    cluster: Cluster
    seconds: float
    is_java: bool

    def processor_s(self) -> float:
        return sum(sum(process_times(broker.pid)) for broker in self.cluster.brokers.values())

    def memory_mb(self) -> float | None:
        """Return the memory of the brokers: resident, or of the heap if they are Java's. None without jcmd."""
        if self.is_java and shutil.which("jcmd") is None:
            return None
        of = _heap_mb if self.is_java else resident_mb
        return sum(of(broker.pid) for broker in self.cluster.brokers.values())

    def transact(self, **options: float) -> tuple[Mapping[str, float], float]:
        """Run producers; return their figures, and the brokers' processor time of a transaction in microseconds."""
        before_s = self.processor_s()
        figures = workloads.run("transact", self.cluster.bootstrap, _TOPIC, **options)
        return figures, (self.processor_s() - before_s) / figures["transactions"] * 1e6


def begun(cluster: Cluster, seconds: float, *, is_java: bool) -> Session:
    """Return the session of a new cluster, with the topic of all phases."""
    workloads.create_topic(cluster.bootstrap, _TOPIC, _PARTITIONS, 3)
    cluster.wait_in_sync(_TOPIC)
    return Session(cluster, seconds, is_java)


def ids(session: Session) -> Found:
    """Measure InitProducerId of many new transactional ids, and the memory that they take. Call this phase first."""
    run = partial(workloads.run, "init_producers", session.cluster.bootstrap, connections=_CONNECTIONS)
    run(ids=_WARM_IDS, prefix="warm")
    before_mb, before_s = session.memory_mb(), session.processor_s()
    took_s = sum(_AT_ONCE / run(ids=_AT_ONCE, prefix=f"id-{first}")["per_s"] for first in range(0, IDS, _AT_ONCE))
    processor_us = (session.processor_s() - before_s) / IDS * 1e6
    found = {INIT_IDS: Measured(IDS / took_s, processor_us)}
    if before_mb is not None and (after_mb := session.memory_mb()) is not None:
        found[MEMORY_OF_IDS] = Measured(after_mb - before_mb)
    return found


def rates(session: Session) -> Found:
    """Measure producers that commit one transaction after another, and their waits for EndTxn."""
    found: Found = {}
    session.transact(version=2, producers=PRODUCERS, partitions=1, records=1, seconds=_WARM_S)
    for version in VERSIONS:
        for records, (partitions, _) in SIZES.items():
            options = {"version": version, "producers": PRODUCERS, "partitions": partitions, "records": records}
            session.transact(**options, seconds=session.seconds / 2)
            figures, processor_us = session.transact(**options, seconds=session.seconds)
            found[rate_of(records, version)] = Measured(figures["per_s"], processor_us)
            if records == 1:
                found[commit_of(version)] = Measured(figures["commit_p99_ms"])
    return found


def commits(session: Session) -> Found:
    """Measure the waits for EndTxn of one producer, which pauses after each transaction."""
    options = {"version": 2, "producers": 1, "partitions": 1, "records": 1, "pause_s": _PAUSE_S}
    session.transact(**options, seconds=session.seconds / 2)
    figures, _ = session.transact(**options, seconds=2 * session.seconds)
    return {ALONE_COMMIT: Measured(figures["commit_p99_ms"])}


def reads(session: Session) -> Found:
    """Measure fetches of committed transactions by both isolation levels, in turn. Call this phase after `rates`."""
    leader = session.cluster.leader_of(_TOPIC)
    frames = [fetch_frame(_TOPIC, 0, _FETCH_BYTES, is_committed=level) for level in (False, True)]
    costs: tuple[list[tuple[float, float]], list[tuple[float, float]]] = ([], [])
    with socket.create_connection((leader.host, leader.port())) as client:
        for number in range(_CHUNKS + 1):
            for level in (0, 1) if number % 2 else (1, 0):
                cost = _fetched(leader.pid, client, frames[level])
                if number:
                    costs[level].append(cost)
    clock, processor = (
        median(plain[of] / committed[of] for plain, committed in zip(*costs, strict=True)) for of in (0, 1)
    )
    return {READ_RATE: Measured(clock), READ_PROCESSOR: Measured(processor)}


def _fetched(pid: int, client: socket.socket, frame: bytes) -> tuple[float, float]:
    """Return the time and the broker's processor time of some fetches, in seconds."""
    before_s, began_s = processor_s(pid), time.perf_counter()
    for _ in range(_FETCHES):
        send(client, frame)
    return time.perf_counter() - began_s, processor_s(pid) - before_s


def _heap_mb(pid: int) -> float:
    """Return the heap that a Java process uses, after a garbage collection."""
    jcmd = partial(subprocess.run, check=True, capture_output=True, text=True, timeout=_JCMD_S)
    jcmd(["jcmd", str(pid), "GC.run"])
    used = _HEAP_USED.search(jcmd(["jcmd", str(pid), "GC.heap_info"]).stdout)
    if used is None:
        raise RuntimeError("jcmd does not print the size of the heap in a known form")
    return int(used[1]) / 1024


PHASES: Mapping[str, Callable[[Session], Found]] = {"ids": ids, "rates": rates, "commits": commits, "reads": reads}
"""The phases, in their order."""
