"""`sluicegate doctor` beside a running `sluicegate up`, and its attempts to connect to addresses."""

import asyncio
import json
import os
import signal
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from sluicegate_operator.cli.doctor.reading.reachable import attempt
from tests.support.processes.local_fleet import LocalUp, copy_quickstart, run_command
from tests.support.processes.ports import free_port


def examined(data_dir: Path) -> tuple[int, list[dict[str, Any]]]:
    done = run_command("doctor", "--data-dir", str(data_dir), "-o", "json")
    assert done.stderr == ""
    return done.returncode, json.loads(done.stdout)["checks"]


def messages(checks: list[dict[str, Any]], outcome: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for one in checks:
        if one["outcome"] == outcome:
            found.setdefault(one["check"], []).append(one["message"])
    return found


@pytest.mark.full
def test_a_running_cluster_is_healthy_until_a_broker_is_killed(tmp_path: Path) -> None:
    with LocalUp(copy_quickstart(tmp_path), tmp_path / "data", "--restart-after", "30") as up:
        up.wait_until(lambda: up.all_online(3), "three brokers are online")
        code, checks = examined(up.data_dir)
        assert messages(checks, "PROBLEM") == {}
        assert code == 0
        good = messages(checks, "OK")
        assert good["nodes"] == ["4 of 4 nodes of shop are ready"]
        assert good["brokers"] == ["3 of 3 brokers of shop are Online and in sync"]
        assert good["releases"] == [f"the brokers of shop have release {version('sluicegate')}"]
        assert sorted(words.partition(":")[0] for words in good["addresses"]) == [
            f"listener {name} of shop" for name in ("CONTROLLER", "EXTERNAL", "INTERNAL")
        ]

        os.kill(up.nodes("broker")[1]["pid"], signal.SIGKILL)
        up.wait_until(lambda: up.nodes("broker")[1]["pid"] is None, "the state has the end of the broker")
        code, checks = examined(up.data_dir)
        assert code == 1
        bad = messages(checks, "PROBLEM")
        assert bad["nodes"][0].startswith("broker 1 of shop is not ready: ")
        address = up.external(1)
        assert any(f"{address} does not accept a connection from here" in words for words in bad["addresses"])
        assert "nodes of shop are ready" in messages(checks, "OK")["nodes"][0]


async def test_an_address_is_tried_by_tcp() -> None:
    server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    try:
        assert (await attempt(f"127.0.0.1:{port}")).error == ""
        assert (await attempt(f"localhost:{port}")).error == ""
    finally:
        server.close()
        await server.wait_closed()
    closed = await attempt(f"127.0.0.1:{free_port()}")
    assert (closed.resolved, "127.0.0.1: " in closed.error) == (True, True)


@pytest.mark.parametrize("address", ["no port", "nosuchhost.invalid:9094", "a..b:9094"])
async def test_an_address_that_does_not_resolve(address: str) -> None:
    found = await attempt(address)
    assert (found.resolved, found.error != "") == (False, True)
