"""The webhook that API servers call when an object is applied, with the interface of kopf's webhook server.

It serves HTTPS with a certificate that may change while it runs. It answers one request in each iteration of the event
loop, so that a thousand objects that are applied at once delay no reconcile. Each answer allows the object.
"""

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from typing import Any, cast

import kopf
from aiohttp import web

from sluicegate_operator.handlers.admission.admission_metrics import AdmissionMetrics, AdmissionResult
from sluicegate_operator.handlers.admission.serving_certificate import ServingCertificate
from sluicegate_operator.settings import AdmissionSettings

log = logging.getLogger(__name__)

HANDSHAKE_TIMEOUT_S = 5.0
LISTEN_AGAIN_S = 5.0
READ_TIMEOUT_S = 5.0
KEEP_ALIVE_S = 75.0
SHUTDOWN_S = 1.0


class AdmissionServer:
    """The HTTPS server of the webhook: a kopf.WebhookServerProtocol.

    It listens while kopf runs, as soon as there is a certificate.
    """

    def __init__(self, settings: AdmissionSettings, certificate: ServingCertificate, figures: AdmissionMetrics) -> None:
        self._settings = settings
        self._certificate = certificate
        self._figures = figures
        self._lock = asyncio.Lock()
        self._busy: set[web.RequestHandler] = set()
        """Connections whose request is being answered."""
        self._said = ""
        self.port = settings.listener[1]
        """The port it listens on; chosen by the system if the settings give port 0."""

    async def __call__(self, serve: kopf.WebhookFn) -> AsyncIterator[kopf.WebhookClientConfig]:
        async def answer(request: web.BaseRequest) -> web.StreamResponse:
            return await self._answer(serve, request)

        http = web.Server(cast(Any, answer), access_log=None, keepalive_timeout=KEEP_ALIVE_S)
        await self._certificate.loaded.wait()
        listening = await self._listen(http)
        try:
            # kopf writes no webhook configuration: it is in the chart.
            yield kopf.WebhookClientConfig()
            await asyncio.Event().wait()
        finally:
            listening.close()
            await http.shutdown(SHUTDOWN_S)

    async def _listen(self, http: web.Server) -> asyncio.Server:
        """Listen; retry if the port is taken, because an error would end kopf with all its watches."""

        def accepted() -> asyncio.Protocol:
            if len(open_ones := http.connections) >= self._settings.connections:
                idle = (one for one in open_ones if one not in self._busy)
                next(idle, open_ones[0]).force_close()
            return http()

        host, port = self._settings.listener
        while True:
            try:
                server = await asyncio.get_running_loop().create_server(
                    accepted, host, port, ssl=self._certificate.tls, ssl_handshake_timeout=HANDSHAKE_TIMEOUT_S
                )
            except OSError as error:
                log.error("the webhook cannot listen on %s:%d and will try again: %s", host, port, error)
                await asyncio.sleep(LISTEN_AGAIN_S)
                continue
            self.port = server.sockets[0].getsockname()[1]
            log.info("the webhook listens on %s:%d", host, self.port)
            return server

    async def _answer(self, serve: kopf.WebhookFn, request: web.BaseRequest) -> web.Response:
        self._busy.add(request.protocol)
        try:
            async with asyncio.timeout(READ_TIMEOUT_S):
                body = await request.read()
            await self._next_iteration()
            told = await serve(json.loads(body), webhook=request.path.strip("/"), headers=dict(request.headers))
        except (json.JSONDecodeError, UnicodeDecodeError, TimeoutError, ConnectionError) as error:
            return web.Response(status=400, text=f"no AdmissionReview: {error}")
        except web.HTTPException:
            # The request is too large.
            raise
        except Exception as error:
            self._figures.requests[AdmissionResult.FAILED] += 1
            # Any client that reaches the port may send requests: a repeated error is logged once.
            if repr(error) != self._said:
                log.exception("the webhook could not answer a request for %s", request.path)
            self._said = repr(error)
            return web.Response(status=500, text="see the operator's log")
        finally:
            self._busy.discard(request.protocol)
        told["response"]["allowed"] = True
        told["response"].pop("status", None)
        return web.json_response(told)

    async def _next_iteration(self) -> None:
        """Return in an iteration of the event loop in which no other request is answered."""
        await self._lock.acquire()
        asyncio.get_running_loop().call_soon(self._lock.release)
