"""Compares the decisions of a replay with those of the log: under the limits in force, all are equal. Pure."""

from collections.abc import Iterable
from typing import Any, NamedTuple

from audit_pipeline.what_if.attempts import Attempt, Outcome


class Difference(NamedTuple):
    """A connection about which the replay has decided otherwise than the log, or at another time."""

    attempt: Attempt

    @property
    def row(self) -> dict[str, Any]:
        recorded, replayed = self.attempt.recorded, self.attempt.replayed
        return {
            "listener": self.attempt.listener,
            "client_ip": self.attempt.address,
            "arrived_us": self.attempt.wall_us,
            "was": recorded.outcome.value,
            "was_limit": None if recorded.limit is None else recorded.limit.key,
            "was_after_ms": (recorded.at_us - self.attempt.arrived_us) / 1000,
            "replayed": None if replayed is None else replayed.outcome.value,
            "replayed_limit": None if replayed is None or replayed.limit is None else replayed.limit.key,
            "replayed_after_ms": None if replayed is None else (replayed.at_us - self.attempt.arrived_us) / 1000,
        }


def differences(attempts: Iterable[Attempt]) -> list[Difference]:
    """Return the attempts about which the replay has decided otherwise, or at another time."""
    return [Difference(attempt) for attempt in attempts if not is_equal(attempt)]


def is_equal(attempt: Attempt) -> bool:
    """Whether the replay has the outcome of the log at its time, and the limit that the log names.

    The ConnectionQuota of a limit is not compared: it decides nothing, and a log may name it late.
    """
    recorded, replayed = attempt.recorded, attempt.replayed
    if replayed is None or recorded.outcome is not replayed.outcome:
        return False
    if recorded.outcome is not Outcome.WAITING and recorded.at_us != replayed.at_us:
        return False
    if recorded.limit is None or replayed.limit is None:
        return recorded.limit is None
    return (recorded.limit.key, recorded.limit.entity) == (replayed.limit.key, replayed.limit.entity)
