"""Make an authority, or certificates of one, and print them as JSON. See kube.certificates.cluster_orders.

This runs as a separate process, because `cryptography` takes 11 MiB. Keys come and go by pipes.
"""

import json
import sys
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519
from cryptography.hazmat.primitives.asymmetric.types import CertificateIssuerPrivateKeyTypes
from cryptography.x509.oid import NameOID

from sluicegate_operator.kube.certificates.x509_parts import (
    CLIENT,
    SERVER,
    authority_builder,
    common_name,
    leaf_builder,
)

BEFORE = timedelta(hours=1)
"""Time before now at which certificates begin, for nodes whose clocks are behind."""
_ENCODING, _FORMAT = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8


def made(order: Mapping[str, Any], now: datetime) -> list[dict[str, str]]:
    """Return the certificates and keys of a `CertificateOrder`."""
    ends = now + timedelta(days=order["days"])
    if order["authority"] is None:
        return [_authority(order["name"], now - BEFORE, ends)]
    authority = x509.load_pem_x509_certificate(order["authority"]["certificate"].encode())
    key: Any = serialization.load_pem_private_key(order["authority"]["key"].encode(), None)
    times = max(now - BEFORE, authority.not_valid_before_utc), min(ends, authority.not_valid_after_utc)
    return [_leaf(leaf, authority, key, times) for leaf in order["leaves"]]


def _authority(name: str, first: datetime, last: datetime) -> dict[str, str]:
    key = ec.generate_private_key(ec.SECP256R1())
    builder = authority_builder(common_name(name), key.public_key(), first, last)
    return _pair(builder.sign(key, hashes.SHA256()), key)


def _leaf(
    leaf: Mapping[str, Any],
    authority: x509.Certificate,
    issuer_key: CertificateIssuerPrivateKeyTypes,
    times: tuple[datetime, datetime],
) -> dict[str, str]:
    key = ec.generate_private_key(ec.SECP256R1())
    common, unit, organization = leaf["subject"]
    # RFC 2253 writes them the other way round.
    kinds = (NameOID.ORGANIZATION_NAME, organization), (NameOID.ORGANIZATIONAL_UNIT_NAME, unit)
    subject = x509.Name([x509.NameAttribute(*kind) for kind in (*kinds, (NameOID.COMMON_NAME, common))])
    uses = [SERVER, CLIENT] if leaf["hosts"] else [CLIENT]
    builder = leaf_builder((subject, authority.subject), key.public_key(), times, uses, leaf["hosts"])
    builder = builder.add_extension(_issuer_key_id(authority), critical=False)
    without_digest = isinstance(issuer_key, ed25519.Ed25519PrivateKey | ed448.Ed448PrivateKey)
    return _pair(builder.sign(issuer_key, None if without_digest else hashes.SHA256()), key)


def _issuer_key_id(authority: x509.Certificate) -> x509.AuthorityKeyIdentifier:
    try:
        found = authority.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    except x509.ExtensionNotFound:
        key: Any = authority.public_key()
        return x509.AuthorityKeyIdentifier.from_issuer_public_key(key)
    return x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(found)


def _pair(certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> dict[str, str]:
    return {
        "certificate": certificate.public_bytes(_ENCODING).decode(),
        "key": key.private_bytes(_ENCODING, _FORMAT, serialization.NoEncryption()).decode(),
    }


if __name__ == "__main__":
    sys.stdout.write(json.dumps(made(json.load(sys.stdin), datetime.now(UTC))))
