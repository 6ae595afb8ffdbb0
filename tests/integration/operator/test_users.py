"""KafkaUsers on an Apache Kafka 4.3.0 with an authorizer: passwords, ACLs and quotas, with Kafka's own enforcement."""

import base64
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from sluicegate_operator.kafka_admin.client import AdminClient
from sluicegate_operator.kafka_admin.errors import AuthenticationError
from sluicegate_operator.kafka_admin.security.client_security import ClientSecurity, SaslSettings
from sluicegate_operator.kafka_admin.security.scram import ScramMechanism
from sluicegate_operator.kafka_admin.views import NewTopic
from sluicegate_operator.planning.users.acl_rules import (
    AclOperation,
    AclPatternType,
    AclPermission,
    AclResourceType,
    AclRule,
)
from tests.support.fakes.kube.memory_kube import Json
from tests.support.processes.apache_kafka import ApacheKafka
from tests.support.worlds.governed import CLUSTER, Governed, document, external_cluster, governing

pytestmark = pytest.mark.full

USERS = "USERS"
ENTITY = (("user", "alice"),)


@pytest.fixture(scope="module")
def kafka() -> Iterator[ApacheKafka]:
    login = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
    properties = {
        "listener.security.protocol.map": f"PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,{USERS}:SASL_PLAINTEXT",
        "listener.name.users.sasl.enabled.mechanisms": "SCRAM-SHA-512",
        "listener.name.users.scram-sha-512.sasl.jaas.config": login,
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
    }
    with ApacheKafka(listeners=[USERS], properties=properties) as node:
        yield node


@pytest.fixture
async def admin(kafka: ApacheKafka) -> AsyncIterator[AdminClient]:
    async with AdminClient([(kafka.host, kafka.port())], request_timeout_s=30) as client:
        yield client
        for user in ("alice", "bob"):
            await client.delete_acls(await client.describe_acls(f"User:{user}"))
            await client.delete_scram(user, ScramMechanism.SCRAM_SHA_512)
        await client.alter_quotas(dict.fromkeys(await client.describe_quotas_of(ENTITY)))


def user_of(name: str, **spec: Any) -> Json:
    return document("KafkaUser", name, {"clusterRef": {"name": CLUSTER}, **spec})


def acl(type_: str, name: str | None, *operations: str, **more: Any) -> Json:
    resource = {"type": type_} | ({"name": name} if name else {})
    return {"resource": resource | more.pop("resource", {}), "operations": list(operations), **more}


def alice(*acls: Json, **spec: Any) -> Json:
    authorization = {"authorization": {"acls": list(acls)}} if acls else {}
    return user_of("alice", authentication={"type": "scram-sha-512"}, **authorization, **spec)


def rule(name: str, operation: AclOperation, pattern: AclPatternType = AclPatternType.LITERAL) -> AclRule:
    return AclRule(AclResourceType.TOPIC, name, pattern, "User:alice", "*", operation, AclPermission.ALLOW)


def password(governed: Governed, name: str = "alice") -> str:
    return base64.b64decode(governed.kube.take("Secret", name)["data"]["password"]).decode()


async def applied(governed: Governed, name: str) -> None:
    await governed.settle()
    await governed.settle_until(lambda: governed.ready("KafkaUser", name)[0] == "True")


async def topics_of(kafka: ApacheKafka, user: str, word: str) -> set[str]:
    """Return the topics that the user may describe."""
    security = ClientSecurity(sasl=SaslSettings("SCRAM-SHA-512", user, word))
    async with AdminClient([(kafka.host, kafka.port(USERS))], request_timeout_s=30, security=security) as client:
        return set(await client.describe_topics())


async def test_a_user_gets_a_password_and_may_do_what_its_acls_allow(
    kafka: ApacheKafka, admin: AdminClient, caplog: pytest.LogCaptureFixture
) -> None:
    for topic in ("orders", "orders-eu", "bills"):
        await admin.create_topic(NewTopic(topic, 1, 1, {}))
    entry = acl("topic", "orders", "Read", "Describe", resource={"patternType": "prefix"})
    cluster = external_cluster([kafka.bootstrap])
    async with governing(cluster, alice(entry, quotas={"producerByteRate": 1_000_000})) as governed:
        await applied(governed, "alice")
        word = password(governed)
        assert len(word) == 32
        assert await topics_of(kafka, "alice", word) == {"orders", "orders-eu"}
        with pytest.raises(AuthenticationError, match="refused the credentials"):
            await topics_of(kafka, "alice", "another")
        assert await admin.describe_quotas_of(ENTITY) == {(ENTITY, "producer_byte_rate"): 1_000_000}
        assert governed.ready("KafkaUser", "alice")[2] == ("the password is in Secret alice; ACLs: 2; quotas: 1")
        shown = str([one for key, one in governed.kube.objects.items() if key[0] != "Secret"])
        assert word not in shown + caplog.text

        governed.kube.put(alice(acl("topic", "bills", "Describe"), quotas={"consumerByteRate": 5_000}))
        await governed.settle()
        assert await topics_of(kafka, "alice", word) == {"bills"}
        assert await admin.describe_quotas_of(ENTITY) == {(ENTITY, "consumer_byte_rate"): 5_000}
        assert password(governed) == word, "it is not made again"


