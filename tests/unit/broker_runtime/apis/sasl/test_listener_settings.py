"""The SASL settings of a listener: prefixes override, and what cannot work is refused with a sentence."""

import pytest

from broker_runtime.apis.sasl.listener_settings import Create, ListenerValues, listener_sasl
from broker_runtime.config import BrokerConfig, BrokerSettings, broker_settings
from broker_runtime.errors import ConfigError
from broker_runtime.security.sasl.mechanism import Authenticated
from broker_runtime.security.sasl.plain import PlainServer

JAAS = "listener.name.secure.plain.sasl.jaas.config"
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
USUAL = {
    "node.id": "1",
    "listeners": "PLAINTEXT://:1,SECURE://:2",
    "listener.security.protocol.map": "SECURE:SASL_PLAINTEXT",
    "listener.name.secure.sasl.enabled.mechanisms": "PLAIN",
    JAAS: f'{PLAIN} required user_alice="hunter2" username="broker" password="hunter3";',
}


def settings(**changes: str) -> BrokerSettings:
    return broker_settings({**USUAL, **{key.replace("__", "."): value for key, value in changes.items()}})


def other(_: str) -> Create:
    return lambda: PlainServer({})


def test_the_users_of_plain_are_options_of_its_login_module() -> None:
    sasl = listener_sasl(settings(), "SECURE", {})
    assert list(sasl.mechanisms) == ["PLAIN"]
    assert sasl.mechanisms["PLAIN"]().step(b"\0alice\0hunter2") == Authenticated("alice")
    assert "hunter" not in repr(sasl)
    assert "hunter" not in repr(settings())


def test_the_key_of_the_mechanism_overrides_the_listeners_which_overrides_the_nodes() -> None:
    key = BrokerConfig.connections_max_reauth_ms
    values = {"connections.max.reauth.ms": "1", "listener.name.secure.connections.max.reauth.ms": "2"}
    given = broker_settings({**USUAL, **values, "listener.name.secure.plain.connections.max.reauth.ms": "3"})
    secure, plaintext = ListenerValues(given, "SECURE"), ListenerValues(given, "PLAINTEXT")
    assert (secure.get(key, "PLAIN"), secure.get(key, "SCRAM-SHA-256"), plaintext.get(key)) == (3, 2, 1)
    assert listener_sasl(given, "SECURE", {}).limits.reauthentication_ms == {"PLAIN": 3}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        (
            {"listener.name.secure.sasl.enabled.mechanisms": "GSSAPI"},
            "GSSAPI is not supported on the listener SECURE; use",
        ),
        ({"listener.name.secure.sasl.enabled.mechanisms": ""}, "an empty list is not supported"),
        ({JAAS: f"{PLAIN} required user_alice=hunter2"}, "does not end with a semicolon"),
        ({JAAS: "a.ScramLoginModule required user_alice=hunter2;"}, f"{JAAS} is needed"),
    ],
)
def test_what_cannot_work_is_refused(changes: dict[str, str], expected: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        listener_sasl(broker_settings({**USUAL, **changes}), "SECURE", {"SCRAM-SHA-256": other})
    assert expected in str(refusal.value)
    assert "hunter2" not in str(refusal.value)


def test_kafkas_default_is_not_served() -> None:
    without = {key: value for key, value in USUAL.items() if "mechanisms" not in key}
    with pytest.raises(ConfigError, match="PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER"):
        listener_sasl(broker_settings(without), "SECURE", {})


def test_secrets_are_sensitive() -> None:
    assert BrokerConfig.sasl_jaas_config.sensitive
