"""Three brokers and three controllers of each subject, each in a separate process, with default timeouts.

The cause that determines the length of a failover differs. Sluicegate: the host of the killed process refuses the
standbys' connections, and one of them loads the journal from a real API server on the same cores (decision 15). Apache
Kafka: a voter misses the leader after `controller.quorum.fetch.timeout.ms` (2 s). Then an election follows
(`controller.quorum.election.timeout.ms`, 1 s, and a random back-off if it has no winner), KIP-595 and KIP-996.
"""

import contextlib
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from benchmarks.brokers.clusters import (
    CLUSTER_ID,
    TIMING,
    Cluster,
    Maker,
    Node,
    apache_kafka_brokers,
    apache_kafka_controllers,
)
from benchmarks.brokers.rows import production_python
from e2e.cluster.binaries import binaries_folder
from e2e.cluster.control_plane import ControlPlane
from tests.support.obtain.cache import ObtainError
from tests.support.processes.apache_kafka import CONTROLLER_LISTENER
from tests.support.processes.broker_process import BrokerProcess
from tests.support.processes.ports import free_port

CONTROLLER_IDS = (1000, 1001, 1002)
_OWN_TIMING = ("broker.session.timeout.ms", "broker.heartbeat.interval.ms", "replica.lag.time.max.ms")
SETTINGS = {key: value for key, value in TIMING.items() if key not in _OWN_TIMING}
_ACTIVE_TIMEOUT_S = 30.0


class Quorum(Cluster):
    def __init__(
        self, brokers: Sequence[Node], controllers: Sequence[Node], active_id: Callable[[], int | None]
    ) -> None:
        super().__init__(brokers)
        self._controllers = {controller.node_id: controller for controller in controllers}
        self._active_id = active_id

    def active_controller(self) -> Node:
        deadline = time.monotonic() + _ACTIVE_TIMEOUT_S
        while (found := self._active_id()) is None:
            if time.monotonic() > deadline:
                raise RuntimeError(f"no controller is active within {_ACTIVE_TIMEOUT_S:g} s")
        return self._controllers[found]


QuorumMaker = Maker[Quorum]


def missing() -> str | None:
    """Return why the API server for Sluicegate's controllers is not available, or None if it is."""
    try:
        binaries_folder()
    except ObtainError as error:
        return str(error)
    return None


@contextlib.contextmanager
def sluicegate_quorum(checkout: Path) -> Iterator[Quorum]:
    with contextlib.ExitStack() as running:
        plane = running.enter_context(ControlPlane())
        running.enter_context(_environment("KUBECONFIG", str(plane.kubeconfig)))
        folder = Path(running.enter_context(tempfile.TemporaryDirectory(prefix="sluicegate-")))
        controllers, brokers = _own_nodes(folder, checkout)
        for node in (*controllers, *brokers):
            running.callback(node.kill)
            node.start(wait=False)
        for broker in brokers:
            broker.wait_ready()

        def active_id() -> int | None:
            return next((each.node_id for each in controllers if each.get("/brokers")[0] == 200), None)

        yield Quorum(brokers, controllers, active_id)


def _own_nodes(folder: Path, checkout: Path) -> tuple[Sequence[BrokerProcess], Sequence[BrokerProcess]]:
    addresses = {node_id: f"127.0.0.1:{free_port()}" for node_id in CONTROLLER_IDS}
    shared = {
        **SETTINGS,
        "cluster.id": CLUSTER_ID,
        "controller.listener.names": CONTROLLER_LISTENER,
        "controller.quorum.bootstrap.servers": ",".join(addresses.values()),
    }
    journal = {
        "process.roles": "controller",
        "inter.broker.listener.name": "",
        "sluicegate.controller.journal": "kubernetes",
        "sluicegate.controller.journal.name": "benchmark",
        "sluicegate.controller.journal.namespace": "default",
    }

    def node(node_id: int, properties: Mapping[str, str]) -> BrokerProcess:
        return BrokerProcess(
            node_id=node_id,
            folder=folder,
            python=production_python(checkout),
            checkout=checkout,
            properties={**shared, **properties},
        )

    controllers = [
        node(node_id, {**journal, "listeners": f"{CONTROLLER_LISTENER}://{address}"})
        for node_id, address in addresses.items()
    ]
    return controllers, [node(node_id, {"process.roles": "broker"}) for node_id in range(3)]


@contextlib.contextmanager
def _environment(name: str, value: str) -> Iterator[None]:
    """Set an environment variable for processes started inside the block."""
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before


@contextlib.contextmanager
def apache_kafka_quorum() -> Iterator[Quorum]:
    with contextlib.ExitStack() as running:
        controllers = running.enter_context(apache_kafka_controllers(CONTROLLER_IDS, SETTINGS))
        brokers = running.enter_context(apache_kafka_brokers(controllers, SETTINGS))

        def active_id() -> int | None:
            said = brokers[0].tool(
                "org.apache.kafka.tools.MetadataQuorumCommand",
                "--bootstrap-server",
                brokers[0].bootstrap,
                "describe",
                "--status",
            )
            leader_id = int(next(line for line in said.splitlines() if line.startswith("LeaderId:")).split()[1])
            return None if leader_id < 0 else leader_id

        yield Quorum(brokers, controllers, active_id)
