"""Carries recorded changes of limits out on another limiter. Pure; times are milliseconds."""

from collections.abc import Iterable, Sequence

from connection_limits import keys
from connection_limits.cluster.share_meter import NO_END
from connection_limits.cluster_rates import wait_again
from connection_limits.groups.connection_group import ANYBODY, NO_LIMITS, AddressGroupLimits
from connection_limits.quotas import ConnectionQuotas
from connection_limits.recorded.changes import members_in
from connection_limits.recorded.rows import GROUP, IP, LISTENER, MEMBER, LimitEvent, LimitPlace, LimitRow, RateKind
from connection_limits.recorded.settings_rows import settings_of
from connection_limits.settings import UNLIMITED, QuotaSettings

_RECOUNTED = 10_000


class AppliedLimits:
    """The values of the settings that are in force: a change of some of them makes new settings.

    The methods raise ValueError for rows that no broker writes, and InvalidLimitError for limits that a broker refuses.
    """

    def __init__(self) -> None:
        self._values: dict[LimitPlace, int | str] = {}

    @property
    def settings(self) -> QuotaSettings:
        return settings_of(self._values)

    def read_settings(self, rows: Iterable[LimitRow]) -> bool:
        """Take over the values of rows about the settings; return whether there is one."""
        found = False
        for row in rows:
            if not _is_setting(row):
                continue
            found = True
            value = row.text if row.value is None else row.value
            if row.event is LimitEvent.REMOVED or value is None:
                self._values.pop(row.place, None)
            else:
                self._values[row.place] = value
        return found

    def apply(self, rows: Sequence[LimitRow], quotas: ConnectionQuotas, now_ms: int) -> None:
        """Carry out the rows of one change, or of a report."""
        if self.read_settings(rows):
            quotas.update(self.settings, now_ms)
        groups: dict[str, dict[str, int]] = {}
        for row in rows:
            if row.kind is RateKind.SHARE:
                continue
            if row.key != MEMBER and (row.entity or "").startswith(GROUP):
                values = groups.setdefault((row.entity or "").removeprefix(GROUP), {})
                if row.key is not None and row.value is not None:
                    values[row.key] = row.value
            else:
                _apply_row(row, quotas, now_ms)
        for name, values in groups.items():
            quotas.addresses.groups.set_limits(name, _group_limits(values), now_ms)
        for row in rows:
            if row.key == MEMBER:
                _members(row, quotas, now_ms)
        are_others = False
        for row in rows:
            if row.kind is RateKind.SHARE:
                are_others |= _share(row, quotas, now_ms)
        if are_others:
            wait_again(quotas, now_ms)


def _apply_row(row: LimitRow, quotas: ConnectionQuotas, now_ms: int) -> None:
    """Carry out a row that is not about a connection group."""
    if row.event is LimitEvent.COUNTED:
        recount(quotas)
    elif row.key == LISTENER:
        _listener(row, quotas, now_ms)
    elif row.kind is RateKind.ADAPTIVE:
        _rate(row, quotas, now_ms)
    elif row.key == keys.ENTITY_RATE:
        ip = (row.entity or "").removeprefix(IP)
        quotas.addresses.update_rate(None if ip == keys.DEFAULT_ENTITY else ip, row.value, now_ms)


def recount(quotas: ConnectionQuotas) -> None:
    """Count the open connections of changed groups."""
    while quotas.addresses.groups.recount(_RECOUNTED):
        pass


def _is_setting(row: LimitRow) -> bool:
    if row.kind is not RateKind.CONFIGURED or row.key is None or (row.entity or "").startswith(GROUP):
        return False
    return row.key != keys.ENTITY_RATE


def _listener(row: LimitRow, quotas: ConnectionQuotas, now_ms: int) -> None:
    name = row.listener or ""
    if row.event is LimitEvent.CLOSED:
        quotas.retire_listener(name, now_ms)
    elif row.event is LimitEvent.OPENED or name not in quotas.listeners:
        quotas.add_listener(name, now_ms)


def _rate(row: LimitRow, quotas: ConnectionQuotas, now_ms: int) -> None:
    limit = quotas.rate_limit if row.listener is None else quotas.listeners[row.listener].rate_limit
    if row.value is None:
        raise ValueError(f"the rate of {row.listener or 'the broker'} has no value")
    limit.move_to(row.value, now_ms)


def _share(row: LimitRow, quotas: ConnectionQuotas, now_ms: int) -> bool:
    """Let a meter admit by the recorded share, and return whether it is another one: the row may have other brokers.

    The log has the end of its lease, so the meter does not look for it.
    """
    entity = row.entity or ""
    if entity.startswith(GROUP):
        meter = quotas.addresses.groups.by_name[entity.removeprefix(GROUP)].share
    else:
        meter = (quotas.rate_limit if row.listener is None else quotas.listeners[row.listener].rate_limit).share
    if meter is None or row.value is None or row.text is None:
        raise ValueError(f"the share of {entity or row.listener or 'the broker'} is not one of a rate of the cluster")
    before = meter.share
    meter.brokers = int(row.text)
    meter.use(row.value, row.value, NO_END, now_ms)
    return row.value != before


def _group_limits(values: dict[str, int]) -> AddressGroupLimits:
    if not values:
        return NO_LIMITS
    return AddressGroupLimits(
        values.get(keys.ENTITY_RATE, UNLIMITED),
        values.get(keys.ENTITY_COUNT, UNLIMITED),
        shared=values.get(keys.SHARED) == 1,
        observe=values.get(keys.OBSERVE) == 1,
        cluster_wide=values.get(keys.CLUSTER) == 1,
    )


def _members(row: LimitRow, quotas: ConnectionQuotas, now_ms: int) -> None:
    groups, name = quotas.addresses.groups, (row.entity or "").removeprefix(GROUP)
    for member, number in members_in(row.text or ""):
        if row.event is LimitEvent.REMOVED:
            groups.remove_member(name, member, now_ms)
        else:
            groups.add_member(name, member, now_ms, ANYBODY if number is None else number)
