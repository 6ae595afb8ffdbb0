"""The tests that sarama has for its own transactions and idempotent producers, against five brokers.

The world is the one that the tests expect: clients reach each broker through a real toxiproxy, and tests stop and start
brokers by Docker Compose. A stand-in serves these two calls: it ends the broker's process, and starts it again.

TestFuncIdempotentBufferedSequence is left out. It searches the broker's log for the name of a Java exception.
"""

import os
import subprocess
from collections.abc import Iterator

import pytest

from tests.support.obtain.sarama_suite import SUITE
from tests.support.processes.broker_process import BrokerGroup
from tests.support.processes.compose_stand_in import ComposeStandIn
from tests.support.processes.toxiproxy import Toxiproxy

pytestmark = pytest.mark.full

BROKERS = 5
PROPERTIES = {
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,INTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "auto.create.topics.enable": "false",
    "default.replication.factor": "2",
    "transaction.state.log.replication.factor": "2",
    # sarama sets it: a coordinator serves while one of the two replicas is stopped.
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "3",
    "offsets.topic.replication.factor": "2",
    "offsets.topic.num.partitions": "3",
    "group.initial.rebalance.delay.ms": "0",
}
LIMIT_S = 400
TESTS = (
    "TestFuncDescribeProducers",
    "TestFuncDescribeTransactions",
    "TestFuncInitProducerId3",
    "TestFuncListTransactions",
    "TestFuncProducingIdempotentWithBrokerFailure",
    "TestFuncTxnAbortedProduce",
    "TestFuncTxnCommitNoMessages",
    "TestFuncTxnProduce",
    "TestFuncTxnProduceAndCommitOffset/legacy_group_ID",
    "TestFuncTxnProduceAndCommitOffset/v2",
    "TestFuncTxnProduceAndCommitOffset/v3_with_group_metadata",
    "TestFuncTxnProduceEpochBump",
    "TestFuncTxnProduceMultiTxn",
    "TestFuncTxnProduceNoBegin",
    "TestFuncTxnProduceWithBrokerFailure",
)
STOPS = "TestFuncTxnProduceWithBrokerFailure"
"""The test that stops the coordinator of its transaction."""


@pytest.fixture(scope="module")
def toxiproxy() -> Iterator[Toxiproxy]:
    with Toxiproxy() as running:
        yield running


@pytest.fixture(scope="module")
def peers() -> list[str]:
    """Addresses of the proxies, filled by the fixture `group`."""
    return []


@pytest.fixture(scope="module")
def group(toxiproxy: Toxiproxy, peers: list[str]) -> Iterator[BrokerGroup]:
    mine = {"inter.broker.listener.name": "INTERNAL"}
    made = BrokerGroup(BROKERS, first_id=1, listeners=["INTERNAL"], properties=PROPERTIES, of_brokers=mine)
    for broker in made.brokers:
        peers.append(toxiproxy.proxy(f"kafka{broker.node_id}", broker.bootstrap))
        broker.advertise(f"PLAINTEXT://{peers[-1]},INTERNAL://{broker.host}:{broker.port('INTERNAL')}")
    with made:
        yield made


@pytest.fixture(scope="module")
def compose(group: BrokerGroup, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ComposeStandIn]:
    brokers = {f"kafka-{broker.node_id}": broker for broker in group.brokers}
    with ComposeStandIn(tmp_path_factory.mktemp("docker"), brokers) as running:
        yield running


@pytest.fixture(scope="module")
def printed(compose: ComposeStandIn, toxiproxy: Toxiproxy, peers: list[str]) -> str:
    """The output of all tests. One process runs them, because each process creates the topics of its tests anew."""
    settings = {
        "TOXIPROXY_ADDR": toxiproxy.url,
        "KAFKA_VERSION": "4.3.0",
        "KAFKA_PEERS": ",".join(peers),
        "PATH": f"{compose.folder}{os.pathsep}{os.environ['PATH']}",
    }
    names = "|".join(dict.fromkeys(name.partition("/")[0] for name in TESTS))
    command = [str(SUITE.program()), "-test.run", f"^({names})$", "-test.v", f"-test.timeout={LIMIT_S}s"]
    done = subprocess.run(
        command, env=os.environ | settings, capture_output=True, text=True, timeout=LIMIT_S + 30, check=False
    )
    return done.stdout + done.stderr


@pytest.mark.timeout(LIMIT_S + 240)
@pytest.mark.parametrize("name", TESTS)
def test_sarama_passes_its_own_test(printed: str, name: str) -> None:
    assert f"--- PASS: {name} " in printed, printed[:16_000]


def test_a_coordinator_was_stopped_and_started(printed: str, compose: ComposeStandIn) -> None:
    assert f"--- PASS: {STOPS} " in printed
    assert [call.split()[0] for call in compose.calls] == ["stop", "start"]
