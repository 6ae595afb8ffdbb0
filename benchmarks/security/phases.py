"""Measure one running broker, phase by phase. Each phase returns its figures by row."""

import contextlib
import subprocess
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from statistics import quantiles

from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from benchmarks.brokers import workloads
from benchmarks.brokers.rows import RATE_KEY, STORM_LIMIT, resident_mb
from benchmarks.processor_time import process_times
from benchmarks.round_table import Found, Measured
from benchmarks.security import client_quotas
from benchmarks.security.subjects import SECURE, STORM, Broker, Maker
from benchmarks.wire import produce_frame
from tests.support.processes.broker_process import CLIENT_LISTENER
from tests.support.tls.secure_broker import TlsWorld

LARGE, SMALL, ONE = "1 MB batches", "64 KB batches", "one 100 B message a batch"
_MESSAGE_BYTES = 1_000
_FETCH_BYTES = 1_048_576
"""The default of max.partition.fetch.bytes of consumers."""
VERSIONS = {"TLSv1_3": "TLS 1.3", "TLSv1_2": "TLS 1.2"}
CONNECTIONS = 5_000
QUOTA = 2_000_000
UNLIMITED = "TLS produce p99 in a storm of handshakes without a limit"
LIMITED = f"TLS produce p99 in a storm of handshakes limited to {STORM_LIMIT}/s"
_MESSAGES_SHARE = 60
"""Batches of one message are sent for as many megabytes less."""
_STORM_BEGINS_S, _STORM_ENDS_S = 4.0, 2.0
_GREEDY_BEGINS_S = 3.0
_SETTLED_S, _PAUSE_S = 3.0, 0.2
_PATIENCE_S = 120.0


@dataclass(frozen=True)
class Durations:
    """Lengths of the measurements, in seconds and in megabytes."""

    seconds: float = 3.0
    megabytes: float = 600.0


class Session:
    """One running broker, and how its clients connect."""

    def __init__(self, broker: Broker, world: TlsWorld, durations: Durations) -> None:
        self.broker = broker
        self.durations = durations
        self._world = world

    @property
    def trusted(self) -> str:
        return str(self._world.trusted)

    @property
    def security(self) -> Mapping[str, object]:
        return self._world.confluent()

    def address(self, listener: str) -> tuple[str, int]:
        return self.broker.host, self.broker.port(listener)

    def wire(self, topic: str, *, encrypted: bool) -> tuple[tuple[str, int, str], Mapping[str, object]]:
        """Return the arguments and options of workloads of benchmarks/wire.py."""
        host, port = self.address(SECURE if encrypted else CLIENT_LISTENER)
        return (host, port, topic), {"trusted": self.trusted if encrypted else None}

    def bootstrap(self, listener: str) -> str:
        return f"{self.broker.host}:{self.broker.port(listener)}"

    def run(self, name: str, *arguments: object, **options: object) -> tuple[Mapping[str, float], float]:
        """Run a workload; return its figures, and the seconds of the broker's processor."""
        before = sum(process_times(self.broker.pid))
        figures = workloads.run(name, *arguments, **options)
        return figures, sum(process_times(self.broker.pid)) - before


def traffic(session: Session, *, encrypted: bool) -> Found:
    """Measure what is produced and consumed by a client that costs little (benchmarks/wire.py)."""
    found: Found = {}
    prefix = "TLS " if encrypted else ""
    for name, batch_bytes in ((LARGE, 1_000_000), (SMALL, 65_536)):
        topic = f"{prefix}{name}".replace(" ", "-")
        found[f"{prefix}produce, {name}"] = _produced(session, topic, batch_bytes, encrypted=encrypted)
        found[f"{prefix}consume, {name}"] = _consumed(session, topic, encrypted=encrypted)
    found[f"{prefix}produce, {ONE}"] = _one_by_one(session, f"{prefix}one".replace(" ", "-"), encrypted=encrypted)
    return found


def _produced(session: Session, topic: str, batch_bytes: int, *, encrypted: bool) -> Measured:
    workloads.create_topic(session.broker.bootstrap, topic)
    where, options = session.wire(topic, encrypted=encrypted)
    options = {**options, "size": _MESSAGE_BYTES, "batch_bytes": batch_bytes}
    megabytes = session.durations.megabytes
    session.run("produce_wire", *where, megabytes=megabytes / 3, **options)
    figures, spent_s = session.run("produce_wire", *where, megabytes=megabytes, **options)
    return Measured(figures["mb_per_s"], spent_s * 1e6 / megabytes)


def _consumed(session: Session, topic: str, *, encrypted: bool) -> Measured:
    where, options = session.wire(topic, encrypted=encrypted)
    options = {**options, "max_bytes": _FETCH_BYTES}
    seconds = session.durations.seconds
    session.run("consume_wire", *where, seconds=seconds / 3, **options)
    figures, spent_s = session.run("consume_wire", *where, seconds=seconds, **options)
    return Measured(figures["mb_per_s"], spent_s * 1e6 / (figures["mb_per_s"] * seconds))


def _one_by_one(session: Session, topic: str, *, encrypted: bool) -> Measured:
    workloads.create_topic(session.broker.bootstrap, topic)
    where, options = session.wire(topic, encrypted=encrypted)
    options = {**options, "size": 100, "batch_bytes": 1}
    megabytes = session.durations.megabytes / _MESSAGES_SHARE
    session.run("produce_wire", *where, megabytes=megabytes / 2, **options)
    figures, spent_s = session.run("produce_wire", *where, megabytes=megabytes, **options)
    count = megabytes * 1e6 / len(produce_frame(topic, 100, 1))
    return Measured(figures["messages_per_s"], spent_s * 1e6 / count)


