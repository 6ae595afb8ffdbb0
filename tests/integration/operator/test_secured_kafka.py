"""An external Apache Kafka 4.3.0 that accepts only TLS and SASL, managed with credentials from Secrets."""

import base64
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from sluicegate_operator.cli.groups.groups import groups
from sluicegate_operator.fleet.external import external_security
from sluicegate_operator.kafka_admin.client import AdminClient
from sluicegate_operator.kafka_admin.errors import AuthenticationError, KafkaAdminError
from sluicegate_operator.kafka_admin.security.client_security import ClientSecurity, SaslSettings, TlsSettings
from sluicegate_operator.kafka_admin.security.scram import ScramMechanism, new_credential
from tests.support.fakes.kube.memory_kube import Json
from tests.support.processes.apache_kafka import ApacheKafka
from tests.support.processes.authority import TestAuthority
from tests.support.worlds.governed import external_cluster, governing, topic_of

pytestmark = pytest.mark.full

SECURE, MUTUAL, BARE = "SECURE", "MUTUAL", "BARE"
PASSWORD = "correct-horse-7"
_LOGIN = "org.apache.kafka.common.security"
UNSECURED_TOKEN = ".".join(
    (
        base64.urlsafe_b64encode(b'{"alg":"none"}').decode().rstrip("="),
        base64.urlsafe_b64encode(b'{"sub":"olga","iat":1,"exp":99999999999}').decode().rstrip("="),
        "",
    )
)


@pytest.fixture(scope="module")
def authority() -> TestAuthority:
    return TestAuthority()


@pytest.fixture(scope="module")
def kafka(authority: TestAuthority, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheKafka]:
    folder = tmp_path_factory.mktemp("stores")
    with ApacheKafka(listeners=[SECURE, MUTUAL, BARE], properties=_properties(authority, folder)) as node:
        yield node


@pytest.fixture
async def alice(kafka: ApacheKafka) -> None:
    async with AdminClient([(kafka.host, kafka.port())], request_timeout_s=30) as admin:
        for mechanism in ScramMechanism:
            await admin.upsert_scram("alice", new_credential(mechanism, PASSWORD, b"salty-salt", 4096))


def _properties(authority: TestAuthority, folder: Path) -> Mapping[str, str]:
    pair = authority.issue("kafka", ["127.0.0.1"])
    (folder / "store.pem").write_text(pair.key + pair.certificate)
    (folder / "trust.pem").write_text(authority.pem)
    protocols = {SECURE: "SASL_SSL", MUTUAL: "SSL", BARE: "SASL_PLAINTEXT", "PLAINTEXT": "PLAINTEXT"}
    found = {
        "listener.security.protocol.map": ",".join(
            f"{name}:{protocol}" for name, protocol in {**protocols, "CONTROLLER": "PLAINTEXT"}.items()
        ),
        "listener.name.mutual.ssl.client.auth": "required",
        "listener.name.secure.sasl.enabled.mechanisms": "SCRAM-SHA-512,SCRAM-SHA-256,PLAIN",
        "listener.name.secure.plain.sasl.jaas.config": (
            f'{_LOGIN}.plain.PlainLoginModule required user_paula="{PASSWORD}";'
        ),
        "listener.name.secure.scram-sha-512.sasl.jaas.config": f"{_LOGIN}.scram.ScramLoginModule required;",
        "listener.name.secure.scram-sha-256.sasl.jaas.config": f"{_LOGIN}.scram.ScramLoginModule required;",
        "listener.name.bare.sasl.enabled.mechanisms": "OAUTHBEARER",
        "listener.name.bare.oauthbearer.connections.max.reauth.ms": "60000",
        "listener.name.bare.oauthbearer.sasl.jaas.config": (
            f'{_LOGIN}.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="kafka";'
        ),
    }
    for name in (SECURE, MUTUAL):
        found |= {
            f"listener.name.{name.lower()}.ssl.keystore.type": "PEM",
            f"listener.name.{name.lower()}.ssl.keystore.location": str(folder / "store.pem"),
            f"listener.name.{name.lower()}.ssl.truststore.type": "PEM",
            f"listener.name.{name.lower()}.ssl.truststore.location": str(folder / "trust.pem"),
        }
    return found


def secret(name: str, **values: str) -> Json:
    data = {key.replace("__", "."): base64.b64encode(value.encode()).decode() for key, value in values.items()}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "data": data}


def scram(mechanism: str = "scram-sha-512") -> dict[str, Any]:
    return {
        "tls": {"trustedCertificates": [{"secretName": "ca"}]},
        "authentication": {"type": mechanism, "username": "alice", "passwordSecret": {"secretName": "alice"}},
    }


async def connected(kafka: ApacheKafka, listener: str, security: ClientSecurity, host: str = "") -> int:
    """Return the number of brokers that an authenticated client sees."""
    address = (host or kafka.host, kafka.port(listener))
    async with AdminClient([address], request_timeout_s=30, security=security) as admin:
        return len((await admin.describe_cluster()).brokers)


