"""Elect the active controller with a Lease: one controller renews it, and another takes it over when it expires.

The holder counts the duration from before it sends a renewal, and stops serving after a part of it. The others count
the whole duration from when they first see the renewal. So two controllers never serve at once as long as their clocks
run at about the same speed. That only one can commit does not depend on any clock (`kubernetes.py`).

A lease ends early in two ways. Its holder releases it, or the operator does so for it when it knows that the holder's
process has ended. And a standby takes it when the holder's host reports that (`holder.py`). Both reports may be wrong.
Then two controllers serve until the previous one reads its lease or tries to commit, which is refused.
"""

import asyncio
import logging
from dataclasses import replace

from broker_runtime.clock import Clock
from broker_runtime.config import BrokerConfig
from broker_runtime.controller.journal.holder import HolderWatch
from broker_runtime.controller.journal.store import LeaseRecord, ObjectStore, StoreError
from broker_runtime.controller.journal.trouble import Trouble

log = logging.getLogger(__name__)

_SERVED_PART = 0.85
"""Part of the duration during which a holder serves after the last renewal. The rest allows for clocks that differ."""
_RENEWALS = 3
_POLLS = 10
_POLL_MAX_S = 0.5
_POLL_LOST_S = 0.1
"""Pause between reads while the holder's connection is lost: the holder or the operator may release the lease soon."""
_LATE_S = 0.002
"""Timers may fire a millisecond early."""
_RELEASE_ATTEMPTS = 3
_CONNECT_TIMEOUT_S = BrokerConfig.sluicegate_controller_connection_setup_timeout_ms.default / 1000


