"""Effect of many partitions on others: created, deleted, loaded again after a kill -9; and searched by time."""

import time

from benchmarks.brokers import workloads
from benchmarks.brokers.clusters import ClusterMaker
from benchmarks.brokers.replicated_rows import CLUSTERS, MANY, MANY_PARTITIONS, TOPIC, ClusterRow, let_run

SEARCHED = "searched"
BATCHES = 300_000
_LOOKS = 300
_CHANGING_S = 12.0


def _made_and_deleted(make: ClusterMaker) -> tuple[float, ...]:
    """Measure a producer while many partitions are created, and while they are deleted.

    The figures are the longest time without an acknowledgement, and the p99.
    """
    with make() as cluster:
        workloads.create_topic(cluster.bootstrap, TOPIC, partitions=1, replicas=3)
        cluster.wait_in_sync(TOPIC)
        workloads.run("paced_produce", cluster.bootstrap, TOPIC, seconds=3, acks="all")
        found = []
        for change in (_make_many, workloads.delete_topic):
            client = workloads.start("paced_produce", cluster.bootstrap, TOPIC, seconds=_CHANGING_S, acks="all")
            let_run(client, 1)
            change(cluster.bootstrap, MANY)
            figures = workloads.finish(client)
            found += [figures["gap_ms"], figures["p99_ms"]]
        return tuple(found)


def _make_many(bootstrap: str, topic: str) -> None:
    workloads.create_topic(bootstrap, topic, partitions=MANY_PARTITIONS, replicas=3)


def _killed(make: ClusterMaker) -> tuple[float, ...]:
    """Time to start one of three brokers after a kill -9, with many partitions."""
    with make() as cluster:
        _make_many(cluster.bootstrap, MANY)
        cluster.wait_in_sync(MANY)
        broker = cluster.brokers[1]
        broker.kill()
        began = time.perf_counter()
        broker.start()
        return (time.perf_counter() - began,)


def _searched(make: ClusterMaker) -> tuple[float, ...]:
    with make() as cluster:
        workloads.create_topic(cluster.bootstrap, SEARCHED)
        leader = cluster.leader_of(SEARCHED)
        where = (leader.host, leader.port(), SEARCHED)
        first_ms = int(workloads.run("produce_in_time", *where, batches=BATCHES)["first_ms"])
        asked = {"batches": BATCHES, "first_ms": first_ms}
        workloads.run("list_offsets_by_time", *where, **asked, looks=_LOOKS)
        found = workloads.run("list_offsets_by_time", *where, **asked, looks=_LOOKS)
        return found["by_time_ms"], found["latest_ms"]


ROWS = (
    ClusterRow(
        (
            "longest gap of producing while 2,000 partitions are made",
            "produce p99 while 2,000 partitions are made",
            "longest gap of producing while 2,000 partitions are deleted",
            "produce p99 while 2,000 partitions are deleted",
        ),
        "ms",
        False,
        (1.0, 1.0, 1.0, 1.0),
        _made_and_deleted,
        *CLUSTERS,
    ),
    ClusterRow(("2,000 partitions: start-up of a broker after kill -9, s",), "", False, (0.5,), _killed, *CLUSTERS),
    ClusterRow(
        ("ListOffsets by time in 300,000 batches", "ListOffsets of the greatest timestamp in 300,000 batches"),
        "ms",
        False,
        (1.0, 1.0),
        _searched,
        *CLUSTERS,
    ),
)
