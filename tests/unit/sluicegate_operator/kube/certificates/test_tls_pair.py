"""Certificates of the webhook: made, kept in a Secret, verified as an API server does it."""

import json
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from cryptography.hazmat.primitives import serialization

from sluicegate_operator.kube.certificates import new_certificate
from sluicegate_operator.kube.certificates.new_certificate import new_pair
from sluicegate_operator.kube.certificates.tls_pair import CertificateError, TlsPair

NOW = datetime(2026, 1, 2, tzinfo=UTC)
HOST = "sluicegate-operator-admission.sluicegate-system.svc"
DAY_S = 86400.0


@pytest.fixture(scope="module")
def pair() -> TlsPair:
    return new_pair([HOST, "127.0.0.1"], NOW, 90)


def test_a_new_certificate_is_valid_for_its_hosts_until_it_ends(pair: TlsPair) -> None:
    ends_s = NOW.timestamp() + 90 * DAY_S
    assert [pair.expires_s(host) for host in (HOST, "127.0.0.1")] == [ends_s, ends_s]


@pytest.mark.parametrize("host", ["other.sluicegate-system.svc", "127.0.0.2"])
def test_a_certificate_is_valid_for_no_other_host(pair: TlsPair, host: str) -> None:
    with pytest.raises(CertificateError, match=f"tls.crt is not valid for {host}: "):
        pair.expires_s(host)


def test_the_end_of_a_certificate_that_has_expired_is_known(pair: TlsPair) -> None:
    assert new_pair([HOST], NOW, -1).expires_s(HOST) == NOW.timestamp() - DAY_S


def test_a_pair_is_verified_with_its_own_authority_among_others(pair: TlsPair) -> None:
    other = new_pair([HOST], NOW, 30)
    assert replace(pair, authorities=other.authorities + pair.authorities).expires_s(HOST) == pair.expires_s(HOST)
    with pytest.raises(CertificateError, match="unable to get local issuer certificate"):
        replace(pair, authorities=other.authorities).expires_s(HOST)
    with pytest.raises(CertificateError, match=r"tls\.crt is not valid for"):
        replace(pair, authorities=b"").expires_s(HOST)


def test_what_does_not_belong_together_is_refused_in_a_sentence(pair: TlsPair) -> None:
    other = new_pair([HOST], NOW, 30)
    with pytest.raises(CertificateError, match=r"tls\.crt and tls\.key cannot be used"):
        replace(pair, key=other.key).expires_s(HOST)
    with pytest.raises(CertificateError, match=r"tls\.crt and tls\.key cannot be used"):
        replace(pair, certificate=b"junk").expires_s(HOST)
    with pytest.raises(CertificateError, match=r"ca\.crt cannot be used"):
        replace(pair, authorities=b"junk").expires_s(HOST)


COMMENT = "# Főtanúsítvány\n".encode()
"""A comment that is not ASCII, as bundles of authorities have them."""


def test_comments_of_any_characters_are_read_over(pair: TlsPair) -> None:
    commented = TlsPair(COMMENT + pair.certificate, COMMENT + pair.key, COMMENT + pair.authorities)
    assert commented.expires_s(HOST) == pair.expires_s(HOST)
    inside = pair.authorities.replace(b"\nM", b"\n\xc5\x91M", 1)
    with pytest.raises(CertificateError, match=r"ca\.crt cannot be used"):
        replace(pair, authorities=inside).expires_s(HOST)


def test_an_encrypted_key_is_refused_without_a_question_at_the_terminal(pair: TlsPair) -> None:
    key = serialization.load_pem_private_key(pair.key, None)
    form = serialization.PrivateFormat.PKCS8, serialization.BestAvailableEncryption(b"hidden-word")
    encrypted = replace(pair, key=key.private_bytes(serialization.Encoding.PEM, *form))
    with pytest.raises(CertificateError, match=r"tls\.key is encrypted: store it unencrypted"):
        encrypted.expires_s(HOST)


def test_a_secret_gives_back_what_was_put_into_it(pair: TlsPair) -> None:
    assert TlsPair.of_secret({"data": pair.data()}) == pair
    assert TlsPair.of_secret({}) is None
    assert TlsPair.of_secret({"data": {"tls.crt": ""}}) is None
    with pytest.raises(CertificateError, match="base64"):
        TlsPair.of_secret({"data": {"tls.crt": "%", "tls.key": "%"}})


def test_the_program_prints_the_data_of_a_secret(capsys: pytest.CaptureFixture[str]) -> None:
    assert new_certificate.main(["90", HOST]) == 0
    made = TlsPair.of_secret({"data": json.loads(capsys.readouterr().out)})
    assert made is not None
    left_s = made.expires_s(HOST) - datetime.now(UTC).timestamp()
    assert 89 * DAY_S < left_s < 91 * DAY_S
