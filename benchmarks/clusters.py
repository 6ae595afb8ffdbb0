"""Three brokers and one controller of each subject, each node a process of its own, with the same time-outs."""

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Protocol

from tests.support.acknowledged import Partitions
from tests.support.apache_kafka import CLIENT_LISTENER, CONTROLLER_LISTENER, ApacheKafka
from tests.support.broker_process import BrokerGroup

ROOT = Path(__file__).resolve().parents[1]
TIMING = {
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    "replica.lag.time.max.ms": "3000",
    "message.max.bytes": "2000000",
    "replica.fetch.max.bytes": "10485760",
}
CONTROLLER_ID = 1000
CLUSTER_ID = "YmVuY2htYXJrY2x1c3RlcjE"
_HEAP_MB = 768


class Node(Protocol):
    node_id: int
    host: str

    @property
    def pid(self) -> int: ...

    def port(self, listener: str = ...) -> int: ...

    def start(self) -> None: ...

    def stop(self) -> object: ...

    def kill(self) -> None: ...


class Cluster:
    def __init__(self, brokers: Sequence[Node]) -> None:
        self.brokers = {broker.node_id: broker for broker in brokers}
        self.bootstrap = ",".join(f"{broker.host}:{broker.port()}" for broker in brokers)

    def leader_of(self, topic: str, partition: int = 0) -> Node:
        return self.brokers[Partitions(self.bootstrap, topic).leaders()[partition]]

    def wait_in_sync(self, topic: str, replicas: int = 3, timeout_s: float = 120.0) -> None:
        seen = Partitions(self.bootstrap, topic)
        deadline = time.monotonic() + timeout_s
        while not seen.all_in_sync(replicas):
            if time.monotonic() > deadline:
                raise RuntimeError(f"{topic} has not {replicas} replicas in sync within {timeout_s:g} s")


ClusterMaker = Callable[[], contextlib.AbstractContextManager[Cluster]]


@contextlib.contextmanager
def sluicegate_cluster() -> Iterator[Cluster]:
    python = str(ROOT / ".venv-runtime" / "bin" / "python")
    with BrokerGroup(3, properties=TIMING, python=python) as group:
        yield Cluster(group.brokers)


@contextlib.contextmanager
def apache_kafka_cluster() -> Iterator[Cluster]:
    with contextlib.ExitStack() as running:
        controller = ApacheKafka(
            node_id=CONTROLLER_ID, cluster_id=CLUSTER_ID, ready_listener=CONTROLLER_LISTENER, heap_mb=_HEAP_MB
        )
        address = f"{controller.host}:{controller.port(CONTROLLER_LISTENER)}"
        voters = {"controller.quorum.voters": f"{CONTROLLER_ID}@{address}"}
        controller.properties = (
            TIMING
            | voters
            | {
                "process.roles": "controller",
                "listeners": f"{CONTROLLER_LISTENER}://{address}",
                "inter.broker.listener.name": "",
            }
        )
        running.enter_context(controller)
        brokers = []
        for node_id in range(3):
            broker = ApacheKafka(node_id=node_id, cluster_id=CLUSTER_ID, heap_mb=_HEAP_MB)
            listeners = {"listeners": f"{CLIENT_LISTENER}://{broker.host}:{broker.port()}"}
            broker.properties = TIMING | voters | {"process.roles": "broker"} | listeners
            brokers.append(running.enter_context(broker))
        yield Cluster(brokers)
