"""Three nodes of Apache Kafka 4.3.0 on loopback, each a broker and a voter of the controllers' quorum.

    with apache_kafka_quorum() as nodes:
        AdminClient([(node.host, node.port()) for node in nodes])

They differ in rack only. Sessions are short, so that a broker that was killed is fenced soon.
"""

import contextlib
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from tests.support.processes.apache_kafka import CONTROLLER_LISTENER, ApacheKafka

NODES = 3
TIMING = {
    "broker.session.timeout.ms": "2000",
    "broker.heartbeat.interval.ms": "300",
    "controller.quorum.election.timeout.ms": "500",
    "controller.quorum.fetch.timeout.ms": "1000",
    "log.cleaner.dedupe.buffer.size": "8388608",
}
FAST_START = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto")


@contextlib.contextmanager
def apache_kafka_quorum(
    listeners: Sequence[str] = ("EXTERNAL",), properties: Mapping[str, str] | None = None
) -> Iterator[Sequence[ApacheKafka]]:
    """Three running nodes with ids 1 to 3, started concurrently: none serves before two of them have voted."""
    cluster_id = urlsafe_b64encode(b"a" + uuid.uuid4().bytes[1:]).decode().rstrip("=")
    nodes = [
        ApacheKafka(
            node_id=number + 1,
            cluster_id=cluster_id,
            listeners=listeners,
            heap_mb=192,
            jvm_options=FAST_START,
        )
        for number in range(NODES)
    ]
    voters = ",".join(f"{node.node_id}@{node.host}:{node.port(CONTROLLER_LISTENER)}" for node in nodes)
    for node in nodes:
        rack = {"broker.rack": f"rack-{node.node_id}"}
        node.properties = {**TIMING, "controller.quorum.voters": voters, **rack, **(properties or {})}
    with contextlib.ExitStack() as running, ThreadPoolExecutor(NODES) as starting:
        for entered in [starting.submit(running.enter_context, node) for node in nodes]:
            entered.result()
        try:
            yield nodes
        finally:
            # If stopped in order, the last nodes would wait for a quorum that is already gone.
            for node in nodes:
                node.kill()
