"""The tests that sarama has for its own transactions and idempotent producers, against five brokers.

The world is the one that the tests expect: clients reach each broker through a real toxiproxy, and tests stop and start
brokers by Docker Compose. A stand-in serves these two calls: it ends the broker's process, and starts it again.

TestFuncIdempotentBufferedSequence is left out. It searches the broker's log for the name of a Java exception.
"""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

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
LIMIT_S = 240
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


@pytest.mark.parametrize("name", TESTS)
def test_sarama_passes_its_own_test(
    group: BrokerGroup, toxiproxy: Toxiproxy, peers: list[str], tmp_path: Path, name: str
) -> None:
    settings = {
        "TOXIPROXY_ADDR": toxiproxy.url,
        "KAFKA_VERSION": "4.3.0",
        "KAFKA_PEERS": ",".join(peers),
        "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}",
    }
    chosen = "/".join(f"^{part}$" for part in name.split("/"))
    command = [str(SUITE.program()), "-test.run", chosen, "-test.v", f"-test.timeout={LIMIT_S}s"]
    with ComposeStandIn(tmp_path, {f"kafka-{broker.node_id}": broker for broker in group.brokers}) as compose:
        done = subprocess.run(
            command, env=os.environ | settings, capture_output=True, text=True, timeout=LIMIT_S + 30, check=False
        )
    assert done.returncode == 0, (done.stdout + done.stderr)[:8_000]
    assert f"--- PASS: {name} " in done.stdout, done.stdout
    assert [call.split()[0] for call in compose.calls] == (["stop", "start"] if name == STOPS else [])
