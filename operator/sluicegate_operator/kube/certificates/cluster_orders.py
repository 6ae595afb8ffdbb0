"""What the operator orders for a cluster: an authority, or certificates of one. They are made in another process.

The order and the answer are JSON, on the standard input and output of `kube.certificates.cluster_certificates`.
"""

import asyncio
import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field

from sluicegate_operator.kube.certificates.tls_pair import CertificateError

MAKING_TIMEOUT_S = 60.0
_MODULE = "sluicegate_operator.kube.certificates.cluster_certificates"


@dataclass(frozen=True, slots=True)
class PemPair:
    """A certificate and its key, both in PEM."""

    certificate: str
    key: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Leaf:
    """A certificate to issue. `subject` has CN, OU and O; without `hosts` the certificate is for a client only."""

    subject: tuple[str, str, str]
    hosts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CertificateOrder:
    """An order of certificates for `days` days: `leaves` of `authority`; without it, an authority with `name`."""

    days: float
    name: str = ""
    authority: PemPair | None = None
    leaves: tuple[Leaf, ...] = ()


async def make(order: CertificateOrder) -> Sequence[PemPair]:
    """Make the ordered certificates: the authority, or the leaves in their order. Raises CertificateError."""
    command = [sys.executable, "-m", _MODULE]
    given = json.dumps(asdict(order)).encode()
    try:
        done = await asyncio.to_thread(
            subprocess.run, command, input=given, capture_output=True, timeout=MAKING_TIMEOUT_S, check=True
        )
        return [PemPair(**pair) for pair in json.loads(done.stdout)]
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        # Only the last line of a traceback: it has no part of a key.
        lines = (getattr(error, "stderr", None) or b"").decode(errors="replace").strip().splitlines()
        raise CertificateError(f"certificates could not be made: {lines[-1] if lines else error}") from None
