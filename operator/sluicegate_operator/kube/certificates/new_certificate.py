"""Print a new certificate as JSON, the data of a Secret.

Call: `python -m sluicegate_operator.kube.certificates.new_certificate DAYS HOST...`

This runs as a separate process: `cryptography` takes 11 MiB and 70 ms of the event loop, for a monthly task. The
certificate is signed by an authority that is created for it. The authority's key is not kept, so it can sign nothing
else.
"""

import ipaddress
import json
import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from sluicegate_operator.kube.certificates.tls_pair import TlsPair

BEFORE = timedelta(hours=1)
"""Tolerance for API servers whose clocks are behind."""
NAME_MAX = 64
"""Maximum length of a common name, in characters."""
AUTHORITY = "sluicegate-admission"


def new_pair(hosts: Sequence[str], now: datetime, days: float) -> TlsPair:
    """Return a certificate for host names and addresses that ends `days` after `now`.

    Negative days make an expired certificate.
    """
    first, last = min(now, now + timedelta(days=days)) - BEFORE, now + timedelta(days=days)
    authority_key, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    # Each authority has its own name: a bundle contains the old one and the new one.
    issuer = _name(f"{AUTHORITY}-{now:%Y%m%d%H%M%S}")
    authority = (
        _builder(issuer, issuer, authority_key.public_key(), first, last)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(key_cert_sign=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(authority_key.public_key()), critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    certificate = (
        _builder(_name(hosts[0][:NAME_MAX]), issuer, key.public_key(), first, last)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(digital_signature=True), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName([_host(host) for host in hosts]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key()), critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    encoding, unencrypted = serialization.Encoding.PEM, serialization.NoEncryption()
    return TlsPair(
        certificate.public_bytes(encoding),
        key.private_bytes(encoding, serialization.PrivateFormat.PKCS8, unencrypted),
        authority.public_bytes(encoding),
    )


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, first: datetime, last: datetime
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


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _host(text: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(text))
    except ValueError:
        return x509.DNSName(text)


def main(arguments: Sequence[str]) -> int:
    days, *hosts = arguments
    sys.stdout.write(json.dumps(new_pair(hosts, datetime.now(UTC), float(days)).data()))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
