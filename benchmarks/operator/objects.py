"""The project's objects in the API server: written by several threads, and observed by watches."""

import queue
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import Any

from tests.support.processes.kube_watch import KubeWatch
from tests.support.processes.process_kubelet.api import MERGE, Access, Json, KubeApi

NAMESPACE = "default"
ROOT = f"/apis/sluicegate.dev/v1alpha1/namespaces/{NAMESPACE}"
WRITERS = 4
PLURALS = ("brokerclusters", "connectionquotas", "topics")


class Writers:
    """A pool of kept connections. Use as `with`; any thread may write."""

    def __init__(self, access: Access) -> None:
        self._apis: queue.Queue[KubeApi] = queue.Queue()
        for _ in range(2 * WRITERS):
            self._apis.put(KubeApi(access))

    def __enter__(self) -> "Writers":
        return self

    def __exit__(self, *_: object) -> None:
        while not self._apis.empty():
            self._apis.get().close()

    @contextmanager
    def _one(self) -> Iterator[KubeApi]:
        api = self._apis.get()
        try:
            yield api
        finally:
            self._apis.put(api)

    def create(self, plural: str, documents: Sequence[Json]) -> None:
        def some(first: int) -> None:
            for document in documents[first::WRITERS]:
                with self._one() as api:
                    api.create(f"{ROOT}/{plural}", document)

        with ThreadPoolExecutor(WRITERS) as pool:
            list(pool.map(some, range(WRITERS)))

    def change(self, plural: str, name: str, spec: Json) -> int:
        """Change the spec, and return the new generation."""
        with self._one() as api:
            changed = api.patch(f"{ROOT}/{plural}/{name}", {"spec": spec}, MERGE)
        generation: int = changed["metadata"]["generation"]
        return generation


class Seen:
    """Observes by watches which objects are Ready, in which generation and since when. Use as `with`."""

    def __init__(self, access: Access) -> None:
        self._lock = threading.Lock()
        self._ready: dict[tuple[str, str], tuple[int, float]] = {}
        """By plural and name: the newest generation observed as Ready, and the time of its first observation."""
        self._now: dict[str, set[str]] = {plural: set() for plural in PLURALS}
        self.writes = 0
        """Number of observed changes, of all objects."""
        self._watches = [
            KubeWatch(access, f"{ROOT}/{plural}", lambda event, item, plural=plural: self._heard(plural, event, item))  # type: ignore[misc]
            for plural in PLURALS
        ]
        self._running = ExitStack()

    def __enter__(self) -> "Seen":
        for watch in self._watches:
            self._running.enter_context(watch)
        return self

    def __exit__(self, *_: object) -> None:
        self._running.close()

    def ready(self, plural: str) -> int:
        return len(self._now[plural])

    def ready_at_s(self, plural: str, name: str, generation: int) -> float | None:
        """Time when this generation or a later one was first Ready, of the monotonic clock.

        None if that was not observed.
        """
        with self._lock:
            found = self._ready.get((plural, name))
        return found[1] if found is not None and found[0] >= generation else None

    def _heard(self, plural: str, event: str, item: Json) -> None:
        now_s = time.monotonic()
        name, generation = item["metadata"]["name"], item["metadata"]["generation"]
        with self._lock:
            self.writes += 1
            if event != "DELETED" and is_ready(item):
                self._now[plural].add(name)
                if self._ready.get((plural, name), (0, 0.0))[0] < generation:
                    self._ready[plural, name] = (generation, now_s)
            else:
                self._now[plural].discard(name)


def is_ready(document: dict[str, Any]) -> bool:
    status = document.get("status") or {}
    ready = [one for one in status.get("conditions") or () if one["type"] == "Ready"]
    generation = document["metadata"]["generation"]
    return bool(ready) and ready[0]["status"] == "True" and ready[0].get("observedGeneration") == generation
