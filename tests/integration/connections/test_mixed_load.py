"""All kinds of clients at once, while metadata change: no iteration of the event loop is long.

A client with few requests is answered soon. SLUICEGATE_MIXED_LOAD=full uses 5,000 consumers, 2,000 other connections
and 2,000 partitions; without it there are fewer, so that a loaded machine with two cores needs less than a minute.
"""

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace

import pytest

from kafka_bytes.batches import encode_batch
from tests.support.processes.broker_process import ROOT, BrokerGroup, BrokerProcess
from tests.support.processes.clients.mixed_load import WATCHED, Load
from tests.support.processes.clients.wire_client import WireClient

FULL = os.environ.get("SLUICEGATE_MIXED_LOAD") == "full"
PARTITIONS = 2_000 if FULL else 1_000
LOAD = (
    Load(consumers=5_000, idle=1_440, half_sent=500, slow_readers=20, pipelining=40, storm=400)
    if FULL
    else Load(consumers=1_000, idle=300, half_sent=150, slow_readers=10, pipelining=10, storm=200)
)
FULL_GARBAGE = 'python_gc_objects_collected_total{generation="2"}'
MEASURED_S = 20.0 if FULL else 10.0
APPEND_EVERY_S = 1.0
BOUND_S = 0.005
"""Upper bound of an iteration on an idle machine."""
LONG_S = 0.02
"""Few iterations exceed this on a loaded machine, where other processes interrupt this one."""
LONG_SHARE_MAX = 0.2
"""Other tests run on the same two cores: 6 % were observed.

Iterations that are too long without them raise the mean.
"""
MEAN_S_MAX = 0.01
"""An iteration ends after 1 to 2 ms of work.

Without this bound, applying 500 partitions is one iteration of 0.2 s, and many requests are one endless iteration.
"""
LONGEST_S_MAX = 1.0
ROUND_TRIP_P99_S_MAX = 3.0 if FULL else 1.0
"""Limit of a round trip's p99. Most of it is waiting behind all the consumers that a record has woken."""
GARBAGE_MAX = 1_000
"""Bound of objects that only a full collection frees.

It skips frozen objects, so numerous kinds of objects must not need it.
"""


@contextmanager
def mixed_load(port: int, load: Load) -> Iterator[dict[str, int]]:
    """Run the load. The block begins when all clients are connected; after it, the result has their counts."""
    command = [sys.executable, "-m", "tests.support.processes.clients.mixed_load", str(port), json.dumps(asdict(load))]
    seen: dict[str, int] = {}
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == "ready\n"
            yield seen
            seen.update(json.loads(process.communicate("over\n", timeout=60)[0]))
        finally:
            process.kill()


@dataclass(frozen=True, slots=True)
class Slices:
    count: int
    over_bound: int
    """Number of iterations longer than BOUND_S."""
    long: int
    """Number of iterations longer than LONG_S."""
    mean_s: float
    longest_s: float


class WellBehaved(threading.Thread):
    """Produces records one after another with a pause in between, and records how long each took."""

    def __init__(self, port: int) -> None:
        super().__init__()
        self.round_trips_s: list[float] = []
        self.over = threading.Event()
        self._port = port

    def run(self) -> None:
        with WireClient(("127.0.0.1", self._port)) as client:
            while not self.over.wait(0.005):
                began_s = time.monotonic()
                produce(client, "calm")
                self.round_trips_s.append(time.monotonic() - began_s)

    def quantile(self, share: float) -> float:
        return sorted(self.round_trips_s)[int(len(self.round_trips_s) * share)]


def produce(client: WireClient, topic: str) -> None:
    data = [{"name": topic, "partition_data": [{"index": 0, "records": bytes(encode_batch([(None, b"x")], 0))}]}]
    answer = client.ask("produce", 9, transactional_id=None, acks=1, timeout=30_000, topic_data=data)
    (part,) = answer["responses"][0]["partition_responses"]
    assert part["error_code"] == "none", part


def create(client: WireClient, name: str, partitions: int) -> None:
    topic = {"name": name, "num_partitions": partitions, "replication_factor": 1, "assignments": [], "configs": []}
    answer = client.ask("create_topics", 5, topics=[topic], timeout=30_000, validate_only=False)
    assert answer["topics"][0]["error_code"] == "none", answer


def until_applied(broker: BrokerProcess, partitions: int) -> None:
    deadline_s = time.monotonic() + 60
    count, lag = "kafka_server_replica_manager_partition_count", "sluicegate_metadata_lag_records"
    pause = threading.Event()
    while (found := broker.metrics())[count] != partitions or found[lag]:
        assert time.monotonic() < deadline_s, f"{found[count]} partitions, {found[lag]} records behind"
        pause.wait(0.2)


