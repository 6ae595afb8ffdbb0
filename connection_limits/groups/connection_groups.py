"""Find the connection groups of an address, and judge its connections by them. Pure.

Among all members that contain an address only those with the longest prefix count, and all of these do. A rate of the
`ip` entity acts as a member with the whole address. Observing groups are found separately, in the same way. Times are
milliseconds.
"""

from collections.abc import Iterator, Sequence
from itertools import islice

from connection_limits.address_ranges import AddressRanges
from connection_limits.groups.connection_group import (
    ANYBODY,
    NOBODY,
    AddressGroup,
    AddressGroupLimits,
    GroupEntry,
    Holders,
)
from connection_limits.groups.group_counts import GroupCounts
from connection_limits.groups.group_rates import GroupRates
from connection_limits.per_ip import IpCounts, IpRates
from connection_limits.settings import QuotaSettings

TOO_MANY = "too_many"
"""Reason of a rejected connection in metrics, for a count. The other reasons are those of the action over a rate."""


class ConnectionGroups:
    """The connection groups and their members.

    Keeps their rates (`rates`) and counts (`open_counts`) in step with them.

    A change costs the work for one member. Only a change of a range, or of a group as a whole, requires a recount of
    the addresses with open connections, in pieces (`recount`). An address that connects meanwhile is moved at once.
    """

    def __init__(self, settings: QuotaSettings, counts: IpCounts, rates: IpRates) -> None:
        """Create an empty set of groups. `counts` and `rates` are those of single addresses, and are only read here."""
        self.by_name: dict[str, AddressGroup] = {}
        self.cluster_wide: dict[str, AddressGroup] = {}
        """Groups whose rate is that of all brokers of the cluster together."""
        self.active = False
        """Whether a group is, or was until recently, in force. If not, no address has to be searched."""
        self.recount_due = False
        self._settings = settings
        self._ip_counts = counts
        self._ip_rates = rates
        self._ranges: AddressRanges[GroupEntry] = AddressRanges()
        self.rates = GroupRates(settings)
        self.open_counts = GroupCounts(counts)
        self._enforcing = self._observing = 0
        """Number of groups in force that enforce, and that observe."""
        self._left: Iterator[str] = iter(())
        """Addresses that the current recount has still to process."""

    def configure(self, settings: QuotaSettings) -> None:
        self._settings = self.rates.meters.settings = settings

    def set_limits(self, name: str, limits: AddressGroupLimits, now_ms: int) -> None:
        """Change the limits of a connection group.

        NO_LIMITS removes the group and its counts; its members wait until the group is created again.
        """
        group = self.by_name.get(name) or AddressGroup(name)
        before = self._share(group, -1)
        group.change(limits, self._settings, now_ms)
        if self._share(group, 1) != before:
            self._recount_all()
        if group.share is not None:
            self.cluster_wide[name] = group
        else:
            self.cluster_wide.pop(name, None)
        self._note(group)

    def _share(self, group: AddressGroup, sign: int) -> tuple[bool, bool]:
        """Add (1) or remove (-1) the group in the counts by mode.

        Returns whether it enforces and whether it observes.
        """
        observes = group.in_force and group.limits.observe
        enforces = group.in_force and not group.limits.observe
        self._enforcing += sign * enforces
        self._observing += sign * observes
        return enforces, observes

    def add_member(self, name: str, member: str, now_ms: int, number: float = ANYBODY) -> None:
        """Add an address or a range, in canonical spelling, to a group.

        `number` identifies the holder. Adding a member again with the same number changes nothing. With another number
        it has a new holder, who inherits nothing of the previous one. Raises ValueError if `member` is invalid.
        """
        group = self.by_name.get(name) or AddressGroup(name)
        before = group.members.get(member)
        if before is not None and before.number == number:
            return
        is_given_on = self._is_given_on(member, number, before)
        membership = GroupEntry(group, member, now_ms, number)
        self._ranges.add(member, membership)
        group.members[member] = membership
        if before is not None:
            self._ranges.remove(member, before)
            self.rates.forget(before)
        self._note(group)
        if is_given_on and self._ip_counts.count(member):
            # The open connections do not count for the new holder.
            self.open_counts.move(member, NOBODY)
            self.open_counts.exclude_open(member, now_ms)
            self.reconsider(member)
        self._member_changed(group, member)

    def _is_given_on(self, member: str, number: float, before: GroupEntry | None) -> bool:
        """Whether the address passes to another holder now.

        If it is in several groups, only the first that reports the change returns True: the new holder may connect in
        the meantime.
        """
        if "/" in member:
            return False
        known = {one.number for one in self._ranges.whole.get(member, ())} - {ANYBODY}
        return number not in known and (before is not None or (number != ANYBODY and bool(known)))

    def remove_member(self, name: str, member: str, now_ms: int) -> None:
        """Remove a member with everything that was recorded for it. The member may be gone already."""
        group = self.by_name.get(name)
        membership = None if group is None else group.members.pop(member, None)
        if group is None or membership is None:
            return
        self._ranges.remove(member, membership)
        self.rates.forget(membership)
        self._note(group)
        self._member_changed(group, member)
        if "/" not in member and member not in self._ranges.whole:
            self.open_counts.exclude_open(member, now_ms)

    def _note(self, group: AddressGroup) -> None:
        if group.in_force or group.members:
            self.by_name[group.name] = group
        else:
            self.by_name.pop(group.name, None)

    def _member_changed(self, group: AddressGroup, member: str) -> None:
        if not group.in_force:
            return
        if "/" in member:
            self._recount_all()
        else:
            self.reconsider(member)

    def reconsider(self, ip: str) -> None:
        """Update the counts after the address became a member or got a rate of its own, or lost either."""
        if self.active and self._ip_counts.count(ip):
            self.open_counts.move(ip, self._find(ip))

    def _recount_all(self) -> None:
        self.recount_due = self.active = True

    def recount(self, pieces: int) -> bool:
        """Recount at most `pieces` addresses with open connections; return whether more remain."""
        for ip in islice(self._left, pieces):
            if self._ip_counts.count(ip):
                self.open_counts.move(ip, self._find(ip))
            pieces -= 1
        if pieces and self.recount_due:
            self.recount_due = False
            self._left = iter(list(self._ip_counts.addresses))
            return True
        if pieces:
            self.active = bool(self._enforcing or self._observing or len(self.open_counts))
        return not pieces

    def _find(self, ip: str) -> Holders:
        """Find the members that limit the address now."""
        enforcing: tuple[GroupEntry, ...] = ()
        observing: tuple[GroupEntry, ...] = ()
        seek_enforcing, seek_observing = self._enforcing > 0, self._observing > 0
        found = self._ranges.whole.get(ip)
        if found is not None:
            enforcing, observing = _by_deed(found)
        seek_enforcing = seek_enforcing and not enforcing and not self._ip_rates.has_own(ip)
        seek_observing = seek_observing and not observing
        if seek_enforcing or seek_observing:
            for found in self._ranges.around(ip):
                enforcing_here, observing_here = _by_deed(found)
                if seek_enforcing and enforcing_here:
                    enforcing, seek_enforcing = enforcing_here, False
                if seek_observing and observing_here:
                    observing, seek_observing = observing_here, False
                if not seek_enforcing and not seek_observing:
                    break
        return Holders(enforcing, observing) if enforcing or observing else NOBODY

    def holders(self, ip: str) -> Holders:
        """Find the members that limit a connecting client.

        The open connections of the client's address move to their counts.
        """
        found = self._find(ip)
        self.open_counts.move(ip, found)
        return found

    def full(self, enforcing: Sequence[GroupEntry], ip: str) -> AddressGroup | None:
        """Return a group that has reached its maximum of connections; None without such a group."""
        for one in enforcing:
            if self._is_full(one.group, self.open_counts.of_member(one, ip)):
                return one.group
        return None

    @staticmethod
    def _is_full(group: AddressGroup, of_address: int) -> bool:
        limits = group.limits
        return (group.connections if limits.shared else of_address) >= limits.max_connections

    def admitted(self, ip: str, holders: Holders, over_rate: str, now_ms: int) -> None:
        """Count an admitted connection. The count of its address includes the connection already.

        Groups that only observe count what they would have rejected of the admitted connections. `over_rate` is the
        reason under which they count connections over their rate.
        """
        for one in holders.observing:
            if self.rates.record((one,), ip, now_ms) is not None:
                one.group.would_hold[over_rate] += 1
            elif self._is_full(one.group, self.open_counts.of_member(one, ip) - 1):
                one.group.would_hold[TOO_MANY] += 1
        self.open_counts.admitted(ip, holders)


def _by_deed(found: Sequence[GroupEntry]) -> tuple[tuple[GroupEntry, ...], tuple[GroupEntry, ...]]:
    """Split memberships into those of enforcing groups and those of observing groups."""
    if len(found) == 1:
        # The usual case.
        group = found[0].group
        if not group.in_force:
            return (), ()
        one = (found[0],)
        return ((), one) if group.limits.observe else (one, ())
    in_force = [one for one in found if one.group.in_force]
    return (
        tuple(one for one in in_force if not one.group.limits.observe),
        tuple(one for one in in_force if one.group.limits.observe),
    )
