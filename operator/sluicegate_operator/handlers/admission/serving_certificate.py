"""The certificate of the webhook as this process serves it: read from a Secret, and again when that has changed."""

import asyncio
import logging
import ssl
import time

from sluicegate_operator.handlers.admission.admission_metrics import AdmissionMetrics
from sluicegate_operator.kube.certificates.tls_pair import CertificateError, TlsPair
from sluicegate_operator.kube.client.client import KubeClient
from sluicegate_operator.kube.http.errors import KubeError
from sluicegate_operator.kube.http.kinds import SECRET
from sluicegate_operator.settings import AdmissionSettings

log = logging.getLogger(__name__)


class ServingCertificate:
    """The certificate that the webhook serves. Belongs to one event loop.

    `tls` serves the newest certificate; `loaded` is set when there is a first one.
    """

    def __init__(
        self, kube: KubeClient, namespace: str, settings: AdmissionSettings, figures: AdmissionMetrics
    ) -> None:
        self.tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.loaded = asyncio.Event()
        self._kube = kube
        self._namespace = namespace
        self._settings = settings
        self._figures = figures
        self._pair: TlsPair | None = None
        self._said = ""

    async def follow(self) -> None:
        """Read the Secret every `check_every_s`, until cancelled."""
        while True:
            await self.refresh()
            await asyncio.sleep(self._settings.check_every_s)

    async def refresh(self) -> None:
        """Serve the current certificate of the Secret.

        If it cannot be served, log the error and keep the previous certificate.
        """
        name = f"{self._namespace}/{self._settings.secret}"
        try:
            secret = await self._kube.get(SECRET, self._namespace, self._settings.secret)
            pair = TlsPair.of_secret(secret or {})
            if pair is None:
                raise CertificateError(
                    "the Secret has no certificate yet" if secret is not None else "the Secret does not exist"
                )
            self._serve(pair)
        except (CertificateError, KubeError, OSError) as error:
            self._log(f"the webhook's certificate in Secret {name} cannot be served: {error}")
        else:
            ended_s = time.time() - (self._figures.expires_s or 0.0)
            self._log(f"the webhook's certificate in Secret {name} has expired" if ended_s > 0 else "")

    def _serve(self, pair: TlsPair) -> None:
        """Serve `pair`, if it is new. Raises CertificateError."""
        if pair == self._pair:
            return
        self._figures.expires_s = pair.expires_s(self._settings.hosts[0])
        pair.load(self.tls)
        self._pair = pair
        self.loaded.set()

    def _log(self, sentence: str) -> None:
        if sentence and sentence != self._said:
            log.warning("%s", sentence)
        self._said = sentence
