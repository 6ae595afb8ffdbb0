"""A cache of decoded answers: an answer with the same bytes as the last one is not decoded again.

At each resync every broker of a cluster lists all its quotas: the same thousands as a minute ago, and the same as the
other brokers.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from kio.static.protocol import RequestPayload, ResponsePayload

from sluicegate_operator.kafka_admin.connecting.exchange import Exchange

Reply = TypeVar("Reply", bound=ResponsePayload)
Result = TypeVar("Result")
Read = Callable[[Exchange[Reply, Result], bytes], Awaitable[Result]]

QUESTIONS_MAX = 4
"""Maximum number of cached requests: one for each type of entity with limits."""
KEPT_MAX_BYTES = 1 << 20
"""Longest answer in bytes that is cached. The answer for 15,000 quotas is longer."""
_CORRELATION_ID_BYTES = 4
"""A reply begins with its correlation id, the only part that always differs."""


class KnownAnswers:
    """The last answer to each request with `Exchange.keeps_answer`, of one cluster. Their number is bounded.

    Callers must not change the result. Belongs to one event loop.
    """

    def __init__(self) -> None:
        self._last: dict[RequestPayload, tuple[bytes, Any]] = {}
        self._lock = asyncio.Lock()
        """A hundred brokers answer at once: the first answer is decoded, and the others equal it."""

    async def read(self, exchange: Exchange[Reply, Result], frame: bytes, read: Read[Reply, Result]) -> Result:
        """Return the cached result of an equal frame, or decode the frame with `read`.

        An error of `read` is raised and not cached.
        """
        answer = frame[_CORRELATION_ID_BYTES:]
        async with self._lock:
            if exchange.request in self._last and self._last[exchange.request][0] == answer:
                known: Result = self._last[exchange.request][1]
                return known
            found = await read(exchange, frame)
            if len(frame) <= KEPT_MAX_BYTES:
                self._last[exchange.request] = (answer, found)
            if len(self._last) > QUESTIONS_MAX:
                del self._last[next(iter(self._last))]
            return found
