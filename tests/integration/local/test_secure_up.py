"""examples/secure under `sluicegate up`: TLS, SCRAM, ACLs and a quota, with clients that take the settings written."""

import re
import runpy
import shlex
import shutil
import signal
import socket
import ssl
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer
from kafka import KafkaProducer

from tests.support.processes.local_fleet import COMMAND, ENVIRONMENT, ROOT, TIMEOUT_S, LocalUp, edit
from tests.support.processes.ports import free_port

SECURE = ROOT / "examples" / "secure"
USER = ("shop", "clients", "SECURE", "billing")
DENIED = KafkaError.TOPIC_AUTHORIZATION_FAILED


@pytest.fixture
def up(tmp_path: Path) -> Iterator[LocalUp]:
    manifests = tmp_path / "manifests"
    shutil.copytree(SECURE, manifests, ignore=shutil.ignore_patterns("*.md", "*.py"))
    edit(manifests / "listener.yaml", "port: 9095", f"port: {free_port()}")
    with LocalUp(manifests, tmp_path / "data") as running:
        yield running


def address(up: LocalUp) -> str:
    found: str = up.nodes("broker")[0]["listeners"]["SECURE"]
    return found


def settings(up: LocalUp) -> dict[str, Any]:
    return runpy.run_path(str(up.data_dir.joinpath(*USER, "settings.py")))


def password(up: LocalUp) -> str:
    return (up.data_dir / "secrets" / "default" / "billing" / "password").read_text()


