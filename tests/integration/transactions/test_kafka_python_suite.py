"""The tests that kafka-python has for its own transactional and idempotent producers, against one broker."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.obtain.kafka_python_suite import suite
from tests.support.processes.broker_process import BrokerProcess

pytestmark = pytest.mark.full

PROPERTIES = {
    "num.partitions": "4",
    "transaction.state.log.num.partitions": "3",
    "offsets.topic.num.partitions": "3",
    "group.initial.rebalance.delay.ms": "0",
}
LIMIT_S = 150
PASSED = {
    "test_idempotent_producer",
    "test_idempotent_producer_high_throughput",
    "test_idempotent_producer_max_in_flight[1]",
    "test_idempotent_producer_max_in_flight[2]",
    "test_idempotent_producer_max_in_flight[5]",
    "test_transactional_producer_messages",
    "test_transactional_producer_offsets",
}


@pytest.fixture(scope="module")
def broker() -> Iterator[BrokerProcess]:
    with BrokerProcess(properties=PROPERTIES) as running:
        yield running


def test_kafka_python_commits_and_aborts_records_and_offsets(broker: BrokerProcess, tmp_path: Path) -> None:
    folder = suite()
    settings = {
        "KAFKA_URI": f"kafka://{broker.bootstrap}",
        "KAFKA_VERSION": "4.3",
        # The folder of a broker to start must exist, although none is started.
        "KAFKA_ROOT": str(tmp_path),
    }
    command = [sys.executable, "-m", "pytest", "-v", "-p", "no:randomly", "-p", "no:cacheprovider", "-c", "pytest.ini"]
    command += [
        f"--timeout={LIMIT_S}",
        "-k",
        "transactional or idempotent",
        "test/integration/test_producer_integration.py",
    ]
    done = subprocess.run(
        command,
        cwd=folder,
        env=os.environ | settings,
        capture_output=True,
        text=True,
        timeout=LIMIT_S + 30,
        check=False,
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-8_000:]
    assert set(re.findall(r"::(\S+) PASSED", done.stdout)) == PASSED, done.stdout