def change_metadata(client: WireClient, broker: BrokerProcess, before: int) -> None:
    """Create many partitions, configure them all, and delete them."""
    create(client, "come-and-go", PARTITIONS // 2)
    until_applied(broker, before + PARTITIONS // 2)
    retention = {"name": "log.retention.ms", "config_operation": 0, "value": "86400000"}
    resource = {"resource_type": 4, "resource_name": "", "configs": [retention]}
    client.ask("incremental_alter_configs", 1, resources=[resource], validate_only=False)
    client.ask("delete_topics", 5, topic_names=["come-and-go"], timeout=30_000)
    until_applied(broker, before)


def grown(part: str, work: str, before: Mapping[str, float], after: Mapping[str, float], more: str = "") -> float:
    name = f'sluicegate_event_loop_turn_seconds_{part}{{work="{work}"{more}}}'
    return after[name] - before[name]


def slices(before: Mapping[str, float], after: Mapping[str, float]) -> dict[str, Slices]:
    """Return the iterations between two reads of the metrics, by work.

    The longest one may be from up to a minute before.
    """
    longest = "sluicegate_event_loop_turn_max_seconds"
    found = {}
    for name, longest_s in after.items():
        if name.startswith(longest):
            work = name.removeprefix(longest).partition('"')[2].rpartition('"')[0]
            count = int(grown("count", work, before, after))
            bound, long = (count - int(grown("bucket", work, before, after, f',le="{s}"')) for s in (BOUND_S, LONG_S))
            mean_s = grown("sum", work, before, after) / max(count, 1)
            found[work] = Slices(count, bound, long, mean_s, longest_s)
    return found


def complaints(round_trip_p99_s: float, held: Mapping[str, Slices]) -> list[str]:
    """Return a sentence for each exceeded bound."""
    found = []
    if round_trip_p99_s > ROUND_TRIP_P99_S_MAX:
        found.append(f"a client that asks for little waits {round_trip_p99_s:.3f} s in one of a hundred requests")
    for work, these in held.items():
        if these.mean_s > MEAN_S_MAX:
            found.append(f"time slices of {work} take {these.mean_s * 1000:.1f} ms on average")
        # A few long iterations prove nothing: another process may have interrupted them.
        if these.long > max(these.count * LONG_SHARE_MAX, 3):
            found.append(f"{these.long} of {these.count} time slices of {work} take longer than {LONG_S * 1000:g} ms")
        if these.longest_s > LONGEST_S_MAX:
            found.append(f"a time slice of {work} takes {these.longest_s:.2f} s")
    return found


@pytest.mark.full
def test_no_time_slice_is_long_and_a_client_that_asks_for_little_is_answered_soon() -> None:
    properties = {"sluicegate.broker.replicas.max": str(4 * PARTITIONS)}
    with BrokerGroup(brokers=1, properties=properties) as group:
        (broker,) = group.brokers
        with WireClient(("127.0.0.1", broker.port())) as admin:
            create(admin, WATCHED, 1)
            create(admin, "calm", 1)
            create(admin, "many", PARTITIONS)
            until_applied(broker, PARTITIONS + 2)
            with mixed_load(broker.port(), LOAD) as seen:
                before = broker.metrics()
                calm = WellBehaved(broker.port())
                calm.start()
                changes = threading.Thread(target=change_metadata, args=(admin, broker, PARTITIONS + 2))
                changes.start()
                appended = produce_for(MEASURED_S, broker.port())
                changes.join()
                calm.over.set()
                calm.join()
                after = broker.metrics()
        held = slices(before, after)
        report(calm, held, seen)
        assert "fenced" not in broker.log().partition("serves clients")[2]
    assert seen["hung_up"] == 0
    assert seen["fetched"] >= LOAD.consumers * min(appended, 3)
    assert seen["stormed"] > LOAD.storm
    assert seen["pipelined_bytes"] > 100_000
    assert set(held) >= {"sockets", "requests that waited", "waking", "metadata", "tasks", "garbage collection"}
    assert complaints(calm.quantile(0.99), held) == []
    assert after[FULL_GARBAGE] - before[FULL_GARBAGE] < GARBAGE_MAX


def test_long_time_slices_and_a_client_that_waits_are_found() -> None:
    short = Slices(count=1_000, over_bound=20, long=5, mean_s=0.0015, longest_s=0.09)
    assert complaints(0.03, {"sockets": short, "waking": short}) == []
    assert complaints(ROUND_TRIP_P99_S_MAX * 1.1, {"sockets": short}) != []
    for worse in ({"mean_s": 0.02}, {"long": 210}, {"longest_s": 1.3}):
        (complaint,) = complaints(0.03, {"sockets": short, "waking": replace(short, **worse)})
        assert "waking" in complaint


def produce_for(seconds: float, port: int) -> int:
    """Produce records for all consumers, and return their number."""
    end_s, pause, count = time.monotonic() + seconds, threading.Event(), 0
    with WireClient(("127.0.0.1", port)) as client:
        while time.monotonic() < end_s:
            produce(client, WATCHED)
            count += 1
            pause.wait(APPEND_EVERY_S)
    return count


def report(calm: WellBehaved, held: Mapping[str, Slices], seen: Mapping[str, int]) -> None:
    """Print a paragraph and a table that can be quoted."""
    load, trips = LOAD, [calm.quantile(share) * 1000 for share in (0.5, 0.99)]
    print(
        f"\n{load.consumers:,} consumers of one partition; {load.others:,} other connections: {load.idle:,} idle, "
        f"{load.half_sent} with half a request sent, {load.slow_readers} that read nothing of {load.requests_at_once} "
        f"answers each, {load.pipelining} with {load.requests_at_once} requests under way each; a storm of "
        f"{load.storm} connections a second; {PARTITIONS + 2:,} partitions, and {PARTITIONS // 2:,} more come, are "
        f"configured and go in {MEASURED_S:g} s.\n"
        f"A client that produces one record after the other waits {trips[0]:.1f} ms (median), {trips[1]:.1f} ms (p99), "
        f"{max(calm.round_trips_s) * 1000:.1f} ms at most, in {len(calm.round_trips_s):,} requests. {dict(seen)}\n\n"
        f"| time slices of the event loop | number | mean ms | over {BOUND_S * 1000:g} ms | over {LONG_S * 1000:g} ms "
        "| longest ms |\n|---|---|---|---|---|---|"
    )
    for work, found in held.items():
        shares = " | ".join(f"{part / max(found.count, 1):.2%}" for part in (found.over_bound, found.long))
        print(f"| {work} | {found.count:,} | {found.mean_s * 1000:.2f} | {shares} | {found.longest_s * 1000:.1f} |")
