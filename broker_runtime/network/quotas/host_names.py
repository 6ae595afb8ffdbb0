"""Resolve host names off the event loop, all names of a request at once, within a time limit.

The system's resolver cannot be interrupted. Each lookup has a thread of its own until it ends, and the number of
threads is bounded. A name for which no thread becomes free in time counts as unresolved. The loop's own executor is not
used.
"""

import asyncio
import contextlib
import logging
import socket
import threading
from collections.abc import Iterable, Mapping, Sequence

from broker_runtime.config.declaring.addresses import canonical_address, may_be_a_host_name

_LOGGER = logging.getLogger(__name__)


class HostNames:
    """Resolves host names, at most `threads_max` at once, each for at most `timeout_s`."""

    def __init__(self, timeout_s: float, threads_max: int) -> None:
        self._timeout_s = timeout_s
        self._free = asyncio.Semaphore(threads_max)

    async def addresses(self, names: Iterable[str]) -> Mapping[str, Sequence[str]]:
        """Return all addresses of each name that resolves, in the spelling of `canonical_address`.

        Other names are left out.
        """
        tasks = {
            name: asyncio.create_task(self._look_up(name)) for name in dict.fromkeys(names) if may_be_a_host_name(name)
        }
        if not tasks:
            return {}
        try:
            await asyncio.wait(tasks.values(), timeout=self._timeout_s)
            return {name: task.result() for name, task in tasks.items() if task.done() and task.result()}
        finally:
            for task in tasks.values():
                task.cancel()

    async def _look_up(self, name: str) -> Sequence[str]:
        loop = asyncio.get_running_loop()
        await self._free.acquire()
        answer: asyncio.Future[Sequence[str]] = loop.create_future()

        def ended(found: Sequence[str]) -> None:
            self._free.release()
            if not answer.done():
                answer.set_result(found)

        def look_up() -> None:
            found = _system_addresses(name)
            # The loop may end before the resolver does.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(ended, found)

        # A daemon thread, so that the process does not wait at its end for a name server that does not answer.
        thread = threading.Thread(target=look_up, name=f"resolve {name}", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:
            _LOGGER.error("%s is not resolved: %s", name, error)
            ended(())
        return await answer


def _system_addresses(name: str) -> Sequence[str]:
    try:
        found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except (OSError, ValueError):
        # ValueError: the system's encoding rejects the name.
        return ()
    spelled = (canonical_address(str(address[0])) for *_, address in found)
    return tuple(dict.fromkeys(address for address in spelled if address is not None))
