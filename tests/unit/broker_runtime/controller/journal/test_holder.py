"""A standby takes the lease of a holder whose host reports that its process has ended."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from broker_runtime.controller.journal.holder import HolderWatch
from broker_runtime.controller.journal.lease import LeaseElection
from tests.support.fakes.journal_store import Fault, MemoryStore, SharedObjects
from tests.support.fakes.manual_clock import ManualClock
from tests.support.fakes.virtual_time import run

DURATION_MS = 4_000
SOON_S = 0.3
"""Time of two refusals and a request."""


class Transport(asyncio.BaseTransport):
    def close(self) -> None:
        """Do nothing: no connection is open."""


class Host:
    """The host of the holder: accepts connections, refuses them or does not answer."""

    def __init__(self) -> None:
        self.listens: bool | None = True
        self.hangs_up = False
        self.attempts = 0
        self.connections: list[asyncio.BaseProtocol] = []

    async def connect(self, make: Callable[[], Any], host: str, port: int) -> tuple[Transport, Any]:
        assert (host, port) == ("10.0.0.1", 9093)
        if self.listens is None:
            await asyncio.sleep(100.0)
        if not self.listens:
            raise ConnectionRefusedError
        self.attempts += 1
        transport, protocol = Transport(), make()
        protocol.connection_made(transport)
        if self.hangs_up:
            protocol.connection_lost(None)
        self.connections.append(protocol)
        return transport, protocol

    def end(self, *, listens: bool | None) -> None:
        self.listens = listens
        for connection in self.connections:
            connection.connection_lost(None)
        self.connections.clear()


class Standby:
    def __init__(self) -> None:
        self.clock, self.host, shared = ManualClock(), Host(), SharedObjects()
        self.stores = [MemoryStore(shared, lambda *_: Fault(answer_delay_s=0.02)) for _ in range(2)]
        self.holder = LeaseElection(self.stores[0], "0_a", DURATION_MS, self.clock, "10.0.0.1:9093")
        self.standby = LeaseElection(self.stores[1], "1_a", DURATION_MS, self.clock)

    def run(self, main: Callable[["Standby"], Coroutine[Any, Any, None]]) -> None:
        async def patched() -> None:
            asyncio.get_running_loop().create_connection = self.host.connect  # type: ignore[method-assign, assignment]
            await main(self)
            rest = asyncio.all_tasks() - {asyncio.current_task()}
            for task in rest:
                task.cancel()
            await asyncio.gather(*rest, return_exceptions=True)

        run(patched(), self.clock)

    async def watching(self) -> tuple["asyncio.Task[None]", "asyncio.Task[None]"]:
        """The holder's and the standby's tasks: the holder renews, and the standby has found its address."""
        await self.holder.acquire()
        keeping, acquiring = asyncio.create_task(self.holder.keep()), asyncio.create_task(self.standby.acquire())
        await asyncio.sleep(5.0)
        return keeping, acquiring

    async def seconds_until(self, task: "asyncio.Task[None]") -> float:
        began_s = self.clock.monotonic()
        await task
        return self.clock.monotonic() - began_s


def test_a_holder_whose_process_has_ended_is_replaced_at_once() -> None:
    async def main(two: Standby) -> None:
        keeping, acquiring = await two.watching()
        keeping.cancel()
        two.host.end(listens=False)
        assert await two.seconds_until(acquiring) < SOON_S
        assert two.standby.held

    Standby().run(main)


@pytest.mark.parametrize("listens", [True, None], ids=["it is there again", "its host is silent"])
def test_a_closed_connection_alone_is_no_evidence(listens: bool | None) -> None:
    async def main(two: Standby) -> None:
        _, acquiring = await two.watching()
        for _ in range(20):
            two.host.end(listens=listens)
            await asyncio.sleep(1.0)
        assert not acquiring.done()
        assert two.holder.held

    Standby().run(main)


def test_a_host_that_refuses_the_first_connection_is_not_considered_dead() -> None:
    async def main(two: Standby) -> None:
        two.host.listens = False
        _, acquiring = await two.watching()
        await asyncio.sleep(20.0)
        assert not acquiring.done()

    Standby().run(main)


def test_a_live_holder_considered_dead_ends_its_term_with_the_next_renewal() -> None:
    async def main(two: Standby) -> None:
        keeping, acquiring = await two.watching()
        two.host.end(listens=False)
        await acquiring
        assert await two.seconds_until(keeping) < DURATION_MS / 3000 + 0.1
        assert two.standby.held
        assert not two.holder.held

    Standby().run(main)


def test_a_released_lease_is_taken_within_a_tenth_of_a_second_despite_slow_polling() -> None:
    async def main(two: Standby) -> None:
        keeping, acquiring = await two.watching()
        two.host.end(listens=None)
        await asyncio.sleep(0.5)
        keeping.cancel()
        releasing = asyncio.create_task(two.holder.release())
        assert await two.seconds_until(acquiring) < SOON_S
        await releasing

    Standby().run(main)


def test_a_holder_that_only_this_standby_cannot_reach_is_not_looked_at_often_for_ever() -> None:
    async def main(two: Standby) -> None:
        await two.watching()
        looks, ask = 0, two.stores[1].lease

        async def counted() -> Any:
            nonlocal looks
            looks += 1
            return await ask()

        two.stores[1].lease = counted  # type: ignore[method-assign]
        await asyncio.sleep(40.0)
        usual, looks = looks, 0
        two.host.end(listens=None)
        await asyncio.sleep(40.0)
        assert looks <= usual + 45
        looks = 0
        await asyncio.sleep(40.0)
        assert looks <= usual + 1

    Standby().run(main)


def test_a_host_that_closes_connections_is_polled_at_most_once_a_second() -> None:
    async def main(two: Standby) -> None:
        two.host.hangs_up = True
        await two.watching()
        before = two.host.attempts
        await asyncio.sleep(20.0)
        assert two.host.attempts - before <= 21

    Standby().run(main)


async def test_nothing_of_a_watch_is_left_when_it_stops() -> None:
    watch = HolderWatch(1.0)
    await watch.follow("0_a", "127.0.0.1:1")
    await watch.stop()
    assert len(asyncio.all_tasks()) == 1
