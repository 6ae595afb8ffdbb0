"""Apache Kafka's own clients and tools over TLS, with PEM files and a certificate of the client."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.obtain.java import java
from tests.support.obtain.kafka_libs import kafka_libs
from tests.support.processes.apache_kafka import LOG4J
from tests.support.processes.broker_process import BrokerProcess
from tests.support.tls.secure_broker import LISTENER, PREFIX, TlsWorld

pytestmark = pytest.mark.full

PRODUCER = "org.apache.kafka.tools.ConsoleProducer"
CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
CONFIGS = "kafka.admin.ConfigCommand"
TIMEOUT_S = 180


@pytest.fixture(scope="module")
def broker(world: TlsWorld) -> Iterator[BrokerProcess]:
    with BrokerProcess(listeners=[LISTENER], properties=world.properties(ssl_client_auth="required")) as process:
        yield process


@pytest.fixture(scope="module")
def settings(world: TlsWorld) -> Path:
    """The properties of a Java client."""
    store = world.client("CN=java,O=Firm", "java").store
    path = world.folder / "client.properties"
    path.write_text(
        "security.protocol=SSL\n"
        f"ssl.keystore.type=PEM\nssl.keystore.location={store}\n"
        f"ssl.truststore.type=PEM\nssl.truststore.location={world.trusted}\n"
    )
    (world.folder / "log4j2.xml").write_text(LOG4J)
    return path


def run(broker: BrokerProcess, settings: Path, main_class: str, *arguments: str, lines: str = "") -> str:
    options = ["-Xmx128m", "-XX:TieredStopAtLevel=1", f"-Dlog4j2.configurationFile={settings.parent / 'log4j2.xml'}"]
    bootstrap = f"{broker.host}:{broker.port(LISTENER)}"
    command = [java(), *options, "-cp", f"{kafka_libs()}/*", main_class, "--bootstrap-server", bootstrap]
    done = subprocess.run(
        [*command, *arguments], input=lines, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_console_clients_produce_and_consume(broker: BrokerProcess, settings: Path) -> None:
    run(broker, settings, PRODUCER, "--topic", "java", "--command-config", str(settings), lines="one\ntwo\n")
    arguments = ("--topic", "java", "--from-beginning", "--max-messages", "2", "--command-config", str(settings))
    assert run(broker, settings, CONSUMER, *arguments).splitlines() == ["one", "two"]


def test_the_configuration_tool_replaces_a_key_store(broker: BrokerProcess, world: TlsWorld, settings: Path) -> None:
    new = world.authority.issue("CN=broker,O=Sluice", "127.0.0.1", "localhost").write(world.folder, "new").store
    of_broker = ("--entity-type", "brokers", "--entity-name", str(broker.node_id), "--command-config", str(settings))
    name = f"{PREFIX}ssl.keystore.location"
    output = run(broker, settings, CONFIGS, "--alter", *of_broker, "--add-config", f"{name}={new}")
    assert "Completed updating config for broker" in output
    assert f"{name}={new}" in run(broker, settings, CONFIGS, "--describe", *of_broker)
    run(broker, settings, CONFIGS, "--alter", *of_broker, "--delete-config", name)