async def test_a_password_is_rotated_by_an_annotation(kafka: ApacheKafka, admin: AdminClient) -> None:
    async with governing(external_cluster([kafka.bootstrap]), alice()) as governed:
        await applied(governed, "alice")
        before = password(governed)
        rotated = alice()
        rotated["metadata"]["annotations"] = {"sluicegate.dev/rotate": "2026-11"}
        governed.kube.put(rotated)
        await governed.settle()
        after = password(governed)
        assert after != before
        await topics_of(kafka, "alice", after)
        with pytest.raises(AuthenticationError):
            await topics_of(kafka, "alice", before)
        await governed.settle()
        assert password(governed) == after, "one value rotates once"


async def test_only_what_was_set_for_it_is_removed_with_a_user(kafka: ApacheKafka, admin: AdminClient) -> None:
    theirs = rule("theirs", AclOperation.READ)
    mine_too = rule("orders", AclOperation.WRITE)
    await admin.create_acls([theirs, mine_too])
    await admin.alter_quotas({(ENTITY, "request_percentage"): 50.0})
    entries = acl("topic", "orders", "Read", "Write")
    async with governing(
        external_cluster([kafka.bootstrap]), alice(entries, quotas={"producerByteRate": 7})
    ) as governed:
        await applied(governed, "alice")
        assert "ACLs of other clients, which stay: 1" in governed.ready("KafkaUser", "alice")[2]
        assert await admin.describe_acls("User:alice") == {theirs, mine_too, rule("orders", AclOperation.READ)}
        governed.kube.delete_as_a_person("KafkaUser", "alice")
        await governed.settle()
        assert "alice" not in governed.kube.names("KafkaUser")
        assert await admin.describe_acls("User:alice") == {theirs, mine_too}
        assert await admin.describe_quotas_of(ENTITY) == {(ENTITY, "request_percentage"): 50.0}
        assert await admin.describe_scram(["alice"]) == {"alice": {}}
        [event] = governed.kube.events("UserRemoved")
        assert "user alice are removed" in event["message"]


async def test_what_others_remove_is_set_again(kafka: ApacheKafka, admin: AdminClient) -> None:
    async with governing(external_cluster([kafka.bootstrap]), alice(acl("topic", "orders", "Read"))) as governed:
        await applied(governed, "alice")
        await admin.delete_acls(await admin.describe_acls("User:alice"))
        await admin.delete_scram("alice", ScramMechanism.SCRAM_SHA_512)
        await governed.settle()
        assert await admin.describe_acls("User:alice") == {rule("orders", AclOperation.READ)}
        assert await admin.describe_scram(["alice"]) == {"alice": {ScramMechanism.SCRAM_SHA_512: 4096}}


async def test_a_password_of_a_users_own_secret_is_used(kafka: ApacheKafka, admin: AdminClient) -> None:
    source = {"valueFrom": {"secretKeyRef": {"name": "given", "key": "word"}}}
    bob = user_of("bob", authentication={"type": "scram-sha-512", "password": source})
    async with governing(external_cluster([kafka.bootstrap]), bob) as governed:
        await governed.settle()
        assert governed.ready("KafkaUser", "bob")[1:] == (
            "SecretUnusable",
            "Secret given, which authentication.password names, does not exist: create it",
        )
        data = {"word": base64.b64encode(b"battery-staple").decode()}
        governed.kube.put({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "given"}, "data": data})
        await applied(governed, "bob")
        await topics_of(kafka, "bob", "battery-staple")


async def test_an_acl_that_kafka_refuses_is_in_the_result(admin: AdminClient) -> None:
    nameless = rule("", AclOperation.READ)
    refused = await admin.create_acls([nameless, rule("orders", AclOperation.READ)])
    assert {one: error.name for one, error in refused.items()} == {nameless: "INVALID_REQUEST"}
