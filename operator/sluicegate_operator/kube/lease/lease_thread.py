"""A LeaseElector with its own thread, event loop and connections, so that no amount of work delays a renewal.

The elector decides and keeps the times; this module only passes calls to its loop and returns the results.
"""

import asyncio
from types import TracebackType
from typing import Self

from sluicegate_operator.kube.lease.lease import LeaseElector
from sluicegate_operator.kube.lease.loop_thread import LoopThread


class LeaseThread:
    """A thread that runs an elector. Use it as `with LeaseThread(elector) as lease`.

    Nothing else may use the elector's client. Any thread may call `held`; the other methods are awaited on the caller's
    loop.
    """

    def __init__(self, elector: LeaseElector) -> None:
        self._elector = elector
        self._keeping: asyncio.Task[None] | None = None
        self._thread = LoopThread("lease")

    def __enter__(self) -> Self:
        self._thread.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._thread.__exit__(kind, error, trace)

    def held(self) -> bool:
        return self._elector.held

    async def acquire(self) -> None:
        """Wait until the Lease is held, and renew it from then on. Raises the KubeErrors of the elector."""
        await self._thread.run(self._acquire())

    async def lost(self) -> None:
        """Wait until this process has lost the Lease."""
        await self._thread.run(self._lost())

    async def release(self) -> None:
        await self._thread.run(self._release())

    async def _acquire(self) -> None:
        await self._elector.acquire()
        self._keeping = asyncio.create_task(self._elector.run_while_held())

    async def _lost(self) -> None:
        if self._keeping is None:
            raise RuntimeError("acquire the lease first")
        await asyncio.shield(self._keeping)

    async def _release(self) -> None:
        if self._keeping is not None:
            self._keeping.cancel()
            await asyncio.gather(self._keeping, return_exceptions=True)
        if not self._elector.lost.is_set():
            await self._elector.release()
