"""What the coordinator does for each error code of a marker. Pure.

Two codes say that the leader has a newer marker or newer records of the producer. Apache Kafka stops with the
transaction then, and the transactional id stays blocked, also after the next election. Here:

- INVALID_PRODUCER_EPOCH: the producer's epoch rises only when its transaction has ended, or by a marker, which ends
  it. So the partition needs this marker no more. If this broker is no longer the coordinator, it cannot write the
  Complete record that may follow.
- TRANSACTION_COORDINATOR_FENCED: usually another broker is the coordinator by now, and this term ends soon. The marker
  is sent again until then.
"""

from collections.abc import Mapping
from enum import Enum

from broker_runtime.errors import ErrorCode


class MarkerResult(Enum):
    """The meaning of a partition's result for its transaction."""

    DONE = "the partition needs no marker any more"
    RETRY = "the partition's leader is looked up again"
    UNEXPECTED = "the error is logged, and the leader is looked up again"


_RESULTS: Mapping[int, MarkerResult] = {
    ErrorCode.NONE: MarkerResult.DONE,
    ErrorCode.UNSUPPORTED_VERSION: MarkerResult.DONE,
    ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT: MarkerResult.DONE,
    ErrorCode.INVALID_PRODUCER_EPOCH: MarkerResult.DONE,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: MarkerResult.RETRY,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: MarkerResult.RETRY,
    ErrorCode.REQUEST_TIMED_OUT: MarkerResult.RETRY,
    ErrorCode.NOT_ENOUGH_REPLICAS: MarkerResult.RETRY,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: MarkerResult.RETRY,
    ErrorCode.KAFKA_STORAGE_ERROR: MarkerResult.RETRY,
}


def result_of(code: int) -> MarkerResult:
    """Return the meaning of a partition's error code. A code that is not in Kafka's table is unexpected.

    Apache Kafka gives up the transaction then, until its coordinator moves. Here the marker is sent again, because
    readers of committed records would wait for as long.
    """
    return _RESULTS.get(code, MarkerResult.UNEXPECTED)
