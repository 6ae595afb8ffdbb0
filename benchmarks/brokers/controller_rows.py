"""The row of controller failover: kill -9 of the active controller of three, with 2,000 partitions."""

import time
from functools import partial
from pathlib import Path

from benchmarks.brokers import quorums, workloads
from benchmarks.brokers.quorums import Quorum, QuorumMaker, apache_kafka_quorum, sluicegate_quorum
from benchmarks.brokers.replicated_rows import MANY, MANY_PARTITIONS, TOPIC, ClusterRow, let_run

MADE_AFTER = "made-after"
PRODUCING = {"acks": "all", "interval_ms": 20.0}
"""A slow pace: followers that fetch so many partitions slow both subjects down, and the client must not be ahead."""
_PRODUCE_S = 20


def _controller_killed(make: QuorumMaker) -> tuple[float, ...]:
    """Time from kill -9 to the next created topic, and the longest time without an acknowledgement in between."""
    with make() as cluster:
        # Create the producer's topic first: by the time the many are in sync, every broker knows it.
        for topic, partitions in ((TOPIC, 1), (MANY, MANY_PARTITIONS)):
            workloads.create_topic(cluster.bootstrap, topic, partitions=partitions, replicas=3)
            cluster.wait_in_sync(topic)
        workloads.run("paced_produce", cluster.bootstrap, TOPIC, seconds=3, **PRODUCING)
        active = cluster.active_controller()
        client = workloads.start("paced_produce", cluster.bootstrap, TOPIC, seconds=_PRODUCE_S, **PRODUCING)
        let_run(client, 3)
        began = time.perf_counter()
        active.kill()
        workloads.create_topic_again_and_again(cluster.bootstrap, MADE_AFTER, replicas=3)
        took_ms = (time.perf_counter() - began) * 1000
        if client.poll() is not None:
            raise RuntimeError(f"the controllers needed {took_ms:.0f} ms, longer than the client produced")
        return took_ms, workloads.finish(client)["gap_ms"]


def sluicegate(checkout: Path) -> QuorumMaker:
    return partial(sluicegate_quorum, checkout)


ROWS = (
    ClusterRow[Quorum](
        (
            "2,000 partitions: kill -9 of the active controller to the next created topic",
            "2,000 partitions: longest gap of producing while the controller changes",
        ),
        "ms",
        False,
        (None, None),
        _controller_killed,
        sluicegate,
        apache_kafka_quorum,
        quorums.missing,
    ),
)
