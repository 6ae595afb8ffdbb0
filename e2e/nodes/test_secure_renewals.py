"""Renewals of examples/secure under load: tokens of pods, a password, a certificate, and its authority."""

import hashlib
import socket
import ssl
import subprocess
import time
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from confluent_kafka import Message, Producer

from e2e.cluster.waiting import wait_for
from e2e.disclosure.outputs import Outputs
from e2e.nodes.site.figures import Figures
from e2e.nodes.site.kube import Kube
from e2e.nodes.site.secure_example import HOST, PORT, TOKENS, SecureExample, secure_example
from e2e.nodes.site.shop import NodeShop
from e2e.world.shop import READY_TIMEOUT_S, Json
from tests.support.processes.clients.acknowledged import AcknowledgedWorkload

SESSION_S = 5
REAUTHENTICATED = "kafka_server_socket_server_successful_reauthentication_total"
FAILED_AGAIN = "kafka_server_socket_server_failed_reauthentication_total"
ROTATED = "orders-rotated"
NEWCOMERS = "orders-newcomers"
TICKS = "orders-ticks"
RENEWED = "orders-renewed"
AUTHORITY_S = 300.0
TOKENS_S = 14.0
"""Enough for two sessions."""
KUBELET_S = 540.0
"""Enough for the kubelet to replace a token of 600 s, which is the shortest: it does so after 80 % of that."""


@pytest.fixture(scope="module")
def example(
    standing_shop: NodeShop, kube: Kube, outputs: Outputs, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SecureExample]:
    """The example with sessions of a few seconds, and without the pods of its clients' second block."""
    with secure_example(kube, tmp_path_factory.mktemp("secure"), outputs) as example:
        example.follow("kubectl create namespace")
        example.limit_sessions(SESSION_S)
        yield example
        example.hide_tokens()
        outputs.add("DescribeConfigs after renewals", example.described())


def check_ticks(report: Json) -> None:
    """Assert that all records of a client were acknowledged and are there, with two tokens."""
    assert (report["lost"], report["failures"], report["tokens"]) == (0, [], 2), report
    assert report["acknowledged"] == report["sent"] > 0


def test_pods_authenticate_again_with_another_token(example: SecureExample, figures: Figures) -> None:
    example.create_topic(TICKS)
    before = example.running()
    settings = {"KEEP_S": "4", "NEXT_TOKEN": f"{TOKENS}/second"}
    example.client("renewing", TICKS, TOKENS_S, settings, expirationSeconds=600)
    report, again = example.report("renewing"), example.metric(REAUTHENTICATED)
    check_ticks(report)
    figures.note("records of a pod whose token was replaced, acknowledged and found", report["acknowledged"])
    figures.note("sessions that were renewed on open connections", again)
    assert again >= 2
    assert example.metric(FAILED_AGAIN) == 0
    assert example.running() == before


class Newcomers:
    """Clients that connect, write one record with acks=all and go, and the records that were acknowledged."""

    def __init__(self, security: Mapping[str, Any]) -> None:
        self.security = dict(security)
        self.values: set[bytes] = set()

    def write(self) -> str:
        """Return why the record was not written; empty if it was."""
        told: list[object] = []

        def delivered(error: object, message: Message) -> None:
            told.append(error)
            if error is None:
                self.values.add(message.value())

        settings = {"bootstrap.servers": f"{HOST}:{PORT}", "message.timeout.ms": 8_000, "log_level": 0}
        producer = Producer({**settings, **self.security, "acks": "all"})
        producer.produce(NEWCOMERS, b"%d" % time.monotonic_ns(), on_delivery=delivered)
        assert producer.flush(30) == 0
        [error] = told
        # KafkaError cannot be compared with None.
        return "" if error is None else str(error)


def served_certificate() -> str:
    """Return the digest of the certificate that a broker presents now."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with socket.create_connection((HOST, PORT), timeout=10) as plain, context.wrap_socket(plain) as connection:
        return hashlib.sha256(connection.getpeercert(binary_form=True) or b"").hexdigest()


def await_served(example: SecureExample, folder: str, newcomers: Newcomers) -> float:
    """Wait until brokers present the folder's certificate; new clients are served all the time. Return the seconds."""
    certificate = ssl.PEM_cert_to_DER_cert((example.folder / folder / "tls.crt").read_text())
    wanted, began_s = hashlib.sha256(certificate).hexdigest(), time.monotonic()

    def look() -> bool:
        example.update_files(f"{time.monotonic_ns()}")
        assert newcomers.write() == ""
        return served_certificate() == wanted

    wait_for(f"the certificate of {folder} is served", look, timeout_s=READY_TIMEOUT_S, interval_s=0.5)
    return time.monotonic() - began_s


def make_authority(example: SecureExample) -> str:
    """Make a second authority, as the page's script makes the first one; return its certificate."""
    folder = example.folder / "next"
    folder.mkdir()
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "365", "-subj", "/CN=next-ca"]
    command += ["-addext", "keyUsage=critical,keyCertSign,cRLSign", "-keyout", "ca.key", "-out", "ca.crt"]
    subprocess.run(command, cwd=folder, capture_output=True, check=True, timeout=60)
    return (folder / "ca.crt").read_text()