class LeaseElection:
    """The election by a Lease, whose holder alone writes the metadata.

    This process holds the Lease, or waits for it.
    """

    certain = False

    def __init__(
        self,
        store: ObjectStore,
        identity: str,
        duration_ms: int,
        clock: Clock,
        address: str = "",
        connect_timeout_s: float = _CONNECT_TIMEOUT_S,
    ) -> None:
        """`identity` is `<node id>_<suffix>`, where the suffix distinguishes processes of that node.

        `address` is host:port at which others reach this controller. If it is empty, they watch only its lease.
        """
        self._store = store
        self._identity = identity
        self._address = address
        self._duration_ms = duration_ms
        self._clock = clock
        self._served_s = duration_ms / 1000 * _SERVED_PART
        self._renew_s = duration_ms / 1000 / _RENEWALS
        self._poll_s = min(_POLL_MAX_S, duration_ms / 1000 / _POLLS)
        self._lease: LeaseRecord | None = None
        self._seen_s = 0.0
        self._held_until_s: float | None = None
        self._watch = HolderWatch(connect_timeout_s)
        self._trouble = Trouble("the lease of the active controller cannot be read or written", duration_ms / 1000)

    @property
    def held(self) -> bool:
        return self._held_until_s is not None and self._clock.monotonic() < self._held_until_s

    @property
    def holder_id(self) -> int | None:
        holder = "" if self._lease is None else self._lease.holder
        if holder == self._identity and not self.held:
            # This controller's lease has expired; the next read shows the new holder.
            return None
        node_id = holder.partition("_")[0]
        return int(node_id) if node_id.isdecimal() else None

    @property
    def trouble(self) -> str | None:
        return self._trouble.reason(self._clock.monotonic())

    async def acquire(self) -> None:
        self._held_until_s = None
        try:
            await self._acquire()
        finally:
            await self._watch.stop()

    async def _acquire(self) -> None:
        logged = ""
        while True:
            try:
                taken = await self._attempt()
                self._trouble.ended()
                if taken:
                    log.info("this controller holds the lease, %s", self._identity)
                    return
                news = f"is held by {self._lease.holder}" if self._lease is not None else "is not there"
                if news != logged:
                    log.info("the lease of the active controller %s; this one is on standby", news)
                    logged = news
            except StoreError as error:
                self._trouble.failed(error, self._clock.monotonic())
            if self._lease is not None:
                await self._watch.follow(self._lease.holder, self._lease.address)
            await self._pause()

    async def _pause(self) -> None:
        try:
            async with asyncio.timeout(self._pause_s()):
                await self._watch.news.wait()
        except TimeoutError:
            pass
        self._watch.news.clear()

    async def _attempt(self) -> bool:
        self._observe(await self._store.lease())
        if not self._is_free():
            return False
        return await self._put()

    def _observe(self, found: LeaseRecord | None) -> None:
        if found is None or self._lease is None or found.version != self._lease.version:
            self._seen_s = self._clock.monotonic()
        self._lease = found

    def _is_free(self) -> bool:
        lease = self._lease
        if lease is None or lease.holder in ("", self._identity, self._watch.gone):
            return True
        return self._expires_in_s(lease) <= 0

    def _expires_in_s(self, lease: LeaseRecord) -> float:
        return self._seen_s + lease.duration_ms / 1000 - self._clock.monotonic()

    def _pause_s(self) -> float:
        """Return the time until the next read.

        Reads are due when the next renewal is, and then frequently until it is seen or the lease has expired. So a
        missing renewal is noticed as soon as with frequent reads all the time.
        """
        lease = self._lease
        left_s = 0.0 if lease is None else self._expires_in_s(lease)
        if lease is None or left_s <= 0:
            # An expired lease of another holder was just requested in vain.
            return self._poll_s
        if self._watch.lost_within(lease.duration_ms / 1000):
            return min(_POLL_LOST_S, left_s + _LATE_S)
        renewal_s = left_s - lease.duration_ms / 1000 * (1 - 1 / _RENEWALS)
        return min(max(self._poll_s, renewal_s), left_s + _LATE_S)

    async def _put(self) -> bool:
        started_s = self._clock.monotonic()
        old = self._lease
        transitions = 0 if old is None else old.transitions + (old.holder != self._identity)
        wanted = LeaseRecord(
            self._identity,
            self._duration_ms,
            transitions,
            self._clock.wall_ms(),
            "" if old is None else old.version,
            self._address,
        )
        written = await self._store.put_lease(wanted)
        if written is None:
            return False
        self._observe(written)
        self._held_until_s = started_s + self._served_s
        return True

    async def keep(self) -> None:
        delay_s = self._renew_s
        while self.held:
            await asyncio.sleep(delay_s)
            try:
                async with asyncio.timeout(self._left_s()):
                    if not await self._renewed():
                        break
                self._trouble.ended()
                delay_s = self._renew_s
            except (StoreError, TimeoutError) as error:
                self._trouble.failed(
                    error if isinstance(error, StoreError) else StoreError("no answer"), self._clock.monotonic()
                )
                delay_s = self._poll_s
        self._held_until_s = None
        log.error("this controller has stopped being the active one: %s", self._why_lost())

    async def _renewed(self) -> bool:
        """Whether the lease was renewed; False if another controller holds it.

        After a write with unknown outcome the version differs, but the lease is still held.
        """
        if await self._put():
            return True
        self._observe(await self._store.lease())
        return self._lease is not None and self._lease.holder == self._identity and await self._put()

    def _why_lost(self) -> str:
        if self._lease is not None and self._lease.holder != self._identity:
            return f"the lease is held by {self._lease.holder or 'nobody'}"
        return f"the lease was not renewed for {self._served_s:g} s"

    def _left_s(self) -> float:
        return 0.0 if self._held_until_s is None else max(0.0, self._held_until_s - self._clock.monotonic())

    async def release(self) -> None:
        if self._held_until_s is None or self._lease is None:
            return
        self._held_until_s = None
        for _ in range(_RELEASE_ATTEMPTS):
            try:
                if await self._store.put_lease(replace(self._lease, holder="", renewed_ms=self._clock.wall_ms())):
                    return
                # A renewal was in progress when the term ended.
                self._observe(await self._store.lease())
            except StoreError as error:
                log.warning("the lease could not be released; the next controller waits until it expires: %s", error)
                return
            if self._lease is None or self._lease.holder != self._identity:
                return
