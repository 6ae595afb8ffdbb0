"""A report of all limits in force, from which a reader can begin. Pure."""

from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import Final

from connection_limits import keys
from connection_limits.groups.connection_group import GroupEntry
from connection_limits.quotas import ConnectionQuotas
from connection_limits.recorded.changes import group_rows, member_row, moved_rate, moved_share
from connection_limits.recorded.rows import LISTENER, LimitEvent, LimitPlace, LimitRow, RateKind, ip_entity
from connection_limits.recorded.settings_rows import row_of, values_of

MEMBERS_PER_ROW: Final = 100
_CLUSTER_RATES: Final = "connection_limits.cluster_rates"
"""Imported when a rate of the cluster is reported: most brokers have none (decision 45)."""


class AllLimits:
    """The limits of `quotas` when it is created. Its rows are made when they are read, so that they can be sliced.

    Creating it copies references: a hundred thousand members take about a millisecond.
    """

    __slots__ = ("_first", "_members", "_rates")

    def __init__(self, quotas: ConnectionQuotas) -> None:
        known = LimitEvent.KNOWN
        self._first = [row_of(known, place, value) for place, value in values_of(quotas.settings).items()]
        self._first += [LimitRow(known, None, LISTENER, listener=name) for name in quotas.listeners]
        rates = [(None, quotas.rate_limit), *((name, one.rate_limit) for name, one in quotas.listeners.items())]
        self._first += [
            moved_rate(listener, rate.meter.limit, RateKind.ADAPTIVE, known)
            for listener, rate in rates
            if rate.adaptive is not None
        ]
        self._first += self._shares(quotas)
        ip_rates = quotas.addresses.rates
        self._rates: Sequence[tuple[str | None, int]] = tuple(ip_rates.overrides.items())
        if ip_rates.since_ms(None) is not None:
            self._rates = ((None, ip_rates.limit()), *self._rates)
        self._members: list[tuple[str, Sequence[GroupEntry]]] = []
        for name, group in quotas.addresses.groups.by_name.items():
            if group.in_force:
                self._first += group_rows(known, name, group.limits)
            self._members.append((name, tuple(group.members.values())))

    @staticmethod
    def _shares(quotas: ConnectionQuotas) -> Iterator[LimitRow]:
        if not has_shares(quotas):
            return
        rates = import_module(_CLUSTER_RATES)
        for target in rates.targets(quotas):
            yield moved_share(rates.MovedShare(target, target.meter.share, target.meter.brokers), LimitEvent.KNOWN)

    def __len__(self) -> int:
        return len(self._first) + len(self._rates) + sum(-(-len(all_) // MEMBERS_PER_ROW) for _, all_ in self._members)

    def __iter__(self) -> Iterator[LimitRow]:
        yield from self._first
        for ip, rate in self._rates:
            yield row_of(LimitEvent.KNOWN, LimitPlace(keys.ENTITY_RATE, ip_entity(ip)), rate)
        for name, members in self._members:
            for start in range(0, len(members), MEMBERS_PER_ROW):
                some = members[start : start + MEMBERS_PER_ROW]
                yield member_row(LimitEvent.KNOWN, name, [(one.member, one.number) for one in some])


def has_shares(quotas: ConnectionQuotas) -> bool:
    """Return whether a rate of the broker, of a listener or of a connection group is one of the cluster."""
    if quotas.addresses.groups.cluster_wide or quotas.rate_limit.share is not None:
        return True
    return any(listener.rate_limit.share is not None for listener in quotas.listeners.values())
