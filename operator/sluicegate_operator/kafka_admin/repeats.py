"""Answers that are mostly the one before: what was read of it is given again where the next is the same byte for byte.

At each resync every broker of a cluster names all its quotas, and it is the same thousands that it named a minute ago
and that the other brokers name.
"""

from typing import Any, TypeVar

from kio.static.protocol import RequestPayload, ResponsePayload

from sluicegate_operator.kafka_admin.exchange import Exchange

Reply = TypeVar("Reply", bound=ResponsePayload)
Result = TypeVar("Result")
QUESTIONS_MAX = 16
KEPT_MAX_BYTES = 1 << 20
"""A longer answer is not kept: 15,000 quotas have one."""
_CORRELATION_ID_BYTES = 4
"""With which a reply begins: the one part that is never the same."""


class Repeats:
    """Of one cluster: the last answer to each question that `Exchange.repeats` is said of, bounded. Who is given what
    was read of it does not change it. Belongs to one event loop."""

    def __init__(self) -> None:
        self._last: dict[RequestPayload, tuple[bytes, Any]] = {}

    def known(self, exchange: Exchange[Reply, Result], frame: bytes) -> Result | None:
        """What was read of the same answer; None where it was another one."""
        if not exchange.repeats or exchange.request not in self._last:
            return None
        answer, read = self._last[exchange.request]
        return read if answer == frame[_CORRELATION_ID_BYTES:] else None

    def note(self, exchange: Exchange[Reply, Result], frame: bytes, read: Result) -> None:
        if exchange.repeats and len(frame) <= KEPT_MAX_BYTES:
            self._last[exchange.request] = (frame[_CORRELATION_ID_BYTES:], read)
            if len(self._last) > QUESTIONS_MAX:
                del self._last[next(iter(self._last))]
