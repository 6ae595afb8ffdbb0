"""Contexts of OpenSSL from settings: handshakes in memory, between the two sides."""

import ssl
from dataclasses import replace

import pytest

from broker_runtime.errors import ConfigError
from broker_runtime.security.principal import ANONYMOUS
from broker_runtime.security.tls.cipher_names import iana_name, openssl_name
from broker_runtime.security.tls.material import TlsMaterial, Uses, load
from broker_runtime.security.tls.tls_settings import KeyStoreSettings, TlsSettings, TrustStoreSettings
from tests.support.tls.authority import Authority, Issued

SERVES, DIALS = Uses(serves=True), Uses(dials=True)
AUTHORITY = Authority()
BROKER = AUTHORITY.issue("CN=broker", "b.example")
CLIENT = AUTHORITY.issue("CN=anna,O=Firm")
FOREIGN = Authority("Other CA").issue("CN=anna,O=Firm", "b.example")


def settings_of(issued: Issued | None, **more: object) -> TlsSettings:
    keys = KeyStoreSettings()
    if issued is not None:
        keys = KeyStoreSettings(type="PEM", key=issued.key_pem(), chain=issued.chain)
    trust = TrustStoreSettings(type="PEM", certificates=AUTHORITY.pem)
    return replace(TlsSettings(keys=keys, trust=trust), **more)  # type: ignore[arg-type]


