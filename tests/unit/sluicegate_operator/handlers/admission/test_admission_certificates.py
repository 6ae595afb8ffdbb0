"""The certificate of the webhook: the leader keeps it in a Secret, and each operator serves it."""

import base64
import ssl
import time
from collections.abc import Sequence
from copy import deepcopy
from datetime import UTC, datetime
from typing import Any, cast

import pytest

from sluicegate_operator.handlers.admission.admission_certificates import RENEWED_BEFORE_S, CertificateKeeper
from sluicegate_operator.handlers.admission.admission_metrics import AdmissionMetrics
from sluicegate_operator.handlers.admission.serving_certificate import ServingCertificate
from sluicegate_operator.kube.certificates.new_certificate import new_pair
from sluicegate_operator.kube.certificates.tls_pair import CertificateError, TlsPair
from sluicegate_operator.kube.client.client import KubeClient
from sluicegate_operator.kube.http.errors import KubeError, KubeUnavailableError
from sluicegate_operator.kube.http.kinds import SECRET, WEBHOOK_CONFIGURATION, Kind
from sluicegate_operator.settings import AdmissionSettings

HOST = "webhook.ops.svc"
SETTINGS = AdmissionSettings(("127.0.0.1", 9443), (HOST,), "certificate", "webhooks")
DAY_S = 86400.0


class Api:
    """The Secret and the configuration that the chart makes."""

    def __init__(self) -> None:
        self.objects: dict[str, Any] = {
            SECRET.kind: {"kind": "Secret", "metadata": {"name": "certificate", "resourceVersion": "1"}},
            WEBHOOK_CONFIGURATION.kind: {
                "metadata": {"name": "webhooks"},
                "webhooks": [{"name": name, "clientConfig": {"service": {}}} for name in ("warnings", "check")],
            },
        }
        self.written: list[str] = []
        self.fault: KubeError | None = None

    async def get(self, kind: Kind, namespace: str | None, name: str) -> Any:
        if self.fault is not None:
            raise self.fault
        assert (namespace, name) == (("ops", "certificate") if kind == SECRET else (None, "webhooks"))
        return deepcopy(self.objects.get(kind.kind))

    async def replace(self, kind: Kind, namespace: str | None, name: str, manifest: Any) -> Any:
        self.written.append(kind.kind)
        self.objects[kind.kind] = deepcopy(manifest)
        return manifest

    def keep(self, pair: TlsPair) -> None:
        self.objects[SECRET.kind]["data"] = pair.data()

    def pair(self) -> TlsPair:
        found = TlsPair.of_secret(self.objects[SECRET.kind])
        assert found is not None
        return found

    def bundles(self) -> list[bytes]:
        clients = [one["clientConfig"] for one in self.objects[WEBHOOK_CONFIGURATION.kind]["webhooks"]]
        return [base64.b64decode(client["caBundle"]) for client in clients]


async def made(hosts: Sequence[str]) -> TlsPair:
    return new_pair(hosts, datetime.now(UTC), 90)


def lasting(days: float, *hosts: str) -> TlsPair:
    return new_pair(hosts or (HOST,), datetime.now(UTC), days)


def keeper(api: Api, settings: AdmissionSettings = SETTINGS) -> CertificateKeeper:
    return CertificateKeeper(cast(KubeClient, api), "ops", settings, made)


async def test_the_first_certificate_is_made_and_trusted_before_it_is_served() -> None:
    api = Api()
    assert await keeper(api).keep()
    assert api.written == ["ValidatingWebhookConfiguration", "Secret"]
    assert api.bundles() == [api.pair().authorities] * 2
    assert api.pair().expires_s(HOST) > time.time() + 89 * DAY_S
    assert api.objects["Secret"]["metadata"]["resourceVersion"] == "1", "another one's change is not overwritten"


async def test_what_is_settled_is_not_written_again() -> None:
    api = Api()
    one = keeper(api)
    await one.keep()
    api.written.clear()
    assert not await one.keep()
    assert api.written == []