def produced(topic: str, configuration: dict[str, Any]) -> KafkaError | None:
    """Return why a record was not written; None if it was."""
    producer = Producer({**configuration, "message.timeout.ms": 20_000})
    errors: list[KafkaError | None] = []
    producer.produce(topic, b"x" * 100, on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(60) == 0
    return errors[0]


@pytest.mark.full
def test_the_example_works_word_by_word(up: LocalUp) -> None:
    page = (SECURE / "README.md").read_text().partition("## On Kubernetes")[0]
    commands = re.findall(r"```sh\n(.*?)```", page, re.DOTALL)
    lines = "".join(commands).splitlines()
    assert [line.split()[0] for line in lines] == ["python", "sluicegate", "sluicegate"]
    for line in lines:
        here = line.replace(".sluicegate/", f"{up.data_dir}/").replace("127.0.0.1:9095", address(up))
        program, *arguments = shlex.split(here.replace("status", f"status --data-dir {up.data_dir}"))
        command = [sys.executable] if program == "python" else [*COMMAND]
        done = subprocess.run(
            [*command, *arguments],
            cwd=ROOT,
            env=ENVIRONMENT,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        assert done.returncode == 0, f"{here}\n{done.stdout}\n{done.stderr}"
    (user,) = [row for row in up.state()["clusters"]["shop"]["resources"] if row["kind"] == "KafkaUser"]
    assert (user["ready"], user["message"]) == (True, "the password is in Secret billing; ACLs: 4; quotas: 2")


def test_clients_are_authenticated_authorized_and_encrypted(up: LocalUp) -> None:
    found = settings(up)
    assert produced("orders", found["confluent_kafka"]) is None
    producer = KafkaProducer(**found["kafka_python"])
    assert producer.send("orders", b"x").get(30).topic == "orders"
    producer.close()
    refused = produced("invoices", found["confluent_kafka"])
    assert refused is not None
    assert refused.code() == DENIED

    wrong = {**found["confluent_kafka"], "sasl.password": "wrong", "log_level": 0}
    errors: list[int] = []
    with pytest.raises(KafkaException):
        Producer({**wrong, "error_cb": lambda error: errors.append(error.code())}).list_topics(timeout=5)

    host, port = address(up).split(":")
    trusted = ssl.create_default_context(cafile=found["confluent_kafka"]["ssl.ca.location"])
    with (
        socket.create_connection((host, int(port)), TIMEOUT_S) as plain,
        trusted.wrap_socket(plain, server_hostname="localhost") as encrypted,
    ):
        assert encrypted.version() == "TLSv1.3"

    internal = up.nodes("broker")[0]["listeners"]["INTERNAL"]
    with pytest.raises(KafkaException):
        Producer({"bootstrap.servers": internal, "log_level": 0}).list_topics(timeout=3)

    secret = password(up)
    assert secret not in up.output()
    assert secret not in (up.data_dir / "state.json").read_text() + (up.data_dir / "remembered.json").read_text()
    private = [path for path in (up.data_dir / "secrets").rglob("*") if path.is_file()]
    private += up.data_dir.joinpath(*USER).iterdir()
    assert len(private) > 10
    assert {stat.S_IMODE(path.stat().st_mode) for path in private} == {0o600}


@pytest.mark.full
def test_certificate_and_password_outlive_up_and_no_broker_restarts_for_them(up: LocalUp, tmp_path: Path) -> None:
    kept = {
        path: path.read_bytes()
        for path in (up.data_dir / "secrets").rglob("*")
        if path.name[0] != "." and path.is_file()
    }
    assert [node["restarts"] for node in up.nodes()] == [0, 0]
    assert "restarting" not in up.output()
    assert up.stop(signal.SIGINT) == 0

    with LocalUp(up.manifests, up.data_dir) as again:
        assert {path: path.read_bytes() for path in kept} == kept
        assert produced("orders", settings(again)["confluent_kafka"]) is None
        assert "a password" not in again.output(), "brokers have the password already"


@pytest.mark.full
def test_the_certificates_between_nodes_are_renewed_without_a_restart(up: LocalUp) -> None:
    authority = up.data_dir / "secrets" / "default" / "shop-cluster-ca" / "tls.crt"
    trusted = up.data_dir / "secrets" / "default" / "shop-cluster-tls" / "truststore.pem"
    old, pids = authority.read_text(), up.pids()
    edit(
        up.manifests / "cluster.yaml",
        r"name: shop\nspec",
        'name: shop\n  annotations: {sluicegate.dev/force-renew: "1"}\nspec',
    )
    up.wait_until(lambda: authority.read_text() != old, "a new authority")
    up.wait_until(lambda: trusted.read_text() == authority.read_text(), "nodes that trust only the new one")
    assert produced("orders", settings(up)["confluent_kafka"]) is None
    assert up.pids() == pids


@pytest.mark.full
def test_a_new_password_and_a_removed_user(up: LocalUp) -> None:
    old, before, pids = password(up), settings(up)["confluent_kafka"], up.pids()
    edit(
        up.manifests / "user.yaml",
        r"name: billing\nspec",
        'name: billing\n  annotations: {sluicegate.dev/rotate: "1"}\nspec',
    )
    up.wait_until(lambda: password(up) != old, "a new password")
    up.wait_until(lambda: produced("orders", settings(up)["confluent_kafka"]) is None, "its use")
    assert up.pids() == pids

    (up.manifests / "user.yaml").unlink()
    up.wait_until(lambda: "password that were set for user billing are removed" in up.output(), "the removal")
    up.wait_until(lambda: not up.data_dir.joinpath(*USER).exists(), "its settings removed")
    assert not (up.data_dir / "secrets" / "default" / "billing").exists()
    with pytest.raises(KafkaException):
        Producer({**before, "log_level": 0}).list_topics(timeout=3)


@pytest.mark.full
def test_a_user_whose_file_was_removed_while_up_was_stopped_cannot_log_in(up: LocalUp) -> None:
    before = settings(up)["confluent_kafka"]
    assert up.stop(signal.SIGINT) == 0
    (up.manifests / "user.yaml").unlink()

    with LocalUp(up.manifests, up.data_dir) as again:
        again.wait_for_line("password that were set for user billing are removed")
        assert not (up.data_dir / "secrets" / "default" / "billing").exists()
        with pytest.raises(KafkaException):
            Producer({**before, "log_level": 0}).list_topics(timeout=3)
