"""The webhook's server over TLS: its answers to API servers, and a certificate that changes while it listens."""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any, cast

import aiohttp
import kopf
import pytest

from sluicegate_operator.handlers.admission.admission_metrics import AdmissionMetrics, AdmissionResult
from sluicegate_operator.handlers.admission.admission_server import AdmissionServer
from sluicegate_operator.handlers.admission.serving_certificate import ServingCertificate
from sluicegate_operator.kube.certificates.new_certificate import new_pair
from sluicegate_operator.kube.certificates.tls_pair import TlsPair
from sluicegate_operator.kube.client.client import KubeClient
from sluicegate_operator.kube.http.kinds import Kind
from sluicegate_operator.settings import AdmissionSettings

HOST = "127.0.0.1"
CONNECTIONS = 4
REVIEW = {"request": {"uid": "r-1"}}
PATIENCE_S = 60.0
MANY = 50


class Secrets:
    """A Secret with a certificate."""

    def __init__(self) -> None:
        self.pair = new_pair([HOST], datetime.now(UTC), 90)

    async def get(self, _: Kind, namespace: str, name: str) -> dict[str, Any]:
        return {"data": self.pair.data()}


class Served:
    """A running server, and the answers that kopf would give."""

    def __init__(self) -> None:
        self.secrets = Secrets()
        self.figures = AdmissionMetrics()
        settings = AdmissionSettings((HOST, 0), (HOST,), "certificate", "webhooks", connections=CONNECTIONS)
        self.certificate = ServingCertificate(cast(KubeClient, self.secrets), "ops", settings, self.figures)
        self.server = AdmissionServer(settings, self.certificate, self.figures)
        self.asked: list[tuple[Any, Any]] = []

    async def serve(self, request: Any, *, webhook: str | None = None, **_: Any) -> Any:
        self.asked.append((request, webhook))
        if webhook == "fault":
            raise ZeroDivisionError("a fault")
        return {"response": {"uid": "r-1", "allowed": False, "status": {"message": "no"}, "warnings": ["one"]}}

    async def post(self, path: str, body: bytes, pair: TlsPair | None = None) -> tuple[int, str]:
        async with self.session(pair or self.secrets.pair) as session:
            return await ask(session, self.server.port, path, body)

    @asynccontextmanager
    async def session(self, pair: TlsPair) -> AsyncIterator[aiohttp.ClientSession]:
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        tls.load_verify_locations(cadata=pair.authorities.decode())
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=tls, limit=CONNECTIONS)) as session:
            yield session


async def ask(session: aiohttp.ClientSession, port: int, path: str, body: bytes) -> tuple[int, str]:
    async with session.post(f"https://{HOST}:{port}/{path}", data=body) as answer:
        return answer.status, await answer.text()


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    found = Served()
    await found.certificate.refresh()
    listening = found.server(cast(kopf.WebhookFn, found.serve))
    async with asyncio.timeout(PATIENCE_S):
        await anext(listening)
        yield found
        await cast(Any, listening).aclose()


async def test_each_answer_allows_the_object(served: Served) -> None:
    status, text = await served.post("warnings", json.dumps(REVIEW).encode())
    assert (status, json.loads(text)["response"]) == (200, {"uid": "r-1", "allowed": True, "warnings": ["one"]})
    assert served.asked == [(REVIEW, "warnings")]


async def test_a_request_that_cannot_be_answered_gets_an_http_error(
    served: Served, caplog: pytest.LogCaptureFixture
) -> None:
    """An API server ignores it."""
    assert (await served.post("warnings", b"no JSON"))[0] == 400
    for _ in range(3):
        assert (await served.post("fault", b"{}"))[0] == 500
    assert served.figures.requests[AdmissionResult.FAILED] == 3
    assert len([record for record in caplog.records if record.levelname == "ERROR"]) == 1
    assert (await served.post("warnings", json.dumps(REVIEW).encode()))[0] == 200


async def test_a_new_certificate_is_served_without_listening_again(served: Served) -> None:
    first, port = served.secrets.pair, served.server.port
    async with served.session(first) as before:
        assert (await ask(before, port, "warnings", b"{}"))[0] == 200
        served.secrets.pair = new_pair([HOST], datetime.now(UTC), 80)
        await served.certificate.refresh()
        assert (await ask(before, port, "warnings", b"{}"))[0] == 200, "its connection stays"
    assert (await served.post("warnings", b"{}"))[0] == 200
    with pytest.raises(aiohttp.ClientConnectorCertificateError):
        await served.post("warnings", b"{}", first)


async def test_the_oldest_connection_is_closed_for_one_more(served: Served) -> None:
    silent = [await asyncio.open_connection(HOST, served.server.port, ssl=_anyone()) for _ in range(CONNECTIONS)]
    assert (await served.post("warnings", b"{}"))[0] == 200
    assert await silent[0][0].read() == b"", "the oldest is closed"
    for _, writer in silent:
        writer.close()


async def test_many_requests_at_once_are_answered_one_in_each_iteration(served: Served) -> None:
    async with served.session(served.secrets.pair) as session:
        found = await asyncio.gather(*(ask(session, served.server.port, "warnings", b"{}") for _ in range(MANY)))
    assert {status for status, _ in found} == {200}


def _anyone() -> ssl.SSLContext:
    tls = ssl.create_default_context()
    tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
    return tls
