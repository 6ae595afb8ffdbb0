"""Resolve host names in limits: max.connections.per.ip.overrides and the `ip` quota entities.

A name is resolved when a limit names it, as in Kafka; one that cannot be resolved is reported, and retried.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping, Sequence

from broker_runtime.network.quotas.host_names import HostNames

log = logging.getLogger(__name__)

_RETRY_S = 30.0


class HostLimits:
    """The host names in limits, and their addresses. `resolved` is called when addresses of names have become known."""

    def __init__(self, names: HostNames, resolved: Callable[[], None]) -> None:
        self._names = names
        self._resolved = resolved
        self._addresses: dict[str, Sequence[str]] = {}
        self._wanted: set[str] = set()
        self._open: set[str] = set()
        self._failed: set[str] = set()
        self._news = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    @property
    def addresses(self) -> Mapping[str, Sequence[str]]:
        return self._addresses

    @property
    def problems(self) -> list[str]:
        return [
            f"the limit of host {name} is not enforced: the name cannot be resolved" for name in sorted(self._failed)
        ]

    async def resolve(self, names: Collection[str]) -> Sequence[str]:
        """Resolve names at the start: wait for their addresses, and return the names that have none."""
        self._wanted |= set(names)
        self._addresses |= await self._names.addresses(names)
        return sorted(set(names) - self._addresses.keys())

    def want(self, names: Collection[str], changed: Collection[str]) -> None:
        """Set the host names that connection limits contain.

        `changed` are names whose limit was just set: they are resolved again.
        """
        self._wanted = set(names)
        for name in self._addresses.keys() - self._wanted:
            del self._addresses[name]
        self._failed &= self._wanted
        self._open = (self._open | set(changed) | (self._wanted - self._addresses.keys())) & self._wanted
        if self._open:
            self._news.set()
            if self._task is None:
                self._task = asyncio.create_task(self._ask())
                self._task.add_done_callback(self._ended)

    async def _ask(self) -> None:
        while self._open:
            self._news.clear()
            asked = set(self._open)
            found = await self._names.addresses(sorted(asked))
            self._note(asked, found)
            if self._open and not self._news.is_set():
                await _wait(self._news, _RETRY_S)

    def _note(self, asked: Collection[str], found: Mapping[str, Sequence[str]]) -> None:
        known = {name: addresses for name, addresses in found.items() if name in self._wanted}
        self._addresses |= known
        # Previous addresses of a name are better than none.
        self._open -= self._addresses.keys()
        self._failed -= self._addresses.keys()
        for name in sorted((set(asked) & self._open) - self._failed):
            self._failed.add(name)
            log.error("the limit of host %s is not enforced: the name cannot be resolved; retrying", name)
        if known:
            self._resolved()

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._task = None
        if not task.cancelled() and task.exception() is not None:
            log.error("host names in limits could not be resolved", exc_info=task.exception())

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)


async def _wait(event: asyncio.Event, timeout_s: float) -> None:
    try:
        async with asyncio.timeout(timeout_s):
            await event.wait()
    except TimeoutError:
        return
