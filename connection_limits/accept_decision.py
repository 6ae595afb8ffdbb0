"""The decision about an accepted socket. Pure; times are milliseconds."""

from enum import Enum


class AcceptOutcome(Enum):
    """The outcome for a client's socket that was just accepted."""

    ADMIT = "admit"
    WAIT_UNTIL = "wait-until"
    """Keep the socket and ask again (`on_wait_over`) at `at_ms`."""
    WAIT_FOR_SLOT = "wait-for-slot"
    """Keep the socket until `wake` is called for the listener, then ask again."""
    REFUSE_TOO_MANY = "too-many"
    REFUSE_DELAYED = "delayed"
    """Keep the socket open, unread, and close it at `at_ms`."""
    REFUSE_DROPPED = "dropped"


class AcceptDecision:
    """The decision about a client's socket that was just accepted.

    `at_ms` has a meaning only for WAIT_UNTIL and REFUSE_DELAYED.

    `group` is the connection group whose limit refuses; None if the limit is not a group's.
    """

    __slots__ = ("at_ms", "group", "outcome")

    def __init__(self, outcome: AcceptOutcome, at_ms: int = 0, group: str | None = None) -> None:
        self.outcome = outcome
        self.at_ms = at_ms
        self.group = group

    def __repr__(self) -> str:
        return f"AcceptDecision({self.outcome.name}, {self.at_ms})"


ADMIT = AcceptDecision(AcceptOutcome.ADMIT)
