"""Keys and certificates change while clients are served: by mounted files, and by the configuration of the broker."""

import os
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from sluicegate_operator.kafka_admin.configs import ConfigChange
from sluicegate_operator.kafka_admin.errors import KafkaApiError
from tests.support.processes.broker_process import CLIENT_LISTENER, BrokerProcess, is_listening
from tests.support.processes.clients.broker_admin import PATIENCE_S, ask, effective_config, until
from tests.support.processes.clients.wire_client import WireClient
from tests.support.processes.ports import free_port
from tests.support.tls.authority import Authority, Issued
from tests.support.tls.secure_broker import LISTENER, PREFIX, TlsWorld

SUBJECT, NAMES = "CN=broker,O=Sluice", ("127.0.0.1", "localhost")
BROKER = 4
RELOADS = "sluicegate_tls_reloads_total"


@pytest.fixture(scope="module")
def mounted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("mounted")


@pytest.fixture(scope="module")
def broker(world: TlsWorld, mounted: Path) -> Iterator[BrokerProcess]:
    mount(mounted, world.authority.issue(SUBJECT, *NAMES), "first")
    properties = {
        **world.properties(ssl_keystore_location=str(mounted / "store.pem")),
        "sluicegate.tls.files.check.interval.ms": "100",
    }
    with BrokerProcess(listeners=[LISTENER], properties=properties) as process:
        yield process


def mount(folder: Path, issued: Issued, version: str) -> None:
    """Write the key store as kubelet mounts a Secret: a folder that a symbolic link is exchanged for."""
    (folder / version).mkdir()
    (folder / version / "store.pem").write_text(issued.store())
    os.symlink(version, folder / "..data_tmp")
    os.replace(folder / "..data_tmp", folder / "..data")
    if not (folder / "store.pem").is_symlink():
        os.symlink("..data/store.pem", folder / "store.pem")


def shown(broker: BrokerProcess, world: TlsWorld) -> bytes | None:
    """The certificate that a new connection gets."""
    context = ssl.create_default_context(cafile=str(world.trusted))
    address = (broker.host, broker.port(LISTENER))
    with (
        socket.create_connection(address, timeout=PATIENCE_S) as plain,
        context.wrap_socket(plain, server_hostname="localhost") as secure,
    ):
        return secure.getpeercert(binary_form=True)


def reloads(broker: BrokerProcess, outcome: str) -> float:
    return broker.metrics().get(f'{RELOADS}{{listener="{LISTENER}",outcome="{outcome}"}}', 0)


def alter(broker: BrokerProcess, **changes: str | None) -> None:
    """Change keys of the listener, dots for underscores; None deletes one. Raises KafkaApiError."""
    named = {PREFIX + name.replace("_", "."): value for name, value in changes.items()}
    change = ConfigChange(
        set={name: value for name, value in named.items() if value is not None},
        delete=[name for name, value in named.items() if value is None],
    )
    ask(broker, lambda handle: handle.incremental_alter_configs(broker.node_id, change))


def test_a_mounted_secret_is_read_again_while_a_client_produces(
    broker: BrokerProcess, world: TlsWorld, mounted: Path
) -> None:
    failed: list[object] = []
    settings = {"bootstrap.servers": f"{broker.host}:{broker.port(LISTENER)}", **world.confluent()}
    producer = Producer({**settings, "connections.max.idle.ms": "0"})

    def produce() -> None:
        producer.produce("rotated", b"value", on_delivery=lambda error, _: failed.append(error))
        assert producer.flush(PATIENCE_S) == 0

    produce()
    issued = world.authority.issue(SUBJECT, *NAMES, "more.example")
    mount(mounted, issued, "second")
    until(lambda: shown(broker, world) == issued.der, "a new connection gets the new certificate")
    produce()
    assert failed == [None] * 2
    end = broker.metrics()[f'sluicegate_tls_certificate_end_seconds{{listener="{LISTENER}"}}']
    assert end == issued.certificate.not_valid_after_utc.timestamp()


@pytest.mark.parametrize("kind", ["subject", "names", "broken"])
def test_a_secret_that_may_not_replace_the_current_one_is_reported(
    broker: BrokerProcess, world: TlsWorld, mounted: Path, kind: str
) -> None:
    before, failures = shown(broker, world), reloads(broker, "failed")
    issue = world.authority.issue
    issued = issue("CN=other", *NAMES, "more.example") if kind == "subject" else issue(SUBJECT, "127.0.0.1")
    mount(mounted, issued, kind)
    if kind == "broken":
        (mounted / kind / "store.pem").write_text("cut off")
    until(lambda: reloads(broker, "failed") > failures, "the failure is counted")
    until(lambda: "of listener SECURE are not used" in broker.get("/readyz")[1], "the failure is shown")
    assert shown(broker, world) == before
    right = issue(SUBJECT, *NAMES, "more.example")
    mount(mounted, right, f"after-{kind}")
    until(lambda: shown(broker, world) == right.der, "the next version is used")
    assert "not used" not in broker.get("/readyz")[1]


