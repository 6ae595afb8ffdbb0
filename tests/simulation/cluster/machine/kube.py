"""The API server as controllers with the `kubernetes` journal see it: over the simulated network, with lost answers."""

import asyncio
import random
from collections.abc import Callable
from typing import TypeVar

from broker_runtime.controller.journal.store import StoreError
from tests.simulation.cluster.machine.loop import Owner
from tests.simulation.cluster.machine.network import Network
from tests.support.fakes.journal_store import MemoryStore, SharedObjects

T = TypeVar("T")
API_SERVER = "10.0.3.1"
_TIMEOUT_S = 2 / 3
_LOST = 0.005


class SimulatedStore(MemoryStore):
    """One controller's client. A request that was sent arrives even if its process is dead by then."""

    def __init__(self, shared: SharedObjects, network: Network, owner: Owner, rng: random.Random) -> None:
        super().__init__(shared)
        self._network = network
        self._owner = owner
        self._random = rng
        self._server = Owner("api-server", API_SERVER)

    async def _ask(self, operation: str, name: str, act: Callable[[], T]) -> T:
        loop = self._network.loop
        answered: asyncio.Future[T] = loop.create_future()
        delay_s = self._network.delay_s(self._owner.host, API_SERVER)
        loop.call_later(delay_s, self._arrive, act, answered, context=self._server.context)
        try:
            async with asyncio.timeout(_TIMEOUT_S):
                return await answered
        except TimeoutError:
            raise StoreError(f"{operation} {name}: no answer") from None

    def _arrive(self, act: Callable[[], T], answered: asyncio.Future[T]) -> None:
        network, host = self._network, self._owner.host
        if network.is_cut(host, API_SERVER) or self._random.random() < _LOST:
            return
        result = act()
        if network.is_cut(API_SERVER, host) or self._random.random() < _LOST:
            return
        # Includes etcd's fsync.
        delay_s = network.delay_s(API_SERVER, host) + self._random.uniform(0.001, 0.01)
        network.loop.call_later(delay_s, _give, answered, result, context=self._owner.context)


def _give(answered: asyncio.Future[T], result: T) -> None:
    if not answered.done():
        answered.set_result(result)
