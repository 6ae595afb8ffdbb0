"""Warnings when an object is applied: the parts of the webhook of one operator process.

Every operator process answers from its cache, the leader and the standbys. Only the leader keeps the certificate and
checks that API servers reach the webhook: it creates an object as a dry run, and the webhook's answer is a warning.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from sluicegate_operator.api.manifests import InvalidManifest, read_stored
from sluicegate_operator.api.schema.metadata import API_VERSION, Resource
from sluicegate_operator.handlers.admission.admission_certificates import CertificateKeeper
from sluicegate_operator.handlers.admission.admission_metrics import AdmissionMetrics, AdmissionResult
from sluicegate_operator.handlers.admission.admission_server import AdmissionServer
from sluicegate_operator.handlers.admission.admission_world import AdmissionWorld, UncachedWorldError
from sluicegate_operator.handlers.admission.serving_certificate import ServingCertificate
from sluicegate_operator.kube.cache.cache import Cache
from sluicegate_operator.kube.certificates.tls_pair import CertificateError
from sluicegate_operator.kube.client.client import KubeClient
from sluicegate_operator.kube.http.errors import KubeError, KubeFencedError
from sluicegate_operator.kube.http.kinds import BROKER_REGISTRATION
from sluicegate_operator.planning.layout.images import Images
from sluicegate_operator.preview.admission import admission_warnings
from sluicegate_operator.settings import AdmissionSettings, Settings

log = logging.getLogger(__name__)

WARNINGS, CHECK = "warnings", "check"
"""The paths of the webhook, and kopf's names of the two handlers."""
CHECK_NAME = "sluicegate-admission-check"
CHECK_LABEL = "sluicegate.dev/admission-check"
CHECK_ANSWER = "the webhook of sluicegate answers"
FAILURES_MAX = 2
"""Number of consecutive failed checks before the webhook is reported as unreachable.

Another operator process may not have read the certificate yet.
"""
HEARD_S = 0.3
"""Seconds within which the cache receives an object after it was applied. After that, the object counts as missing."""
HEARD_EVERY_S = 0.05
HEARD_AGAIN_S = 5.0
HEARD_NAMES_MAX = 1000

Json = Mapping[str, Any]


class Warner:
    """Computes the warnings that the admission webhook returns. Use it only on the event loop of the cache."""

    def __init__(
        self,
        cache: Cache,
        figures: AdmissionMetrics,
        images: Images,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self.world = AdmissionWorld(cache)
        self._figures = figures
        self._images = images
        self._now = now
        self._waited_s: dict[tuple[str, str], float] = {}
        """Time of the last wait for a cluster, by its namespace and name."""

    async def warnings(self, body: Json, old: Json | None) -> tuple[str, ...]:
        """Return the warnings about an object that is being applied. Never raises: kopf would refuse the object."""
        try:
            found = await self._found(body, old)
        except (InvalidManifest, UncachedWorldError) as error:
            log.debug("no warnings: %s", error)
            self._figures.requests[AdmissionResult.UNKNOWN] += 1
            return ()
        except Exception:
            log.exception("the warnings for an object could not be computed")
            self._figures.requests[AdmissionResult.FAILED] += 1
            return ()
        self._figures.requests[AdmissionResult.WARNED if found else AdmissionResult.SILENT] += 1
        return found

    async def _found(self, body: Json, old: Json | None) -> tuple[str, ...]:
        applied = read_stored(body)
        around = self.world.around(applied, self._now())
        if self.world.lacks(applied, around):
            await self._await_cache(applied)
            around = self.world.around(applied, self._now())
        before = read_stored(old) if old is not None else None
        return admission_warnings(applied, before, around, self._now(), self._images)

    async def _await_cache(self, applied: Resource) -> None:
        """Wait until the cache has an object that was applied a moment before.

        Each cluster is waited for once in HEARD_AGAIN_S, so that a thousand objects without their cluster take no
        longer than one.
        """
        loop, key = asyncio.get_running_loop(), (applied.namespace, applied.cluster_name)
        if loop.time() < self._waited_s.get(key, 0.0) + HEARD_AGAIN_S:
            return
        if len(self._waited_s) >= HEARD_NAMES_MAX:
            self._waited_s.clear()
        until_s = loop.time() + HEARD_S
        while loop.time() < until_s and self.world.lacks(applied, self.world.around(applied, self._now())):  # noqa: ASYNC110
            await asyncio.sleep(HEARD_EVERY_S)
        self._waited_s[key] = loop.time()


class Admission:
    """The admission webhook that this operator process serves.

    `run` lasts as long as the process, `lead` as long as a term.
    """

    def __init__(self, kube: KubeClient, settings: Settings, admission: AdmissionSettings) -> None:
        self.figures = AdmissionMetrics()
        self.warner = Warner(kube.cache, self.figures, settings.images)
        self._certificate = ServingCertificate(kube, settings.own_namespace, admission, self.figures)
        self.server = AdmissionServer(admission, self._certificate, self.figures)
        self._keeper = CertificateKeeper(kube, settings.own_namespace, admission)
        self._kube = kube
        self._settings = admission
        self._check_in = settings.lease_namespace
        """A namespace in which the operator may create BrokerRegistrations."""
        self._failures = 0
        self._said = ""

    async def run(self) -> None:
        await self.warner.world.follow()
        await self._certificate.follow()

    async def lead(self) -> None:
        """Keep the certificate of the webhook valid, and check the webhook, until cancelled."""
        try:
            while True:
                await self._refresh()
                await asyncio.sleep(self._settings.check_every_s)
        finally:
            self.figures.reachable = None

    async def _refresh(self) -> None:
        trouble = ""
        try:
            if await self._keeper.keep():
                await self._certificate.refresh()
            elif self._certificate.loaded.is_set():
                await self._check()
        except KubeFencedError:
            return
        except (CertificateError, KubeError) as error:
            trouble = f"the webhook's certificate or reachability could not be checked: {error}"
        except Exception:
            log.exception("the webhook could not be checked")
        if trouble and trouble != self._said:
            log.warning("%s", trouble)
        self._said = trouble

    async def _check(self) -> None:
        """Check that the API server reaches the webhook. Raises KubeError if the API server does not answer."""
        spec = {"clusterRef": {"name": CHECK_NAME}, "brokerId": 0}
        meta = {"name": CHECK_NAME, "namespace": self._check_in, "labels": {CHECK_LABEL: "true"}}
        manifest = {"apiVersion": API_VERSION, "kind": BROKER_REGISTRATION.kind, "metadata": meta, "spec": spec}
        path = BROKER_REGISTRATION.path(self._check_in)
        answer = await self._kube.server.warnings("POST", path, {"dryRun": "All"}, manifest)
        self._failures = 0 if CHECK_ANSWER in answer else self._failures + 1
        reachable = self.figures.reachable
        if self._failures == 0:
            self.figures.reachable = True
        elif self._failures >= FAILURES_MAX:
            self.figures.reachable = False
        if self.figures.reachable != reachable:
            self._report()

    def _report(self) -> None:
        if self.figures.reachable:
            log.info("the API server reaches the webhook: warnings are returned when objects are applied")
            return
        log.warning(
            "the API server does not reach the webhook %s: objects are applied without warnings; check the"
            " Service, the network policies, the caBundle of ValidatingWebhookConfiguration %s, and the"
            " certificate in Secret %s",
            " or ".join(self._settings.hosts),
            self._settings.configuration,
            self._settings.secret,
        )
