"""Send requests to a Kubernetes API server: HTTP with urllib3 in threads of its own, each with a timeout."""

import asyncio
import json
import ssl
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import quote

import urllib3

from broker_runtime.controller.journal.kube_account import Account
from broker_runtime.controller.journal.store import StoreError, StoreRefusedError

_PAGE = 50
_THREADS = 4
_REFUSED = (401, 403)


class KubeRequests:
    """Requests to one API server, with threads and connections of their own.

    Nothing is durable; every method raises StoreError.
    """

    def __init__(self, account: Account, timeout_s: float) -> None:
        self._account = account
        tls = ssl.create_default_context(cafile=account.certificate_file, cadata=account.certificate)
        self._http = urllib3.PoolManager(
            num_pools=1,
            maxsize=_THREADS,
            block=True,
            ssl_context=tls,
            retries=False,
            timeout=urllib3.Timeout(connect=timeout_s, read=timeout_s),
        )
        self._threads = ThreadPoolExecutor(_THREADS, "journal-store")

    async def list_all(self, path: str, selector: str, accept: str = "application/json") -> Sequence[Any]:
        """List objects page by page, in the API server's order by name. An expired page token is a StoreError."""
        found: list[Any] = []
        token = ""
        while True:
            page_path = f"{path}?labelSelector={quote(selector)}&limit={_PAGE}"
            if token:
                page_path += f"&continue={quote(token)}"
            _, page = await self.ask("GET", page_path, accept=accept)
            found += page.get("items") or []
            token = page["metadata"].get("continue", "")
            if not token:
                return found

    async def ask(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        also: Sequence[int] = (),
        accept: str = "application/json",
    ) -> tuple[int, Any]:
        """Send a request to the API server. Return the status and the decoded answer.

        Raises StoreError for a status other than 2xx and those in `also`.
        """
        content = None if body is None else json.dumps(body).encode()

        def send() -> tuple[int, bytes]:
            headers = {
                "Authorization": f"Bearer {self._account.token()}",
                "Accept": accept,
                "Content-Type": "application/json",
            }
            try:
                answer = self._http.request(method, self._account.url + path, body=content, headers=headers)
            except (urllib3.exceptions.HTTPError, OSError) as error:
                raise StoreError(f"{method} {path}: {error}") from error
            return answer.status, answer.data

        status, data = await asyncio.get_running_loop().run_in_executor(self._threads, send)
        if not (200 <= status < 300 or status in also):
            kind = StoreRefusedError if status in _REFUSED else StoreError
            raise kind(f"{method} {path}: {status} {_message(data)}")
        return status, json.loads(data) if 200 <= status < 300 else None

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._http.clear()


def _message(data: bytes) -> str:
    try:
        return str(json.loads(data).get("message", ""))
    except (ValueError, AttributeError):
        return data[:200].decode(errors="replace")