def shake_hands(server: TlsMaterial, client: TlsMaterial, name: str = "b.example") -> tuple[ssl.SSLObject, ...]:
    """Return both sides after their handshake. Raises SSLError of the side that refuses."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    assert server.server is not None
    assert client.client is not None
    ends = (
        server.server.wrap_bio(to_server, to_client, server_side=True),
        client.client.wrap_bio(to_client, to_server, server_hostname=name),
    )
    left = list(ends)
    for _ in range(10):
        for end in list(left):
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
            left.remove(end)
    assert not left
    return ends


def principal(server: TlsMaterial, client: TlsMaterial) -> str:
    accepted, _ = shake_hands(server, client)
    return str(server.principal_of(accepted.getpeercert(binary_form=True)))


@pytest.mark.parametrize(
    ("client_auth", "issued", "expected"),
    [
        ("none", None, str(ANONYMOUS)),
        ("none", CLIENT, str(ANONYMOUS)),
        ("requested", None, str(ANONYMOUS)),
        ("requested", CLIENT, "User:CN=anna,O=Firm"),
        ("required", CLIENT, "User:CN=anna,O=Firm"),
    ],
)
def test_the_principal_is_the_subject_of_a_certificate_that_was_asked_for(
    client_auth: str, issued: Issued | None, expected: str
) -> None:
    server = load(settings_of(BROKER, client_auth=client_auth), SERVES)
    assert principal(server, load(settings_of(issued), DIALS)) == expected


@pytest.mark.parametrize(("client_auth", "issued"), [("required", None), ("requested", FOREIGN), ("required", FOREIGN)])
def test_clients_without_a_certificate_of_the_authority_are_refused(client_auth: str, issued: Issued | None) -> None:
    server = load(settings_of(BROKER, client_auth=client_auth), SERVES)
    with pytest.raises(ssl.SSLError, match=r"CERTIFICATE_VERIFY_FAILED|PEER_DID_NOT_RETURN_A_CERTIFICATE"):
        shake_hands(server, load(settings_of(issued), DIALS))


def test_a_client_checks_authority_and_name() -> None:
    client = load(settings_of(None), DIALS)
    with pytest.raises(ssl.SSLCertVerificationError, match="unable to get local issuer"):
        shake_hands(load(settings_of(FOREIGN), SERVES), client)
    server = load(settings_of(BROKER), SERVES)
    with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
        shake_hands(server, client, "c.example")
    shake_hands(server, load(settings_of(None, check_names=False), DIALS), "c.example")


@pytest.mark.parametrize(
    ("newest", "protocols", "expected"),
    [
        ("TLSv1.3", ("TLSv1.2", "TLSv1.3"), "TLSv1.3"),
        ("TLSv1.2", ("TLSv1.2", "TLSv1.3"), "TLSv1.2"),
        ("TLSv1.3", ("TLSv1.2",), "TLSv1.2"),
        ("TLSv1.3", ("TLSv1.3",), "TLSv1.3"),
    ],
)
def test_versions(newest: str, protocols: tuple[str, ...], expected: str) -> None:
    server = load(settings_of(BROKER, newest=newest, protocols=protocols), SERVES)
    accepted, _ = shake_hands(server, load(settings_of(None), DIALS))
    assert accepted.version() == expected


def test_a_client_that_is_too_old_is_refused() -> None:
    server = load(settings_of(BROKER, protocols=("TLSv1.3",)), SERVES)
    with pytest.raises(ssl.SSLError, match=r"UNSUPPORTED_PROTOCOL|PROTOCOL_VERSION"):
        shake_hands(server, load(settings_of(None, protocols=("TLSv1.2",)), DIALS))


@pytest.mark.parametrize("name", ["TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", "ECDHE-ECDSA-AES256-GCM-SHA384"])
def test_cipher_suites_have_the_names_of_iana_or_openssl(name: str) -> None:
    server = load(settings_of(BROKER, cipher_suites=(name,), newest="TLSv1.2"), SERVES)
    accepted, _ = shake_hands(server, load(settings_of(None), DIALS))
    cipher = accepted.cipher()
    assert cipher is not None
    assert cipher[0] == "ECDHE-ECDSA-AES256-GCM-SHA384"


def test_with_suites_of_tls_1_3_alone_no_older_version_is_spoken() -> None:
    server = load(settings_of(BROKER, cipher_suites=("TLS_AES_256_GCM_SHA384",)), SERVES)
    assert server.server is not None
    assert server.server.minimum_version is ssl.TLSVersion.TLSv1_3


@pytest.mark.parametrize(
    ("iana", "openssl"),
    [
        ("TLS_RSA_WITH_AES_128_CBC_SHA", "AES128-SHA"),
        ("TLS_DHE_RSA_WITH_AES_256_CBC_SHA256", "DHE-RSA-AES256-SHA256"),
        ("TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256", "ECDHE-RSA-CHACHA20-POLY1305"),
        ("TLS_ECDHE_ECDSA_WITH_AES_256_CCM", "ECDHE-ECDSA-AES256-CCM"),
        ("TLS_ECDHE_ECDSA_WITH_AES_256_CCM_8", "ECDHE-ECDSA-AES256-CCM8"),
    ],
)
def test_names_of_cipher_suites(iana: str, openssl: str) -> None:
    assert openssl_name(iana) == openssl
    assert iana_name(openssl) == iana
    every = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    every.set_ciphers("ALL")
    assert openssl in {cipher["name"] for cipher in every.get_ciphers()}


def test_every_suite_of_openssl_is_found_again_by_its_name() -> None:
    every = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    every.set_ciphers("ALL")
    names = [cipher["name"] for cipher in every.get_ciphers()]
    assert [openssl_name(iana_name(name)) for name in names] == names


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"keys": KeyStoreSettings()}, "ssl.keystore.location is missing: a listener with TLS needs a private key"),
        ({"protocols": ("TLSv1.3",), "newest": "TLSv1.2"}, "ssl.enabled.protocols: no version of TLSv1.3 is enabled"),
        ({"cipher_suites": ("TLS_NO_SUCH",)}, "ssl.cipher.suites: OpenSSL knows none of TLS_NO_SUCH"),
        ({"principal_rules": "RULE:x"}, "ssl.principal.mapping.rules: "),
        (
            {"keys": KeyStoreSettings(type="PEM", key=CLIENT.key_pem(), chain=BROKER.chain)},
            "the private key is not the one of the first certificate",
        ),
        (
            {"keys": KeyStoreSettings(type="PEM", key=BROKER.key_pem("secret"), chain=BROKER.chain, key_password="x")},
            "check that the key is complete, and that ssl.key.password is its password",
        ),
        (
            {"keys": KeyStoreSettings(type="PEM", key=BROKER.key_pem("secret"), chain=BROKER.chain)},
            "ssl.key.password is its password",
        ),
    ],
)
def test_unusable_settings_are_refused_with_instructions(changes: dict[str, object], expected: str) -> None:
    with pytest.raises(ConfigError, match=expected):
        load(settings_of(BROKER, **changes), SERVES)


def test_encrypted_and_old_keys_are_loaded() -> None:
    rsa = AUTHORITY.issue("CN=rsa", "b.example", rsa_bits=2048)
    for text, password in ((rsa.key_pem("secret"), "secret"), (rsa.key_pem(), None), (rsa.key_pem(), "not needed")):
        keys = KeyStoreSettings(type="PEM", key=text, chain=rsa.chain, key_password=password)
        shake_hands(load(settings_of(None, keys=keys), SERVES), load(settings_of(None), DIALS))


def test_a_client_resumes_its_session() -> None:
    server, client = load(settings_of(BROKER), SERVES), load(settings_of(None, newest="TLSv1.2"), DIALS)
    _, first = shake_hands(server, client)
    assert first.session is not None
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    assert server.server is not None
    assert client.client is not None
    accepted = server.server.wrap_bio(to_server, to_client, server_side=True)
    second = client.client.wrap_bio(to_client, to_server, server_hostname="b.example", session=first.session)
    for _ in range(4):
        for end in (second, accepted):
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
    assert second.session_reused
