"""The time at which a standby takes the lease of a silent holder: not before it expired, and not long after."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from broker_runtime.controller.journal.lease import LeaseElection
from tests.support.fakes.journal_store import Fault, MemoryStore, SharedObjects
from tests.support.fakes.manual_clock import ManualClock
from tests.support.fakes.virtual_time import run

DURATION_MS = 4_000
DURATION_S = DURATION_MS / 1000
REQUEST_S = 0.03


class Store(MemoryStore):
    """Notes when the lease was read, and when it had changed."""

    def __init__(self, shared: SharedObjects, clock: ManualClock) -> None:
        super().__init__(shared, lambda _operation, _name: Fault(answer_delay_s=REQUEST_S))
        self.clock = clock
        self.asked_s: list[float] = []
        self.news_s = 0.0
        self._version = ""

    async def lease(self) -> Any:
        self.asked_s.append(self.clock.monotonic())
        found = await super().lease()
        if found is not None and found.version != self._version:
            self._version, self.news_s = found.version, self.clock.monotonic()
        return found


class Two:
    """The first is active and renews, the second is on standby."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        shared = SharedObjects()
        self.stores = [Store(shared, self.clock) for _ in range(2)]
        self.one, self.two = (
            LeaseElection(store, f"{number}_a", DURATION_MS, self.clock) for number, store in enumerate(self.stores)
        )

    def run(self, main: Coroutine[Any, Any, None]) -> None:
        run(main, self.clock)

    async def start(self, renewing_s: float) -> "asyncio.Task[None]":
        """The standby's task, with an active one that is silent from now on."""
        await self.one.acquire()
        standby = asyncio.create_task(self.two.acquire())
        keeping = asyncio.create_task(self.one.keep())
        await asyncio.sleep(renewing_s)
        assert not standby.done()
        self.stores[0].cut = True
        keeping.cancel()
        return standby


@pytest.mark.parametrize("renewing_s", [0.0, 0.11, 0.35, 1.4, 1.55, 1.7, 6.1])
def test_a_standby_takes_the_lease_at_its_expiry_and_not_at_its_next_poll(renewing_s: float) -> None:
    async def main() -> None:
        standby = await two.start(renewing_s)
        while not standby.done():
            assert not (two.one.held and two.two.held)
            await asyncio.sleep(0.001)
        waited_s = two.clock.monotonic() - two.stores[1].news_s
        # One read and one write after it expired.
        assert DURATION_S <= waited_s < DURATION_S + 2 * REQUEST_S + 0.01
        assert not two.one.held

    two = Two()
    two.run(main())


def test_a_lease_that_ran_out_and_cannot_be_read_is_not_asked_for_again_and_again() -> None:
    async def main() -> None:
        standby = await two.start(0.5)
        two.stores[1].cut = True
        await asyncio.sleep(DURATION_S)
        before = len(two.stores[1].asked_s)
        await asyncio.sleep(10.0)
        assert len(two.stores[1].asked_s) - before <= 10.0 / (DURATION_S / 10)
        two.stores[1].cut = False
        await asyncio.wait_for(standby, 1.0)
        assert two.two.held

    two = Two()
    two.run(main())


@pytest.mark.parametrize("renewing_s", [0.2 * step for step in range(1, 40, 3)])
def test_a_released_lease_is_noticed_as_soon_as_with_frequent_polling(renewing_s: float) -> None:
    async def main() -> None:
        standby = await two.start(renewing_s)
        gone_s = two.clock.monotonic()
        await standby
        assert two.clock.monotonic() - gone_s < DURATION_S + DURATION_S / 10 + 4 * REQUEST_S

    two = Two()
    two.run(main())


def test_a_standby_looks_about_as_often_as_the_lease_is_renewed() -> None:
    async def main() -> None:
        await two.one.acquire()
        standby, keeping = asyncio.create_task(two.two.acquire()), asyncio.create_task(two.one.keep())
        await asyncio.sleep(10 * DURATION_S)
        assert 29 <= len(two.stores[1].asked_s) <= 36
        for task in (standby, keeping):
            task.cancel()

    two = Two()
    two.run(main())
