"""Kills an operator at each thing that it writes, at the API server and at the brokers: what is written is enumerated
by what the operator goes on to write, and nothing is left to chance.

A step is what is written, wherever it stands in the order: `PATCH .../statefulsets/played-brokers`, `CreateTopics`. At
each the operator dies before it is done, or after, so that it never learns that it was; the next operator comes to it
again, and is let through. What each new operator applies to a child again, as it was applied before, is no step.
"""

import json
import re
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from urllib.parse import parse_qs

from e2e.forked_operator import ForkedOperator
from tests.support.api_proxy import ApiProxy, ApiRequest
from tests.support.served_clusters import ServedClusters

LOOK_EVERY_S = 0.02
BEFORE, AFTER = "before", "after"
NOT_STEPS = ("/leases", "/events")
"""Nothing follows from an Event, and a Lease is its holder's."""
OF_THEIR_OWN = {"sluicegate-operator-config": "of config", "sluicegate-operator-limits": "of limits"}
"""Managers that write a part of a status, before what it says is done."""

Applied = tuple[str, int]
"""To what, and a sum of what."""


def applied(request: ApiRequest) -> Applied | None:
    """None of what is not applied to a child."""
    if request.method != "PATCH" or request.path.endswith("/status"):
        return None
    return request.path, zlib.crc32(request.body)


class OperatorKiller:
    """Use as `with`: armed while it is entered. `twice`: each step before and after; else one of them, by its name. At
    what is in `known` nobody dies; what is applied is added to it."""

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
        """Steps that have gone to the API server, which has not answered."""
        self.killed: list[tuple[str, str]] = []
        """When and at which step, in order."""

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
        """Starts the operator again each time, until it is done and nothing was written for `quiet_s`. `meanwhile` is
        called between a death and the next start, with each step that it was at."""
        seen = 0
        until_s = time.monotonic() + timeout_s
        pause = threading.Event()
        while not (time.monotonic() - self._wrote_s > quiet_s and is_done()):
            if self._dead:
                self._operator.kill()
                # Answers to the dead one may add to them meanwhile.
                steps = self.killed[seen:]
                for _, step in steps:
                    meanwhile(step)
                seen += len(steps)
                with self._lock:
                    # What the dead one has sent last is not to find one that is not there yet.
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
            # Killed since we looked, it is said before it is done.
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
        """Without the namespace, with the name of what is made. Of several alike, as pods' statuses, the first is the
        step, unless they go or all are asked for."""
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
                    # It was done when another step was its death: of this one it never learns either.
                    self.killed.append((when, step))
                return False
            self._wrote_s = time.monotonic()
            if not is_new:
                return True
            self.killed.append((when, step))
            self._dead = True
            self._operator.die()
            for other in self._under_way.values():
                # Done or not, it has not learned.
                if self._is_new(AFTER, other):
                    self.killed.append((AFTER, other))
            self._under_way.clear()
            return False

    def _is_new(self, when: str, step: str) -> bool:
        return (when, step) not in self.killed and (self._twice or when == _when(step))


def _part(request: ApiRequest) -> Iterator[str]:
    """Of a status, and of what is written beside it."""
    for manager in parse_qs(request.query).get("fieldManager", []):
        if manager in OF_THEIR_OWN:
            yield OF_THEIR_OWN[manager]
    metadata = json.loads(request.body).get("metadata", {})
    for key in sorted((metadata.get("annotations") or {}) | (metadata.get("labels") or {})):
        yield f"with {key}"


def _when(step: str) -> str:
    return (BEFORE, AFTER)[zlib.crc32(step.encode()) % 2]
