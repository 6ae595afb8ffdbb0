"""Holds a Lease while the process works, so that only one of several operators acts.

A holder that cannot renew for two thirds of the duration stops. Another process takes over only after the whole
duration. `held` is checked before each write, and a write takes at most a third of the duration, so no write is in
flight when the next holder starts. Times are of the monotonic clock; `election.py` decides. Every write of the Lease is
a create or a compare-and-swap.
"""

import asyncio
import logging
import math
import time
from collections.abc import Callable
from datetime import UTC, datetime

from sluicegate_operator.kube.client.client import KubeClient
from sluicegate_operator.kube.http.errors import KubeConflictError, KubeError
from sluicegate_operator.kube.http.kinds import LEASE
from sluicegate_operator.kube.lease.election import (
    Create,
    Decision,
    Json,
    ObservedLease,
    Renew,
    TakeOver,
    WaitForLease,
    decide,
    held_lease,
    holder_of,
    observe,
    released_lease,
)

log = logging.getLogger(__name__)

POLL_MAX_S = 1.0
"""Seconds within which a released Lease is taken."""
RELEASE_TIMEOUT_S = 3.0
RELEASE_ATTEMPTS = 3


class LeaseElector:
    """Acquires and renews a Lease.

    Call `acquire`, then `run_while_held` beside the work, and `release` at the end. When `lost` is set, the work must
    end. After that, `acquire` may be called again. Processes must differ in `identity`: a process that restarts with
    the same identity gets its Lease back at once.
    """

    def __init__(
        self,
        client: KubeClient,
        lease: tuple[str, str],
        identity: str,
        *,
        duration_s: float = 15.0,
        renew_every_s: float = 5.0,
        alive: Callable[[], bool] = lambda: True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Create an elector. `lease` is its namespace and name.

        While `alive` returns False the Lease is not renewed: the holder does no work, so another process should take
        over.
        """
        if not identity:
            raise ValueError("the identity of a Lease's holder must not be empty")
        self.identity = identity
        self.lost = asyncio.Event()
        self._client = client
        self._namespace, self._name = lease
        self._alive = alive
        self._now_s = clock
        self._duration_s = math.ceil(duration_s)
        self._give_up_s = self._duration_s * 2 / 3
        self._renew_every_s = min(renew_every_s, self._give_up_s / 2)
        self._poll_s = min(POLL_MAX_S, self._duration_s / 10)
        self._observed: ObservedLease | None = None
        self._written: Json | None = None
        """The Lease as this process last wrote it; None if it must be read again."""
        self._held_until_s: float | None = None

    @property
    def held(self) -> bool:
        """Return whether this process holds the Lease, and may write.

        False as soon as a renewal is overdue, before `lost` is set. Any thread may call this.
        """
        until_s = self._held_until_s
        return until_s is not None and not self.lost.is_set() and self._now_s() < until_s

    async def acquire(self) -> None:
        """Wait until this process holds the Lease.

        Raises KubeError if the API server's refusal is final (no permission, no CRD).
        """
        logged = ""
        self.lost.clear()
        self._held_until_s = None
        while True:
            try:
                async with asyncio.timeout(self._give_up_s):
                    decision = await self._attempt()
            except TimeoutError:
                news = "cannot be acquired yet: no response in time"
            except KubeError as error:
                if not error.retriable:
                    raise
                news = "" if isinstance(error, KubeConflictError) else f"cannot be acquired yet: {error}"
            else:
                if not isinstance(decision, WaitForLease):
                    log.info("the lease %s/%s is held by this process, %s", self._namespace, self._name, self.identity)
                    return
                news = f"is held by {decision.holder}"
            if news and news != logged:
                log.info("the lease %s/%s %s; waiting", self._namespace, self._name, news)
                logged = news
            await asyncio.sleep(self._poll_s)

    async def run_while_held(self) -> None:
        """Renew the Lease until it is lost, then set `lost` and return."""
        if self._held_until_s is None:
            raise RuntimeError("acquire the lease first")
        delay_s = self._renew_every_s
        while not self.lost.is_set():
            await asyncio.sleep(max(0.0, min(delay_s, self._held_until_s - self._now_s())))
            delay_s = self._renew_every_s if await self._renewed() else self._poll_s

    async def release(self) -> None:
        """Release the Lease, so that the next holder need not wait. Never raises KubeError.

        Does nothing if this process does not hold the Lease (any more).
        """
        if self._held_until_s is None:
            return
        self._held_until_s = None
        try:
            async with asyncio.timeout(RELEASE_TIMEOUT_S):
                await self._give_back()
        except (KubeError, TimeoutError) as error:
            log.warning("the lease %s/%s was not released: %s", self._namespace, self._name, str(error) or "too slow")

    async def _give_back(self) -> None:
        for attempt in range(1, RELEASE_ATTEMPTS + 1):
            lease = await self._client.get(LEASE, self._namespace, self._name)
            if lease is None or holder_of(lease) != self.identity:
                return
            try:
                await self._client.replace(LEASE, self._namespace, self._name, released_lease(lease, _wall_time()))
                return
            except KubeConflictError:
                # A renewal that was in flight when the work ended.
                if attempt == RELEASE_ATTEMPTS:
                    raise

    async def _renewed(self) -> bool:
        left_s = (self._held_until_s or 0.0) - self._now_s()
        if left_s <= 0:
            self._lose(f"not renewed for {self._give_up_s:.1f} s")
            return False
        if not self._alive():
            log.warning(
                "the lease %s/%s is not renewed: the event loop of the work is blocked", self._namespace, self._name
            )
            return False
        try:
            async with asyncio.timeout(left_s):
                decision = await self._attempt(only_renew=True)
        except (KubeError, TimeoutError) as error:
            log.warning("the lease %s/%s was not renewed: %s", self._namespace, self._name, str(error) or "no answer")
            return False
        match decision:
            case Renew():
                return True
            case WaitForLease(holder) | TakeOver(holder):
                self._lose(f"it is held by {holder}" if holder else "another process took the Lease and released it")
            case Create():
                self._lose("it was deleted")
        return False

    async def _attempt(self, *, only_renew: bool = False) -> Decision:
        """Read, decide and write.

        The Lease counts as held from before the write; other processes count from after it. A renewal skips the read:
        if the Lease has changed since the last write, the API server refuses the replace and the next try reads.
        """
        started_s = self._now_s()
        lease, self._written = self._written if only_renew else None, None
        if lease is None:
            lease = await self._client.get(LEASE, self._namespace, self._name)
        self._observed = None if lease is None else observe(self._observed, lease, self._now_s())
        decision = decide(lease, self.identity, self._now_s(), self._observed)
        if isinstance(decision, WaitForLease) or (only_renew and not isinstance(decision, Renew)):
            return decision
        time = _wall_time()
        if lease is None:
            wanted = held_lease(self._new(), *self._terms(), time)
            self._written = await self._client.create(LEASE, self._namespace, wanted)
        else:
            wanted = held_lease(lease, *self._terms(), time)
            self._written = await self._client.replace(LEASE, self._namespace, self._name, wanted)
        self._held_until_s = started_s + self._give_up_s
        return decision

    def _new(self) -> dict[str, object]:
        return {
            "apiVersion": LEASE.api_version,
            "kind": LEASE.kind,
            "metadata": {"name": self._name, "namespace": self._namespace},
        }

    def _terms(self) -> tuple[str, int]:
        return self.identity, self._duration_s

    def _lose(self, why: str) -> None:
        log.error("the lease %s/%s is lost: %s", self._namespace, self._name, why)
        self.lost.set()


def _wall_time() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
