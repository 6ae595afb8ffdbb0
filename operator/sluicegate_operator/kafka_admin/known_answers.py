"""Answers that are mostly the one before: what was read of it is given again where the next is the same byte for byte.

At each resync every broker of a cluster names all its quotas, and it is the same thousands that it named a minute ago
and that the other brokers name.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from kio.static.protocol import RequestPayload, ResponsePayload

from sluicegate_operator.kafka_admin.exchange import Exchange

Reply = TypeVar("Reply", bound=ResponsePayload)
Result = TypeVar("Result")
Read = Callable[[Exchange[Reply, Result], bytes], Awaitable[Result]]

QUESTIONS_MAX = 4
"""One a type of entity that has limits."""
KEPT_MAX_BYTES = 1 << 20
"""A longer answer is not kept: 15,000 quotas have one."""
_CORRELATION_ID_BYTES = 4
"""With which a reply begins: the one part that is never the same."""


class KnownAnswers:
    """Of one cluster: the last answer to each question that has `Exchange.keeps_answer`, bounded. Who is given what was
    read of it does not change it. Belongs to one event loop."""

    def __init__(self) -> None:
        self._last: dict[RequestPayload, tuple[bytes, Any]] = {}
        self._turn = asyncio.Lock()
        """A hundred brokers answer at once: the first answer is read, and the others are found to be the same."""

    async def read(self, exchange: Exchange[Reply, Result], frame: bytes, read: Read[Reply, Result]) -> Result:
        """Raises what `read` does, and remembers nothing then."""
        answer = frame[_CORRELATION_ID_BYTES:]
        async with self._turn:
            if exchange.request in self._last and self._last[exchange.request][0] == answer:
                known: Result = self._last[exchange.request][1]
                return known
            found = await read(exchange, frame)
            if len(frame) <= KEPT_MAX_BYTES:
                self._last[exchange.request] = (answer, found)
            if len(self._last) > QUESTIONS_MAX:
                del self._last[next(iter(self._last))]
            return found
