"""A cluster with its own authority on a real API server: TLS between nodes, and a renewal while records are written."""

import asyncio
import base64
import json
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import KafkaError, Producer

from e2e.cluster.control_plane import ControlPlane
from e2e.cluster.waiting import wait_for
from e2e.world.operator_process import OperatorProcess, secrets_grant
from e2e.world.shop import HTTP_PORT, NAMESPACE, Json, ShopInApi, condition_of
from sluicegate_operator.fleet.node_security import security_in
from sluicegate_operator.kafka_admin.client import AdminClient
from sluicegate_operator.kafka_admin.errors import KafkaAdminError
from sluicegate_operator.kafka_admin.security.client_security import ClientSecurity, TlsSettings
from tests.support.processes.clients.acknowledged import AcknowledgedWorkload
from tests.support.processes.process_kubelet.kubelet import ProcessKubelet

CLUSTER, BROKERS, PARTITIONS = "vault", 2, 4
ROLE = "sluicegate-operator-secrets-of-vault"
USERS_PORT, OPEN_PORT, INTERNAL_PORT = 9095, 9096, 9091
NAME = f"{CLUSTER}-brokers.{NAMESPACE}.svc"
STARTED_S = 240.0
RENEWED_S = 240.0


def document(kind: str, name: str, spec: Json) -> Json:
    metadata = {"name": name}
    refers = {} if kind == "BrokerCluster" else {"clusterRef": {"name": CLUSTER}}
    return {"apiVersion": "sluicegate.dev/v1alpha1", "kind": kind, "metadata": metadata, "spec": {**refers, **spec}}


CLUSTER_SPEC: Json = {
    "clusterCa": {},
    "brokers": {"replicas": BROKERS, "storage": {"size": "1Gi"}},
    "networkPolicies": False,
    "config": {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "min.insync.replicas": "2",
    },
}
READS: Json = {"resource": {"type": "topic", "name": "orders"}, "operations": ["Read", "Describe"]}
RIGHTS = [
    {"resource": {"type": "topic", "name": "orders"}, "operations": ["Read", "Write", "Describe"]},
    {"resource": {"type": "group", "name": "*"}, "operations": ["Read"]},
]


OBJECTS = (
    ("kafkauser", "anonymous"),
    ("kafkauser", "billing-of-vault"),
    ("topic", "orders-of-vault"),
    ("brokercluster", CLUSTER),
    ("brokerlistener", f"{CLUSTER}-users"),
    ("brokerlistener", f"{CLUSTER}-open"),
    ("clusterrolebinding", ROLE),
    ("clusterrole", ROLE),
)
"""In the order of their deletion; the last two are not of the cluster."""


class Vault(ShopInApi):
    """The cluster as seen by the API server, its pods, and its brokers."""

    def __init__(self, plane: ControlPlane, kubelet: ProcessKubelet) -> None:
        super().__init__(plane)
        self.kubelet = kubelet
        self.refusal = ""
        """What the cluster has said while the operator had no right to Secrets."""

    def refused(self) -> str:
        """Return why the cluster does not start, once it has said so."""
        ready = condition_of(self.plane.get("brokercluster", CLUSTER), "Ready")
        assert ready.get("reason") == "SecretUnreadable", ready
        return str(ready["message"])

    def nodes(self) -> list[Json]:
        """Pods of brokers and controllers."""
        found: list[Json] = self.plane.get("pods", "-l", f"sluicegate.dev/cluster={CLUSTER}")["items"]
        return found

    def addresses(self) -> list[str]:
        return [pod.address for pod in self.broker_pods(CLUSTER)]

    def bootstrap_of(self, port: int) -> str:
        return ",".join(f"{address}:{port}" for address in self.addresses())

    def secret(self, name: str) -> dict[str, str]:
        data = self.plane.get("secret", name)["data"]
        return {key: base64.b64decode(value).decode() for key, value in data.items()}

    def security(self) -> ClientSecurity:
        """How the operator connects."""
        data = {key: value.encode() for key, value in self.secret(f"{CLUSTER}-cluster-tls").items()}
        return security_in(data, "", NAME)

    def topics(self, security: ClientSecurity) -> set[str]:
        """Ask the listener INTERNAL of the first broker."""

        async def ask() -> set[str]:
            address = (self.addresses()[0], INTERNAL_PORT)
            async with AdminClient([address], request_timeout_s=10, security=security) as admin:
                return set(await admin.describe_topics())

        return asyncio.run(ask())

    def in_force(self) -> dict[str, set[tuple[str, tuple[str, ...]]]]:
        """By node: the certificate and the authorities of its listeners, by what the node reports."""
        found = {}
        for pod in self.nodes():
            url = f"http://{pod['status']['podIP']}:{HTTP_PORT}/tls"
            with urllib.request.urlopen(url, timeout=10) as answer:
                told = json.loads(answer.read())["listeners"]
            found[pod["metadata"]["name"]] = {(one["certificate"], tuple(one["authorities"])) for one in told}
        return found

    def incarnations(self) -> dict[str, tuple[str, list[int]]]:
        """What changes if a node restarts in any way."""
        names = {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in self.nodes()}
        return {name: (uid, self.kubelet.pids(NAMESPACE, name)) for name, uid in names.items()}

    def billing(self) -> dict[str, Any]:
        word = self.secret("billing-of-vault")
        return {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": word["username"],
            "sasl.password": word["password"],
        }

    def produced(self, port: int, security: dict[str, Any]) -> KafkaError | None:
        producer = Producer(
            {"bootstrap.servers": self.bootstrap_of(port), "message.timeout.ms": 20_000, "log_level": 2, **security}
        )
        errors: list[KafkaError | None] = []
        producer.produce("orders", b"1", on_delivery=lambda error, _: errors.append(error))
        assert producer.flush(60) == 0
        return errors[0]


