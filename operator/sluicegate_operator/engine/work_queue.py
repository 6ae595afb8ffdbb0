"""A queue of keys that must be reconciled.

Problem: many clusters change, fail and recover at the same time. Each must be reconciled after its last change, and
clusters whose brokers do not answer must not delay the others.

Idea: the queue is level-based, so a key is in it once, however often it is marked. `DueTimes` decides when a key is
due; it is pure and gets the time as an argument. `WorkQueue` runs the work in tasks of the event loop.

Invariants:
- A key is never worked on twice at the same time. If it is marked during its work, it runs again afterwards.
- A key that fails or has not settled is retried after a delay that doubles, with jitter. No key is dropped.
- Keys whose last try failed get at most `FAILING_WORKERS_MAX` of the `WORKERS_MAX` workers.
"""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from sluicegate_operator.kafka_admin.errors import KafkaAdminError
from sluicegate_operator.kube.client.one_by_one import Refusals
from sluicegate_operator.kube.http.errors import KubeError, NamespaceGoingError

log = logging.getLogger(__name__)

K = TypeVar("K")

FIRST_RETRY_S = 0.5
RETRY_MAX_S = 30.0
WORKERS_MAX = 32
FAILING_WORKERS_MAX = 12
_IDLE_S = 3600.0


@dataclass(frozen=True, slots=True)
class Retry:
    """The delays of retries for a key that has not settled.

    The first retry is after `first_s` seconds. Later delays grow up to `max_s`.
    """

    first_s: float = FIRST_RETRY_S
    max_s: float = RETRY_MAX_S

    def delay_s(self, failures: int, chance: float) -> float:
        """Return the delay of the next retry in seconds.

        `failures` counts the consecutive failures from 1. `chance` in 0..1 spreads callers over half of the delay.
        """
        delay: float = min(self.max_s, self.first_s * 2 ** min(failures - 1, 16))
        return delay * (0.5 + chance / 2)


REFUSED_RETRY = Retry(10.0, 60.0)
"""Retry after a refusal.

No event reports that a policy, a quota, a name, a port or a broker allows the change now.
"""

Again = float | Retry | None
"""The time of the next reconcile: after so many seconds, as a retry, or never."""


def unless_refused(refusals: Refusals, again: Again) -> Again:
    """Return `again` if there are no `refusals`; otherwise raise the first of them.

    After a refusal the work is repeated no later than `again` says, because the other objects of the key need it.
    """
    if refusals.first is not None:
        refusals.first.again_within_s = again.max_s if isinstance(again, Retry) else again
    refusals.raise_first()
    return again


def _retry_of(error: KubeError | KafkaAdminError) -> Retry:
    within_s = error.again_within_s if isinstance(error, KubeError) else None
    return Retry() if within_s is None else Retry(max_s=min(RETRY_MAX_S, max(FIRST_RETRY_S, within_s)))


@dataclass(slots=True)
class DueTimes(Generic[K]):
    """The times when keys are due, in seconds of the caller's clock."""

    due_s: dict[K, float] = field(default_factory=dict)
    running: dict[K, float] = field(default_factory=dict)
    """Start times of the work in progress, by key."""
    failures: dict[K, int] = field(default_factory=dict)

    def mark(self, key: K, at_s: float) -> None:
        """Make the work of a key due at `at_s`. A key that is due earlier stays so."""
        self.due_s[key] = min(at_s, self.due_s.get(key, at_s))

    def take(self, now_s: float) -> K | None:
        """Take the key that has been due longest and may be worked on. Keys that do not fail come first."""
        ready = [(key in self.failures, at_s, key) for key, at_s in self._takeable() if at_s <= now_s]
        if not ready:
            return None
        _, _, key = min(ready, key=lambda found: found[:2])
        del self.due_s[key]
        self.running[key] = now_s
        return key

    def done(self, key: K, again_at_s: float | None) -> None:
        self.running.pop(key, None)
        self.failures.pop(key, None)
        if again_at_s is not None:
            self.mark(key, again_at_s)

    def failed(self, key: K, now_s: float, chance: float, retry: Retry = Retry()) -> float:
        """Record a failure of the key's work, and return the delay until the retry."""
        self.running.pop(key, None)
        count = self.failures[key] = self.failures.get(key, 0) + 1
        delay_s = retry.delay_s(count, chance)
        self.mark(key, now_s + delay_s)
        return delay_s

    def next_due_s(self) -> float | None:
        return min((at_s for _, at_s in self._takeable()), default=None)

    def is_due(self, key: K, now_s: float) -> bool:
        """Return whether the work of a key is due.

        A key that is being worked on is due if it was marked since that work began.
        """
        return self.due_s.get(key, now_s + 1) <= now_s

    def oldest_s(self, now_s: float) -> float:
        """Return for how long the oldest key has been due or worked on. A failed key that waits is not due."""
        return max(0.0, now_s - min([*list(self.due_s.values()), *list(self.running.values())], default=now_s))

    def _takeable(self) -> Iterator[tuple[K, float]]:
        room = len(self.running.keys() & self.failures.keys()) < FAILING_WORKERS_MAX
        for key, at_s in self.due_s.items():
            if key not in self.running and (room or key not in self.failures):
                yield key, at_s


