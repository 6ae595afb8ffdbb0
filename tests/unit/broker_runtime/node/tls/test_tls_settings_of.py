"""The TLS settings of a listener: prefixed values win, and SASL_SSL has its own rule for client certificates."""

import pytest

from broker_runtime.config import SecurityProtocol, Value, broker_settings
from broker_runtime.node.tls.tls_settings_of import tls_settings_of

SSL, SASL_SSL = SecurityProtocol.SSL, SecurityProtocol.SASL_SSL
PREFIX = "listener.name.plaintext."


def values(**given: str) -> dict[str, Value]:
    named = {name.replace("_", ".").replace("P.", PREFIX): text for name, text in given.items()}
    return dict(broker_settings({"node.id": "1", **named}).values)


def test_a_prefixed_value_wins() -> None:
    given = values(ssl_keystore_location="/a", P_ssl_keystore_location="/b", ssl_keystore_type="PEM")
    settings = tls_settings_of(given, "PLAINTEXT", SSL)
    assert (settings.keys.location, settings.keys.type, settings.keys.prefix) == ("/b", "PEM", PREFIX)
    assert tls_settings_of(given, "OTHER", SSL).keys.location == "/a"


@pytest.mark.parametrize(
    ("given", "of_ssl", "of_sasl_ssl"),
    [
        ({}, "none", "none"),
        ({"ssl_client_auth": "required"}, "required", "none"),
        ({"P_ssl_client_auth": "REQUESTED"}, "requested", "requested"),
        ({"ssl_client_auth": "required", "P_ssl_client_auth": "requested"}, "requested", "requested"),
    ],
)
def test_client_certificates_on_sasl_ssl_need_the_prefixed_key(
    given: dict[str, str], of_ssl: str, of_sasl_ssl: str
) -> None:
    assert tls_settings_of(values(**given), "PLAINTEXT", SSL).client_auth == of_ssl
    assert tls_settings_of(values(**given), "PLAINTEXT", SASL_SSL).client_auth == of_sasl_ssl


@pytest.mark.parametrize(("text", "checked"), [(None, True), ("https", True), ("", False)])
def test_names_are_checked_unless_the_algorithm_is_empty(text: str | None, checked: bool) -> None:
    given = values() if text is None else values(ssl_endpoint_identification_algorithm=text)
    assert tls_settings_of(given, "PLAINTEXT", SSL).check_names is checked
