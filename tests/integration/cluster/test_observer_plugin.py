"""A third-party observer as installed by its user: from its own package, loaded while clients are served."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from kafka import KafkaProducer

from tests.support.processes.broker_process import ROOT, BrokerProcess
from tests.support.processes.clients.broker_admin import set_default_config, until

PACKAGE = ROOT / "examples" / "observer-plugin"
INSTALLED = ROOT / ".observer-plugin"
"""`make observer-plugin` installs it there, because tests do not build packages."""


@pytest.fixture(scope="module")
def broker() -> Iterator[BrokerProcess]:
    assert (INSTALLED / "topic_traffic" / "__init__.py").exists(), "run `make observer-plugin` first"
    with BrokerProcess(environment={"PYTHONPATH": str(INSTALLED)}) as process:
        yield process


def test_a_plugin_is_loaded_while_clients_are_served_and_reports_their_records(
    broker: BrokerProcess, tmp_path: Path
) -> None:
    path = tmp_path / "traffic.json"
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap, client_id="shop", acks="all")
    producer.send("orders", b"nobody looks yet").get(30)
    for key, value in (
        ("observer.traffic.class", "topic_traffic.TopicTraffic"),
        ("observer.traffic.path", str(path)),
        ("observer.traffic.interval.s", "0.1"),
        ("observer.traffic.filter.api.keys", "Produce"),
        ("observer.class.names", "traffic"),
    ):
        set_default_config(broker, key, value)
    until(lambda: "observer traffic is loaded" in broker.log(), "it is loaded")
    for _ in range(10):
        producer.send("orders", b"x" * 1000).get(30)
    producer.close()

    def rows() -> list[dict[str, object]]:
        found: list[dict[str, object]] = json.loads(path.read_text(encoding="utf-8"))
        return found

    until(lambda: bool(rows()) and rows()[0]["records"] == 10, "what was produced is written down")
    (row,) = rows()
    assert (row["client"], row["topic"]) == ("shop", "orders")
    assert isinstance(row["bytes"], int)
    assert 10 * 1000 < row["bytes"] < 10 * 1200
    set_default_config(broker, "observer.class.names", None)
    until(lambda: "observer traffic is closed" in broker.log(), "it is closed")


def test_its_own_tests_pass_where_it_is_installed() -> None:
    paths = os.pathsep.join((str(INSTALLED), str(ROOT)))
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-c",
        "/dev/null",
        "--rootdir",
        str(PACKAGE),
    ]
    done = subprocess.run(
        [*command, str(PACKAGE / "tests")],
        cwd=PACKAGE,
        env=os.environ | {"PYTHONPATH": paths},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
