"""Rates of connection groups: one that all members share, or one for each address. Pure; times are milliseconds."""

from collections.abc import Sequence

from connection_limits.groups.connection_group import AddressGroup, GroupEntry
from connection_limits.kept_meters import KeptMeters
from connection_limits.rate import Meter
from connection_limits.settings import UNLIMITED, QuotaSettings


class GroupRates:
    """The rates of connection groups, and the meters of addresses that share no rate."""

    __slots__ = ("meters",)

    def __init__(self, settings: QuotaSettings) -> None:
        self.meters: KeptMeters[tuple[GroupEntry, int, str]] = KeptMeters(settings)
        """By member, life of its group, and address.

        A member that joins again, or a recreated group, starts afresh.
        """

    def record(self, enforcing: Sequence[GroupEntry], ip: str, now_ms: int) -> tuple[int, AddressGroup] | None:
        """Count a connection in the rates of all members, or in none if one is over its rate.

        If one is over its rate, return the throttle in milliseconds and the group.
        """
        recorded: list[Meter] = []
        for one in enforcing:
            tally = self._tally(one, ip, now_ms)
            if tally is None:
                continue
            tally.record(now_ms)
            recorded.append(tally)
            throttle_ms = tally.throttle_ms(now_ms)
            if throttle_ms:
                for known in recorded:
                    known.unrecord(now_ms)
                return throttle_ms, one.group
        return None

    def _tally(self, one: GroupEntry, ip: str, now_ms: int) -> Meter | None:
        group = one.group
        rate = group.limits.rate
        if rate >= UNLIMITED or group.limits.shared:
            return group.tally
        known = self.meters.used((one, group.life, ip), rate, now_ms)
        if known.limit != rate:
            known.set_limit(rate, group.rate_ms)
        return known

    def forget(self, one: GroupEntry) -> None:
        """Remove everything recorded for a member that has left its group, if the member is one whole address."""
        self.meters.forget((one, one.group.life, one.member))
