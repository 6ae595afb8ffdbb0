"""Brokers and landers are killed repeatedly at any moment: segments contain what clients counted, or report it missing.

SLUICEGATE_AUDIT_ROUNDS is the number of killed brokers; `make soak` kills twenty. SLUICEGATE_AUDIT_SEED selects the
moments.
"""

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import pytest

from audit_pipeline.ingest.land import land
from audit_pipeline.reading.query import Events
from audit_pipeline.spool.spool import NoSpoolError
from audit_pipeline.spool.spool_folder import boots, spools_of
from audit_pipeline.spool.targets import FolderTarget
from audit_pipeline.upkeep.check import check
from tests.support.logs.packed_batches import timed
from tests.support.processes.broker_process import ROOT, BrokerProcess
from tests.support.processes.clients.wire_client import WireClient, request_frame

ROUNDS = int(os.environ.get("SLUICEGATE_AUDIT_ROUNDS", "4"))
SEED = int(os.environ.get("SLUICEGATE_AUDIT_SEED", "9"))
PRODUCE_KEY, FETCH_KEY, VERSIONS_KEY, CREATE_TOPICS_KEY = 0, 1, 18, 19
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
RECORD_BYTES_MIN = len(timed([0]))
"""A FETCH response with a record is at least this long, one without is shorter."""
VERSIONS = request_frame("api_versions", 0, 1, {})
PREPARING = Counter({CREATE_TOPICS_KEY: 1, PRODUCE_KEY: 1})
"""The requests of `create_topic`."""


@dataclass(slots=True)
class Counts:
    """Clients' counts for one boot: requests by API key; `connections` counts those with an answer.

    `empty` counts fetches without a record: a broker that was killed serves its records once they are synced.
    """

    sent: Counter[int] = field(default_factory=Counter)
    answered: Counter[int] = field(default_factory=Counter)
    empty: Counter[int] = field(default_factory=Counter)
    connections: int = 0


class Landed(NamedTuple):
    """The segments' counts for one boot; `missing` is the number of events of any kind reported missing."""

    requests: Counter[int]
    partitions: Counter[int]
    connections: int
    missing: int