def handshakes(session: Session) -> Found:
    """Measure clients that connect by TLS, send ApiVersions, and close."""
    found: Found = {}
    seconds = session.durations.seconds
    for version, shown in VERSIONS.items():
        for kind, resumes in (("full", False), ("resumed", True)):
            options = {"trusted": session.trusted, "version": version, "resumes": resumes}
            where = session.address(STORM)
            session.run("connect_by_tls", *where, seconds=seconds / 2, **options)
            figures, spent_s = session.run("connect_by_tls", *where, seconds=seconds, **options)
            if figures["failed"] or not figures["per_s"]:
                raise RuntimeError(f"{shown}, {kind}: connections failed, or none was over in time: {figures}")
            row = f"handshakes, {shown}, {kind}"
            found[row] = Measured(figures["per_s"], spent_s * 1e6 / (figures["per_s"] * seconds))
            if resumes:
                found[f"{row}: share that was resumed"] = Measured(100 * figures["resumed"])
    return found


def storms(session: Session) -> Found:
    """Measure p99 of a TLS client with a produce every 4 ms, while 64 workers shake hands on another listener."""
    seconds = 2 * session.durations.seconds
    bootstrap, topic = session.bootstrap(SECURE), "paced"
    workloads.create_topic(session.broker.bootstrap, topic)

    def p99_ms(duration: float) -> Measured:
        figures = workloads.run("paced_produce", bootstrap, topic, seconds=duration, security=session.security)
        return Measured(figures["p99_ms"])

    p99_ms(seconds / 2)
    found = {"TLS produce p99 without a storm": p99_ms(seconds)}
    for row, limit in ((UNLIMITED, None), (LIMITED, STORM_LIMIT)):
        if limit is not None:
            _limit_storm(session.broker, limit)
        whole_s = seconds + _STORM_BEGINS_S + _STORM_ENDS_S
        storm = workloads.start("connect_by_tls", *session.address(STORM), seconds=whole_s, trusted=session.trusted)
        # The windowed limit admits its burst first; only the storm after it is measured.
        p99_ms(_STORM_BEGINS_S)
        found[row] = p99_ms(seconds)
        workloads.finish(storm)
    return found


def _limit_storm(broker: Broker, limit: int) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    entry = ConfigEntry(
        f"listener.name.{STORM.lower()}.{RATE_KEY}", str(limit), incremental_operation=AlterConfigOpType.SET
    )
    resource = ConfigResource(ResourceType.BROKER, str(broker.node_id), incremental_configs=[entry])
    for future in admin.incremental_alter_configs([resource]).values():
        future.result(_PATIENCE_S)


def neighbours(session: Session) -> Found:
    """Measure the waits of a client without TLS beside a greedy one, with and without a quota of that client."""
    port, seconds = session.broker.port(), 2 * session.durations.seconds
    client_quotas.create_topics(port)
    found: Found = {}
    quiet_ms = 0.0
    for name, is_greedy, quota in (
        ("alone", False, None),
        ("beside a greedy client", True, None),
        ("beside a greedy client with a quota", True, QUOTA),
    ):
        if quota is not None:
            client_quotas.set_quota(port, client_quotas.GREEDY, quota)
        waits, _ = client_quotas.waits_beside(port, is_greedy=is_greedy, seconds=seconds, before_s=_GREEDY_BEGINS_S)
        p99_ms = quantiles(waits, n=100)[98] * 1000
        found[f"p99 of a client {name}"] = Measured(p99_ms)
        quiet_ms = quiet_ms or p99_ms
        if is_greedy:
            found[f"p99 {name}, times alone"] = Measured(p99_ms / quiet_ms)
    return found


def connections(session: Session) -> Found:
    """Measure connects without TLS: ApiVersions, and close."""
    where, seconds = session.address(STORM), session.durations.seconds
    session.run("connect", *where, seconds=seconds / 2)
    figures, spent_s = session.run("connect", *where, seconds=seconds)
    return {"connect, ApiVersions, close": Measured(figures["per_s"], spent_s * 1e6 / (figures["per_s"] * seconds))}


def memory(make: Maker, trusted: str) -> Found:
    """Measure a new broker: idle, and with idle connections."""
    with make() as broker:
        _settled(broker)
        found = {"resident memory, idle with a TLS listener": Measured(_megabytes(broker.pid))}
        options = {"trusted": trusted, "connections": CONNECTIONS}
        holder = workloads.start("hold_idle_by_tls", broker.host, broker.port(SECURE), **options)
        with _opened(holder):
            found[f"resident memory, {CONNECTIONS:,} idle TLS connections"] = Measured(_megabytes(broker.pid))
    return found


def _megabytes(pid: int) -> float:
    """Return the resident memory in millions of bytes."""
    return resident_mb(pid) * 2**20 / 1e6


def _settled(broker: Broker) -> None:
    """Return when the broker has served for a while, so that what starts later is part of its memory."""
    deadline_s = time.monotonic() + _SETTLED_S
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    while time.monotonic() < deadline_s:
        admin.list_topics(timeout=_PATIENCE_S)
        admin.poll(_PAUSE_S)


@contextlib.contextmanager
def _opened(holder: subprocess.Popen[str]) -> Iterator[None]:
    """Wait until the process has opened its connections, and end it afterwards."""
    assert holder.stdout is not None
    assert holder.stdin is not None
    try:
        if not holder.stdout.readline():
            raise RuntimeError("the idle connections could not be opened")
        yield
    finally:
        holder.stdin.close()
        holder.wait(_PATIENCE_S)
        holder.stdout.close()
