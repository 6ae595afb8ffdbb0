"""KafkaUsers and credentials from Secrets on a real API server: Apache Kafka with SASL, an operator with few rights."""

import asyncio
import base64
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, TypeVar

import pytest

from e2e.cluster.control_plane import ControlPlane
from e2e.cluster.waiting import wait_for
from e2e.world.operator_process import OperatorProcess, secrets_grant
from e2e.world.shop import Json, ShopInApi, condition_of
from sluicegate_operator.kafka_admin.client import AdminClient
from sluicegate_operator.kafka_admin.errors import AuthenticationError
from sluicegate_operator.kafka_admin.security.client_security import ClientSecurity, SaslSettings
from sluicegate_operator.kafka_admin.security.scram import ScramMechanism, new_credential
from tests.support.processes.apache_kafka import ApacheKafka

T = TypeVar("T")

CLUSTER, USERS = "secured", "USERS"
ROLE = "sluicegate-operator-secrets"
OPERATORS_WORD = "operators-word"


def document(kind: str, name: str, spec: Json) -> Json:
    return {"apiVersion": "sluicegate.dev/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec}


def secret(name: str, **values: str) -> Json:
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": values}


@pytest.fixture(scope="module")
def kafka() -> Iterator[ApacheKafka]:
    login = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
    properties = {
        "listener.security.protocol.map": f"PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,{USERS}:SASL_PLAINTEXT",
        "listener.name.users.sasl.enabled.mechanisms": "SCRAM-SHA-512",
        "listener.name.users.scram-sha-512.sasl.jaas.config": login,
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS;User:sluicegate",
    }
    with ApacheKafka(listeners=[USERS], properties=properties) as node:
        yield node


class Secured(ShopInApi):
    """The cluster as seen by the API server, and its broker."""

    def __init__(self, plane: ControlPlane, kafka: ApacheKafka) -> None:
        super().__init__(plane)
        self.kafka = kafka

    def ask(
        self, question: Callable[[AdminClient], Coroutine[Any, Any, T]], security: ClientSecurity | None = None
    ) -> T:
        """Ask as an administrator, or with credentials on the listener of users."""

        async def asked() -> T:
            address = (self.kafka.host, self.kafka.port(USERS) if security else self.kafka.port())
            async with AdminClient([address], request_timeout_s=30, security=security or ClientSecurity()) as admin:
                return await question(admin)

        return asyncio.run(asked())

    def topics_of(self, user: str, word: str) -> set[str]:
        security = ClientSecurity(sasl=SaslSettings("SCRAM-SHA-512", user, word))
        return set(self.ask(lambda admin: admin.describe_topics(), security))

    def await_reason(self, kind: str, name: str, reason: str) -> str:
        """Return the message of Ready when it has the reason."""

        def look() -> str:
            ready = condition_of(self.plane.get(kind, name), "Ready")
            assert ready.get("reason") == reason, ready
            return str(ready["message"])

        return wait_for(f"{kind} {name} is {reason}", look, timeout_s=90, interval_s=0.2)

    def password(self, name: str) -> str:
        return base64.b64decode(self.plane.get("secret", name)["data"]["password"]).decode()


@pytest.fixture(scope="module")
def secured(plane: ControlPlane, operator: OperatorProcess, kafka: ApacheKafka) -> Iterator[Secured]:
    found = Secured(plane, kafka)
    credential = new_credential(ScramMechanism.SCRAM_SHA_512, OPERATORS_WORD, b"salty-salt", 4096)
    found.ask(lambda admin: admin.upsert_scram("sluicegate", credential))
    access = {
        "authentication": {
            "type": "scram-sha-512",
            "username": "sluicegate",
            "passwordSecret": {"secretName": "sluicegate"},
        }
    }
    server = f"{kafka.host}:{kafka.port(USERS)}"
    spec = {"runtime": "External", "bootstrapServers": [server], "external": access}
    found.apply(secret("sluicegate", password=OPERATORS_WORD), document("BrokerCluster", CLUSTER, spec))
    yield found
    found.delete("brokercluster", CLUSTER)
    found.delete("clusterrolebinding", ROLE)
    found.delete("clusterrole", ROLE)


def test_the_right_to_secrets_is_needed_and_then_used(secured: Secured) -> None:
    message = secured.await_reason("brokercluster", CLUSTER, "SecretUnusable")
    assert "install the chart with rbac.secrets=true" in message
    secured.apply(*secrets_grant(ROLE))
    secured.await_reason("brokercluster", CLUSTER, "Governed")


def test_a_user_lives_and_is_removed(secured: Secured, operator: OperatorProcess) -> None:
    acl = {"resource": {"type": "topic", "name": "bills"}, "operations": ["Describe"]}
    spec = {
        "clusterRef": {"name": CLUSTER},
        "authentication": {"type": "scram-sha-512"},
        "authorization": {"acls": [acl]},
        "quotas": {"producerByteRate": 1000},
    }
    topic = document("Topic", "bills", {"clusterRef": {"name": CLUSTER}, "partitions": 1, "replicas": 1})
    secured.apply(topic, document("KafkaUser", "billing", spec))
    secured.await_reason("topic", "bills", "Applied")
    secured.await_reason("kafkauser", "billing", "Applied")
    first = secured.password("billing")
    assert secured.topics_of("billing", first) == {"bills"}
    version = secured.plane.get("secret", "billing")["metadata"]["resourceVersion"]

    secured.plane.kubectl("annotate", "kafkauser", "billing", "sluicegate.dev/rotate=once")

    def rotated() -> str:
        word = secured.password("billing")
        assert word != first
        assert secured.topics_of("billing", word) == {"bills"}
        return word

    def look() -> str:
        try:
            return rotated()
        except AuthenticationError as error:
            raise AssertionError(str(error)) from None

    second = wait_for("the password is rotated", look, timeout_s=60, interval_s=0.2)
    after = secured.plane.get("secret", "billing")["metadata"]["resourceVersion"]
    assert after != version
    secured.plane.kubectl("delete", "kafkauser", "billing", "--timeout=60s")
    assert secured.ask(lambda admin: admin.describe_acls("User:billing")) == frozenset()
    assert secured.ask(lambda admin: admin.describe_scram(["billing"])) == {"billing": {}}
    assert secured.ask(lambda admin: admin.describe_quotas_of((("user", "billing"),))) == {}
    log = operator.log.read_text(errors="replace")
    assert not [word for word in (first, second, OPERATORS_WORD) if word in log]
    secured.delete("topic", "bills")
