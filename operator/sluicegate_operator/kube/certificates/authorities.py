"""Read the certificates of authorities, and check what they have issued. No I/O but for files in a private folder."""

import hashlib
import re
import ssl
from dataclasses import dataclass

from kafka_bytes.pem import ascii_pem
from sluicegate_operator.kube.certificates.tls_pair import CertificateError, TlsPair

_BLOCK = re.compile(r"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", re.DOTALL)


@dataclass(frozen=True, slots=True)
class AuthorityCertificate:
    """The certificate of an authority. `digest` is the SHA-256 of its DER, which nodes report, too."""

    pem: str
    digest: str
    ends_s: float


def certificates_in(text: str) -> tuple[str, ...]:
    """Return the certificates of a text in PEM."""
    return tuple(f"{found[0]}\n" for found in _BLOCK.finditer(text))


def digest(pem: str) -> str:
    """Return the SHA-256 of the certificate's DER. Raises CertificateError."""
    try:
        return hashlib.sha256(ssl.PEM_cert_to_DER_cert(pem)).hexdigest()
    except ValueError:
        raise CertificateError("a certificate is not PEM") from None


def authority_certificate(text: str) -> AuthorityCertificate:
    """Read the first certificate of a text. Raises CertificateError unless it may issue certificates."""
    pem = next(iter(certificates_in(text)), "")
    if not pem:
        raise CertificateError("it has no certificate in PEM")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        context.load_verify_locations(cadata=ascii_pem(pem))
        found = context.get_ca_certs()
    except (ssl.SSLError, ValueError):
        raise CertificateError("its certificate cannot be read") from None
    if not found:
        raise CertificateError("its certificate is not the one of an authority (CA:TRUE)")
    return AuthorityCertificate(pem, digest(pem), float(ssl.cert_time_to_seconds(str(found[0]["notAfter"]))))


def check_key(certificate: str, key: str) -> None:
    """Raise CertificateError unless the key belongs to the certificate."""
    TlsPair(certificate.encode(), key.encode()).load(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))


@dataclass(frozen=True, slots=True)
class Issued:
    """A certificate that an authority has issued: its end, its DNS names, and the values of its subject in order."""

    ends_s: float
    names: frozenset[str]
    subject: tuple[str, ...]


def issued_by(issuer: AuthorityCertificate, pair: TlsPair, name: str) -> Issued | None:
    """Return the certificate of a pair for `name`; None unless the authority has issued it."""
    try:
        found = TlsPair(pair.certificate, pair.key, issuer.pem.encode()).verified(name)
    except CertificateError:
        return None
    return Issued(
        float(ssl.cert_time_to_seconds(str(found["notAfter"]))),
        frozenset(value for kind, value in found.get("subjectAltName", ()) if kind == "DNS"),
        tuple(value for part in found["subject"] for _, value in part),
    )
