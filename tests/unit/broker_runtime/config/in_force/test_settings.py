"""server.properties in, checked settings out."""

import pytest

from broker_runtime.config import Endpoint, SecurityProtocol, ServerAddress, broker_settings, parse_properties
from broker_runtime.errors import ConfigError

COMBINED = {"node.id": "1", "listeners": "PLAINTEXT://127.0.0.1:9092"}
QUORUM = {"process.roles": "broker", "controller.quorum.bootstrap.servers": "10.0.0.9:9093"}


def test_a_combined_node_needs_only_an_id_and_takes_kafkas_defaults() -> None:
    settings = broker_settings({"node.id": "7"})
    assert settings.node_id == 7
    assert settings.is_broker
    assert settings.is_controller
    assert settings.config.max_connection_creation_rate == 2**31 - 1
    assert settings.config.quota_window_num == 11
    assert settings.config.log_retention_ms == 7 * 24 * 3600 * 1000


def test_listeners_advertised_listeners_and_the_inter_broker_listener() -> None:
    settings = broker_settings(
        {
            "node.id": "0",
            "process.roles": "broker",
            "listeners": "internal://0.0.0.0:9091,EXTERNAL://[::1]:9094",
            "advertised.listeners": "INTERNAL://10.0.0.1:9091,EXTERNAL://shop.example:9094",
            "inter.broker.listener.name": "INTERNAL",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.bootstrap.servers": "10.0.0.9:9093",
        }
    )
    assert settings.listeners == (Endpoint("INTERNAL", "0.0.0.0", 9091), Endpoint("EXTERNAL", "::1", 9094))
    assert settings.advertised[1] == Endpoint("EXTERNAL", "shop.example", 9094)
    assert settings.inter_broker_listener == "INTERNAL"
    assert settings.quorum == (ServerAddress("10.0.0.9", 9093),)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"node.id": ""}, "node.id: Value must be a number of type INT"),
        ({"no.such.key": "1"}, "no.such.key is not a key of this broker"),
        ({"max.connections": "-1"}, "max.connections: Value must be at least 0"),
        ({"max.connection.creation.rate": "-5"}, "max.connection.creation.rate: Value must be at least 0"),
        (
            {"max.connections": "99999999999"},
            "Invalid value 99999999999 for configuration max.connections: Value must lie between 0 and 2147483647",
        ),
        (
            {"num.network.threads": "99999999999"},
            "for configuration num.network.threads: Value must lie between 1 and 64",
        ),
        ({"initial.broker.registration.timeout.ms": "3000000000"}, "must lie between -2147483648 and 2147483647"),
        ({"controller.listener.names": "CONTROLLER"}, "none of CONTROLLER is one of listeners (PLAINTEXT)"),
        (
            {"controller.listener.names": "CONTROLLER", "process.roles": "controller"},
            "name the controller's listener, or remove the key",
        ),
        ({"connection.quota.strategy": "leaky"}, "must be one of: windowed, token-bucket"),
        ({"auto.create.topics.enable": "maybe"}, "must be either true or false"),
        ({"listeners": "PLAINTEXT:9092"}, "must be NAME://host:port"),
        ({"listeners": "PLAINTEXT://h:99999"}, "a port between 0 and 65535"),
        ({"listeners": "A://h:1,A://h:2"}, "each listener name may be used once"),
        ({"listener.name.external.max.connections": "3"}, "external is not one of listeners"),
        ({"listener.name.plaintext.num.partitions": "3"}, "is not a key of this broker"),
        ({"advertised.listeners": "PLAINTEXT://0.0.0.0:9092"}, "clients cannot reach 0.0.0.0"),
        ({"advertised.listeners": "OTHER://h:1"}, "OTHER is not one of listeners"),
        ({"process.roles": "broker"}, "needs the address of the controller"),
        ({"process.roles": "king"}, "must be a list of: broker, controller"),
        ({"listener.security.protocol.map": "PLAINTEXT"}, "must be NAME:PROTOCOL, one of PLAINTEXT, SSL"),
        ({"listener.security.protocol.map": "X:TLS"}, "'X:TLS' must be NAME:PROTOCOL, one of PLAINTEXT, SSL"),
        (
            {"connection.failed.authentication.delay.ms": "600000"},
            "must be less than connections.max.idle.ms (600000)",
        ),
        ({"inter.broker.listener.name": "X"}, "is not one of listeners"),
        ({"max.connections.per.ip": "0"}, "refuses every client"),
        ({"broker.rack": "a", "sluicegate.broker.rack.file": "/f"}, "remove one of the two"),
        ({"log.dirs": "/a,/b"}, "exactly one folder"),
    ],
)
def test_bad_input_is_refused_with_a_sentence(changes: dict[str, str], expected: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        broker_settings({**COMBINED, **changes}, "my.properties")
    assert str(refusal.value).startswith("my.properties: ")
    assert expected in str(refusal.value)


def test_an_endpoint_and_the_controllers_have_the_security_protocol_of_their_listener() -> None:
    """The map of Apache Kafka's own file names listeners that are not opened."""
    usual = "PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL,CONTROLLER:PLAINTEXT"
    settings = broker_settings(
        {**COMBINED, **QUORUM, "controller.listener.names": "CONTROLLER", "listener.security.protocol.map": usual}
    )
    assert [endpoint.security_protocol for endpoint in settings.listeners] == [SecurityProtocol.PLAINTEXT]
    assert [server.security_protocol for server in settings.quorum] == [SecurityProtocol.PLAINTEXT]
    assert broker_settings({**COMBINED, "listeners": "SSL://:1", "listener.security.protocol.map": "SSL:PLAINTEXT"})


def test_a_missing_node_id_is_named() -> None:
    with pytest.raises(ConfigError, match=r"node\.id is missing"):
        broker_settings({})


def test_allowed_but_unlikely_settings_give_a_warning() -> None:
    assert broker_settings(COMBINED).warnings == ()
    half = {"broker.heartbeat.interval.ms": "2000", "broker.session.timeout.ms": "4000"}
    assert broker_settings({**COMBINED, **half}).warnings == ()
    (warning,) = broker_settings({**COMBINED, **half, "broker.heartbeat.interval.ms": "5000"}).warnings
    assert warning.startswith(
        "broker.heartbeat.interval.ms (5000) is more than half of broker.session.timeout.ms (4000)"
    )
    (warning,) = broker_settings({**COMBINED, "num.recovery.threads.per.data.dir": "2"}).warnings
    assert warning.endswith("num.recovery.threads.per.data.dir")


def test_log_times_follow_kafkas_precedence_of_units() -> None:
    assert broker_settings({**COMBINED, "log.retention.hours": "1"}).config.log_retention_ms == 3_600_000
    both = {**COMBINED, "log.retention.hours": "1", "log.retention.minutes": "2"}
    assert broker_settings(both).config.log_retention_ms == 120_000
    assert broker_settings({**both, "log.retention.ms": "5"}).config.log_retention_ms == 5


def test_properties_text_knows_comments_continuations_and_both_separators() -> None:
    text = "# c\n! c\n\na=1\n b : 2\nlist=x,\\\n  y\nurl=http://h:1\n"
    assert parse_properties(text, "f") == {"a": "1", "b": "2", "list": "x,y", "url": "http://h:1"}


@pytest.mark.parametrize("text", ["novalue\n", "=1\n", "a=1\\"])
def test_properties_text_that_makes_no_sense_names_the_source(text: str) -> None:
    with pytest.raises(ConfigError, match=r"server\.properties"):
        parse_properties(text, "server.properties")
