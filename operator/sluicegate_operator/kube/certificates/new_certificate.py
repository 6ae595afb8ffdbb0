"""Print a new certificate as JSON, the data of a Secret.

Call: `python -m sluicegate_operator.kube.certificates.new_certificate DAYS HOST...`

This runs as a separate process: `cryptography` takes 11 MiB and 70 ms of the event loop, for a monthly task. The
certificate is signed by an authority that is created for it. The authority's key is not kept, so it can sign nothing
else.
"""

import json
import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from sluicegate_operator.kube.certificates.tls_pair import TlsPair
from sluicegate_operator.kube.certificates.x509_parts import SERVER, authority_builder, common_name, leaf_builder

BEFORE = timedelta(hours=1)
"""Time before now at which certificates begin, for API servers whose clocks are behind."""
AUTHORITY = "sluicegate-admission"


def new_pair(hosts: Sequence[str], now: datetime, days: float) -> TlsPair:
    """Return a certificate for host names and addresses that ends `days` after `now`.

    Negative days make an expired certificate.
    """
    first, last = min(now, now + timedelta(days=days)) - BEFORE, now + timedelta(days=days)
    authority_key, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    # Each authority has its own name: a bundle contains the old one and the new one.
    issuer = common_name(f"{AUTHORITY}-{now:%Y%m%d%H%M%S}")
    authority = authority_builder(issuer, authority_key.public_key(), first, last).sign(authority_key, hashes.SHA256())
    certificate = (
        leaf_builder((common_name(hosts[0]), issuer), key.public_key(), (first, last), [SERVER], hosts)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key()), critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    encoding, unencrypted = serialization.Encoding.PEM, serialization.NoEncryption()
    return TlsPair(
        certificate.public_bytes(encoding),
        key.private_bytes(encoding, serialization.PrivateFormat.PKCS8, unencrypted),
        authority.public_bytes(encoding),
    )


def main(arguments: Sequence[str]) -> int:
    days, *hosts = arguments
    sys.stdout.write(json.dumps(new_pair(hosts, datetime.now(UTC), float(days)).data()))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
