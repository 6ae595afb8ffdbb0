"""Limits on the connections of each client address: its own (KIP-308, KIP-612), and those of its groups. Pure.

Connection groups of the address are checked together with its own rate and its own count. Their rates replace the
default rate of all addresses. Times are milliseconds.
"""

from connection_limits.accept_decision import AcceptDecision, AcceptOutcome
from connection_limits.groups.connection_group import NOBODY, AddressGroup, Holders
from connection_limits.groups.connection_groups import TOO_MANY, ConnectionGroups
from connection_limits.listener_quota import ListenerQuota
from connection_limits.per_ip import IpCounts, IpRates
from connection_limits.settings import IpAction, QuotaSettings

_TOO_MANY = AcceptDecision(AcceptOutcome.REFUSE_TOO_MANY)
_REASONS = {IpAction.DELAY: "delayed", IpAction.DROP: "dropped"}
"""Reasons of connections over a rate, as in metrics."""


class AddressQuotas:
    """The limits on connections by their address, and the counts of open connections.

    Owns the rates and the counts of single addresses, and the connection groups.
    """

    def __init__(self, settings: QuotaSettings) -> None:
        self._settings = settings
        self.rates = IpRates(settings)
        self.counts = IpCounts(settings)
        self.groups = ConnectionGroups(settings, self.counts, self.rates)

    def configure(self, settings: QuotaSettings, now_ms: int) -> None:
        self._settings = settings
        self.counts.configure(settings)
        self.rates.configure(settings, now_ms)
        self.groups.configure(settings)

    def update_rate(self, ip: str | None, rate: int | None, now_ms: int) -> None:
        """Change the rate of an `ip` quota entity.

        `ip` None is the default entity; `rate` None removes the rate.
        """
        self.rates.update(ip, rate, now_ms)
        if ip is not None:
            self.groups.reconsider(ip)

    def try_admit(self, ip: str, listener: ListenerQuota, now_ms: int) -> AcceptDecision | None:
        """Return None, and count the connection, if all limits of the address allow it; else the refusal.

        `listener` counts the refusal, too.
        """
        holders = self.groups.holders(ip) if self.groups.active else NOBODY
        over = self._over_rate(holders, ip, now_ms)
        if over is not None:
            return self._refuse_for_rate(ip, listener, *over, now_ms)
        group = self.groups.full(holders.enforcing, ip) if holders.enforcing else None
        if group is not None or not self.counts.try_add(ip):
            listener.too_many_total += 1
            if group is None:
                self.counts.note_held(ip)
                return _TOO_MANY
            group.held[TOO_MANY] += 1
            return AcceptDecision(AcceptOutcome.REFUSE_TOO_MANY, group=group.name)
        if holders is not NOBODY:
            self.groups.admitted(ip, holders, _REASONS[self._settings.ip_action], now_ms)
        return None

    def _over_rate(self, holders: Holders, ip: str, now_ms: int) -> tuple[int, AddressGroup | None] | None:
        """Record a connection in the rates of its address, or in none if it is over one of them.

        In that case, return the throttle in ms and the group. The group is None for the address's own rate, or for the
        default rate, which does not apply to members of a group.
        """
        by_itself = self.rates.active and (not holders.enforcing or self.rates.has_own(ip))
        if by_itself:
            throttle_ms = self.rates.record(ip, now_ms)
            if throttle_ms:
                return throttle_ms, None
        over = self.groups.rates.record(holders.enforcing, ip, now_ms) if holders.enforcing else None
        if over is not None and by_itself:
            self.rates.unrecord(ip, now_ms)
        return over

    def _refuse_for_rate(
        self, ip: str, listener: ListenerQuota, throttle_ms: int, group: AddressGroup | None, now_ms: int
    ) -> AcceptDecision:
        listener.ip_throttle.record(throttle_ms, now_ms)
        if group is None:
            self.rates.note_held(ip)
        else:
            group.held[_REASONS[self._settings.ip_action]] += 1
        name = None if group is None else group.name
        if self._settings.ip_action is IpAction.DROP:
            listener.dropped_total += 1
            return AcceptDecision(AcceptOutcome.REFUSE_DROPPED, group=name)
        listener.delayed_total += 1
        return AcceptDecision(AcceptOutcome.REFUSE_DELAYED, now_ms + throttle_ms, name)

    def on_closed(self, ip: str, accepted_ms: int | None) -> None:
        """Release an ended connection. `accepted_ms` is the time of its admission, if known."""
        self.counts.remove(ip)
        self.groups.open_counts.closed(ip, accepted_ms)
