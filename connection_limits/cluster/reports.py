"""The messages between a broker and the controller about rates of the cluster. Pure values."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, IntEnum
from typing import NamedTuple

THOUSANDTHS = 1_000
"""Units of a rate of one connection a second."""
LEASES_UNTIL_BOUND, LEASES_UNTIL_EQUAL = 3, 6
"""Lengths of a lease after which a silent broker uses at most an equal part, and one without any answer uses one.

The second is longer: a broker that starts must not take a part that a silent one still uses.
"""


class LimitReport(NamedTuple):
    """One rate of the cluster on one broker."""

    name: str
    rate: int
    """The rate by the broker's configuration; 0 if the limit has been removed."""
    share: int
    """The share that the broker may use from the report on, unless a later answer raises it."""
    demand: int
    """The rate at which clients attempt connections."""


@dataclass(frozen=True, slots=True)
class Report:
    """A report of one broker process; only one is in flight at a time."""

    broker_id: int
    broker_epoch: int
    sequence: int
    """Rises by one with each report of a broker epoch."""
    answered: int
    """Sequence of the last report whose answer this broker has applied; -1 if there is none."""
    is_full: bool
    """Whether `limits` are all limits of the broker; otherwise they are those that changed since the last answer."""
    limits: Sequence[LimitReport]


class Grant(NamedTuple):
    """A share for one broker."""

    name: str
    rate: int
    """The rate of the cluster on which the share is based."""
    share: int


class Verdict(IntEnum):
    """The controller's verdict on a report. The numbers are those of the message."""

    GRANTED = 0
    NEEDS_FULL = 1
    """The controller does not know this broker's shares: the next report must be full."""
    OVERTAKEN = 2
    """The controller has already read a later report of this broker."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to a report. Limits without a grant keep their shares for another lease."""

    verdict: Verdict
    controller_epoch: int
    lease_ms: int = 0
    brokers: int = 0
    """Number of brokers among which the rates are divided."""
    more_soon: bool = False
    """Whether this broker will get more when others have given up their shares: it should report again soon."""
    grants: Sequence[Grant] = ()


class ShareState(Enum):
    """The reason why a broker has its share of a rate."""

    GRANTED = "granted"
    """The controller has granted it, and the lease lasts."""
    RESERVE = "reserve"
    """The lease has ended."""
    WAITING = "waiting"
    """The controller has granted nothing since this broker serves, so the share is 0."""
    EQUAL = "equal"
    """The controller divides no rates, so this broker uses an equal part."""
