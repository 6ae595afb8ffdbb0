"""Parts of X.509 certificates. Only processes of their own import this: `cryptography` takes 11 MiB."""

import ipaddress
from collections.abc import Iterable, Sequence
from datetime import datetime

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.types import CertificatePublicKeyTypes
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

NAME_MAX = 64
"""Maximum length of a common name, in characters."""
SERVER, CLIENT = ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH


def builder(
    subject: x509.Name, issuer: x509.Name, key: CertificatePublicKeyTypes, first: datetime, last: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(first)
        .not_valid_after(last)
    )


def authority_builder(
    name: x509.Name, key: ec.EllipticCurvePublicKey, first: datetime, last: datetime
) -> x509.CertificateBuilder:
    """Return the builder of an authority that issues certificates, and no further authorities."""
    return (
        builder(name, name, key, first, last)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(key_cert_sign=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def leaf_builder(
    names: tuple[x509.Name, x509.Name],
    key: ec.EllipticCurvePublicKey,
    times: tuple[datetime, datetime],
    uses: Iterable[x509.ObjectIdentifier],
    hosts: Sequence[str],
) -> x509.CertificateBuilder:
    """Return the builder of a certificate that is not an authority.

    `names` are subject and issuer, `times` its first and last moment.
    """
    made = (
        builder(*names, key, *times)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(digital_signature=True), critical=True)
        .add_extension(x509.ExtendedKeyUsage(uses), critical=False)
    )
    return made if not hosts else made.add_extension(x509.SubjectAlternativeName([*map(host, hosts)]), critical=False)


def _usage(*, digital_signature: bool = False, key_cert_sign: bool = False) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=digital_signature,
        key_cert_sign=key_cert_sign,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        crl_sign=False,
        encipher_only=False,
        decipher_only=False,
    )


def common_name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text[:NAME_MAX])])


def host(text: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(text))
    except ValueError:
        return x509.DNSName(text)
