"""Apache Kafka and this project's broker, one node each with the same properties, for the whole suite."""

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass

import pytest

from tests.integration.differential.play import Play, numbers, play
from tests.integration.differential.play import Sequence as Script
from tests.integration.differential.scripts import access, connections, static_limits
from tests.support.processes.apache_kafka import ApacheKafka
from tests.support.processes.broker_process import BrokerProcess
from tests.support.processes.clients.wire_client import Plain

PROPERTIES: Mapping[str, str] = {
    "num.partitions": "2",
    "quota.window.num": "2",
    "socket.request.max.bytes": "4000000",
}
NO_COORDINATORS = {"offsets.topic.replication.factor": "3", "transaction.state.log.replication.factor": "3"}
"""Kafka cannot create these topics with one broker, and so has no coordinators. Ours ignores these keys."""
COORDINATED: Mapping[str, str] = {
    "num.partitions": "2",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "3",
    "group.initial.rebalance.delay.ms": "0",
}
OURS_ONLY = {"sluicegate.broker.replicas.max": "100000"}
"""Kafka has no such limit, and our default depends on the machine."""

LISTENERS = ("EXTERNAL", *connections.LISTENERS)


@dataclass(frozen=True, slots=True)
class Pair:
    kafka: ApacheKafka
    ours: BrokerProcess

    def play(self, sequence: Script) -> tuple[dict[str, Plain], dict[str, Plain]]:
        """Play the sequence on both nodes at the same time, each with its own client, and return both results."""
        number = next(numbers)
        with ThreadPoolExecutor(2) as threads:
            kafka = threads.submit(play, sequence, self.kafka, number)
            ours = threads.submit(play, sequence, self.ours, number)
            return kafka.result(), ours.result()


@pytest.fixture(scope="session")
def pair() -> Iterator[Pair]:
    with running(LISTENERS, PROPERTIES) as both:
        yield both


@pytest.fixture(scope="session")
def limited_pair() -> Iterator[Pair]:
    with running(static_limits.LISTENERS, static_limits.PROPERTIES) as both:
        yield both


@pytest.fixture(scope="session")
def coordinated_pair() -> Iterator[Pair]:
    with running((), COORDINATED) as both:
        yield both


@pytest.fixture(scope="session")
def guarded_pair() -> Iterator[Pair]:
    with running((), access.PROPERTIES) as both:
        both.play(access.close)
        yield both


@contextmanager
def running(listeners: Sequence[str], properties: Mapping[str, str]) -> Iterator[Pair]:
    common = {**NO_COORDINATORS, **properties}
    kafka = ApacheKafka(listeners=listeners, properties=common)
    ours = BrokerProcess(listeners=listeners, properties={**common, **OURS_ONLY})
    with kafka, ours:
        both = Pair(kafka, ours)
        both.play(level)
        yield both


def level(on: Play) -> None:
    """Set what Kafka's format tool sets for the cluster (eligible leader replicas), so that both nodes have it."""
    marker = {"name": "min.insync.replicas", "config_operation": 0, "value": "1"}
    cluster = {"resource_type": 4, "resource_name": "", "configs": [marker]}
    on.quietly("incremental_alter_configs", 1, resources=[cluster], validate_only=False)
