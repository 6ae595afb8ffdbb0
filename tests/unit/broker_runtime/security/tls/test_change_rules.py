"""Which keys and certificates may replace those of an open listener."""

from dataclasses import replace
from typing import Any

import pytest

from broker_runtime.errors import ConfigError
from broker_runtime.security.tls.change_rules import check_change, check_handshake
from broker_runtime.security.tls.material import TlsMaterial, Uses, load
from broker_runtime.security.tls.tls_settings import KeyStoreSettings, TlsSettings, TrustStoreSettings
from tests.support.tls.authority import Authority, Issued

AUTHORITY, SECOND = Authority(), Authority("Second CA")
NAMES = ("a.example", "10.0.0.1")
NOW = AUTHORITY.issue("CN=broker,O=Firm", *NAMES)


def material(issued: Issued, trusted: str | None = AUTHORITY.pem, **more: object) -> TlsMaterial:
    keys = KeyStoreSettings(prefix="listener.name.x.", type="PEM", key=issued.key_pem(), chain=issued.chain)
    trust = TrustStoreSettings(type="PEM", certificates=trusted)
    settings = replace(TlsSettings(keys=keys, trust=trust), **more)  # type: ignore[arg-type]
    return load(settings, Uses(serves=True, dials=trusted is not None))


@pytest.mark.parametrize(
    ("subject", "names"),
    [
        ("CN=broker,O=Firm", NAMES),
        ("CN=Broker,O=FIRM", NAMES),
        ("CN=broker,O=Firm", (*reversed(NAMES), "more.example")),
    ],
)
def test_the_same_subject_and_at_least_the_same_names_may_replace_it(subject: str, names: tuple[str, ...]) -> None:
    check_change(material(NOW), material(AUTHORITY.issue(subject, *names)), between_brokers=True)


@pytest.mark.parametrize(
    ("issued", "allowed", "expected"),
    [
        (AUTHORITY.issue("CN=other,O=Firm", *NAMES), "allow_dn_changes", "of CN=other,O=Firm, and the current one of"),
        (AUTHORITY.issue("CN=broker,O=Firm", "a.example"), "allow_san_changes", "does not have all alternative names"),
    ],
)
def test_another_subject_or_fewer_names_need_permission(issued: Issued, allowed: str, expected: str) -> None:
    with pytest.raises(ConfigError, match=f"listener.name.x.ssl.keystore: .*{expected}"):
        check_change(material(NOW), material(issued), between_brokers=False)
    permission: dict[str, Any] = {allowed: True}
    check_change(material(NOW, **permission), material(issued, **permission), between_brokers=False)


def test_other_settings_do_not_change() -> None:
    with pytest.raises(ConfigError, match="only the keys of the key store and the trust store change"):
        check_change(material(NOW), material(NOW, client_auth="required"), between_brokers=False)


def test_a_trust_store_may_vanish_and_not_appear() -> None:
    check_change(material(NOW), material(NOW, None), between_brokers=False)
    with pytest.raises(ConfigError, match="was opened without a trust store"):
        check_change(material(NOW, None), material(NOW), between_brokers=False)


def test_brokers_with_the_old_and_the_new_material_must_be_able_to_connect() -> None:
    new = SECOND.issue("CN=broker,O=Firm", *NAMES)
    both = AUTHORITY.pem + SECOND.pem
    with pytest.raises(ConfigError, match=r"brokers could not connect to each other \(CERTIFICATE_VERIFY_FAILED: "):
        check_change(material(NOW), material(new, both), between_brokers=True)
    check_change(material(NOW), material(new, both), between_brokers=False)
    check_change(material(NOW), material(NOW, both), between_brokers=True)
    check_change(material(NOW, both), material(new, both), between_brokers=True)


def test_a_client_certificate_is_part_of_the_trial() -> None:
    server = material(NOW, client_auth="required")
    check_handshake(server, server)
    with pytest.raises(ConfigError, match="could not connect to each other"):
        check_handshake(server, material(SECOND.issue("CN=broker", *NAMES), client_auth="required"))
