"""Transactions of librdkafka are exactly once although brokers are killed: all output is judged."""

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from tests.support.processes.broker_process import ROOT

pytestmark = pytest.mark.full

KILLS = 2
TIMEOUT_S = 600.0


def test_transactions_are_exactly_once_although_brokers_are_killed(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.integration.transactions.exactly_once", str(KILLS)]
    scenario = subprocess.Popen(
        command,
        cwd=ROOT,
        env=os.environ | {"TMPDIR": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        output, _ = scenario.communicate(timeout=TIMEOUT_S)
    finally:
        # A scenario that crashes leaves its brokers behind.
        with suppress(ProcessLookupError):
            os.killpg(scenario.pid, signal.SIGKILL)
        scenario.wait()
    assert scenario.returncode == 0, output[-8000:]
