"""Open connections of connection groups. Pure; times are milliseconds."""

from connection_limits.groups.connection_group import NOBODY, GroupEntry, Holders
from connection_limits.per_ip import IpCounts

_NONE = 0, 0


class GroupCounts:
    """The members that count the open connections of each address. Keeps the groups' numbers of connections."""

    __slots__ = ("_before", "_counted", "_counts")

    def __init__(self, counts: IpCounts) -> None:
        """Read `counts`, the open connections of single addresses."""
        self._counts = counts
        self._counted: dict[str, Holders] = {}
        """By address with open connections: the members that count them."""
        self._before: dict[str, tuple[int, int]] = {}
        """Connections from before a removal, by address that was a member as a whole address.

        The values are the number of open ones, and the time of the removal. They do not count for the current holder of
        the address.
        """

    def __len__(self) -> int:
        """Return the number of addresses whose connections are counted by a member."""
        return len(self._counted)

    def move(self, ip: str, holders: Holders) -> None:
        """Let `holders` count the open connections of the address, instead of the members that do now."""
        before = self._counted.get(ip, NOBODY)
        if before == holders:
            return
        for one in (*before.enforcing, *before.observing):
            one.group.connections -= self.of_member(one, ip)
        for one in (*holders.enforcing, *holders.observing):
            one.group.connections += self.of_member(one, ip)
        if holders is NOBODY or not self._counts.count(ip):
            self._counted.pop(ip, None)
        else:
            self._counted[ip] = holders

    def of_member(self, one: GroupEntry, ip: str) -> int:
        """Return the number of open connections of the address that count for the member."""
        return self._counts.count(ip) - (0 if "/" in one.member else self._before.get(ip, _NONE)[0])

    def exclude_open(self, ip: str, now_ms: int) -> None:
        """Exclude the open connections of the address from the counts of its later holders."""
        open_count = self._counts.count(ip)
        if open_count:
            self._before[ip] = open_count, now_ms

    def admitted(self, ip: str, holders: Holders) -> None:
        """Count an admitted connection, which the address's count already includes."""
        for one in (*holders.enforcing, *holders.observing):
            one.group.connections += 1
        if holders is not NOBODY:
            self._counted[ip] = holders

    def closed(self, ip: str, accepted_ms: int | None) -> None:
        """Count a closed connection, which the address's count no longer includes."""
        left = self._counts.count(ip)
        is_from_before = False
        if ip in self._before:
            before, since_ms = self._before[ip]
            is_from_before = left < before or (accepted_ms is not None and accepted_ms <= since_ms)
            if is_from_before and before > 1:
                self._before[ip] = before - 1, since_ms
            elif is_from_before:
                del self._before[ip]
        holders = self._counted.get(ip)
        if holders is None:
            return
        for one in (*holders.enforcing, *holders.observing):
            if not is_from_before or "/" in one.member:
                one.group.connections -= 1
        if not left:
            del self._counted[ip]
