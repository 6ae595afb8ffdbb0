"""A watch that says nothing any more is asked again: an API server whose first watch of quotas never says a word."""

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from sluicegate_operator.api.metadata import API_VERSION, GROUP, VERSION
from sluicegate_operator.handlers import kopf_thread
from sluicegate_operator.handlers.context import FirstSeen
from sluicegate_operator.handlers.health import Readiness
from sluicegate_operator.handlers.kopf_thread import KopfThread
from sluicegate_operator.handlers.watch import Watch
from sluicegate_operator.kube.client import KubeClient
from sluicegate_operator.kube.kinds import BROKER_REGISTRATION, CONNECTION_QUOTA, CUSTOM, POD, Kind
from sluicegate_operator.settings import read_settings

Json = dict[str, Any]
SILENCE_S = 0.5
QUOTA = {
    "apiVersion": API_VERSION,
    "kind": CONNECTION_QUOTA.kind,
    "metadata": {"name": "q", "namespace": "default", "uid": "u", "generation": 1, "resourceVersion": "6"},
    "spec": {"clusterRef": {"name": "shop"}},
}


class Api:
    """Serves all kinds, without objects. The first watch of quotas stays silent, the next says what it has missed."""

    def __init__(self) -> None:
        self.ended = threading.Event()
        self.asked_from: list[str] = []

    def document(self, path: str) -> Json:
        if path == "/api":
            return {"versions": ["v1"]}
        if path == "/apis":
            version = {"version": VERSION, "groupVersion": API_VERSION}
            return {"groups": [{"name": GROUP, "versions": [version], "preferredVersion": version}]}
        if path == "/api/v1":
            # kopf waits until it knows what a namespace is.
            return {"resources": [resource(kind) for kind in (POD, Kind("v1", "Namespace", "namespaces"))]}
        if path == f"/apis/{API_VERSION}":
            return {"resources": [resource(kind) for kind in (*CUSTOM, BROKER_REGISTRATION)]}
        return {"metadata": {"resourceVersion": "5"}, "items": []}

    def watch(self, plural: str, version: str, say: Callable[[Json], None]) -> None:
        if plural == CONNECTION_QUOTA.plural:
            self.asked_from.append(version)
            if len(self.asked_from) > 1:
                say({"type": "ADDED", "object": QUOTA})
        self.ended.wait()


def resource(kind: Kind) -> Json:
    return {"name": kind.plural, "singularName": "", "kind": kind.kind, "namespaced": True, "verbs": ["list", "watch"]}


@contextmanager
def serving(api: Api) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            url = urlsplit(self.path)
            query = parse_qs(url.query)
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            if "watch" in query:
                self.end_headers()
                self.wfile.flush()
                api.watch(url.path.rpartition("/")[2], query["resourceVersion"][0], self.say)
                return
            body = json.dumps(api.document(url.path)).encode()
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def say(self, event: Json) -> None:
            self.wfile.write(json.dumps(event).encode() + b"\n")
            self.wfile.flush()

        def log_message(self, format: str, *args: object) -> None:
            del format, args

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        api.ended.set()
        server.shutdown()
        thread.join()
        server.server_close()


class Queue:
    def __init__(self) -> None:
        self.marked: asyncio.Queue[tuple[str, str]] = asyncio.Queue()

    def mark(self, key: tuple[str, str], delay_s: float = 0.0) -> None:
        self.marked.put_nowait(key)


async def test_what_a_silent_watch_has_missed_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kopf_thread, "SILENCE_MAX_S", SILENCE_S)
    api, quotas = Api(), Queue()
    with serving(api) as address:
        kubeconfig = tmp_path / "kubeconfig"
        kubeconfig.write_text(
            json.dumps(
                {
                    "clusters": [{"name": "test", "cluster": {"server": address}}],
                    "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
                    "current-context": "test",
                    "users": [{"name": "test", "user": {"token": "t"}}],
                }
            )
        )
        monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
        watch = Watch(FirstSeen(), {"quotas": quotas})  # type: ignore[dict-item]
        kube = KubeClient(str(kubeconfig))
        settings = read_settings({"SLUICEGATE_IDENTITY": "operator-0"}, None, str(kubeconfig), None)
        running = asyncio.create_task(KopfThread(kube, settings, watch, Readiness()).run())
        try:
            async with asyncio.timeout(60):
                assert await quotas.marked.get() == ("default", "shop")
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            kube.close()
    assert api.asked_from[:2] == ["5", "5"], "from where the first had been: nothing is listed anew"
