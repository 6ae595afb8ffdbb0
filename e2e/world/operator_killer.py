"""Kills an operator at each of its writes, to the API server and to the brokers.

The operator's own writes enumerate the steps, so that none depends on chance.

A step is a kind of write, independent of its position in the order: `PATCH .../statefulsets/played-brokers`,
`CreateTopics`. At each step the operator dies before the write is done, or after it, so that it never receives the
result; the next operator repeats the write, and is not killed there. A write by which each new operator only applies a
child again, unchanged, is not a step.
"""

import json
import re
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from urllib.parse import parse_qs

from e2e.world.forked_operator import ForkedOperator
from tests.support.processes.proxies.api_proxy import ApiProxy, ApiRequest
from tests.support.worlds.served_clusters import ServedClusters

LOOK_EVERY_S = 0.02
BEFORE, AFTER = "before", "after"
NOT_STEPS = ("/leases", "/events")
"""Nothing depends on an Event, and a Lease belongs to its holder."""
OF_THEIR_OWN = {"sluicegate-operator-config": "of config", "sluicegate-operator-limits": "of limits"}
"""Field managers that write a part of a status, before the reported change is done."""

Applied = tuple[str, int]
"""The path of an applied child, and a checksum of its content."""


def applied(request: ApiRequest) -> Applied | None:
    """Return the applied child, or None for other requests."""
    if request.method != "PATCH" or request.path.endswith("/status"):
        return None
    return request.path, zlib.crc32(request.body)


class OperatorKiller:
    """Kills the operator at steps while the block runs. Use as `with`.

    `twice`: kill both before and after each step; otherwise the step's name decides between them. The operator is not
    killed at what is in `known`, to which applied children are added.
    """

    def __init__(
        self,
        operator: ForkedOperator,
        proxy: ApiProxy,
        served: ServedClusters,
        known: set[Applied],
        *,
        twice: bool,
    ) -> None:
        self._operator = operator
        self._proxy = proxy
        self._served = served
        self._known = known
        self._twice = twice
        self._lock = threading.Lock()
        self._dead = False
        self._wrote_s = time.monotonic()
        self._under_way: dict[ApiRequest, str] = {}
        """Steps sent to the API server that are not answered yet."""
        self.killed: list[tuple[str, str]] = []
        """When (before or after) and at which step, in order."""

    def __enter__(self) -> "OperatorKiller":
        self._proxy.before = lambda request: self._request(BEFORE, request)
        self._proxy.after = lambda request: self._request(AFTER, request)
        self._served.before = lambda change: self._goes_on(BEFORE, change)
        self._served.after = lambda change: self._goes_on(AFTER, change)
        return self

    def __exit__(self, *_: object) -> None:
        self._proxy.before = self._proxy.after = lambda _: True
        self._served.before = self._served.after = lambda _: True

    def run_until(
        self, is_done: Callable[[], bool], meanwhile: Callable[[str], None], *, quiet_s: float, timeout_s: float
    ) -> None:
        """Restart the operator after each kill, until `is_done` and nothing was written for `quiet_s`.

        `meanwhile` is called between a kill and the next start, with each step of that kill.
        """
        seen = 0
        until_s = time.monotonic() + timeout_s
        pause = threading.Event()
        while not (time.monotonic() - self._wrote_s > quiet_s and is_done()):
            if self._dead:
                self._operator.kill()
                # Answers to the dead operator may add steps in the meantime.
                steps = self.killed[seen:]
                for _, step in steps:
                    meanwhile(step)
                seen += len(steps)
                with self._lock:
                    # The lock delays late requests of the dead operator: they must not kill the next operator before it
                    # has started.
                    self._operator.start()
                    self._dead = False
            else:
                self._must_run()
            if time.monotonic() > until_s:
                raise AssertionError(f"not done after {len(self.killed)} kills, the last at {self.killed[-1:]}")
            pause.wait(LOOK_EVERY_S)

    def _must_run(self) -> None:
        try:
            self._operator.must_run()
        except RuntimeError:
            # If the operator was killed since the check, `_dead` is already set: it is set before the kill.
            if not self._dead:
                raise

    def _request(self, when: str, request: ApiRequest) -> bool:
        if not request.writes or any(part in request.path for part in NOT_STEPS):
            return not self._dead
        child, step = applied(request), self._step(request)
        is_known = child in self._known
        with self._lock:
            self._under_way.pop(request, None)
        goes_on = self._goes_on(when, step, is_known=is_known)
        if when == BEFORE and goes_on and not is_known:
            with self._lock:
                self._under_way[request] = step
        if when == AFTER and child is not None and not self._twice:
            self._known.add(child)
        return goes_on

    def _step(self, request: ApiRequest) -> str:
        """Return the step of a request, without the namespace, but with the name of a created object.

        Among similar objects, such as pods' statuses, only the first is a step, unless they are deleted or `twice` is
        set.
        """
        path = re.sub(r"^.*/namespaces/[^/]+/", "", request.path)
        if path.endswith("/status"):
            path = " ".join([path, *_part(request)])
        if request.method == "POST":
            path += f"/{json.loads(request.body)['metadata']['name']}"
        if request.method != "DELETE" and not self._twice:
            path = re.sub(r"-\d+(?=/|$)", "-N", path)
        return f"{request.method} {path}"

    def _goes_on(self, when: str, step: str, *, is_known: bool = False) -> bool:
        with self._lock:
            is_new = not is_known and self._is_new(when, step)
            if self._dead:
                if when == AFTER and is_new:
                    # The write was done after the operator died at another step: it never receives this result either.
                    self.killed.append((when, step))
                return False
            self._wrote_s = time.monotonic()
            if not is_new:
                return True
            self.killed.append((when, step))
            self._dead = True
            self._operator.die()
            for other in self._under_way.values():
                # The operator does not receive the result, whether the write was done or not.
                if self._is_new(AFTER, other):
                    self.killed.append((AFTER, other))
            self._under_way.clear()
            return False

    def _is_new(self, when: str, step: str) -> bool:
        return (when, step) not in self.killed and (self._twice or when == _when(step))


def _part(request: ApiRequest) -> Iterator[str]:
    """Yield the part of a status that is written, and the metadata written with it."""
    for manager in parse_qs(request.query).get("fieldManager", []):
        if manager in OF_THEIR_OWN:
            yield OF_THEIR_OWN[manager]
    metadata = json.loads(request.body).get("metadata", {})
    for key in sorted((metadata.get("annotations") or {}) | (metadata.get("labels") or {})):
        yield f"with {key}"


def _when(step: str) -> str:
    return (BEFORE, AFTER)[zlib.crc32(step.encode()) % 2]
