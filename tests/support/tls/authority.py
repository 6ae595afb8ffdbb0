"""A certificate authority for tests: it issues certificates of nodes and clients, with their keys in PEM."""

import ipaddress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.types import CertificateIssuerPrivateKeyTypes
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
)
from cryptography.x509.oid import ExtendedKeyUsageOID

VALID_FROM = datetime(2020, 1, 1, tzinfo=UTC)
"""When the validity of each certificate begins."""
_YEARS = 100


@dataclass(frozen=True)
class Issued:
    """A certificate with its private key."""

    certificate: x509.Certificate
    key: CertificateIssuerPrivateKeyTypes

    @property
    def chain(self) -> str:
        return self.certificate.public_bytes(Encoding.PEM).decode()

    @property
    def der(self) -> bytes:
        return self.certificate.public_bytes(Encoding.DER)

    def key_pem(self, password: str | None = None, form: PrivateFormat = PrivateFormat.PKCS8) -> str:
        encryption: KeySerializationEncryption = NoEncryption()
        if password is not None:
            encryption = BestAvailableEncryption(password.encode())
        return self.key.private_bytes(Encoding.PEM, form, encryption).decode()

    def store(self, password: str | None = None) -> str:
        """The content of a key store in PEM."""
        return self.key_pem(password) + self.chain

    def write(self, folder: Path, name: str, password: str | None = None) -> "KeyFiles":
        """Write the key store, and its two parts for clients that want them in two files."""
        files = KeyFiles(folder / f"{name}.pem", folder / f"{name}.crt", folder / f"{name}.key")
        files.store.write_text(self.store(password))
        files.certificate.write_text(self.chain)
        files.key.write_text(self.key_pem(password))
        return files


@dataclass(frozen=True)
class KeyFiles:
    """Files of one certificate: all together, and the parts."""

    store: Path
    certificate: Path
    key: Path


class Authority:
    """Issues certificates. Its own certificate is self-signed."""

    def __init__(self, name: str = "Test CA") -> None:
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name.from_rfc4514_string(f"CN={name}")
        self.own = Issued(_signed(subject, key, subject, key, names=(), usage=(), is_authority=True), key)

    @property
    def pem(self) -> str:
        return self.own.chain

    def issue(
        self,
        subject: str | x509.Name,
        *names: str,
        valid_for: timedelta | None = None,
        rsa_bits: int | None = None,
    ) -> Issued:
        """Issue a certificate for a subject in the form of RFC 4514, valid for these host names and addresses."""
        key: CertificateIssuerPrivateKeyTypes = ec.generate_private_key(ec.SECP256R1())
        if rsa_bits is not None:
            key = rsa.generate_private_key(65537, rsa_bits)
        name = subject if isinstance(subject, x509.Name) else x509.Name.from_rfc4514_string(subject)
        usage = (ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH)
        ends = None if valid_for is None else VALID_FROM + valid_for
        made = _signed(name, key, self.own.certificate.subject, self.own.key, names=names, usage=usage, ends=ends)
        return Issued(made, key)


def _signed(
    subject: x509.Name,
    key: CertificateIssuerPrivateKeyTypes,
    issuer: x509.Name,
    issuer_key: CertificateIssuerPrivateKeyTypes,
    *,
    names: tuple[str, ...],
    usage: tuple[x509.ObjectIdentifier, ...],
    is_authority: bool = False,
    ends: datetime | None = None,
) -> x509.Certificate:
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(VALID_FROM)
        .not_valid_after(ends or VALID_FROM.replace(year=VALID_FROM.year + _YEARS))
        .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()), critical=False)
    )
    if is_authority:
        uses = dict.fromkeys(
            ("digital_signature", "content_commitment", "key_encipherment", "data_encipherment", "key_agreement"), False
        )
        usage_of_key = x509.KeyUsage(
            **uses, key_cert_sign=True, crl_sign=True, encipher_only=False, decipher_only=False
        )
        builder = builder.add_extension(usage_of_key, critical=True)
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName([_name(name) for name in names]), critical=False)
    if usage:
        builder = builder.add_extension(x509.ExtendedKeyUsage(usage), critical=False)
    return builder.sign(issuer_key, hashes.SHA256())


def _name(text: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(text))
    except ValueError:
        return x509.DNSName(text)