@pytest.mark.usefixtures("alice")
@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512", "PLAIN"])
async def test_passwords_authenticate_over_tls(kafka: ApacheKafka, authority: TestAuthority, mechanism: str) -> None:
    user = "paula" if mechanism == "PLAIN" else "alice"
    tls = TlsSettings(authority.pem)
    assert await connected(kafka, SECURE, ClientSecurity(tls, SaslSettings(mechanism, user, PASSWORD))) == 1
    with pytest.raises(AuthenticationError, match="refused the credentials") as refused:
        await connected(kafka, SECURE, ClientSecurity(tls, SaslSettings(mechanism, user, "wrong-word")))
    assert "wrong-word" not in str(refused.value)


async def test_a_bearer_token_authenticates_and_a_bad_one_does_not(kafka: ApacheKafka) -> None:
    good = ClientSecurity(sasl=SaslSettings("OAUTHBEARER", token=UNSECURED_TOKEN))
    assert await connected(kafka, BARE, good) == 1
    with pytest.raises(AuthenticationError, match="invalid_token"):
        await connected(kafka, BARE, ClientSecurity(sasl=SaslSettings("OAUTHBEARER", token="a.b.c")))
    with pytest.raises(AuthenticationError, match="does not accept PLAIN; its mechanisms are OAUTHBEARER"):
        await connected(kafka, BARE, ClientSecurity(sasl=SaslSettings("PLAIN", "a", "b")))


async def test_a_client_certificate_authenticates(kafka: ApacheKafka, authority: TestAuthority) -> None:
    pair = authority.issue("operator")
    assert await connected(kafka, MUTUAL, ClientSecurity(TlsSettings(authority.pem, pair.certificate, pair.key))) == 1
    with pytest.raises(KafkaAdminError, match=r"lost|closed"):
        await connected(kafka, MUTUAL, ClientSecurity(TlsSettings(authority.pem)))


async def test_brokers_are_verified_with_their_names(kafka: ApacheKafka, authority: TestAuthority) -> None:
    with pytest.raises(AuthenticationError, match=r"not accepted for 127\.0\.0\.1"):
        await connected(kafka, MUTUAL, ClientSecurity(TlsSettings(TestAuthority().pem)))
    with pytest.raises(AuthenticationError, match="not accepted for localhost: Hostname mismatch"):
        await connected(kafka, MUTUAL, ClientSecurity(TlsSettings(authority.pem)), "localhost")


@pytest.mark.usefixtures("alice")
def test_commands_take_the_properties_of_kafkas_tools(
    kafka: ApacheKafka, authority: TestAuthority, tmp_path: Path
) -> None:
    (tmp_path / "ca.pem").write_text(authority.pem)
    config = tmp_path / "client.properties"
    arguments = ["list", "--bootstrap-server", f"127.0.0.1:{kafka.port(SECURE)}", "--command-config"]
    for word, code in ((PASSWORD, 0), ("wrong-word", 1)):
        config.write_text(
            "security.protocol=SASL_SSL\nsasl.mechanism=SCRAM-SHA-256\n"
            f'sasl.jaas.config={_LOGIN}.scram.ScramLoginModule required username="alice" password="{word}";\n'
            f"ssl.truststore.type=PEM\nssl.truststore.location={tmp_path}/ca.pem\n"
        )
        done = CliRunner().invoke(groups, [*arguments, str(config)])
        assert done.exit_code == code, done.output
        assert word not in done.output + done.stderr
    assert "the broker refused the credentials" in done.stderr


@pytest.mark.usefixtures("alice")
async def test_secrets_let_the_operator_in_and_a_changed_one_is_used(
    kafka: ApacheKafka, authority: TestAuthority, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(external_security, "FRESH_S", 0.0)
    cluster = external_cluster([f"127.0.0.1:{kafka.port(SECURE)}"], external=scram())
    topic = topic_of("orders", partitions=2)
    async with governing(cluster, topic, secret("ca", ca__crt=authority.pem)) as governed:
        await governed.settle()
        status, reason, message = governed.ready()
        assert (status, reason) == ("False", "SecretUnusable")
        assert message == "Secret alice, which external.authentication.passwordSecret names, does not exist: create it"

        governed.kube.put(secret("alice", password="wrong-word"))
        await governed.settle()
        status, reason, message = governed.ready()
        assert (status, reason) == ("False", "AuthenticationFailed")
        assert "SCRAM-SHA-512: the broker refused the credentials" in message

        governed.kube.put(secret("alice", password=PASSWORD))
        await governed.settle_until(lambda: governed.ready()[0] == "True")
        await governed.settle_until(lambda: governed.ready("Topic", "orders")[0] == "True")

        governed.kube.put(secret("alice", password=f"{PASSWORD}\n"))
        await governed.settle()
        assert "begins or ends with a line break" in governed.ready()[2]
        written = str([one for key, one in governed.kube.objects.items() if key[0] != "Secret"]) + caplog.text
    assert "wrong-word" not in written
    assert PASSWORD not in written
