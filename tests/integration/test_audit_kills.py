"""Brokers and landers that are killed at any moment, over and over: what clients counted is in the segments, or told.

SLUICEGATE_AUDIT_ROUNDS says how many brokers are killed; `make soak` kills twenty.
"""

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from audit_pipeline.check import check
from audit_pipeline.land import land
from audit_pipeline.query import Events
from audit_pipeline.targets import FolderTarget
from tests.support.broker_process import ROOT, BrokerProcess
from tests.support.packed_batches import timed
from tests.support.wire_client import WireClient, request_frame

ROUNDS = int(os.environ.get("SLUICEGATE_AUDIT_ROUNDS", "4"))
PRODUCE = request_frame(
    "produce",
    9,
    1,
    {
        "transactional_id": None,
        "acks": 1,
        "timeout": 30_000,
        "topic_data": [
            {"name": "orders", "partition_data": [{"index": 0, "records": timed([1_700_000_000_000])}]},
        ],
    },
)
FETCH = request_frame(
    "fetch",
    4,
    1,
    {
        "replica_id": -1,
        "max_wait": 0,
        "min_bytes": 0,
        "max_bytes": 10_000,
        "isolation_level": 0,
        "topics": [
            {"topic": "orders", "partitions": [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 10_000}]}
        ],
    },
)
VERSIONS = request_frame("api_versions", 0, 1, {})


class Load:
    """Clients that send one request after the other until their broker is gone, and count."""

    def __init__(self, port: int) -> None:
        self._address = ("127.0.0.1", port)
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self.sent = self.answered = 0
        self._threads = [threading.Thread(target=self._run, args=(frame,)) for frame in (PRODUCE, PRODUCE, FETCH)]
        self._threads.append(threading.Thread(target=self._storm))

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._stopped.set()
        for thread in self._threads:
            thread.join(60)
            assert not thread.is_alive()

    def _run(self, frame: bytes) -> None:
        try:
            with WireClient(self._address) as client:
                while not self._stopped.is_set() and self._ask(client, frame):
                    pass
        except OSError:
            return

    def _storm(self) -> None:
        while not self._stopped.is_set():
            try:
                with WireClient(self._address) as client:
                    if not self._ask(client, VERSIONS):
                        return
            except OSError:
                return

    def _ask(self, client: WireClient, frame: bytes) -> bool:
        with self._lock:
            self.sent += 1
        client.send(frame)
        if client.receive() is None:
            return False
        with self._lock:
            self.answered += 1
        return True


class Lander:
    """A process that is killed now and then, and begun again at once."""

    def __init__(self, spools: Path, target: Path, chance: random.Random) -> None:
        self._command = [sys.executable, "-m", "audit_pipeline", "land", str(spools), str(target), "--follow"]
        self._command += ["--interval-s", "0.05"]
        self._chance = chance
        self._stopped = threading.Event()
        self.killed = 0
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        while not self._stopped.is_set():
            process = subprocess.Popen(self._command, cwd=ROOT, stderr=subprocess.DEVNULL)
            # It takes half a second until it lands anything.
            self._stopped.wait(self._chance.uniform(0.4, 2.5))
            process.send_signal(signal.SIGKILL)
            process.wait()
            self.killed += 1

    @contextmanager
    def running(self) -> Iterator[None]:
        self._thread.start()
        try:
            yield
        finally:
            self._stopped.set()
            self._thread.join(60)


def wait_for(condition: Callable[[], bool], timeout_s: float = 60) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline
        threading.Event().wait(0.005)


def create_topic(broker: BrokerProcess) -> None:
    with WireClient(("127.0.0.1", broker.port())) as client:
        topic = {"name": "orders", "num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": []}
        client.ask("create_topics", 4, topics=[topic], timeout=30_000, validate_only=False)


@pytest.mark.timeout(900)
def test_whoever_is_killed_whenever_no_request_is_there_twice_or_missing_untold(tmp_path: Path) -> None:
    chance = random.Random(9)
    spools, segments = tmp_path / "spools", tmp_path / "segments"
    properties = {
        "observer.class.names": "audit-log",
        "observer.audit-log.spool.dir": str(spools),
        "observer.audit-log.segment.ms": "300",
    }
    counted: list[tuple[int, int]] = []
    spools.mkdir()
    with BrokerProcess(properties=properties) as broker:
        create_topic(broker)
        broker.kill()
        lander = Lander(spools, segments, chance)
        with lander.running():
            for _ in range(ROUNDS):
                broker.start()
                load = Load(broker.port())
                load.start()
                until = load.answered + chance.randrange(1, 3000)
                wait_for(lambda load=load, until=until: load.answered >= until)  # type: ignore[misc]
                broker.kill()
                load.stop()
                counted.append((load.sent, load.answered))
        assert lander.killed >= 1

    land(spools, FolderTarget(segments))

    report = check(FolderTarget(segments))
    assert {finding.kind for finding in report.findings} <= {"gap"}, report.findings
    landed = Events(FolderTarget(segments)).ask(
        "SELECT boot_id, count(seq), count(DISTINCT seq), sum(missing) FROM ("
        "SELECT boot_id, seq, 0 AS missing FROM request UNION ALL SELECT boot_id, NULL, events FROM gap"
        ") GROUP BY boot_id ORDER BY boot_id"
    )[1]
    assert not list(spools.glob("*.spool"))
    assert len(landed) == ROUNDS + 1
    for (sent, answered), (boot, requests, distinct, missing) in zip(counted, landed[1:], strict=True):
        assert requests == distinct, boot
        assert requests <= sent, boot
        assert requests + missing >= answered, boot
