"""429 from an API server means that nothing was done: a new server sends it until the storage of a kind is open."""

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from sluicegate_operator.kube.client.client import KubeClient
from sluicegate_operator.kube.http.api_server import BUSY_RETRIES_MAX
from sluicegate_operator.kube.http.errors import KubeError, KubeFencedError
from sluicegate_operator.kube.http.kinds import TOPIC


@contextmanager
def api_server(refusals: int) -> Iterator[tuple[str, list[str]]]:
    """A server that answers 429 so many times, then an empty list; yields its address and the received requests."""
    seen: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            seen.append(self.path)
            busy = len(seen) <= refusals
            body = json.dumps({"message": "storage is (re)initializing"} if busy else {"items": []}).encode()
            self.send_response(429 if busy else 200)
            if busy:
                self.send_header("Retry-After", "0")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_PATCH(self) -> None:
            self.do_GET()

        def log_message(self, format: str, *args: object) -> None:
            del format, args

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", seen
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def client_of(address: str, folder: Path, **options: Any) -> KubeClient:
    kubeconfig = folder / "kubeconfig"
    kubeconfig.write_text(
        json.dumps(
            {
                "clusters": [{"name": "test", "cluster": {"server": address}}],
                "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
                "current-context": "test",
                "users": [{"name": "test", "user": {}}],
            }
        )
    )
    return KubeClient(str(kubeconfig), **options)


def listed(address: str, folder: Path) -> list[dict[str, object]]:
    client = client_of(address, folder)
    try:
        return asyncio.run(client.list(TOPIC, None))
    finally:
        client.close()


def test_a_busy_api_server_is_asked_again(tmp_path: Path) -> None:
    with api_server(refusals=2) as (address, seen):
        assert listed(address, tmp_path) == []
        assert len(seen) == 3


def test_an_api_server_that_stays_busy_is_not_asked_for_ever(tmp_path: Path) -> None:
    with api_server(refusals=1_000) as (address, seen):
        with pytest.raises(KubeError, match="429") as refused:
            listed(address, tmp_path)
        assert refused.value.retriable
        assert len(seen) == 1 + BUSY_RETRIES_MAX


def test_a_write_that_is_tried_again_needs_the_lease_again(tmp_path: Path) -> None:
    answers = iter([True, False])
    with api_server(refusals=1_000) as (address, seen):
        client = client_of(address, tmp_path, may_write=lambda: next(answers))
        try:
            with pytest.raises(KubeFencedError):
                asyncio.run(client.apply_status(TOPIC, "default", "orders", {}))
        finally:
            client.close()
        assert len(seen) == 1
