"""One connection group: limits that addresses and ranges have together, or each of them. Pure.

Times are milliseconds, given.
"""

from collections import Counter
from dataclasses import dataclass
from typing import NamedTuple

from broker_runtime.network.rate import Meter, meter
from broker_runtime.network.settings import UNLIMITED, QuotaSettings


@dataclass(frozen=True, slots=True)
class GroupLimits:
    """UNLIMITED stands for a limit that is not set."""

    rate: int = UNLIMITED
    """New connections per second."""
    max_connections: int = UNLIMITED
    shared: bool = False
    """All members have the limits together; otherwise each address has them."""
    observe: bool = False
    """Nothing is held back, it is counted what would have been."""

    @property
    def limit_something(self) -> bool:
        return self.rate < UNLIMITED or self.max_connections < UNLIMITED


NO_LIMITS = GroupLimits()


class Group:
    """A group's members, its limits, its count and, where its members share one, its rate; and its figures.

    It is in force while it limits something. What it has counted goes with that, and not with its members.
    """

    __slots__ = (
        "connections",
        "held",
        "in_force",
        "life",
        "limits",
        "members",
        "name",
        "rate_ms",
        "since_ms",
        "tally",
        "would_hold",
    )

    def __init__(self, name: str) -> None:
        self.name = name
        self.limits = NO_LIMITS
        self.in_force = False
        self.life = 0
        """Which one it is of those that were in force under this name, one after the other."""
        self.since_ms = 0
        """When it began to enforce, or to observe."""
        self.rate_ms = 0
        """When its rate was changed last."""
        self.members: dict[str, Membership] = {}
        self.connections = 0
        """Open ones, of the addresses that it holds or observes."""
        self.tally: Meter | None = None
        """The rate that its members share."""
        self.held: Counter[str] = Counter()
        """By reason: connections that it has kept out."""
        self.would_hold: Counter[str] = Counter()
        """The same of those that it would have kept out."""

    def change(self, limits: GroupLimits, settings: QuotaSettings, now_ms: int) -> None:
        """Take over other limits. What was recorded of a rate that members share stays while there is such a rate."""
        before, self.limits = self.limits, limits
        was_in_force, self.in_force = self.in_force, limits.limit_something
        if not self.in_force:
            self.life += was_in_force
            self.held.clear()
            self.would_hold.clear()
        elif not was_in_force or before.observe != limits.observe:
            self.since_ms = now_ms
        if limits.rate != before.rate:
            self.rate_ms = now_ms
        if not limits.shared or limits.rate >= UNLIMITED:
            self.tally = None
        elif self.tally is None:
            self.tally = meter(settings, limits.rate, now_ms)
        elif limits.rate != before.rate:
            self.tally.set_limit(limits.rate, now_ms)


ANYBODY = 1.0
"""The number of a member of which nobody says who has it."""


class Membership:
    """An address or a range in a group, since when it is, and the number of who has it."""

    __slots__ = ("group", "member", "number", "since_ms")

    def __init__(self, group: Group, member: str, since_ms: int, number: float) -> None:
        self.group = group
        self.member = member
        self.since_ms = since_ms
        self.number = number


class Holders(NamedTuple):
    """Whose limits an address has, and who only counts what it would hold."""

    enforcing: tuple[Membership, ...] = ()
    observing: tuple[Membership, ...] = ()


NOBODY = Holders()
