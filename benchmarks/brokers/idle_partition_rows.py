"""Cost of partitions without writes: acks=all beside thousands of them, and consumers that wait on them."""

import contextlib

from benchmarks.brokers import workloads
from benchmarks.brokers.clusters import ClusterMaker
from benchmarks.brokers.replicated_rows import CLUSTERS, MANY, MANY_PARTITIONS, TOPIC, ClusterRow, create_topic

WAITED_ON = 1_000
CONSUMERS = 4


def _idle_partitions(make: ClusterMaker) -> tuple[float, ...]:
    """Produce one small record at a time with acks=all."""
    with make() as cluster:
        create_topic(cluster)
        workloads.create_topic(cluster.bootstrap, MANY, partitions=MANY_PARTITIONS, replicas=3)
        cluster.wait_in_sync(MANY)
        leader = cluster.leader_of(TOPIC)
        workloads.run("produce_one_by_one", leader.host, leader.port(), TOPIC, acks=-1, seconds=3)
        found = workloads.run("produce_one_by_one", leader.host, leader.port(), TOPIC, acks=-1, seconds=4)
        return found["median_ms"], found["p99_ms"]


def _waiting_consumers(make: ClusterMaker) -> tuple[float, ...]:
    """Produce one small record at a time with acks=1 to one of the partitions that all consumers wait on."""
    with make() as cluster, contextlib.ExitStack() as running:
        workloads.create_topic(cluster.bootstrap, MANY, partitions=WAITED_ON, replicas=1)
        cluster.wait_in_sync(MANY, replicas=1)
        leader = cluster.leader_of(MANY)
        for _ in range(CONSUMERS):
            consumer = workloads.start("wait_on_partitions", cluster.bootstrap, MANY, partitions=WAITED_ON)
            running.callback(consumer.wait)
            running.callback(consumer.kill)
        workloads.run("produce_one_by_one", leader.host, leader.port(), MANY, acks=1, seconds=6)
        found = workloads.run("produce_one_by_one", leader.host, leader.port(), MANY, acks=1, seconds=4)
        return (found["messages_per_s"],)


ROWS = (
    ClusterRow(
        ("acks=all median beside 2,000 idle partitions", "acks=all p99 beside 2,000 idle partitions"),
        "ms",
        False,
        (1.0, None),
        _idle_partitions,
        *CLUSTERS,
    ),
    ClusterRow(
        ("one by one while 4 consumers wait on 1,000 partitions",),
        "messages/s",
        True,
        (1.0,),
        _waiting_consumers,
        *CLUSTERS,
    ),
)
