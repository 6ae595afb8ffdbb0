"""Clusters of three brokers and one controller of each subject, one process for each node, with the same timeouts."""

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Protocol, TypeVar

from benchmarks.brokers.rows import production_python
from tests.support.processes.apache_kafka import CLIENT_LISTENER, CONTROLLER_LISTENER, ApacheKafka
from tests.support.processes.broker_process import BrokerGroup
from tests.support.processes.clients.acknowledged import Partitions

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


ClusterT = TypeVar("ClusterT", bound=Cluster)
Maker = Callable[[], contextlib.AbstractContextManager[ClusterT]]
ClusterMaker = Maker[Cluster]


@contextlib.contextmanager
def sluicegate_cluster(checkout: Path) -> Iterator[Cluster]:
    with BrokerGroup(3, properties=TIMING, python=production_python(checkout), checkout=checkout) as group:
        yield Cluster(group.brokers)


@contextlib.contextmanager
def apache_kafka_cluster() -> Iterator[Cluster]:
    with contextlib.ExitStack() as running:
        voters = running.enter_context(apache_kafka_controllers((CONTROLLER_ID,), TIMING))
        yield Cluster(running.enter_context(apache_kafka_brokers(voters, TIMING)))


@contextlib.contextmanager
def apache_kafka_controllers(node_ids: Sequence[int], timing: Mapping[str, str]) -> Iterator[Sequence[ApacheKafka]]:
    """Start the controllers one after another: each opens its listener without waiting for a quorum."""
    controllers = [
        ApacheKafka(node_id=node_id, cluster_id=CLUSTER_ID, ready_listener=CONTROLLER_LISTENER, heap_mb=_HEAP_MB)
        for node_id in node_ids
    ]
    for controller in controllers:
        controller.properties = {
            **timing,
            **_voters(controllers),
            "process.roles": "controller",
            "listeners": f"{CONTROLLER_LISTENER}://{_controller_address(controller)}",
            "inter.broker.listener.name": "",
        }
    with contextlib.ExitStack() as running:
        for controller in controllers:
            running.enter_context(controller)
        yield controllers


@contextlib.contextmanager
def apache_kafka_brokers(
    controllers: Sequence[ApacheKafka], timing: Mapping[str, str]
) -> Iterator[Sequence[ApacheKafka]]:
    with contextlib.ExitStack() as running:
        brokers = []
        for node_id in range(3):
            broker = ApacheKafka(node_id=node_id, cluster_id=CLUSTER_ID, heap_mb=_HEAP_MB)
            listeners = {"listeners": f"{CLIENT_LISTENER}://{broker.host}:{broker.port()}"}
            broker.properties = {**timing, **_voters(controllers), "process.roles": "broker", **listeners}
            brokers.append(running.enter_context(broker))
        yield brokers


def _voters(controllers: Sequence[ApacheKafka]) -> Mapping[str, str]:
    voters = (f"{controller.node_id}@{_controller_address(controller)}" for controller in controllers)
    return {"controller.quorum.voters": ",".join(voters)}


def _controller_address(controller: ApacheKafka) -> str:
    return f"{controller.host}:{controller.port(CONTROLLER_LISTENER)}"
