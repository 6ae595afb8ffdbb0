"""One connection group: limits that its addresses and ranges share, or that each of them has. Pure.

The caller passes times in milliseconds.
"""

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from connection_limits.rate import Meter, meter
from connection_limits.rate_limit import share_meter
from connection_limits.settings import UNLIMITED, QuotaSettings

if TYPE_CHECKING:
    from connection_limits.cluster.share_meter import ShareMeter


@dataclass(frozen=True, slots=True)
class AddressGroupLimits:
    """The limits of a connection group. UNLIMITED means that a limit is not set."""

    rate: int = UNLIMITED
    """New connections per second."""
    max_connections: int = UNLIMITED
    shared: bool = False
    """Whether all members share the limits; otherwise each address has the limits for itself."""
    observe: bool = False
    """Whether the group enforces nothing, and counts the connections that it would have rejected."""
    cluster_wide: bool = False
    """Whether the rate is that of all brokers of the cluster together. Only with `shared`."""

    @property
    def limit_something(self) -> bool:
        return self.rate < UNLIMITED or self.max_connections < UNLIMITED


NO_LIMITS = AddressGroupLimits()


class AddressGroup:
    """A connection group: its members, limits, connection count and statistics, and a shared rate, if it has one.

    It is in force while it limits something. Its counts end when it is no longer in force, not when members leave.
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
        "share",
        "since_ms",
        "tally",
        "would_hold",
    )

    def __init__(self, name: str) -> None:
        self.name = name
        self.limits = NO_LIMITS
        self.in_force = False
        self.life = 0
        """Generation of the group: how often a group of this name was in force before."""
        self.since_ms = 0
        """Time at which it began to enforce, or to observe."""
        self.rate_ms = 0
        """Time of the last change of its rate."""
        self.members: dict[str, GroupEntry] = {}
        self.connections = 0
        """Open connections of the addresses that it limits or observes."""
        self.tally: Meter | None = None
        """The rate that its members share."""
        self.share: ShareMeter | None = None
        """The same, if it is this broker's share of a rate of the cluster."""
        self.held: Counter[str] = Counter()
        """Rejected connections, by reason."""
        self.would_hold: Counter[str] = Counter()
        """Connections that an observing group would have rejected, by reason."""

    def change(self, limits: AddressGroupLimits, settings: QuotaSettings, now_ms: int) -> None:
        """Apply other limits to the group.

        Recorded events of a shared rate are kept while the group has a shared rate.
        """
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
            self.tally = self.share = None
        elif limits.cluster_wide and self.share is None:
            self.tally = self.share = share_meter(settings, limits.rate, now_ms, rejects=True)
        elif self.tally is None or (self.share is not None and not limits.cluster_wide):
            self.share = None
            self.tally = meter(settings, limits.rate, now_ms)
        elif limits.rate != before.rate:
            self.tally.set_limit(limits.rate, now_ms)


ANYBODY = 1.0
"""Number of a member whose holder is unknown."""


class GroupEntry:
    """An address or a range in a group, the time it joined, and the number of its holder."""

    __slots__ = ("group", "member", "number", "since_ms")

    def __init__(self, group: AddressGroup, member: str, since_ms: int, number: float) -> None:
        self.group = group
        self.member = member
        self.since_ms = since_ms
        self.number = number


class Holders(NamedTuple):
    """The groups that limit an address: those that enforce their limits, and those that only observe."""

    enforcing: tuple[GroupEntry, ...] = ()
    observing: tuple[GroupEntry, ...] = ()


NOBODY = Holders()
