"""A coordinator's service, imported when it is first needed (decision 45), and the led partitions before that. Shell.

It is needed when this broker first leads a partition of the coordinator's topic, or when a client first sends it a
request for the coordinator. Until then, the broker loads no code of the coordinator.
"""

import asyncio
import logging
from collections.abc import Callable
from importlib import import_module
from types import ModuleType
from typing import Generic, Protocol, TypeVar

from broker_runtime.coordination.replicated_log import LedPartition
from broker_runtime.on_demand import Importer, imported

log = logging.getLogger(__name__)

_RETRY_S = 5.0


class LeadingService(Protocol):
    """A coordinator's service: the part that learns of led partitions."""

    def leads(self, leader: LedPartition) -> None: ...

    def leads_no_more(self, topic: str, index: int) -> None: ...

    async def close(self) -> None: ...


S = TypeVar("S", bound=LeadingService)


class ServiceOnDemand(Generic[S]):
    """The service of one kind of coordinator on this broker, which may not exist yet.

    Implements `replication.led_replicas.LeadershipObserver`. All calls are made on the event loop.
    """

    def __init__(self, module: str, make: Callable[[ModuleType], S], importer: Importer, many: str) -> None:
        """`make` creates the service from its imported module. `many` is what it coordinates, for messages."""
        self.existing: S | None = None
        """The service; None until it is needed."""
        self.problem = ""
        """The reason why the module cannot be imported; empty otherwise."""
        self.led: dict[int, LedPartition] = {}
        """Led partitions by their number, until the service exists."""
        self._module = module
        self._make = make
        self._importer = importer
        self._many = many
        self._importing: asyncio.Task[None] | None = None
        self._closed = False

    def service(self) -> S:
        """Return the service. The first call imports its module and creates it."""
        if self.existing is None:
            self.existing = self._make(import_module(self._module))
            self.problem = ""
            for leader in self.led.values():
                self.existing.leads(leader)
            self.led.clear()
        return self.existing

    def leads(self, leader: LedPartition) -> None:
        if self.existing is None and imported(self._module) is None:
            self.led[leader.index] = leader
            self._import_soon()
        else:
            self.service().leads(leader)

    def leads_no_more(self, topic: str, index: int) -> None:
        self.led.pop(index, None)
        if self.existing is not None:
            self.existing.leads_no_more(topic, index)

    def _import_soon(self) -> None:
        if self._importing is None and not self._closed:
            self._importing = asyncio.get_running_loop().create_task(self._import(), name=f"import of {self._many}")

    async def _import(self) -> None:
        """Import the service's module.

        Retries until that succeeds: it may fail while no file can be opened, for example.
        """
        while True:
            try:
                await self._importer.load(self._module)
                break
            except Exception as error:
                self.problem = f"{self._many} are not coordinated because their code cannot be loaded: {error!r}"
                log.exception("the coordinator of %s cannot be loaded; retrying in %g s", self._many, _RETRY_S)
            await asyncio.sleep(_RETRY_S)
        self._importing = None
        if not self._closed:
            self.service()

    async def close(self) -> None:
        """Close the service, if it exists, and do not create it any more."""
        self._closed = True
        if self._importing is not None:
            self._importing.cancel()
        if self.existing is not None:
            await self.existing.close()
