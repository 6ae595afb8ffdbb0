"""The tests that franz-go has for its own transactions, against three brokers.

TestTxnEtl chains consumers of each kind of group, classic and KIP-848, which copy a topic in transactions while members
come and go. It fails for a record that is lost, doubled or out of order.
"""

import os
import re
import subprocess
from collections.abc import Iterator

import pytest

from tests.support.obtain.kgo_suite import SUITE
from tests.support.processes.broker_process import BrokerGroup

pytestmark = pytest.mark.full

PROPERTIES = {
    "transaction.state.log.num.partitions": "3",
    "offsets.topic.num.partitions": "3",
    "group.initial.rebalance.delay.ms": "0",
}
RECORDS = 5_000
LIMIT_S = 150


@pytest.fixture(scope="module")
def group() -> Iterator[BrokerGroup]:
    with BrokerGroup(3, properties=PROPERTIES) as running:
        yield running


def test_franz_go_copies_each_record_once_in_transactions_of_all_kinds_of_groups(group: BrokerGroup) -> None:
    settings = {"KGO_SEEDS": group.bootstrap, "KGO_TEST_RECORDS": str(RECORDS), "KGO_LOG_LEVEL": "none"}
    command = [str(SUITE.program()), "-test.run", "^TestTxnEtl$", "-test.v", f"-test.timeout={LIMIT_S}s"]
    done = subprocess.run(
        command, env=os.environ | settings, capture_output=True, text=True, timeout=LIMIT_S + 30, check=False
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-8_000:]
    passed = set(re.findall(r"--- PASS: TestTxnEtl/(\S+)", done.stdout))
    assert len(passed) == 6, done.stdout