@pytest.mark.parametrize("days", [RENEWED_BEFORE_S / DAY_S - 1, -1])
async def test_a_certificate_is_renewed_before_its_end_and_the_one_before_is_still_trusted(days: float) -> None:
    api = Api()
    before = lasting(days)
    api.keep(before)
    assert await keeper(api).keep()
    assert api.pair().expires_s(HOST) > time.time() + 89 * DAY_S
    [bundle, _] = api.bundles()
    assert bundle.endswith(before.authorities)
    assert bundle.count(b"BEGIN CERTIFICATE") == 2
    api.keep(lasting(days))
    await keeper(api).keep()
    assert api.bundles()[0].count(b"BEGIN CERTIFICATE") == 2, "no bundle grows"


async def test_a_certificate_of_other_hosts_is_replaced() -> None:
    api = Api()
    api.keep(lasting(90, "elsewhere"))
    assert await keeper(api).keep()
    assert api.pair().expires_s(HOST) > time.time()


async def test_a_bundle_that_was_changed_is_put_back() -> None:
    api = Api()
    one = keeper(api)
    await one.keep()
    api.objects[WEBHOOK_CONFIGURATION.kind]["webhooks"][1]["clientConfig"]["caBundle"] = "bm9uZQ=="
    assert not await one.keep()
    assert api.bundles() == [api.pair().authorities] * 2


async def test_no_certificate_is_stored_if_cert_manager_does_it() -> None:
    settings = AdmissionSettings(("", 1), (HOST,), "certificate", "webhooks", makes_certificates=False)
    api = Api()
    assert not await keeper(api, settings).keep()
    assert api.written == []


@pytest.mark.parametrize(
    ("kind", "said"),
    [(SECRET, "Secret ops/certificate for"), (WEBHOOK_CONFIGURATION, "webhooks does not exist: install")],
)
async def test_an_object_of_the_chart_that_is_gone_is_named(kind: Kind, said: str) -> None:
    api = Api()
    del api.objects[kind.kind]
    with pytest.raises((CertificateError, KubeError), match=said):
        await keeper(api).keep()


def serving(api: Api) -> tuple[ServingCertificate, AdmissionMetrics]:
    figures = AdmissionMetrics()
    return ServingCertificate(cast(KubeClient, api), "ops", SETTINGS, figures), figures


async def test_an_operator_serves_what_the_secret_has_now(caplog: pytest.LogCaptureFixture) -> None:
    api = Api()
    certificate, figures = serving(api)
    await certificate.refresh()
    assert not certificate.loaded.is_set()
    assert (
        "the webhook's certificate in Secret ops/certificate cannot be served: the Secret has no certificate yet"
        in caplog.text
    )
    for days in (90, 80):
        api.keep(lasting(days))
        await certificate.refresh()
        assert certificate.loaded.is_set()
        assert figures.expires_s == api.pair().expires_s(HOST)
        assert _served(certificate.tls, api.pair()) == figures.expires_s
    caplog.clear()
    api.keep(lasting(-1))
    await certificate.refresh()
    assert "has expired" in caplog.text


async def test_a_certificate_that_cannot_be_served_leaves_the_one_before(caplog: pytest.LogCaptureFixture) -> None:
    api = Api()
    certificate, figures = serving(api)
    first = lasting(90)
    api.keep(first)
    await certificate.refresh()
    for fault in (KubeUnavailableError("the API server does not answer"), None):
        api.fault = fault
        api.objects["Secret"]["data"]["tls.key"] = lasting(90).data()["tls.key"]
        await certificate.refresh()
        assert _served(certificate.tls, first) == figures.expires_s
    assert len(caplog.records) == 2


def _served(tls: ssl.SSLContext, pair: TlsPair) -> float:
    """The expiry of the certificate that a client is served."""
    server_in, client_in = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.load_verify_locations(cadata=pair.authorities.decode())
    asking = client.wrap_bio(client_in, server_in, server_hostname=HOST)
    answering = tls.wrap_bio(server_in, client_in, server_side=True)
    for side in (asking, answering) * 3:
        try:
            side.do_handshake()
        except ssl.SSLWantReadError:
            continue
    peer = asking.getpeercert()
    assert peer
    return float(ssl.cert_time_to_seconds(str(peer["notAfter"])))
