"""Requests to the API server with the `kubernetes` client, off the event loop, each with a time limit.

kopf's lists and watches use `transport` instead.
"""

import asyncio
import re
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import urllib3

from sluicegate_operator.kube.http.denials import STATUSES, Denials
from sluicegate_operator.kube.http.errors import (
    BUSY,
    KubeConflictError,
    KubeError,
    KubeFencedError,
    KubeUnavailableError,
    NamespaceGoingError,
)
from sluicegate_operator.kube.http.json_body import json_body, json_object, refusal_text

if TYPE_CHECKING:
    from kubernetes.client import Configuration

Json = dict[str, Any]

REQUEST_TIMEOUT_S = 5.0
"""Time limit of a request: less than a third of the Lease's duration.

So a write that began while the Lease was held ends before the Lease expires. See kube.lease.
"""
THREADS_MAX = 8
BUSY_RETRIES_MAX = 5
BUSY_FIRST_S = 0.1
BUSY_PAUSE_MAX_S = 5.0
"""Maximum seconds of a pause after 429, which means that the API server did nothing.

It is busy or still opens a kind's storage. Retry-After gives the pause.
"""
_WARNING = re.compile(r'\d{3} \S+ "((?:[^"\\]|\\.)*)"')
_GOING = "because it is being terminated"
"""Part of the API server's message about a namespace that is being deleted; the status is 403, as for a missing right.
"""


@dataclass(frozen=True, slots=True)
class Kubeconfig:
    """Names the API server to use: the one that a context in a kubeconfig file leads to.

    None means the default file and current context.
    """

    file: str | None = None
    context: str | None = None


