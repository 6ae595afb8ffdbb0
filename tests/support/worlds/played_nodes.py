"""Nodes for simulated pods: each in a separate zone, and Ready as long as its heartbeats arrive."""

import threading
import time
from typing import Self

from tests.support.processes.process_kubelet.api import Access, ApiRefused, ApiUnavailable, KubeApi
from tests.support.processes.process_kubelet.node import Node

BEATS_EVERY_S = 1.0


class PlayedNodes:
    """Simulated nodes, and the thread of their heartbeats, used with `with`. `zones` by the names of the nodes."""

    def __init__(self, access: Access, zones: dict[str, str]) -> None:
        self._api = KubeApi(access)
        self._nodes = [Node(self._api, name, zone) for name, zone in zones.items()]
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="played nodes", daemon=True)

    def __enter__(self) -> Self:
        for node in self._nodes:
            node.register()
            node.beat(time.monotonic())
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        for node in self._nodes:
            self._api.delete(f"/api/v1/nodes/{node.name}")
        self._api.close()

    def _run(self) -> None:
        while not self._over.wait(BEATS_EVERY_S):
            for node in self._nodes:
                try:
                    node.beat(time.monotonic())
                except (ApiRefused, ApiUnavailable):
                    # The next heartbeat is soon enough.
                    continue
