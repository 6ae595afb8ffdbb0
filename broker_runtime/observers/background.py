"""A bounded queue and a thread that empties it, for observers whose work takes longer than a request can wait."""

import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

log = logging.getLogger(__name__)

_BATCH_MAX = 1_000
_LOG_EVERY = 1_000

T = TypeVar("T")


class Background(Generic[T]):
    """A thread that processes queued items, of which at most `limit` wait.

    `work` gets them in order, several at a time. `put` never blocks: it drops the item if the queue is full. `dropped`
    counts these, and the items in calls of `work` that raised. Nothing is durable.
    """

    def __init__(self, work: Callable[[Sequence[T]], None], limit: int, name: str) -> None:
        if limit < 1:
            raise ValueError("a queue must have room for at least one item")
        self.dropped = 0
        self._work = work
        self._limit = limit
        self._name = name
        self._waiting: deque[T] = deque()
        self._news = threading.Event()
        self._closing = False
        self._failures = 0
        self._thread = threading.Thread(target=self._run, name=f"observer-{name}", daemon=True)
        self._thread.start()

    def put(self, item: T) -> bool:
        """Queue an item; call this on the event loop. Return False if the item was dropped."""
        if len(self._waiting) >= self._limit or self._closing:
            self.dropped += 1
            return False
        self._waiting.append(item)
        if not self._news.is_set():
            self._news.set()
        return True

    def close(self, timeout_s: float) -> bool:
        """Accept no more items, and wait for the queued ones. Return False if they are not done in time."""
        self._closing = True
        self._news.set()
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _run(self) -> None:
        waiting = self._waiting
        while True:
            self._news.wait()
            self._news.clear()
            while waiting:
                batch = [waiting.popleft() for _ in range(min(len(waiting), _BATCH_MAX))]
                try:
                    self._work(batch)
                except Exception:
                    self.dropped += len(batch)
                    if self._failures % _LOG_EVERY == 0:
                        log.exception("observer %s has dropped %d items", self._name, len(batch))
                    self._failures += 1
            if self._closing:
                return
