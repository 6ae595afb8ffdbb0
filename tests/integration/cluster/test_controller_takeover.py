"""Three controller processes with a real API server, and brokers: kill -9 and SIGSTOP of the active controller."""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition

from e2e.cluster.control_plane import ControlPlane
from e2e.cluster.waiting import wait_for
from tests.support.processes.broker_process import CLUSTER_ID, BrokerProcess
from tests.support.processes.ports import free_port

pytestmark = pytest.mark.full

LEASE_S = 4.0
TAKEOVER_MAX_S = 10.0
PATIENCE_S = 180.0
CONTROLLERS = (100, 101, 102)


class Cluster:
    def __init__(self, folder: Path) -> None:
        ports = {node_id: free_port() for node_id in CONTROLLERS}
        shared = {
            "cluster.id": CLUSTER_ID,
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.bootstrap.servers": ",".join(f"127.0.0.1:{port}" for port in ports.values()),
            "broker.heartbeat.interval.ms": "500",
            "broker.session.timeout.ms": "15000",
        }
        journal = {
            "process.roles": "controller",
            "inter.broker.listener.name": "",
            "sluicegate.controller.journal": "kubernetes",
            "sluicegate.controller.journal.name": "takeover",
            "sluicegate.controller.journal.namespace": "default",
            "sluicegate.controller.lease.duration.ms": str(int(LEASE_S * 1000)),
        }
        self.controllers = {
            node_id: BrokerProcess(
                node_id=node_id,
                folder=folder,
                properties=shared | journal | {"listeners": f"CONTROLLER://127.0.0.1:{port}"},
            )
            for node_id, port in ports.items()
        }
        roles = {"process.roles": "broker", "default.replication.factor": "2"}
        self.brokers = [BrokerProcess(node_id=n, folder=folder, properties=shared | roles) for n in range(2)]

    def start(self) -> None:
        for node in (*self.controllers.values(), *self.brokers):
            node.start(wait=False)
        for broker in self.brokers:
            broker.wait_ready()

    def kill(self) -> None:
        for node in (*self.controllers.values(), *self.brokers):
            node.kill()

    def active(self, but: int | None = None) -> int | None:
        """Return the active controller. `but` is not queried: it may be stopped and would never answer."""
        for node_id, node in self.controllers.items():
            if node_id != but and node.get("/brokers")[0] == 200:
                return node_id
        return None

    def active_by(self, standby: int) -> int | None:
        """Return the active controller according to a standby."""
        status, body = self.controllers[standby].get("/brokers")
        found: int | None = json.loads(body)["activeControllerId"] if status == 503 else None
        return found

    def online(self, active: int) -> int:
        return sum(broker["state"] == "Online" for broker in self.controllers[active].brokers().values())

    def heard_of(self, active: int) -> int:
        """Return the number of brokers whose heartbeats have arrived since it became active."""
        found = self.controllers[active].brokers().values()
        return sum(broker["metadataLag"] is not None for broker in found)

    def epochs(self, active: int) -> dict[int, int]:
        return {broker_id: broker["epoch"] for broker_id, broker in self.controllers[active].brokers().items()}


def seconds_until(what: str, condition: Callable[[], bool]) -> float:
    began_s = time.monotonic()
    wait_for(what, condition)
    return time.monotonic() - began_s


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    with ControlPlane() as plane:
        monkeypatch.setenv("KUBECONFIG", str(plane.kubeconfig))
        cluster = Cluster(tmp_path)
        try:
            cluster.start()
            yield cluster
        finally:
            cluster.kill()


@pytest.fixture
def undo() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def test_brokers_and_clients_go_on_when_the_active_controller_is_killed_or_hangs(
    cluster: Cluster, undo: ExitStack
) -> None:
    first = cluster.active()
    assert first is not None
    bootstrap = [broker.bootstrap for broker in cluster.brokers]
    # A broker may wait request.timeout.ms for a controller that hangs; then the producer tries the next broker.
    settings = {"acks": "all", "retries": 100, "request_timeout_ms": 40_000, "max_block_ms": 150_000}
    producer = undo.enter_context(closing(KafkaProducer(bootstrap_servers=bootstrap, **settings)))
    sent = [producer.send("orders", b"before", partition=0).get(PATIENCE_S).offset]
    epochs = cluster.epochs(first)

    cluster.controllers[first].kill()
    sent.append(producer.send("orders", b"without a controller", partition=0).get(PATIENCE_S).offset)
    took_s = seconds_until("another controller", lambda: cluster.active(but=first) is not None)
    assert took_s < LEASE_S * 2 / 3, "its Lease would have lasted so long at least"
    second = cluster.active(but=first)
    assert second is not None
    seconds_until("both brokers online", lambda: cluster.online(second) == 2)
    # Otherwise their sessions would have to last for two takeovers.
    seconds_until("both have found it", lambda: cluster.heard_of(second) == 2)
    sent.append(producer.send("made-after-the-takeover", b"after").get(PATIENCE_S).offset)

    cluster.controllers[first].start(wait=False)
    cluster.controllers[second].pause()
    took_s = seconds_until("a third active controller", lambda: cluster.active(but=second) is not None)
    assert took_s < TAKEOVER_MAX_S
    third = cluster.active(but=second)
    assert third is not None
    seconds_until("both brokers online again", lambda: cluster.online(third) == 2)
    sent.append(producer.send("made-after-the-hang", b"after", partition=0).get(PATIENCE_S).offset)
    cluster.controllers[second].resume()
    seconds_until("the one that hung knows who is active", lambda: cluster.active_by(second) == third)

    # No broker was fenced: all found the new controllers within their session.
    assert cluster.epochs(third) == epochs
    assert all("serves no clients" not in broker.log() for broker in cluster.brokers)
    consumer = undo.enter_context(
        closing(
            KafkaConsumer(
                "orders", bootstrap_servers=bootstrap, auto_offset_reset="earliest", consumer_timeout_ms=60_000
            )
        )
    )
    expected = [b"before", b"without a controller"]
    assert [record.value for _, record in zip(expected, consumer, strict=False)] == expected
    assert consumer.end_offsets([TopicPartition("orders", 0)]) == {TopicPartition("orders", 0): len(expected)}
    assert cluster.controllers[third].stop() == 0
    took_s = seconds_until("the next after a stop", lambda: cluster.active(but=third) is not None)
    assert took_s < LEASE_S / 2, "the Lease was given back"
