"""Rows of three brokers: the cost of acks=all, and how long clients notice the loss of a broker."""

import contextlib
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Generic

from benchmarks.brokers import workloads
from benchmarks.brokers.clusters import Cluster, ClusterMaker, ClusterT, Maker, apache_kafka_cluster, sluicegate_cluster
from benchmarks.brokers.rows import resident_mb

TOPIC = "replicated"
MANY = "many"
MANY_PARTITIONS = 2_000


def _nothing() -> None:
    return None


@dataclass(frozen=True)
class ClusterRow(Generic[ClusterT]):
    """A row of the comparison of clusters; one run may give several figures."""

    names: tuple[str, ...]
    unit: str
    more_is_better: bool
    floors: tuple[float | None, ...]
    measure: Callable[[Maker[ClusterT]], tuple[float, ...]]
    ours: Callable[[Path], Maker[ClusterT]]
    """Makes clusters of a checkout."""
    theirs: Maker[ClusterT]
    missing: Callable[[], str | None] = _nothing
    """Function that returns why this machine cannot measure the row, beyond the needs of all rows; None if it can."""


def create_topic(cluster: Cluster) -> None:
    workloads.create_topic(cluster.bootstrap, TOPIC, partitions=1, replicas=3)
    cluster.wait_in_sync(TOPIC)


def _produce_wire(batch_bytes: int) -> Callable[[ClusterMaker], tuple[float, ...]]:
    def measure(make: ClusterMaker) -> tuple[float, ...]:
        with make() as cluster:
            create_topic(cluster)
            leader = cluster.leader_of(TOPIC)
            options = {"size": 1000, "batch_bytes": batch_bytes, "acks": -1}
            workloads.run("produce_wire", leader.host, leader.port(), TOPIC, megabytes=300, **options)
            found = workloads.run("produce_wire", leader.host, leader.port(), TOPIC, megabytes=600, **options)
            return (found["mb_per_s"],)

    return measure


def _produce_small(make: ClusterMaker) -> tuple[float, ...]:
    with make() as cluster:
        create_topic(cluster)
        options = {"size": 100, "batch_bytes": 65_536, "one": True, "acks": "all"}
        workloads.run("produce", cluster.bootstrap, TOPIC, seconds=2, **options)
        return (workloads.run("produce", cluster.bootstrap, TOPIC, seconds=4, **options)["messages_per_s"],)


def let_run(client: subprocess.Popen[str], seconds: float) -> None:
    with contextlib.suppress(subprocess.TimeoutExpired):
        client.wait(seconds)
        raise RuntimeError("the client ended before it was its time")


def _leader_killed(make: ClusterMaker) -> tuple[float, ...]:
    """Measure the longest time without an acknowledgement around a kill -9 of the leader.

    The session timeout is 3 s.
    """
    with make() as cluster:
        create_topic(cluster)
        workloads.run("paced_produce", cluster.bootstrap, TOPIC, seconds=3, acks="all")
        client = workloads.start("paced_produce", cluster.bootstrap, TOPIC, seconds=10, acks="all")
        let_run(client, 3)
        cluster.leader_of(TOPIC).kill()
        return (workloads.finish(client)["gap_ms"],)


def _restarted(make: ClusterMaker) -> tuple[float, ...]:
    """Measure p99 and the longest gap while the leader is stopped and started again."""
    with make() as cluster:
        create_topic(cluster)
        workloads.run("paced_produce", cluster.bootstrap, TOPIC, seconds=4, acks="all")
        client = workloads.start("paced_produce", cluster.bootstrap, TOPIC, seconds=16, acks="all")
        let_run(client, 2)
        leader = cluster.leader_of(TOPIC)
        leader.stop()
        leader.start()
        found = workloads.finish(client)
        return found["p99_ms"], found["gap_ms"]


def _many_partitions(make: ClusterMaker) -> tuple[float, ...]:
    """Measure the restart of one of three brokers that hold 2,000 partitions.

    The figures are the times until it is started and until it is in sync, and its memory then.
    """
    with make() as cluster:
        workloads.create_topic(cluster.bootstrap, MANY, partitions=MANY_PARTITIONS, replicas=3)
        cluster.wait_in_sync(MANY)
        broker = cluster.brokers[1]
        broker.stop()
        began = time.perf_counter()
        broker.start()
        started = time.perf_counter() - began
        cluster.wait_in_sync(MANY)
        return started, time.perf_counter() - began, resident_mb(broker.pid)


def sluicegate(checkout: Path) -> ClusterMaker:
    return partial(sluicegate_cluster, checkout)


CLUSTERS = (sluicegate, apache_kafka_cluster)
ROWS = (
    ClusterRow(("acks=all, 3 replicas, 1 MB batches",), "MB/s", True, (1.0,), _produce_wire(1_000_000), *CLUSTERS),
    ClusterRow(("acks=all, 3 replicas, 64 KB batches",), "MB/s", True, (1.0,), _produce_wire(65_536), *CLUSTERS),
    ClusterRow(
        ("acks=all, 3 replicas, one 100 B message a batch",), "messages/s", True, (1.0,), _produce_small, *CLUSTERS
    ),
    ClusterRow(("kill -9 of a leader to the next acknowledgement",), "ms", False, (1.0,), _leader_killed, *CLUSTERS),
    ClusterRow(
        ("produce p99 while a broker restarts", "longest gap while a broker restarts"),
        "ms",
        False,
        (1.0, None),
        _restarted,
        *CLUSTERS,
    ),
    ClusterRow(
        (
            "2,000 partitions: start-up of a broker, s",
            "2,000 partitions: in sync again, s",
            "2,000 partitions: resident memory, MB",
        ),
        "",
        False,
        (None, None, None),
        _many_partitions,
        *CLUSTERS,
    ),
)
