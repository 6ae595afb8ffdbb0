"""A watch goes on whatever happens to it: an API server whose watches of quotas each say a few events, then nothing."""

import asyncio
import json
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from kopf._cogs.aiokits.aiotasks import Scheduler

from sluicegate_operator.api.metadata import API_VERSION, GROUP, VERSION
from sluicegate_operator.engine.first_seen import FirstSeen
from sluicegate_operator.handlers import kopf_thread
from sluicegate_operator.handlers.health import Readiness
from sluicegate_operator.handlers.kopf_thread import KopfThread
from sluicegate_operator.handlers.watch import Watch
from sluicegate_operator.kube.client import KubeClient
from sluicegate_operator.kube.kinds import BROKER_REGISTRATION, CONNECTION_QUOTA, CUSTOM, POD, Kind
from sluicegate_operator.settings import read_settings

Json = dict[str, Any]
SILENCE_S = 0.5


def quota(name: str, version: str) -> Json:
    return {
        "apiVersion": API_VERSION,
        "kind": CONNECTION_QUOTA.kind,
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": name,
            "generation": 1,
            "resourceVersion": version,
        },
        "spec": {"clusterRef": {"name": name}},
    }


class Api:
    """Serves all kinds, without objects. `news`: the quotas that the first watch of them adds, the next adds, ..."""

    def __init__(self, *news: Sequence[Json]) -> None:
        self._news = news
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
            for added in dict(enumerate(self._news, 1)).get(len(self.asked_from), ()):
                say({"type": "ADDED", "object": added})
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


async def marked(api: Api, count: int, folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """The first `count` clusters whose quotas are to be looked at, as the events come."""
    monkeypatch.setattr(kopf_thread, "SILENCE_MAX_S", SILENCE_S)
    quotas = Queue()
    with serving(api) as address:
        kubeconfig = folder / "kubeconfig"
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
        watch = Watch(FirstSeen(), {"quotas": quotas}, {})  # type: ignore[dict-item]
        kube = KubeClient(str(kubeconfig))
        settings = read_settings({"SLUICEGATE_IDENTITY": "operator-0"}, None, str(kubeconfig), None)
        running = asyncio.create_task(KopfThread(kube, settings, watch, Readiness()).run())
        try:
            async with asyncio.timeout(60):
                return [await quotas.marked.get() for _ in range(count)]
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            kube.close()


async def test_what_a_silent_watch_has_missed_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    api = Api([], [quota("shop", "6")])
    assert await marked(api, 1, tmp_path, monkeypatch) == [("default", "shop")]
    assert api.asked_from[:2] == ["5", "5"], "from where the first had been: nothing is listed anew"


async def test_a_watch_outlives_an_event_that_is_taken_late(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine the event is still being handed on when the watch has been silent for too long."""
    spawn = Scheduler.spawn

    async def late(self: Scheduler, *args: Any, **kwargs: Any) -> None:
        await asyncio.sleep(2 * SILENCE_S)
        await spawn(self, *args, **kwargs)

    monkeypatch.setattr(Scheduler, "spawn", late)
    api = Api([quota("shop", "6")], [quota("other", "7")])
    assert await marked(api, 2, tmp_path, monkeypatch) == [("default", "shop"), ("default", "other")]
    assert api.asked_from[:2] == ["5", "6"]
