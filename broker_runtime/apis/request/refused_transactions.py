"""The error for clients that use transactions, which this broker does not support.

The error code is TRANSACTIONAL_ID_AUTHORIZATION_FAILED, on which all clients fail at once: the Java client, librdkafka,
aiokafka, kafka-python and KafkaJS. They retry forever after COORDINATOR_NOT_AVAILABLE, and librdkafka also after
INVALID_REQUEST.
"""

import logging

from broker_runtime.apis.request.call import Call
from broker_runtime.clock import Clock
from broker_runtime.errors import ErrorCode

log = logging.getLogger(__name__)

CODE = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
WHY = (
    "transactions are not served; remove transactional.id from the producer (Kafka Streams: set "
    "processing.guarantee=at_least_once; Kafka Connect: set exactly.once.source.support=disabled)"
)
_LOG_INTERVAL_S = 60.0


class RefusedTransactions:
    """Logs the clients that request transactions, at most one line a minute."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._logged_s = float("-inf")
        self._unlogged = 0
        """Requests since the last line."""

    def note(self, call: Call, transactional_id: str) -> None:
        """Log the client's address and what to do, unless another request was logged within the last minute."""
        now_s = self._clock.monotonic()
        if now_s - self._logged_s < _LOG_INTERVAL_S:
            self._unlogged += 1
            return
        self._logged_s = now_s
        more = f" ({self._unlogged} more requests since the last line)" if self._unlogged else ""
        self._unlogged = 0
        log.warning(
            "%s of client %.100r at %s:%d with transactional id %.100r was refused: %s%s",
            call.api.name,
            call.client_id,
            *call.connection.peer,
            transactional_id,
            WHY,
            more,
        )
