"""Credentials end while clients produce: the clients get the right errors, and nothing acknowledged is lost.

Sessions last two seconds. A client that is refused goes on when its credential is right again.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)

from tests.integration.sasl.test_oauth_clients import ISSUER, PREFIX, AioProvider, Provider, counted, fresh
from tests.support.processes.broker_process import BrokerProcess
from tests.support.processes.clients.broker_admin import PATIENCE_S, until
from tests.support.requests.tokens import key_set
from tests.support.tls.counted_senders import SENDERS, Sender, lost, of_each_client

MECHANISM = "SCRAM-SHA-512"
PROPERTIES = {
    "num.partitions": "1",
    "auto.create.topics.enable": "false",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SECURE:SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": f"{MECHANISM},OAUTHBEARER",
    f"{PREFIX}sasl.oauthbearer.expected.audience": "kafka",
    f"{PREFIX}sasl.oauthbearer.expected.issuer": ISSUER,
    "sasl.oauthbearer.clock.skew.seconds": "0",
    "listener.name.secure.connections.max.reauth.ms": "2000",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    keys = tmp_path_factory.mktemp("jwks") / "keys.json"
    keys.write_bytes(key_set(0))
    url = {f"{PREFIX}sasl.oauthbearer.jwks.endpoint.url": keys.as_uri()}
    with BrokerProcess(listeners=["SECURE"], properties=PROPERTIES | url) as process:
        yield process


@pytest.fixture(scope="module")
def admin(broker: BrokerProcess) -> AdminClient:
    return AdminClient({"bootstrap.servers": broker.bootstrap})


def set_password(admin: AdminClient, user: str, password: str) -> None:
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
    change = UserScramCredentialUpsertion(user, info, password.encode())
    admin.alter_user_scram_credentials([change])[user].result(PATIENCE_S)


def remove_password(admin: AdminClient, user: str) -> None:
    change = UserScramCredentialDeletion(user, ScramMechanism.SCRAM_SHA_512)
    admin.alter_user_scram_credentials([change])[user].result(PATIENCE_S)


def acl(topic: str, user: str = "User:*") -> AclBinding:
    return AclBinding(
        ResourceType.TOPIC, topic, ResourcePatternType.LITERAL, user, "*", AclOperation.WRITE, AclPermissionType.ALLOW
    )


def permit(admin: AdminClient, topic: str) -> None:
    admin.create_acls([acl(topic)])[acl(topic)].result(PATIENCE_S)


def forbid(admin: AdminClient, topic: str) -> None:
    literal = ResourcePatternType.LITERAL
    every = AclBindingFilter(ResourceType.TOPIC, topic, literal, None, None, AclOperation.ANY, AclPermissionType.ANY)
    (found,) = admin.delete_acls([every]).values()
    assert len(found.result(PATIENCE_S)) == 1


def prepared(admin: AdminClient, topic: str) -> str:
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(PATIENCE_S)
    permit(admin, topic)
    return topic


def settings(broker: BrokerProcess, client: str, user: str, password: str) -> dict[str, Any]:
    values = [f"{broker.host}:{broker.port('SECURE')}", "SASL_PLAINTEXT", MECHANISM, user, password]
    names = ["bootstrap_servers", "security_protocol", "sasl_mechanism", "sasl_plain_username", "sasl_plain_password"]
    if client == "confluent-kafka":
        names = ["bootstrap.servers", "security.protocol", "sasl.mechanism", "sasl.username", "sasl.password"]
    return dict(zip(names, values, strict=True))


class Tokens:
    """The token that clients get when they ask."""

    def __init__(self, lives_s: int) -> None:
        self.text = fresh(lives_s=lives_s)

    def settings(self, broker: BrokerProcess, client: str) -> Mapping[str, Any]:
        address = f"{broker.host}:{broker.port('SECURE')}"
        if client == "confluent-kafka":
            named = {"bootstrap.servers": address, "security.protocol": "SASL_PLAINTEXT"}
            # The client asks again before the time that it is told here.
            return named | {"sasl.mechanism": "OAUTHBEARER", "oauth_cb": lambda _: (self.text, time.time() + 3)}
        provider = _Current(self) if client == "kafka-python" else _AioCurrent(self)
        named = {"bootstrap_servers": address, "security_protocol": "SASL_PLAINTEXT"}
        return named | {"sasl_mechanism": "OAUTHBEARER", "sasl_oauth_token_provider": provider}


class _Current(Provider):
    def __init__(self, tokens: Tokens) -> None:
        super().__init__("")
        self._tokens = tokens

    def token(self) -> str:
        return self._tokens.text


class _AioCurrent(AioProvider):
    def __init__(self, tokens: Tokens) -> None:
        super().__init__("")
        self._tokens = tokens

    async def token(self) -> str:
        return self._tokens.text


def goes_on(sender: Sender, records: int = 20) -> None:
    before = len(sender.acknowledged)
    until(lambda: len(sender.acknowledged) >= before + records, f"records are acknowledged; {list(sender.said)[-3:]}")


def is_refused(sender: Sender, text: str) -> None:
    until(lambda: sender.was_told(text) and sender.is_refused(), f"the client is told {text}")


CHANGES: Mapping[str, Callable[[AdminClient, str], None]] = {
    "changed": lambda admin, user: set_password(admin, user, "new"),
    "deleted": remove_password,
}


@pytest.mark.full
@pytest.mark.parametrize("change", CHANGES)
@of_each_client
def test_a_password_ends_under_a_producer(broker: BrokerProcess, admin: AdminClient, client: str, change: str) -> None:
    user = f"{client}-{change}"
    topic = prepared(admin, user)
    set_password(admin, user, "old")
    with SENDERS[client](settings(broker, client, user, "old"), topic) as sender:
        goes_on(sender)
        CHANGES[change](admin, user)
        is_refused(sender, f"invalid credentials with SASL mechanism {MECHANISM}")
        set_password(admin, user, "old")
        goes_on(sender)
    assert lost(sender, broker.bootstrap) == {}


@pytest.mark.full
@of_each_client
def test_a_token_expires_under_a_producer(broker: BrokerProcess, admin: AdminClient, client: str) -> None:
    topic = prepared(admin, f"token-{client}")
    tokens, before = Tokens(lives_s=4), counted(broker, "failed_authentication_total")
    with SENDERS[client](tokens.settings(broker, client), topic) as sender:
        goes_on(sender)
        # aiokafka takes the refusal, which is a challenge, for the end of the exchange, and is then hung up on.
        is_refused(sender, "" if client == "aiokafka" else "invalid_token")
        until(lambda: counted(broker, "failed_authentication_total") > before, "the broker has refused the token")
        tokens.text = fresh(lives_s=300)
        goes_on(sender)
    assert lost(sender, broker.bootstrap) == {}


REFUSAL = {
    "confluent-kafka": "TOPIC_AUTHORIZATION_FAILED",
    "kafka-python": "TopicAuthorizationFailedError",
    "aiokafka": "TopicAuthorizationFailedError",
}


@pytest.mark.full
@of_each_client
def test_an_acl_is_removed_and_given_back(broker: BrokerProcess, admin: AdminClient, client: str) -> None:
    topic = prepared(admin, f"acl-{client}")
    set_password(admin, topic, "secret")
    with SENDERS[client](settings(broker, client, topic, "secret"), topic) as sender:
        goes_on(sender)
        forbid(admin, topic)
        is_refused(sender, REFUSAL[client])
        permit(admin, topic)
        goes_on(sender)
    assert lost(sender, broker.bootstrap) == {}
