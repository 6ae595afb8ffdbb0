"""Runs the checks of tokens outside of the event loop, a bounded number of them. Shell."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from broker_runtime.security.sasl.mechanism import SaslRefusedError

_THREADS = 2


class Checks:
    """Threads that check credentials. They start with the first check. At most `waiting_max` checks wait or run."""

    def __init__(self, waiting_max: int) -> None:
        self._waiting_max = waiting_max
        self._waiting = 0
        self._threads: ThreadPoolExecutor | None = None

    def run(self, work: Callable[[], object], then: Callable[[object], None]) -> Callable[[], None]:
        """Run `work` in another thread, and call `then` with its result. Return a function that cancels the call.

        If too many checks wait, the result is a SaslRefusedError at once.
        """
        loop = asyncio.get_running_loop()
        if self._waiting >= self._waiting_max:
            error = SaslRefusedError("too many tokens wait for their check (sluicegate.sasl.checks.max)")
            return loop.call_soon(then, error).cancel
        if self._threads is None:
            self._threads = ThreadPoolExecutor(_THREADS, "sasl")
        self._waiting += 1
        running = loop.run_in_executor(self._threads, work)

        def ended(done: "asyncio.Future[object]") -> None:
            self._waiting -= 1
            if not done.cancelled():
                then(done.result())

        running.add_done_callback(ended)
        return lambda: _cancel(running)

    def close(self) -> None:
        """Stop the threads after the running checks."""
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)


def _cancel(running: "asyncio.Future[object]") -> None:
    running.cancel()
