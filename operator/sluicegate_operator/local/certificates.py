"""Certificates of `sluicegate up`: a Secret that a listener names and that does not exist is made.

The certificate is for this machine alone, and is signed by an authority that is made for it and whose key is not kept.
Certificates are made in a process of their own, see kube.certificates.new_certificate.
"""

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable

from sluicegate_operator.engine.context.context import StoredSecret
from sluicegate_operator.fleet.local.local_data import LOOPBACK
from sluicegate_operator.kube.certificates.tls_pair import AUTHORITIES, CERTIFICATE, KEY, CertificateError, TlsPair
from sluicegate_operator.kube.http.errors import KubeError
from sluicegate_operator.local.secrets import LocalSecrets

HOSTS = (LOOPBACK, "localhost", "::1")
LIVES_DAYS = 365
RENEWED_BEFORE_S = 30 * 86400.0
MAKING_TIMEOUT_S = 60.0
_MODULE = "sluicegate_operator.kube.certificates.new_certificate"

Make = Callable[[], Awaitable[TlsPair]]


async def new_pair() -> TlsPair:
    """Make a certificate and key for this machine. Raises CertificateError."""
    command = [sys.executable, "-m", _MODULE, str(LIVES_DAYS), *HOSTS]
    try:
        done = await asyncio.to_thread(
            subprocess.run, command, capture_output=True, timeout=MAKING_TIMEOUT_S, check=True, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.SubprocessError) as error:
        output = (getattr(error, "stderr", None) or b"").decode(errors="replace").strip().splitlines()
        said = output[-1] if output else str(error)
        raise CertificateError(f"the certificate could not be made: {said}") from None
    made = TlsPair.of_secret({"data": json.loads(done.stdout)})
    if made is None:
        raise CertificateError("the certificate could not be made: the command printed nothing")
    return made


class LocalCertificates:
    """The Secrets of listeners in `sluicegate up`. It makes missing ones, and renews those that it has made."""

    def __init__(self, secrets: LocalSecrets, make: Make = new_pair) -> None:
        self._secrets = secrets
        self._make = make
        self._making = asyncio.Lock()

    async def keep(self, namespace: str, name: str) -> StoredSecret:
        """Return the Secret of a listener, made or renewed if needed.

        A Secret of the user stays unchanged. Raises KubeError.
        """
        async with self._making:
            found = self._secrets.find(namespace, name)
            if found is not None and (not found.version or _lasts(found)):
                return found
            try:
                pair = await self._make()
            except CertificateError as error:
                raise KubeError(str(error), retriable=True) from None
            return self._secrets.apply({"metadata": {"name": name, "namespace": namespace}, "data": pair.data()})


def _lasts(secret: StoredSecret) -> bool:
    pair = TlsPair(*(secret.data.get(key, b"") for key in (CERTIFICATE, KEY, AUTHORITIES)))
    try:
        return pair.expires_s(LOOPBACK) - time.time() > RENEWED_BEFORE_S
    except CertificateError:
        return False
