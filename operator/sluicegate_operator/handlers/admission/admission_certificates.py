"""Makes and renews the certificate of the webhook, and gives API servers the CA that verifies it. Runs on the leader.

The chart creates the Secret and the ValidatingWebhookConfiguration, and the operator may change only these two objects.
API servers trust a new certificate before it is served, and still trust the previous one.
"""

import asyncio
import base64
import json
import logging
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Sequence

from sluicegate_operator.kube.certificates.tls_pair import CertificateError, TlsPair
from sluicegate_operator.kube.client.client import KubeClient
from sluicegate_operator.kube.http.errors import KubeError
from sluicegate_operator.kube.http.kinds import SECRET, WEBHOOK_CONFIGURATION
from sluicegate_operator.settings import AdmissionSettings

log = logging.getLogger(__name__)

LIVES_DAYS = 90
RENEWED_BEFORE_S = 30 * 86400.0
MAKING_TIMEOUT_S = 60.0
_END = b"-----END CERTIFICATE-----\n"

Make = Callable[[Sequence[str]], Awaitable[TlsPair]]


async def new_pair(hosts: Sequence[str]) -> TlsPair:
    """Make a certificate in a separate process, see kube.certificates.new_certificate.

    Raises CertificateError.
    """
    command = [sys.executable, "-m", "sluicegate_operator.kube.certificates.new_certificate", str(LIVES_DAYS), *hosts]
    try:
        done = await asyncio.to_thread(
            subprocess.run, command, capture_output=True, timeout=MAKING_TIMEOUT_S, check=True, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.SubprocessError) as error:
        output = getattr(error, "stderr", None) or b""
        raise CertificateError(
            f"the certificate could not be created: {error} {output.decode(errors='replace')[-300:]}"
        ) from None
    made = TlsPair.of_secret({"data": json.loads(done.stdout)})
    if made is None:
        raise CertificateError("the certificate could not be created: the command printed nothing")
    return made


class CertificateKeeper:
    """Keeps the webhook's certificate valid. Call `keep` periodically."""

    def __init__(self, kube: KubeClient, namespace: str, settings: AdmissionSettings, make: Make = new_pair) -> None:
        self._kube = kube
        self._namespace = namespace
        self._settings = settings
        self._make = make

    async def keep(self) -> bool:
        """Renew the certificate of the admission webhook if needed. Return whether the Secret has a new one.

        Raises KubeError and CertificateError.
        """
        if not self._settings.makes_certificates:
            return False
        secret = await self._kube.get(SECRET, self._namespace, self._settings.secret)
        if secret is None:
            name = f"{self._namespace}/{self._settings.secret}"
            raise CertificateError(
                f"Secret {name} for the webhook's certificate does not exist: install it with the chart"
            )
        pair, why = self._judge(secret)
        if pair is not None and not why:
            await self._trust(pair.authorities)
            return False
        log.info("creating a new certificate for the webhook: %s", why)
        made = await self._make(self._settings.hosts)
        # The previous CA: its certificate is served until all operator processes have read the new one.
        before = pair.authorities.partition(_END) if pair is not None else (b"", b"", b"")
        made = TlsPair(made.certificate, made.key, made.authorities + before[0] + before[1])
        await self._trust(made.authorities)
        await self._kube.replace(SECRET, self._namespace, self._settings.secret, {**secret, "data": made.data()})
        return True

    def _judge(self, secret: dict[str, object]) -> tuple[TlsPair | None, str]:
        """Return the certificate in the Secret, and the reason why it must be replaced; empty if it is good."""
        pair = None
        try:
            pair = TlsPair.of_secret(secret)
            if pair is None:
                return None, "the Secret has no certificate"
            left_s = min(map(pair.expires_s, self._settings.hosts)) - time.time()
        except CertificateError as error:
            return pair, str(error)
        return pair, f"the certificate expires in {left_s / 86400:.0f} days" if left_s < RENEWED_BEFORE_S else ""

    async def _trust(self, authorities: bytes) -> None:
        """Set the CA certificates with which API servers verify the webhook. Raises KubeError."""
        name, bundle = self._settings.configuration, base64.b64encode(authorities).decode()
        found = await self._kube.get(WEBHOOK_CONFIGURATION, None, name)
        if found is None:
            raise KubeError(f"ValidatingWebhookConfiguration {name} does not exist: install it with the chart")
        clients = [webhook["clientConfig"] for webhook in found.get("webhooks") or ()]
        if all(client.get("caBundle") == bundle for client in clients):
            return
        for client in clients:
            client["caBundle"] = bundle
        await self._kube.replace(WEBHOOK_CONFIGURATION, None, name, found)