class ApiServer:
    """The API server, to which requests are sent in threads of their own. Belongs to one event loop.

    A thread sends a write only if `may_write` returns True at that moment. A request that is denied counts as retriable
    until it has been denied for `denied_for_s`, see kube.http.denials.
    """

    def __init__(
        self,
        kubeconfig: str | Kubeconfig | None,
        *,
        timeout_s: float,
        threads_max: int,
        may_write: Callable[[], bool],
        denied_for_s: float,
    ) -> None:
        """`kubeconfig` is the path of its file, or None for the default lookup."""
        # The library is large, and commands of an installation without the extra kubernetes do not need it.
        from sluicegate_operator.kube.http.api_client import api_client  # noqa: PLC0415

        chosen = kubeconfig if isinstance(kubeconfig, Kubeconfig) else Kubeconfig(kubeconfig)
        self._api = api_client(chosen.file, chosen.context)
        self._threads = ThreadPoolExecutor(threads_max, "kube")
        self._timeout = urllib3.Timeout(total=timeout_s)
        self._may_write = may_write
        self._denials = Denials(denied_for_s)

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
        content_type: str = "application/json",
    ) -> Json:
        url = f"{self._api.configuration.host}{path}" + (f"?{urlencode(query)}" if query else "")
        headers = {"Accept": "application/json", "Content-Type": content_type, **self.credentials()}
        data = None if body is None else json_body(body)
        loop, request = asyncio.get_running_loop(), f"{method} {path}"
        try:
            answer = await self._patiently(method, url, headers, data)
        except KubeError as error:
            self._denials.note(request, error.status, loop.time())
            if error.status in STATUSES and not isinstance(error, NamespaceGoingError):
                error.retriable = self._denials.may_pass(request, loop.time())
            raise
        self._denials.note(request, 200, loop.time())
        return answer

    async def _patiently(self, method: str, url: str, headers: Mapping[str, str], data: bytes | None) -> Json:
        """Send the request, and repeat it while the answer is 429. Each try of a write requires the Lease."""
        loop, tries = asyncio.get_running_loop(), 0
        while True:
            try:
                return await loop.run_in_executor(self._threads, self._exchange, method, url, headers, data)
            except KubeError as error:
                tries += 1
                if error.status != BUSY or tries > BUSY_RETRIES_MAX:
                    raise
                wanted_s = BUSY_FIRST_S * 2**tries if error.retry_after_s is None else error.retry_after_s
                await asyncio.sleep(min(BUSY_PAUSE_MAX_S, wanted_s))

    async def warnings(self, method: str, path: str, query: Mapping[str, str], body: Mapping[str, Any]) -> list[str]:
        """Send one request, and return the warnings of its answer. Raises KubeError."""
        url = f"{self._api.configuration.host}{path}?{urlencode(query)}"
        headers = {"Accept": "application/json", "Content-Type": "application/json", **self.credentials()}

        def send() -> list[str]:
            answer = self._accepted(method, url, headers, json_body(body))
            return [text for header in answer.headers.getlist("Warning") if (text := _warning_text(header))]

        return await asyncio.get_running_loop().run_in_executor(self._threads, send)

    async def dated(self, path: str) -> tuple[Json, str]:
        """Return the document at a path and the Date header of the answer, empty if there is none. Raises KubeError."""
        url = f"{self._api.configuration.host}{path}"
        headers = {"Accept": "application/json", **self.credentials()}

        def fetch() -> tuple[Json, str]:
            answer = self._accepted("GET", url, headers, None)
            document = json_object(answer.data.decode("utf-8", "replace"), f"GET {path}")
            return document, answer.headers.get("Date") or ""

        return await asyncio.get_running_loop().run_in_executor(self._threads, fetch)

    async def text(self, path: str) -> str:
        """Return the body of an answer that is not JSON, such as a log. Raises KubeError."""

        def fetch() -> str:
            answer = self._send("GET", f"{self._api.configuration.host}{path}", {"Accept": "*/*", **self.credentials()})
            body = answer.data.decode("utf-8", "replace")
            if answer.status >= 300:
                raise refusal_of("GET", path, answer.status, body)
            return body

        return await asyncio.get_running_loop().run_in_executor(self._threads, fetch)

    def _send(
        self, method: str, url: str, headers: Mapping[str, str], data: bytes | None = None
    ) -> urllib3.BaseHTTPResponse:
        """Send one request in the caller's thread. Returns any answer. Raises KubeUnavailableError if there is none."""
        try:
            answer: urllib3.BaseHTTPResponse = self._api.rest_client.pool_manager.request(
                method, url, headers=headers, body=data, timeout=self._timeout, retries=False
            )
        except urllib3.exceptions.HTTPError as error:
            raise KubeUnavailableError(f"the API server does not answer: {error}") from error
        return answer

    @property
    def configuration(self) -> "Configuration":
        """Return the API server's address and TLS settings."""
        return self._api.configuration

    def credentials(self) -> dict[str, str]:
        """Return the headers that authenticate a request."""
        # Read for each request: a projected service account token is renewed in its file.
        found = self._api.configuration.auth_settings().values()
        return {setting["key"]: setting["value"] for setting in found if setting["in"] == "header"}

    def _exchange(self, method: str, url: str, headers: Mapping[str, str], data: bytes | None) -> Json:
        accepted = self._accepted(method, url, headers, data)
        return json_object(accepted.data.decode("utf-8", "replace"), f"{method} {url.split('?')[0]}")

    def _accepted(
        self, method: str, url: str, headers: Mapping[str, str], data: bytes | None
    ) -> urllib3.BaseHTTPResponse:
        """Send one request. Returns its answer, whose status is below 300. Raises KubeError for any other."""
        if method != "GET" and not self._may_write():
            raise KubeFencedError(
                f"{method} {url.split('?')[0]} was not sent, because this process does not hold the Lease"
            )
        answer = self._send(method, url, headers, data)
        if answer.status < 300:
            return answer
        refusal = refusal_of(method, url, answer.status, answer.data.decode("utf-8", "replace"))
        refusal.retry_after_s = _seconds(answer.headers.get("Retry-After"))
        raise refusal


def _warning_text(header: str) -> str:
    """Return the text of a Warning header of RFC 7234, such as `299 - "text"`; empty if it has another form."""
    found = _WARNING.match(header)
    return re.sub(r"\\(.)", r"\1", found[1]) if found is not None else ""


def _seconds(text: str | None) -> float | None:
    """Return the seconds of a Retry-After header; None for a date, which no API server sends."""
    return float(text) if text is not None and text.isdecimal() else None


def refusal_of(method: str, url: str, status: int, text: str) -> KubeError:
    """Return the error for an answer with this `status`.

    The `text` may have any form, because a proxy may have sent the answer.
    """
    reason = refusal_text(text)
    message = f"{method} {url.split('?')[0]}: {status} {reason}"
    # The API server answers 422 if the uid in a request belongs to another object.
    if status == 409 or (status == 422 and "metadata.uid" in reason):
        return KubeConflictError(message)
    if status == 403 and _GOING in reason:
        return NamespaceGoingError(message)
    if status in (BUSY, 500, 502, 503, 504):
        return KubeError(message, status, retriable=True)
    return KubeError(message, status)
