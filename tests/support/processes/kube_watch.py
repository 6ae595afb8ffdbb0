"""A watch of the Kubernetes API for tests and measurements: a thread that lists once and then receives each change.

A watch that ends continues where it ended. It lists again if its resourceVersion is too old.
"""

import http.client
import json
import ssl
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

from tests.support.processes.process_kubelet.api import Access, ApiRefused, ApiUnavailable, Json, KubeApi

SERVER_S = 600
PAUSE_S = 0.5
READ_TIMEOUT_S = 660.0
CLOSE_TIMEOUT_S = 5.0

Heard = Callable[[str, Json], None]
"""Called in the thread of the watch with ADDED, MODIFIED or DELETED, and the object."""


class KubeWatch:
    """A watch in a thread, used with `with`. `path` is that of a collection."""

    def __init__(self, access: Access, path: str, heard: Heard) -> None:
        self._access = access
        self._path = path
        self._heard = heard
        self._ends = threading.Event()
        self._connection: http.client.HTTPSConnection | None = None
        self._thread = threading.Thread(target=self._run, name=f"watch {path}", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ends.set()
        connection = self._connection
        if connection is not None and connection.sock is not None:
            # This wakes the thread that reads from it.
            connection.sock.shutdown(2)
        self._thread.join(CLOSE_TIMEOUT_S)

    def _run(self) -> None:
        version = ""
        while not self._ends.is_set():
            try:
                version = self._follow(version or self._listed())
            except (OSError, http.client.HTTPException, ApiUnavailable, ApiRefused, ValueError):
                version = ""
            if not version:
                self._ends.wait(PAUSE_S)

    def _listed(self) -> str:
        api = KubeApi(self._access)
        try:
            found = api.get(self._path)
        finally:
            api.close()
        for item in found["items"]:
            self._heard("ADDED", item)
        version: str = found["metadata"]["resourceVersion"]
        return version

    def _follow(self, version: str) -> str:
        """Follow the watch until it ends; return the version to continue from, empty if that version is too old."""
        parts = urlsplit(self._access.url)
        tls = ssl.create_default_context(cafile=self._access.certificate)
        connection = http.client.HTTPSConnection(parts.hostname or "", parts.port, context=tls, timeout=READ_TIMEOUT_S)
        self._connection = connection
        try:
            query = f"watch=1&resourceVersion={version}&timeoutSeconds={SERVER_S}&allowWatchBookmarks=true"
            headers = {"Authorization": f"Bearer {self._access.token}", "Accept": "application/json"}
            connection.request("GET", f"{self._path}?{query}", headers=headers)
            # The answer may own the socket, so it is closed, too.
            with connection.getresponse() as answer:
                if answer.status != 200:
                    return ""
                while line := answer.readline():
                    event = json.loads(line)
                    if event["type"] == "ERROR":
                        return ""
                    version = event["object"]["metadata"]["resourceVersion"]
                    if event["type"] != "BOOKMARK":
                        self._heard(event["type"], event["object"])
                return version
        finally:
            connection.close()
