"""Handles replicas that could not be fetched or stored: each pauses for a while, and is logged once."""

import logging

from broker_runtime.clock import Clock
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.replication.following.follower import FollowerReplica

log = logging.getLogger(__name__)

_LEADER_ELSEWHERE = frozenset(
    (
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
        ErrorCode.STALE_BROKER_EPOCH,
    )
)
"""Errors while one of the two brokers does not know a metadata change yet; they are not a fault."""
_LOGS_DIFFER = frozenset((ErrorCode.CORRUPT_MESSAGE, ErrorCode.OFFSET_OUT_OF_RANGE))
"""The follower's log and the leader's do not fit together: their epochs are compared again."""


class FetchFailures:
    """Failures of the replicas that follow one leader.

    A failure is logged, and pauses the replica.
    """

    def __init__(self, leader: int, clock: Clock) -> None:
        self._leader = leader
        self._clock = clock

    def reported_by_leader(self, replica: FollowerReplica, code: ErrorCode) -> None:
        if code not in _LEADER_ELSEWHERE and replica.backoff.is_news(code.name):
            log.warning("%s cannot be fetched from broker %d; retrying: %s", replica, self._leader, code.name)
        replica.failed(self._clock.monotonic())

    def of_storage(self, replica: FollowerReplica, error: OSError | KafkaError) -> None:
        if replica.backoff.is_news(str(error)):
            log.error("%s cannot be updated from its leader; retrying: %s", replica, error)
        if isinstance(error, KafkaError) and error.code in _LOGS_DIFFER:
            replica.truncated = False
        replica.failed(self._clock.monotonic())