class WorkQueue(Generic[K]):
    """A queue that runs `work(key)` for each due key. The work returns when to reconcile the key again."""

    def __init__(self, name: str, work: Callable[[K], Awaitable[Again]]) -> None:
        self.name = name
        self._work = work
        self._schedule: DueTimes[K] = DueTimes()
        self._changed = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._logged: dict[K, str] = {}
        """The last refusal of one object that was logged, by key. A key whose work succeeds has none."""

    def mark(self, key: K, delay_s: float = 0.0) -> None:
        self._schedule.mark(key, asyncio.get_running_loop().time() + delay_s)
        self._changed.set()

    def is_due(self, key: K) -> bool:
        """Return whether the key was marked since its work began, and must run again at once."""
        return self._schedule.is_due(key, asyncio.get_running_loop().time())

    @property
    def depth(self) -> int:
        return len(self._schedule.due_s) + len(self._schedule.running)

    def oldest_s(self, now_s: float) -> float:
        """Return for how many seconds the oldest key has been due or running. Safe from any thread.

        `now_s` is a time of the event loop's clock.
        """
        return self._schedule.oldest_s(now_s)

    async def run(self) -> None:
        """Run the queue until cancelled, which also cancels work in progress."""
        loop = asyncio.get_running_loop()
        try:
            while True:
                self._changed.clear()
                while len(self._tasks) < WORKERS_MAX and (key := self._schedule.take(loop.time())) is not None:
                    task = asyncio.create_task(self._do(key), name=f"{self.name} {key}")
                    self._tasks.add(task)
                    task.add_done_callback(self._ended)
                    # The task starts in its own loop iteration: many due clusters would make one long iteration.
                    await asyncio.sleep(0)
                await self._wait()
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _wait(self) -> None:
        due_s = self._schedule.next_due_s()
        now_s = asyncio.get_running_loop().time()
        timeout_s = _IDLE_S if due_s is None or len(self._tasks) >= WORKERS_MAX else max(0.0, due_s - now_s)
        try:
            async with asyncio.timeout(timeout_s):
                await self._changed.wait()
        except TimeoutError:
            return

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._changed.set()

    async def _do(self, key: K) -> None:
        loop = asyncio.get_running_loop()
        try:
            again = await self._work(key)
        except (KubeError, KafkaAdminError) as error:
            delay_s = self._schedule.failed(key, loop.time(), random.random(), _retry_of(error))
            log.log(self._level(key, error), "%s %s: %s; again in %.1f s", self.name, key, error, delay_s)
        except Exception:
            delay_s = self._schedule.failed(key, loop.time(), random.random())
            log.exception("%s %s failed; again in %.1f s", self.name, key, delay_s)
        else:
            self._logged.pop(key, None)
            if isinstance(again, Retry):
                self._schedule.failed(key, loop.time(), random.random(), again)
            else:
                self._schedule.done(key, None if again is None else loop.time() + again)

    def _level(self, key: K, error: KubeError | KafkaAdminError) -> int:
        """Work that is repeated for other objects may be refused each second: the log has such a refusal once."""
        if isinstance(error, NamespaceGoingError):
            return logging.INFO
        if not isinstance(error, KubeError) or error.again_within_s is None:
            return logging.WARNING
        before, self._logged[key] = self._logged.get(key), str(error)
        return logging.DEBUG if before == str(error) else logging.WARNING
