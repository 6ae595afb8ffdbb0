"""A log of real sockets, replayed under the limits that it records: every decision is the same, at its time."""

import socket
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace as replaced
from pathlib import Path

import pytest

from audit_pipeline.reading.boot_events import LIMITS
from audit_pipeline.reading.recorded_connections import recorded_events, recorded_limits
from audit_pipeline.spool.spool import read_spool
from audit_pipeline.spool.tables import tables_of
from audit_pipeline.what_if.attempts import Outcome
from audit_pipeline.what_if.limits import LimitsToTry
from audit_pipeline.what_if.limits_in_force import LimitsInForce, limits_in_force
from audit_pipeline.what_if.listener_line import LATENESS_US
from audit_pipeline.what_if.recording import Recording, recording_of
from audit_pipeline.what_if.replay import replay
from broker_runtime.clock import SystemClock
from broker_runtime.metadata.image import MetadataImage
from broker_runtime.network.server import SocketServer
from broker_runtime.node.metadata_before import MetadataNow
from broker_runtime.observers.audit_log.limits_log import LimitsLog
from broker_runtime.observers.audit_log.log import AuditDependencies, AuditLog
from broker_runtime.observers.audit_log.settings import read_settings
from broker_runtime.observers.audit_log.spool import SpoolIdentity
from broker_runtime.storage.disk.filesystem import OsFileSystem
from connection_limits.groups.connection_group import AddressGroupLimits
from connection_limits.recorded.rows import LimitEvent
from connection_limits.settings import QuotaSettings, Strategy
from tests.support.audit.audit import API_NAMES
from tests.support.audit.replayed import differences
from tests.support.processes.clients.socket_bench import Bench, bench_on

LISTENERS = ("EXTERNAL", "INTERNAL")
GROUP = "default/range"
IMPATIENT = 6
RANGE_LIMITS = AddressGroupLimits(rate=3, shared=True)
STORM_S = 3.0
STORMS_MAX = 5
"""A replay is exact while the event loop blocks for at most LATENESS_US. On a busy machine another storm follows."""


@pytest.fixture(params=["uvloop+epoll", "asyncio+loop"])
def bench(request: pytest.FixtureRequest) -> Iterator[Bench]:
    yield from bench_on(request.param)


def audit_log(bench: Bench, folder: Path) -> AuditLog:
    identity = SpoolIdentity("cluster", 1, "0001")
    metadata = MetadataNow(MetadataImage())
    clock, fs = SystemClock(), OsFileSystem()
    given = AuditDependencies(identity, folder, API_NAMES, fs, clock, bench.loop.call_later, metadata)
    return AuditLog(read_settings({}), given)


def watch_lateness(bench: Bench) -> list[float]:
    """Return a list to which the longest time between two iterations of the event loop is written, in seconds."""
    longest_s = [0.0]

    def beat(before_s: float) -> None:
        now_s = bench.loop.time()
        longest_s[0] = max(longest_s[0], now_s - before_s)
        bench.loop.call_later(0.005, beat, now_s)

    beat(bench.loop.time())
    return longest_s


def storm(bench: Bench, over: threading.Event) -> None:
    """Addresses connect to both listeners and stay for a moment, until `over`; some give up at once."""
    places = [bench.server.address(name) for name in LISTENERS]

    def knock(number: int) -> None:
        count = 0
        while not over.is_set():
            count += 1
            place = places[count % 3 == 0]
            with suppress(OSError), socket.create_connection(place, 0.5, (f"127.0.3.{number + 1}", 0)):
                over.wait((0.001, 0.02, 0.2)[count % 3])

    with ThreadPoolExecutor(IMPATIENT) as clients:
        for number in range(IMPATIENT):
            clients.submit(knock, number)
        bench.run_until(over.is_set)


def recorded_storm(
    bench: Bench, folder: Path, limits: LimitsToTry, later: QuotaSettings | None = None
) -> tuple[Recording, LimitsInForce, float]:
    """Return the recording of a storm at a new server, its limits, and for how long its event loop blocked at most.

    With `later`, limits of all kinds change in the middle of the storm.
    """
    server = bench.serve(limits.settings_for(LISTENERS), *LISTENERS)
    folder.mkdir()
    log = audit_log(bench, folder)
    server.connection_notices.observe(log.record_connection)
    server.update_ip_rate("127.0.3.2", 1)
    server.connection_groups.set_limits(GROUP, RANGE_LIMITS)
    server.connection_groups.set_member(GROUP, "127.0.3.4/30", 1.0)
    limits_log = LimitsLog(log, server.limit_changes, bench.loop.call_later, 3600.0)
    limits_log.begin()
    over = threading.Event()
    bench.loop.call_later(STORM_S, over.set)
    if later is not None:
        bench.loop.call_later(STORM_S / 2, change, server, later)
    longest_s = watch_lateness(bench)
    storm(bench, over)
    server.connection_notices.observe(None)
    limits_log.close()
    log.close()
    spools = [tables_of(read_spool(path.read_bytes())) for path in sorted(folder.glob("*.spool"))]
    recording = recording_of(event for tables in spools for event in recorded_events(tables["connection"]))
    rows = (row for tables in spools if LIMITS in tables for row in recorded_limits(tables[LIMITS]))
    in_force = limits_in_force(rows)
    assert in_force is not None
    return recording, in_force, longest_s[0]


def change(server: SocketServer, settings: QuotaSettings) -> None:
    server.update_limits(settings)
    server.update_ip_rate("127.0.3.2", 3)
    server.connection_groups.set_limits(GROUP, AddressGroupLimits(rate=20, shared=True))
    server.connection_groups.set_member(GROUP, "127.0.3.1", 2.0)


@pytest.mark.parametrize("is_changed", [False, True], ids=["the same limits", "limits that change"])
def test_a_replay_of_a_storm_is_the_log(bench: Bench, tmp_path: Path, is_changed: bool) -> None:
    settings = QuotaSettings(
        strategy=Strategy.TOKEN_BUCKET, max_connections=12, max_connections_per_ip=6, inter_broker_listener="INTERNAL"
    )
    limits = LimitsToTry(
        settings,
        {"external": (None, 10), "internal": (4, None)},
        {"127.0.3.2": 1},
        {GROUP: RANGE_LIMITS},
        {GROUP: ["127.0.3.4/30"]},
    )
    later = replaced(limits.settings_for(LISTENERS), max_connections=20, max_connections_per_ip=3)
    for number in range(STORMS_MAX):
        recording, in_force, longest_s = recorded_storm(
            bench, tmp_path / str(number), limits, later if is_changed else None
        )
        outcomes = Counter(attempt.recorded.outcome for attempt in recording.attempts)
        delayed = sum(attempt.recorded.at_us > attempt.arrived_us for attempt in recording.attempts)
        assert min(outcomes[Outcome.ACCEPTED], outcomes[Outcome.REJECTED], delayed) > 3, outcomes
        events = {row.event for each in in_force.changes for row in each.rows}
        assert (LimitEvent.SET in events) is is_changed
        replay(recording, in_force, LISTENERS)
        found = differences(recording)
        if not found or longest_s * 1e6 <= LATENESS_US:
            break
        bench.loop.run_until_complete(bench.server.shutdown(drain_s=1))
    assert found == []
