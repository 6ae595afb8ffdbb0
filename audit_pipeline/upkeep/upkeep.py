"""Upkeep concurrent with landing: it may take longer than the minutes in which a broker's spools fill up. Shell."""

import logging
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Event
from types import TracebackType
from typing import Final, Self

log = logging.getLogger(__name__)

UPKEEP_S: Final = 3600.0


class HourlyUpkeep:
    """The upkeep in a thread of its own, started once an hour and never twice at a time.

    `upkeep` is passed a function that returns whether to stop, and returns an exit code. `begin` and `finish` raise its
    exceptions.
    """

    def __init__(self, upkeep: Callable[[Callable[[], bool]], int], stopped: Event) -> None:
        self._upkeep = upkeep
        self._stopped = stopped
        self._is_given_up = False
        self._due_us = 0
        self._running: Future[int] | None = None
        self._pool = ThreadPoolExecutor(1, "upkeep")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _: type[BaseException] | None, error: BaseException | None, __: TracebackType | None) -> None:
        self._is_given_up = True
        self._pool.shutdown()
        failure = None if self._running is None else self._running.exception()
        if failure is not None and failure is not error:
            log.error("upkeep has also failed: %r", failure)

    def begin(self, now_us: int) -> None:
        """Start upkeep if it is due and the last run has ended."""
        if self._running is not None:
            if not self._running.done():
                return
            self._running.result()
            self._running = None
        if now_us >= self._due_us and not self._stopped.is_set():
            self._due_us = now_us + int(UPKEEP_S * 1e6)
            self._running = self._pool.submit(self._upkeep, self._is_to_stop)

    def finish(self) -> int:
        """Wait for a running upkeep, if any; return the exit code."""
        return 0 if self._running is None else self._running.result()

    def _is_to_stop(self) -> bool:
        return self._is_given_up or self._stopped.is_set()