@pytest.fixture(scope="module")
def vault(plane: ControlPlane, kubelet: ProcessKubelet, operator: OperatorProcess) -> Iterator[Vault]:
    found = Vault(plane, kubelet)
    found.apply(
        document("BrokerCluster", CLUSTER, CLUSTER_SPEC),
        document(
            "BrokerListener",
            f"{CLUSTER}-users",
            {"name": "USERS", "port": USERS_PORT, "authentication": {"type": "scram-sha-512"}},
        ),
        document("BrokerListener", f"{CLUSTER}-open", {"name": "OPEN", "port": OPEN_PORT}),
        document("Topic", "orders-of-vault", {"topicName": "orders", "partitions": PARTITIONS, "replicas": 2}),
        document(
            "KafkaUser",
            "billing-of-vault",
            {"authentication": {"type": "scram-sha-512"}, "authorization": {"acls": RIGHTS}},
        ),
        # The check of the batches reads them without authentication.
        document("KafkaUser", "anonymous", {"userName": "ANONYMOUS", "authorization": {"acls": [READS]}}),
    )
    found.refusal = wait_for("the right to Secrets is missing", found.refused)
    assert found.nodes() == []
    found.apply(*secrets_grant(ROLE))
    for kind, name in OBJECTS[:-2]:
        found.await_condition(kind, name, "Ready", "True", timeout_s=STARTED_S)
    yield found
    for kind, name in OBJECTS:
        found.delete(kind, name)


def test_the_cluster_waits_for_the_right_to_secrets_and_then_starts(vault: Vault) -> None:
    assert "install the chart with rbac.secrets=true" in vault.refusal
    vault.await_condition("brokercluster", CLUSTER, "CertificatesCurrent", "True")
    status = vault.plane.get("brokercluster", CLUSTER)["status"]
    assert status["clusterCa"]["certificateEnds"] <= status["clusterCa"]["authorityEnds"]


def test_only_nodes_and_the_operator_reach_the_internal_listener(vault: Vault) -> None:
    security = vault.security()
    assert security.tls is not None
    assert "orders" in vault.topics(security)
    without = ClientSecurity(TlsSettings(security.tls.authorities, server_name=NAME))
    for wrong in (without, ClientSecurity()):
        with pytest.raises(KafkaAdminError):
            vault.topics(wrong)
    other = ClientSecurity(
        TlsSettings(security.tls.authorities, security.tls.certificate, security.tls.key, "another.name.svc")
    )
    with pytest.raises(KafkaAdminError):
        vault.topics(other)


def test_clients_have_the_rights_of_their_acls_and_anonymous_has_none(vault: Vault) -> None:
    assert vault.produced(USERS_PORT, vault.billing()) is None
    refused = vault.produced(OPEN_PORT, {})
    assert refused is not None
    assert refused.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED


def test_a_renewed_authority_restarts_nothing_and_loses_no_record(vault: Vault, operator: OperatorProcess) -> None:
    before, authority = vault.in_force(), vault.secret(f"{CLUSTER}-cluster-ca")
    started = vault.incarnations()
    [[(_, [old])]] = {tuple(each) for each in before.values()}
    with AcknowledgedWorkload(
        vault.bootstrap_of(USERS_PORT), "orders", PARTITIONS, pause_s=0.005, security=vault.billing()
    ) as work:
        vault.plane.kubectl("annotate", "brokercluster", CLUSTER, "sluicegate.dev/force-renew=once")

        def renewed() -> bool:
            found = set().union(*vault.in_force().values())
            assert len(found) == 1, found
            [(_, authorities)] = found
            assert len(authorities) == 1, authorities
            return bool(authorities != (old,))

        wait_for("all nodes use and trust only the new authority", renewed, timeout_s=RENEWED_S, interval_s=0.5)
        vault.await_condition("brokercluster", CLUSTER, "CertificatesCurrent", "True")
        count = work.count
        wait_for("records are written after it", lambda: work.count > count + 100)
    work.check(raw=vault.bootstrap_of(OPEN_PORT))
    after = vault.secret(f"{CLUSTER}-cluster-ca")
    assert after["tls.key"] != authority["tls.key"]
    assert after["ca.crt"] == after["tls.crt"]
    assert vault.incarnations() == started
    assert [pod.restarts for pod in vault.broker_pods(CLUSTER)] == [0] * BROKERS
    assert vault.topics(vault.security()) >= {"orders"}
    secrets = [line for text in (authority, after) for line in text["tls.key"].splitlines()[1:-1]]
    assert secrets
    assert not [line for line in secrets if line in operator.output()]
