"""Runs a log's fsync in a thread, so that a slow disk blocks neither the event loop nor other logs.

`Disk` is the interface; submitted work must not touch anything that the event loop changes meanwhile.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from functools import partial
from typing import Protocol

from broker_runtime.errors import KafkaError, detached

Done = Callable[[Exception | None], None]
Pause = Callable[[Callable[[], None]], None]
"""Begins an operation.

The operation calls back on the event loop at its end. Then the generator that has yielded this value continues.
"""


class Disk(Protocol):
    """Runs work that may block outside of the event loop."""

    def submit(self, work: Callable[[], None], done: Done) -> None:
        """Run the work later, then call `done` on the event loop with the error that the work raised, or None.

        An OSError or KafkaError comes without its traceback, so that it may be kept.
        """
        ...


def done_by(disk: Disk, work: Callable[[], None]) -> asyncio.Future[None]:
    """Return a future that ends when the disk has done the work, with the work's error.

    No local variable may refer to the future when the error is raised.
    """
    ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    disk.submit(work, partial(_end, ended))
    return ended


def _end(ended: asyncio.Future[None], error: Exception | None) -> None:
    if ended.done():
        # The task that waited was cancelled.
        return
    if error is None:
        ended.set_result(None)
    else:
        ended.set_exception(error)


class InlineDisk:
    """A disk that runs work at once: for starts and stops, when no other work waits, and for tests."""

    def submit(self, work: Callable[[], None], done: Done) -> None:
        try:
            work()
        except OSError as error:
            done(detached(error))
        else:
            done(None)


class ThreadedDisk:
    """A disk that runs work in threads of an executor, which limits how much runs at once.

    It belongs to the running event loop.
    """

    def __init__(self, executor: Executor) -> None:
        self._loop = asyncio.get_running_loop()
        self._executor = executor
        self._pending: set[asyncio.Future[None]] = set()

    def submit(self, work: Callable[[], None], done: Done) -> None:
        future = self._loop.run_in_executor(self._executor, work)
        self._pending.add(future)
        future.add_done_callback(partial(self._ended, done))

    def _ended(self, done: Done, future: asyncio.Future[None]) -> None:
        self._pending.discard(future)
        if not future.cancelled():
            error = future.exception()
            if isinstance(error, OSError | KafkaError):
                detached(error)
            done(error if error is None or isinstance(error, Exception) else RuntimeError(repr(error)))

    async def settle(self) -> None:
        """Wait until no work is under way, including work begun during this wait."""
        while self._pending:
            await asyncio.wait(set(self._pending))
            # A callback may begin the next work.
            await asyncio.sleep(0)
