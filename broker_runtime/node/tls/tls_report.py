"""A report about the keys and certificates that are in force on a listener, for the operator.

It has nothing secret. Pure.
"""

import hashlib
from collections.abc import Mapping

from broker_runtime.security.tls.material import TlsMaterial


def tls_report(material: TlsMaterial, problem: str | None) -> Mapping[str, object]:
    """Return a report about a listener's keys, certificates and problem.

    It has SHA-256 digests of the certificate and of the trusted ones, the end of the certificate, and the problem.
    `certificate` and `ends` are None without a key store, and `authorities` is None without a trust store.
    """
    keys, trust = material.keys, material.trust
    return {
        "certificate": None if keys is None else _digest(keys.chain[0].der),
        "ends": None if keys is None else keys.infos[0].not_after.isoformat(),
        "authorities": None if trust is None else sorted({_digest(anchor.der) for anchor in trust.anchors}),
        "problem": problem,
    }


def _digest(der: bytes) -> str:
    return hashlib.sha256(der).hexdigest()