def test_a_password_a_certificate_and_an_authority_are_renewed_under_load(
    example: SecureExample, figures: Figures
) -> None:
    old, new = (example.authorities / "ca.crt").read_text(), make_authority(example)
    first = example.secret("billing", "password")
    security = {
        "security.protocol": "SASL_SSL",
        "ssl.ca.pem": old + new,
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "billing",
        "sasl.password": first,
    }
    for topic in (ROTATED, NEWCOMERS):
        example.create_topic(topic)
    before, newcomers = example.running(), Newcomers(security)
    workload = AcknowledgedWorkload(f"{HOST}:{PORT}", ROTATED, 2, pause_s=0.01, security=security, group="billing")
    with workload as load:
        wait_for("an acknowledgement", lambda: load.count > 0)
        load.longest_gap_s = 0.0
        example.follow("kubectl annotate usr billing")
        rotated = wait_for("another password", lambda: example.secret("billing", "password").replace(first, ""))
        load.set_credentials("billing", rotated)
        newcomers.security["sasl.password"] = rotated
        wait_for("brokers take the new password", lambda: newcomers.write() == "")
        figures.note("a renewed certificate until it is served, s", await_served(example, "ca", newcomers))
        example.run("sh examples/secure/kubernetes/certificate.sh .sluicegate/next")
        figures.note("a certificate of a new authority until it is served, s", await_served(example, "next", newcomers))
        assert Newcomers({**newcomers.security, "ssl.ca.pem": new}).write() == ""
        assert Newcomers({**newcomers.security, "ssl.ca.pem": old}).write() != ""
        assert Newcomers({**newcomers.security, "sasl.password": first}).write() != ""
        # Each session ends and is renewed once more, now with the new password.
        renewed = example.metric(REAUTHENTICATED) + 2
        wait_for("sessions are renewed", lambda: example.metric(REAUTHENTICATED) >= renewed, interval_s=0.5)
    load.check(raw=example.open_listener())
    figures.note("records acknowledged during the renewals, and none lost", load.count)
    figures.note("longest gap of the producer during the renewals, s", load.longest_gap_s)
    found = AcknowledgedWorkload(f"{HOST}:{PORT}", NEWCOMERS, 2, security=newcomers.security, group="billing")
    assert newcomers.values <= {
        value for there in found.read_back(f"{HOST}:{PORT}").values() for value in there.values()
    }
    figures.note("new connections that wrote during the renewals", len(newcomers.values))
    assert example.running() == before


def test_the_authority_of_the_nodes_is_renewed_under_load(example: SecureExample, figures: Figures) -> None:
    """INTERNAL and CONTROLLER get certificates of another authority, in the three steps of decision 61."""
    before, old = example.running(), example.in_force()
    assert len({state for states in old.values() for state in states}) == 1, old
    word, authorities = example.secret("billing", "password"), example.secret("shop-secure-tls", "ca.crt")
    security = {"security.protocol": "SASL_SSL", "ssl.ca.pem": authorities, "sasl.mechanism": "SCRAM-SHA-512"}
    security |= {"sasl.username": "billing", "sasl.password": word}
    example.create_topic(RENEWED)
    began_s, steps = time.monotonic(), []
    workload = AcknowledgedWorkload(f"{HOST}:{PORT}", RENEWED, 2, pause_s=0.01, security=security, group="billing")
    with workload as load:
        wait_for("an acknowledgement", lambda: load.count > 0)
        load.longest_gap_s = 0.0
        example.run("kubectl annotate bc shop sluicegate.dev/force-renew=now --overwrite")

        def look() -> bool:
            example.update_files(f"{time.monotonic_ns()}")
            [state, *others] = {state for states in example.in_force().values() for state in states}
            assert not others, "nodes differ"
            if state not in steps:
                steps.append(state)
            return state[0] != steps[0][0] and len(state[1]) == 1

        wait_for("all nodes have another authority alone", look, timeout_s=AUTHORITY_S, interval_s=2)
        figures.note("the nodes' authority is renewed, s", time.monotonic() - began_s)
        # The nodes' connections among each other and those of the operator still work.
        example.namespace.await_ready("bc,bl,topic,usr")
        example.create_topic(f"{RENEWED}-afterwards")
    load.check(raw=example.open_listener())
    assert not {one for _, found in steps[-1:] for one in found} & set(steps[0][1]), "an old authority is still trusted"
    figures.note("records acknowledged during the renewal of the nodes' authority, and none lost", load.count)
    figures.note("longest gap of the producer during that renewal, s", load.longest_gap_s)
    assert example.running() == before


@pytest.mark.timeout(KUBELET_S + 2 * READY_TIMEOUT_S)
def test_the_kubelet_replaces_the_token_of_a_pod_that_writes(example: SecureExample, figures: Figures) -> None:
    before = example.running()
    example.create_topic("orders-long")
    example.client("patient", "orders-long", KUBELET_S, {}, expirationSeconds=600)
    report = example.report("patient", timeout_s=KUBELET_S + READY_TIMEOUT_S)
    check_ticks(report)
    figures.note("records of a pod whose token the kubelet replaced, acknowledged and found", report["acknowledged"])
    assert example.running() == before
