"""Key stores and trust stores in PEM: what is read, and what each refusal says."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import PrivateFormat

from broker_runtime.errors import ConfigError
from broker_runtime.security.tls.stores import read_key_store, read_trust_store
from broker_runtime.security.tls.tls_settings import KeyStoreSettings, TrustStoreSettings
from tests.support.tls.authority import Authority

AUTHORITY = Authority()
ISSUED = AUTHORITY.issue("CN=broker", "b.example")
PREFIX = "listener.name.x."
INLINE = KeyStoreSettings(prefix=PREFIX, type="PEM", key=ISSUED.key_pem(), chain=ISSUED.chain + AUTHORITY.pem)
TRUST = TrustStoreSettings(prefix=PREFIX, type="PEM", certificates=AUTHORITY.pem)
BYTES_MAX = 100_000


def test_no_store_is_read_where_none_is_configured() -> None:
    assert read_key_store(KeyStoreSettings(), BYTES_MAX) is None
    assert read_trust_store(TrustStoreSettings(), BYTES_MAX) is None


@pytest.mark.parametrize("turned", [False, True])
def test_a_file_has_key_and_chain_in_any_order(tmp_path: Path, turned: bool) -> None:
    parts = [ISSUED.key_pem(), ISSUED.chain + AUTHORITY.pem]
    path = tmp_path / "store.pem"
    path.write_text("".join(reversed(parts) if turned else parts))
    keys = read_key_store(KeyStoreSettings(type="pem", location=str(path)), BYTES_MAX)
    assert keys is not None
    assert [info.subject for info in keys.infos] == ["CN=broker", "CN=Test CA"]
    assert keys == read_key_store(INLINE, BYTES_MAX)


def test_text_around_blocks_headers_in_them_and_other_line_ends_are_tolerated() -> None:
    lines = ISSUED.chain.splitlines()
    chain = "\r\n".join(["Bag Attributes", lines[0], "Name: value", "", *lines[1:], "after it"])
    keys = read_key_store(replace(INLINE, chain=chain), BYTES_MAX)
    assert keys is not None
    assert [block.der for block in keys.chain] == [ISSUED.der]
    trust = read_trust_store(replace(TRUST, certificates=f"CA\n{AUTHORITY.pem.strip()}"), BYTES_MAX)
    assert trust is not None
    assert [anchor.der for anchor in trust.anchors] == [AUTHORITY.own.der]


@pytest.mark.parametrize("form", [PrivateFormat.PKCS8, PrivateFormat.TraditionalOpenSSL])
@pytest.mark.parametrize("password", [None, "secret"])
def test_the_form_of_a_key_is_kept(form: PrivateFormat, password: str | None) -> None:
    text = ISSUED.key_pem(password, form)
    keys = read_key_store(replace(INLINE, key=text, key_password=password), BYTES_MAX)
    assert keys is not None
    assert keys.key.text.split() == text.split()


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"type": "JKS"}, r"ssl.keystore.type: stores of the type JKS are not supported; convert the store to PEM"),
        ({"type": "PKCS12"}, r"of the type PKCS12 are not supported"),
        ({"password": "secret"}, r"ssl.keystore.password: PEM files have no password of their own; remove it"),
        ({"key": None}, r"certificate.chain: listener.name.x.ssl.keystore.key is missing"),
        ({"chain": None}, r"ssl.keystore.key: listener.name.x.ssl.keystore.certificate.chain is missing"),
        ({"location": "/f"}, r"ssl.keystore.key: listener.name.x.ssl.keystore.location is set, too"),
        ({"location": "/no/such", "key": None, "chain": None}, r"/no/such cannot be read: No such file"),
        ({"key": ISSUED.chain}, r"ssl.keystore.key has no private key; it must have exactly one block"),
        ({"key": ISSUED.key_pem() * 2}, r"ssl.keystore.key has 2 private keys; it must have exactly one"),
        ({"chain": ISSUED.key_pem()}, r"ssl.keystore.certificate.chain has no certificate"),
        ({"chain": ISSUED.chain.replace("MII", "M!!", 1)}, r"a block CERTIFICATE is not valid base64"),
        ({"chain": ISSUED.chain.replace("MII", "AAA", 1)}, r"a certificate is malformed"),
        ({"chain": ISSUED.chain.replace("MII", "Mü!", 1)}, r"a block CERTIFICATE is not valid base64"),
    ],
)
def test_key_stores_are_refused_with_instructions(changes: dict[str, Any], expected: str) -> None:
    with pytest.raises(ConfigError, match=expected) as refusal:
        read_key_store(replace(INLINE, **changes), BYTES_MAX)
    assert str(refusal.value).startswith(PREFIX)
    assert "secret" not in str(refusal.value)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"type": "JKS"}, "ssl.truststore.type: stores of the type JKS"),
        ({"password": "secret"}, "ssl.truststore.password: PEM files have no password; remove it"),
        ({"location": "/f"}, "ssl.truststore.certificates: listener.name.x.ssl.truststore.location is set, too"),
        ({"location": "/no/such", "certificates": None}, "/no/such cannot be read"),
        ({"certificates": "nothing"}, "ssl.truststore.certificates has no certificate"),
    ],
)
def test_trust_stores_are_refused_with_instructions(changes: dict[str, Any], expected: str) -> None:
    with pytest.raises(ConfigError, match=expected):
        read_trust_store(replace(TRUST, **changes), BYTES_MAX)


def test_a_file_that_is_too_large_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "store.pem"
    path.write_text(ISSUED.store() * 2)
    with pytest.raises(ConfigError, match="more than 1000 bytes"):
        read_key_store(KeyStoreSettings(type="PEM", location=str(path)), 1000)


def test_secrets_are_not_part_of_representations() -> None:
    settings = replace(INLINE, key_password="open-sesame")
    keys = read_key_store(settings, BYTES_MAX)
    for shown in (repr(settings), repr(keys), repr(TRUST)):
        assert "open-sesame" not in shown
        assert "BEGIN" not in shown
    assert keys is not None
    assert repr(keys.key) == "PemBlock(PRIVATE KEY)"
