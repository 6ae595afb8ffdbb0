"""The Kubernetes API as plain JSON over HTTPS: only what a node agent needs, no client library.

An unreachable API server raises ApiUnavailable. A request that it refuses raises ApiRefused with its status.
"""

import http.client
import json
import ssl
import threading
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

TIMEOUT_S = 15.0
STRATEGIC = "application/strategic-merge-patch+json"
MERGE = "application/merge-patch+json"

Json = dict[str, Any]


class ApiUnavailable(Exception):  # noqa: N818 - a state of the world
    """The API server did not answer, or asked to try later."""


class ApiRefused(Exception):  # noqa: N818 - an answer
    """The API server refused a request with `status`."""

    def __init__(self, status: int, answer: Json) -> None:
        super().__init__(f"{status}: {answer.get('message', answer)}")
        self.status = status
        causes = (answer.get("details") or {}).get("causes") or []
        self._namespace_ends = any(cause.get("reason") == "NamespaceTerminating" for cause in causes)

    @property
    def is_overtaken(self) -> bool:
        """Whether the object is gone, has changed, or its namespace is being deleted and accepts nothing more."""
        return self.status in (404, 409) or self._namespace_ends


@dataclass(frozen=True, slots=True)
class Access:
    """Address of the API server, the certificate that it must present, and our token."""

    url: str
    certificate: str
    token: str


class KubeApi:
    """One connection, kept open. It is not thread-safe for concurrent requests: each thread needs its own."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._tls = ssl.create_default_context(cafile=access.certificate)
        self._lock = threading.Lock()
        self._connection: http.client.HTTPSConnection | None = None

    @property
    def host(self) -> str:
        return urlsplit(self._access.url).hostname or "127.0.0.1"

    @property
    def port(self) -> int:
        return urlsplit(self._access.url).port or 443

    def get(self, path: str) -> Json:
        return self.request("GET", path)

    def create(self, path: str, document: Json) -> Json:
        return self.request("POST", path, document)

    def patch(self, path: str, document: Json, content_type: str = STRATEGIC) -> Json:
        return self.request("PATCH", path, document, content_type)

    def delete(self, path: str, document: Json | None = None) -> Json:
        return self.request("DELETE", path, document)

    def request(self, method: str, path: str, document: Json | None = None, content_type: str = "") -> Json:
        body = None if document is None else json.dumps(document).encode()
        headers = {
            "Authorization": f"Bearer {self._access.token}",
            "Accept": "application/json",
            "Content-Type": content_type or "application/json",
        }
        with self._lock:
            status, payload = self._exchange(method, path, body, headers)
        answer: Json = json.loads(payload) if payload else {}
        if status >= 500 or status == 429:
            # A server that is starting answers like this.
            raise ApiUnavailable(f"{method} {path}: {status} {answer.get('message', '')}")
        if status >= 400:
            raise ApiRefused(status, answer)
        return answer

    def close(self) -> None:
        with self._lock:
            self._drop()

    def _exchange(self, method: str, path: str, body: bytes | None, headers: dict[str, str]) -> tuple[int, bytes]:
        """Send a request and return status and body; retry once, as a kept connection may be stale."""
        for fresh in (False, True):
            reused = self._connection is not None
            try:
                connection = self._connected()
                connection.request(method, path, body=body, headers=headers)
                with connection.getresponse() as answer:
                    return answer.status, answer.read()
            except (OSError, http.client.HTTPException) as error:
                self._drop()
                if fresh or not reused:
                    raise ApiUnavailable(f"{method} {path}: {error!r}") from error
        raise AssertionError("unreachable")

    def _connected(self) -> http.client.HTTPSConnection:
        if self._connection is None:
            self._connection = http.client.HTTPSConnection(self.host, self.port, context=self._tls, timeout=TIMEOUT_S)
        return self._connection

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
