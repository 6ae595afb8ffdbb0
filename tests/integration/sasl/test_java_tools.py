"""Apache Kafka's own clients, of release 4.3.0, authenticate by each mechanism."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.processes.broker_process import BrokerProcess
from tests.support.processes.kafka_tools import KafkaTools
from tests.support.requests.tokens import key_set, token

pytestmark = pytest.mark.full

TOPICS = "org.apache.kafka.tools.TopicCommand"
CONFIGS = "kafka.admin.ConfigCommand"
PERFORMANCE = "org.apache.kafka.tools.ProducerPerformance"
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
BEARER = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
FILE_RETRIEVER = "org.apache.kafka.common.security.oauthbearer.FileJwtRetriever"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    keys = tmp_path_factory.mktemp("jwks") / "keys.json"
    keys.write_bytes(key_set(0))
    properties = {
        "num.partitions": "1",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SECURE:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
        "listener.name.secure.plain.sasl.jaas.config": f'{PLAIN} required user_alice="secret";',
        "sasl.oauthbearer.jwks.endpoint.url": keys.as_uri(),
        "sasl.oauthbearer.expected.audience": "kafka",
        "listener.name.secure.connections.max.reauth.ms": "4000",
    }
    with BrokerProcess(listeners=["SECURE"], properties=properties) as process:
        yield process


@pytest.fixture(scope="module")
def token_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("token") / "token"


@pytest.fixture(scope="module")
def tools(broker: BrokerProcess, token_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaTools]:
    """The tools may read the file of the token."""
    with pytest.MonkeyPatch.context() as changed:
        allowed = "org.apache.kafka.sasl.oauthbearer.allowed"
        options = f"-D{allowed}.files={token_file} -D{allowed}.urls={token_file.as_uri()}"
        changed.setenv("JDK_JAVA_OPTIONS", options)
        with KafkaTools(f"{broker.host}:{broker.port('SECURE')}", tmp_path_factory.mktemp("tools")) as running:
            yield running


@pytest.fixture(scope="module")
def scram_users(broker: BrokerProcess, tmp_path_factory: pytest.TempPathFactory) -> None:
    with KafkaTools(broker.bootstrap, tmp_path_factory.mktemp("admin")) as admin:
        for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
            change = f"{mechanism}=[iterations=4096,password=secret]"
            admin(CONFIGS, "--alter", "--add-config", change, "--entity-type", "users", "--entity-name", "alice")
        shown = admin(CONFIGS, "--describe", "--entity-type", "users", "--entity-name", "alice")
    assert "SCRAM-SHA-256=iterations=4096, SCRAM-SHA-512=iterations=4096" in shown


def config_file(folder: Path, mechanism: str, jaas: str, **more: str) -> str:
    path = folder / "client.properties"
    lines = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": mechanism, "sasl.jaas.config": jaas} | more
    path.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))
    return str(path)


def of_password(folder: Path, mechanism: str, password: str) -> str:
    module = PLAIN if mechanism == "PLAIN" else SCRAM
    return config_file(folder, mechanism, f'{module} required username="alice" password="{password}";')


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_passwords(tools: KafkaTools, scram_users: None, tmp_path: Path, mechanism: str) -> None:
    file = of_password(tmp_path, mechanism, "secret")
    topic = f"of-{mechanism.lower()}"
    _, printed = tools.ended(TOPICS, "--command-config", file, "--create", "--topic", topic)
    assert f"Created topic {topic}." in printed
    _, printed = tools.ended(TOPICS, "--command-config", file, "--list")
    assert topic in printed.splitlines()


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
def test_a_wrong_password_is_final(tools: KafkaTools, scram_users: None, tmp_path: Path, mechanism: str) -> None:
    """Java repeats a connection that is closed without an answer, until its time-out."""
    began_s = time.monotonic()
    code, printed = tools.ended(TOPICS, "--command-config", of_password(tmp_path, mechanism, "wrong"), "--list")
    assert code != 0
    assert "SaslAuthenticationException" in printed
    assert time.monotonic() - began_s < 20


def test_a_token(tools: KafkaTools, token_file: Path, tmp_path: Path) -> None:
    now_s = int(time.time())
    token_file.write_text(token(iat=now_s - 5, exp=now_s + 300, scope="kafka"))
    more = {
        "sasl.login.callback.handler.class": (
            "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"
        ),
        "sasl.oauthbearer.jwt.retriever.class": FILE_RETRIEVER,
        "sasl.oauthbearer.token.endpoint.url": token_file.as_uri(),
    }
    config = config_file(tmp_path, "OAUTHBEARER", f"{BEARER} required;", **more)
    _, printed = tools.ended(TOPICS, "--command-config", config, "--create", "--topic", "of-token")
    assert "Created topic of-token." in printed


def test_a_producer_authenticates_again(tools: KafkaTools, broker: BrokerProcess, tmp_path: Path) -> None:
    file = of_password(tmp_path, "PLAIN", "secret")
    arguments = ("--topic", "again", "--num-records", "6000", "--record-size", "100", "--throughput", "500")
    printed = tools(PERFORMANCE, *arguments, "--command-config", file)
    assert "6000 records sent" in printed
    lines = broker.get("/metrics")[1].splitlines()
    again = next(line for line in lines if 'successful_reauthentication_total{listener="SECURE"}' in line)
    assert float(again.split()[-1]) >= 2