class Load:
    """Clients that send requests one after another until their broker is gone, and count them."""

    def __init__(self, port: int) -> None:
        self._address = ("127.0.0.1", port)
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self.counts = Counts()
        steady = [(PRODUCE_KEY, PRODUCE), (PRODUCE_KEY, PRODUCE), (FETCH_KEY, FETCH)]
        self._threads = [threading.Thread(target=self._ask_on, args=given) for given in steady]
        self._threads.append(threading.Thread(target=self._storm))

    @property
    def answered(self) -> int:
        return self.counts.answered.total()

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Stop the clients. Each closes its connection after its answer, or when its broker is gone."""
        self._stopped.set()
        for thread in self._threads:
            thread.join(60)
            assert not thread.is_alive()

    def _ask_on(self, key: int, frame: bytes) -> None:
        try:
            with WireClient(self._address) as client:
                first = True
                while self._ask(client, key, frame, is_first=first) and not self._stopped.is_set():
                    first = False
        except OSError:
            return

    def _storm(self) -> None:
        """Open connections in pairs: one sends a request, the other sends none."""
        while not self._stopped.is_set():
            try:
                with WireClient(self._address), WireClient(self._address) as client:
                    if not self._ask(client, VERSIONS_KEY, VERSIONS, is_first=True):
                        return
            except OSError:
                return

    def _ask(self, client: WireClient, key: int, frame: bytes, *, is_first: bool) -> bool:
        with self._lock:
            self.counts.sent[key] += 1
        client.send(frame)
        answer = client.receive()
        if answer is None:
            return False
        with self._lock:
            self.counts.answered[key] += 1
            self.counts.empty[key] += key == FETCH_KEY and len(answer) < RECORD_BYTES_MIN
            self.counts.connections += is_first
        return True


class Lander:
    """A lander process that is killed at random times, and restarted immediately."""

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
            # A lander needs half a second until it lands anything.
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
    """Create the topic with a record, because a fetch that finds none has no events of partitions."""
    with WireClient(("127.0.0.1", broker.port())) as client:
        topic = {"name": "orders", "num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": []}
        client.ask("create_topics", 4, topics=[topic], timeout=30_000, validate_only=False)
        client.send(PRODUCE)
        assert client.receive() is not None


def is_written(spools: Path) -> bool:
    """Return whether every number of the latest boot is in its spool."""
    try:
        content = list(spools_of(spools, boots(spools)[-1]))[-1].content
    except (IndexError, NoSpoolError, FileNotFoundError):
        return False
    written = content.blocks[-1].last_seq if content.blocks else content.header.first_seq - 1
    return content.reserved == written


def landed_by_boot(segments: Path) -> list[Landed]:
    """Return the counts in the order of the boots, after checking that no number occurs twice."""
    asked = Events(FolderTarget(segments))

    def counted(sql: str) -> dict[str, Counter[int]]:
        found: dict[str, Counter[int]] = {}
        for boot, key, count, distinct in asked.ask(sql)[1]:
            assert count == distinct, (boot, key)
            found.setdefault(boot, Counter())[key] = count
        return found

    requests = counted("SELECT boot_id, api_key, count(*), count(DISTINCT seq) FROM request GROUP BY ALL")
    partitions = counted(
        "SELECT boot_id, api_key, count(*), count(DISTINCT seq) FROM partition WHERE topic = 'orders' GROUP BY ALL"
    )
    connections = counted(
        "SELECT boot_id, 0, count(*), count(DISTINCT connection_id) FROM connection WHERE event = 'accepted' "
        "GROUP BY ALL"
    )
    gaps = counted("SELECT boot_id, 0, sum(events)::BIGINT, sum(seq - first_seq + 1)::BIGINT FROM gap GROUP BY ALL")
    return [
        Landed(
            requests.get(boot, Counter()),
            partitions.get(boot, Counter()),
            connections.get(boot, Counter())[0],
            gaps.get(boot, Counter())[0],
        )
        for boot in sorted({*requests, *connections, *gaps})
    ]


@pytest.mark.timeout(900)
def test_kills_at_any_moment_duplicate_no_request_and_report_each_missing_one(tmp_path: Path) -> None:
    chance = random.Random(SEED)
    spools, segments = tmp_path / "spools", tmp_path / "segments"
    properties = {
        "observer.class.names": "audit-log",
        "observer.audit-log.spool.dir": str(spools),
        "observer.audit-log.segment.ms": "300",
    }
    rounds: list[tuple[Counts, bool]] = []
    spools.mkdir()
    with BrokerProcess(properties=properties) as broker:
        create_topic(broker)
        broker.kill()
        lander = Lander(spools, segments, chance)
        with lander.running():
            for number in range(ROUNDS):
                broker.start()
                load = Load(broker.port())
                load.start()
                until = load.answered + chance.randrange(1, 3000)
                wait_for(lambda load=load, until=until: load.answered >= until)  # type: ignore[misc]
                is_idle = number % 4 == 3
                if is_idle:
                    load.stop()
                    wait_for(lambda: is_written(spools))
                broker.kill()
                load.stop()
                rounds.append((load.counts, is_idle))
        assert lander.killed >= 1

    land(spools, FolderTarget(segments))

    assert not list(spools.glob("*.spool"))
    assert [finding for finding in check(FolderTarget(segments)).findings if finding.kind != "gap"] == []
    boots_landed = landed_by_boot(segments)[1:]
    assert len(boots_landed) == ROUNDS
    for (counts, is_idle), landed in zip(rounds, boots_landed, strict=True):
        if is_idle:
            # Every answered request was written before the kill.
            assert landed.requests == counts.answered == counts.sent
        else:
            assert landed.requests <= counts.sent
            assert landed.requests.total() + landed.missing >= counts.answered.total()
        for key in (PRODUCE_KEY, FETCH_KEY):
            assert 0 <= landed.requests[key] - landed.partitions[key] <= counts.empty[key]
        assert landed.connections + landed.missing >= counts.connections


def test_a_broker_that_is_stopped_under_load_loses_nothing(tmp_path: Path) -> None:
    spools, segments = tmp_path / "spools", tmp_path / "segments"
    properties = {"observer.class.names": "audit-log", "observer.audit-log.spool.dir": str(spools)}
    with BrokerProcess(properties=properties) as broker:
        create_topic(broker)
        load = Load(broker.port())
        load.start()
        wait_for(lambda: load.answered >= 500)
        broker.stop()
        load.stop()

    land(spools, FolderTarget(segments))

    assert check(FolderTarget(segments)).findings == []
    (landed,) = landed_by_boot(segments)
    assert load.counts.answered + PREPARING <= landed.requests <= load.counts.sent + PREPARING
    assert landed.connections >= load.counts.connections
