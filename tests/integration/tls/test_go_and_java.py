"""franz-go and Java over SASL_SSL while sessions end, and franz-go with client certificates."""

import json
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion

from tests.support.obtain.go_secured_client import CLIENT
from tests.support.processes.broker_process import BrokerProcess
from tests.support.processes.kafka_tools import KafkaTools
from tests.support.requests.tokens import key_set, token
from tests.support.tls.secure_broker import LISTENER, TlsWorld

pytestmark = pytest.mark.full

PATIENCE_S = 60
USER, PASSWORD = "anna", "päss=wo,rd"
LOGIN = "org.apache.kafka.common.security"
JAAS = f"{LOGIN}.plain.PlainLoginModule"
PERFORMANCE = "org.apache.kafka.tools.ProducerPerformance"
OF_PASSWORDS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
SESSION_MS = 1_500
"""franz-go authenticates again no earlier than after a second."""
TLS_ONLY = "MUTUAL"


@pytest.fixture(scope="module")
def broker(world: TlsWorld) -> Iterator[BrokerProcess]:
    keys = world.folder / "keys.json"
    keys.write_bytes(key_set(0))
    store = {
        f"listener.name.{TLS_ONLY.lower()}.{name.rpartition('secure.')[2]}": value
        for name, value in world.properties(ssl_client_auth="required").items()
        if "listener.name.secure." in name
    }
    properties = {
        **world.properties(),
        **store,
        "listener.security.protocol.map": f"PLAINTEXT:PLAINTEXT,{LISTENER}:SASL_SSL,{TLS_ONLY}:SSL",
        "sasl.enabled.mechanisms": ",".join((*OF_PASSWORDS, "OAUTHBEARER")),
        "listener.name.secure.plain.sasl.jaas.config": f'{JAAS} required user_{USER}="{PASSWORD}";',
        "sasl.oauthbearer.jwks.endpoint.url": keys.as_uri(),
        "sasl.oauthbearer.expected.audience": "kafka",
        "listener.name.secure.connections.max.reauth.ms": str(SESSION_MS),
    }
    with BrokerProcess(listeners=[LISTENER, TLS_ONLY], properties=properties) as process:
        admin = AdminClient({"bootstrap.servers": process.bootstrap})
        for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
            change = UserScramCredentialUpsertion(USER, ScramCredentialInfo(mechanism, 4096), PASSWORD.encode())
            admin.alter_user_scram_credentials([change])[USER].result(PATIENCE_S)
        yield process


def ran(
    broker: BrokerProcess, world: TlsWorld, settings: Mapping[str, object], listener: str = LISTENER
) -> tuple[int, str]:
    """The exit code and the output of a client."""
    given = {"bootstrap": f"{broker.host}:{broker.port(listener)}", "authority": str(world.trusted), **settings}
    command = [str(CLIENT.program()), json.dumps(given)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    return done.returncode, done.stdout + done.stderr


def reauthentications(broker: BrokerProcess) -> float:
    name = f'kafka_server_socket_server_successful_reauthentication_total{{listener="{LISTENER}"}}'
    return broker.metrics().get(name, 0)


def login(mechanism: str, *, wrong: bool = False) -> dict[str, object]:
    if mechanism == "OAUTHBEARER":
        now_s = int(time.time())
        return {"mechanism": mechanism, "token": token(iat=now_s - 5, exp=now_s + (-500 if wrong else 300))}
    return {"mechanism": mechanism, "user": USER, "password": "wrong" if wrong else PASSWORD}


@pytest.mark.parametrize("mechanism", [*OF_PASSWORDS, "OAUTHBEARER"])
def test_records_are_sent_and_read_while_sessions_end(broker: BrokerProcess, world: TlsWorld, mechanism: str) -> None:
    before = reauthentications(broker)
    code, said = ran(broker, world, {"topic": mechanism, "milliseconds": 4 * SESSION_MS, **login(mechanism)})
    assert code == 0, said
    assert int(said.split()[0]) > 10
    assert reauthentications(broker) > before


@pytest.mark.parametrize("mechanism", [*OF_PASSWORDS, "OAUTHBEARER"])
def test_a_wrong_credential_is_refused(broker: BrokerProcess, world: TlsWorld, mechanism: str) -> None:
    code, said = ran(broker, world, {"topic": mechanism, **login(mechanism, wrong=True)})
    assert code == 1
    assert ("unexpected data in oauth response" if mechanism == "OAUTHBEARER" else "SASL_AUTHENTICATION_FAILED") in said


def test_a_client_certificate(broker: BrokerProcess, world: TlsWorld) -> None:
    files = world.client("CN=go", "go")
    certificate = {"certificate": str(files.certificate), "key": str(files.key)}
    code, said = ran(broker, world, {"topic": "mutual", **certificate}, TLS_ONLY)
    assert code == 0, said
    code, said = ran(broker, world, {"topic": "mutual"}, TLS_ONLY)
    assert code == 1
    assert "certificate required" in said, said


@pytest.mark.parametrize("mechanism", OF_PASSWORDS)
def test_java_produces_while_sessions_end(
    broker: BrokerProcess, world: TlsWorld, tmp_path: Path, mechanism: str
) -> None:
    module = JAAS if mechanism == "PLAIN" else f"{LOGIN}.scram.ScramLoginModule"
    config = tmp_path / "client.properties"
    config.write_text(
        f"security.protocol=SASL_SSL\nsasl.mechanism={mechanism}\n"
        f'sasl.jaas.config={module} required username="{USER}" password="{PASSWORD}";\n'
        f"ssl.truststore.type=PEM\nssl.truststore.location={world.trusted}\n".replace("ä", "\\u00e4"),
        encoding="latin-1",
    )
    before = reauthentications(broker)
    arguments = ("--topic", f"java-{mechanism}", "--num-records", "4000", "--record-size", "100", "--throughput", "500")
    with KafkaTools(f"{broker.host}:{broker.port(LISTENER)}", tmp_path) as tools:
        printed = tools(PERFORMANCE, *arguments, "--command-config", str(config))
    assert "4000 records sent" in printed
    assert reauthentications(broker) > before
