"""A LeaseElector on a thread, an event loop and connections of its own: no work, however much, delays a renewal.

The elector decides and keeps the times; this only carries calls to its loop and answers back.
"""

import asyncio
from types import TracebackType
from typing import Self

from sluicegate_operator.kube.lease import LeaseElector
from sluicegate_operator.kube.loop_thread import LoopThread


class LeaseThread:
    """Use as `with LeaseThread(elector) as lease`. The elector's client must be used by nobody else.

    `held` may be asked in any thread; the others are awaited on the caller's loop.
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
        """Waits as long as it takes, and renews from then on. Raises KubeError as the elector does."""
        await self._thread.run(self._acquire())

    async def lost(self) -> None:
        """Returns when it is."""
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
