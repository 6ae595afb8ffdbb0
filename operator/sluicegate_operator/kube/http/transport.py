"""GET requests to the API server on the event loop: by aiohttp, with the Kubernetes client's connection settings."""

import socket
import ssl
from typing import Any, Protocol

import aiohttp
from kubernetes import client
from kubernetes.client.rest import should_bypass_proxies

from sluicegate_operator.kube.http.api_client import KEPT_ALIVE
from sluicegate_operator.kube.http.api_server import ApiServer

CONNECT_TIMEOUT_S = 5.0


class Response(Protocol):
    """The part of aiohttp.ClientResponse that is used."""

    @property
    def status(self) -> int: ...

    @property
    def content(self) -> Any: ...

    async def read(self) -> bytes: ...

    def close(self) -> None: ...


class Transport(Protocol):
    """The connections to the API server, which last until `close`."""

    async def get(self, path: str, accept: str, timeout_s: float) -> Response:
        """Send a GET request, and return the answer, whatever its status. `timeout_s` includes reading the body.

        Raises aiohttp.ClientError, OSError, TimeoutError.
        """

    async def close(self) -> None: ...


class AiohttpTransport:
    """A Transport over aiohttp. Create it on the event loop that uses it."""

    def __init__(self, server: ApiServer) -> None:
        self._server = server
        settings = server.configuration
        # Each watch has its own connection, and no watch waits for another's.
        connector = aiohttp.TCPConnector(limit=0, ssl=_tls(settings), socket_factory=_kept_alive)
        self._session = aiohttp.ClientSession(connector=connector)
        through = bool(settings.proxy) and not should_bypass_proxies(settings.host, settings.no_proxy or "")
        self._proxy = settings.proxy if through else None
        self._proxy_headers = settings.proxy_headers if through else None
        self._host = settings.host.rstrip("/")
        self._server_hostname = settings.tls_server_name or None

    async def get(self, path: str, accept: str, timeout_s: float) -> Response:
        # Read for each request: a projected service account token is renewed in its file.
        headers = {"Accept": accept, "User-Agent": "sluicegate-operator", **self._server.credentials()}
        timeout = aiohttp.ClientTimeout(total=timeout_s, sock_connect=CONNECT_TIMEOUT_S)
        return await self._session.get(
            self._host + path,
            headers=headers,
            timeout=timeout,
            server_hostname=self._server_hostname,
            proxy=self._proxy,
            proxy_headers=self._proxy_headers,
        )

    async def close(self) -> None:
        await self._session.close()


def _tls(settings: client.Configuration) -> ssl.SSLContext:
    tls = ssl.create_default_context(cafile=settings.ssl_ca_cert)
    if settings.cert_file:
        tls.load_cert_chain(settings.cert_file, settings.key_file)
    if not settings.verify_ssl:
        tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
    return tls


def _kept_alive(address: Any) -> socket.socket:
    family, kind, protocol, _, _ = address
    made = socket.socket(family, kind, protocol)
    for option in KEPT_ALIVE:
        made.setsockopt(*option)
    return made