def test_the_configuration_replaces_the_file_and_is_not_shown(broker: BrokerProcess, world: TlsWorld) -> None:
    issued = world.authority.issue(SUBJECT, *NAMES, "more.example")
    with pytest.raises(KafkaApiError, match=r"ssl.keystore.location is set, too; remove one of the two"):
        alter(broker, ssl_keystore_key=issued.key_pem(), ssl_keystore_certificate_chain=issued.chain)
    path = world.folder / "altered.pem"
    path.write_text(issued.store())
    alter(broker, ssl_keystore_location=str(path))
    assert shown(broker, world) == issued.der
    path = world.folder / "other.pem"
    path.write_text(world.authority.issue("CN=other", *NAMES, "more.example").store())
    with pytest.raises(KafkaApiError, match=r"the new certificate is of CN=other, and the current one of CN=broker"):
        alter(broker, ssl_keystore_location=str(path))
    with pytest.raises(KafkaApiError, match=r"only the keys of the key store and the trust store change"):
        alter(broker, ssl_client_auth="required")
    with pytest.raises(KafkaApiError, match=r"only per-listener using the listener prefix: \[ssl.keystore.location\]"):
        ask(
            broker,
            lambda handle: handle.incremental_alter_configs(
                broker.node_id, ConfigChange(set={"ssl.keystore.location": str(path)})
            ),
        )
    assert shown(broker, world) == issued.der
    alter(broker, ssl_keystore_location=None)
    assert shown(broker, world) != issued.der


def test_passwords_and_keys_are_not_described(broker: BrokerProcess) -> None:
    alter(broker, ssl_key_password="not-needed")
    name = f"{PREFIX}ssl.key.password"
    resource = {"resource_type": BROKER, "resource_name": str(broker.node_id), "configuration_keys": [name]}
    with WireClient((broker.host, broker.port())) as client:
        answer = client.ask(
            "describe_configs", 4, resources=[resource], include_synonyms=True, include_documentation=False
        )
    (described,) = answer["results"][0]["configs"]
    assert (described["value"], described["is_sensitive"]) == (None, True)
    assert [synonym["value"] for synonym in described["synonyms"]] == [None]
    assert effective_config(broker, name) is None
    alter(broker, ssl_key_password=None)
    assert "not-needed" not in broker.log()


def test_a_listener_with_tls_is_added_and_removed_while_the_broker_runs(broker: BrokerProcess, world: TlsWorld) -> None:
    port, prefix = free_port(), "listener.name.added."
    current = {name: f"{name}://{broker.host}:{broker.port(name)}" for name in (CLIENT_LISTENER, LISTENER)}
    added = {
        "listeners": ",".join([*current.values(), f"ADDED://{broker.host}:{port}"]),
        "listener.security.protocol.map": f"{CLIENT_LISTENER}:PLAINTEXT,{LISTENER}:SSL,ADDED:SSL",
        f"{prefix}ssl.keystore.type": "PEM",
        f"{prefix}ssl.keystore.location": str(world.broker.store),
        f"{prefix}ssl.client.auth": "required",
    }

    def change(**changes: object) -> None:
        made = ConfigChange(**changes)  # type: ignore[arg-type]
        ask(broker, lambda handle: handle.incremental_alter_configs(broker.node_id, made))

    with pytest.raises(KafkaApiError, match=r"ssl.keystore.location is missing: a listener with TLS needs"):
        change(set={name: value for name, value in added.items() if "location" not in name})
    assert not is_listening(broker.host, port)
    change(set=added)
    context = ssl.create_default_context(cafile=str(world.trusted))
    files = world.client("CN=late", "late")
    context.load_cert_chain(str(files.certificate), str(files.key))
    with (
        socket.create_connection((broker.host, port), timeout=PATIENCE_S) as plain,
        context.wrap_socket(plain, server_hostname="localhost") as secure,
    ):
        assert secure.version() == "TLSv1.3"
    change(delete=list(added))
    until(lambda: not is_listening(broker.host, port), "the listener is closed")
    assert "not used" not in broker.get("/readyz")[1]


def test_a_new_trust_store_admits_new_clients(broker: BrokerProcess, world: TlsWorld) -> None:
    trusted = world.folder / "two.pem"
    trusted.write_text(world.authority.pem + Authority("Second CA").pem)
    alter(broker, ssl_truststore_location=str(trusted))
    with pytest.raises(KafkaApiError, match=r"ssl.truststore.location: /no/such cannot be read"):
        alter(broker, ssl_truststore_location="/no/such")
    alter(broker, ssl_truststore_location=None)
