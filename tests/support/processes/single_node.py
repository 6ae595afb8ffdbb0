"""One node of either implementation, for suites that both must pass: Apache Kafka and ours, PLAINTEXT and EXTERNAL."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from tests.support.processes.apache_kafka import ApacheKafka
from tests.support.processes.broker_process import BrokerProcess

IMPLEMENTATIONS: Mapping[str, type[ApacheKafka] | type[BrokerProcess]] = {
    "apache": ApacheKafka,
    "sluicegate": BrokerProcess,
}


@dataclass(frozen=True, slots=True)
class SingleNode:
    """A running node; `port` is that of PLAINTEXT."""

    node_id: int
    host: str
    port: int


@contextmanager
def running_node(implementation: str) -> Iterator[SingleNode]:
    with IMPLEMENTATIONS[implementation](listeners=["EXTERNAL"]) as node:
        yield SingleNode(node.node_id, node.host, node.port())
