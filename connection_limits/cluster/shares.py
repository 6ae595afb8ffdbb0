"""The broker's side: the shares that it holds of the rates of the cluster, and when it reports. Pure.

The controller counts what a broker has reported, or been granted since. So a share falls here first, and rises only by
an answer.
"""

from dataclasses import dataclass

from connection_limits.cluster.reports import (
    LEASES_UNTIL_BOUND,
    LEASES_UNTIL_EQUAL,
    Answer,
    LimitReport,
    Report,
    ShareState,
    Verdict,
)
from connection_limits.cluster.share_meter import LeaseEnd

_SOON_MS = 20
"""Least time between two reports if the controller waits for one."""
_REPORTS_PER_LEASE = 4
_NOISE_OF_DEMAND, _NOISE_OF_RATE = 10, 20
"""A demand is reported again after a change by these parts of it, and of the rate divided by the brokers."""


class Held:
    """One rate of the cluster on this broker."""

    __slots__ = ("at_send", "demand", "is_granted", "rate", "share", "told_demand", "told_rate", "told_share")

    def __init__(self, rate: int) -> None:
        self.rate = rate
        self.share = 0
        """The share that this broker may use while the lease lasts."""
        self.demand = 0
        self.is_granted = False
        self.at_send = 0
        """The share that this broker could use when the report in flight was sent."""
        self.told_rate = self.told_share = self.told_demand = -1
        """The values that the controller knows, -1 for none. It may count a smaller share than it has granted since."""

    def is_changed(self, brokers: int) -> bool:
        """Return whether the controller has to know a change."""
        return self.must_give_up or self.rate != self.told_rate or self._is_demand_changed(brokers)

    @property
    def must_give_up(self) -> bool:
        """Whether the controller counts a larger share for this broker than the broker may use."""
        return self.share < self.told_share

    def _is_demand_changed(self, brokers: int) -> bool:
        if (self.demand > 0) != (self.told_demand > 0):
            return True
        noise = max(self.told_demand // _NOISE_OF_DEMAND, self.rate // (_NOISE_OF_RATE * brokers))
        return abs(self.demand - self.told_demand) > noise


@dataclass(frozen=True, slots=True)
class Right:
    """The right of this broker to a rate: its share now, its reserve when the lease ends, and the reason."""

    share: int
    reserve: int
    state: ShareState


class Shares:
    """The shares of one broker process, and its report in flight.

    `lease_end` is shared with the meters. `registered` is the number of registered brokers by the metadata, which the
    caller keeps current.
    """

    def __init__(self, report_ms: int, lease_ms: int, now_ms: int) -> None:
        self.lease_end = LeaseEnd()
        self.registered = 1
        self.limits: dict[str, Held] = {}
        self.brokers = 1
        """Number of brokers in the last answer."""
        self.answered_ms: int | None = None
        """Time at which the last answered report was sent; None without an answer since this broker serves."""
        self.controller_epoch = -1
        """The newest term of a controller that this broker knows."""
        self._report_ms = report_ms
        self._lease_ms = lease_ms
        self._silent_ms = now_ms
        """Time from which on this broker has had no answer."""
        self._serving_ms: int | None = None
        """Time from which on this broker serves clients; None while it serves none."""
        self._sequence = 0
        self._answered = -1
        self._needs_full = True
        self._more_soon = False
        self._changed: set[str] = set()
        self._removed: set[str] = set()
        self._in_flight: Report | None = None
        self._sent_ms = now_ms - lease_ms
        self._failures = 0

    def right(self, held: Held, now_ms: int) -> Right:
        """Return the right of this broker to a rate: the share that it may use now, and its reserve."""
        if self._is_equal(now_ms):
            equal = held.rate // self.registered
            return Right(equal, equal, ShareState.EQUAL)
        if self.answered_ms is None:
            return Right(0, 0, ShareState.WAITING)
        # The controller forgets a broker that serves no clients when its lease ends.
        reserve = 0 if self._serving_ms is None else min(held.share, held.rate // self.brokers)
        if now_ms < self.lease_end.at_ms:
            state = ShareState.GRANTED if held.is_granted else ShareState.WAITING
            return Right(held.share, reserve, state)
        if now_ms - self._silent_ms >= LEASES_UNTIL_BOUND * self._lease_ms:
            reserve = min(reserve, held.rate // self.registered)
        return Right(reserve, reserve, ShareState.RESERVE)

    def _is_equal(self, now_ms: int) -> bool:
        """Return whether this broker has served clients for so long without an answer that it uses an equal part."""
        if self._serving_ms is None:
            return False
        return now_ms - max(self._silent_ms, self._serving_ms) >= LEASES_UNTIL_EQUAL * self._lease_ms

    @property
    def is_empty(self) -> bool:
        """Whether there is neither a rate of the cluster nor a removed one that the controller still counts."""
        return not self.limits and not self._removed

    def phase(self, now_ms: int) -> tuple[bool, ...]:
        """Return a value that changes whenever this broker's rights change by the passing of time alone."""
        return (
            self.answered_ms is None,
            self._serving_ms is None,
            now_ms < self.lease_end.at_ms,
            now_ms - self._silent_ms >= LEASES_UNTIL_BOUND * self._lease_ms,
            self._is_equal(now_ms),
        )

    def set_limit(self, name: str, rate: int, now_ms: int) -> None:
        """Add a rate of the cluster, or change it. A lower rate lowers the share by the same factor."""
        held = self.limits.get(name)
        if held is None:
            if not self.limits:
                # It was not silent before: it had nothing to report.
                self.answered_ms, self._silent_ms = None, now_ms
                self._needs_full = True
            self.limits[name] = Held(rate)
            self._removed.discard(name)
        elif held.rate == rate:
            return
        else:
            if rate < held.rate:
                held.share = held.share * rate // held.rate
            held.rate = rate
        self._changed.add(name)

    def remove_limit(self, name: str) -> None:
        if self.limits.pop(name, None) is not None:
            self._changed.discard(name)
            self._removed.add(name)

    def demand_is(self, name: str, demand: int) -> None:
        """Record the rate at which clients attempt connections now."""
        held = self.limits[name]
        held.demand = demand
        if held.is_changed(self.brokers):
            self._changed.add(name)

    def _is_saturated(self, now_ms: int) -> bool:
        """Whether some demand exceeds its share."""
        return any(held.demand > self.right(held, now_ms).share for held in self.limits.values())

    def note_serving(self, serves: bool, now_ms: int) -> None:
        """Record whether this broker serves clients.

        The broker gives up all shares when it stops serving them, and when it begins to after their lease has ended.
        """
        if serves and self._serving_ms is None:
            if self.answered_ms is not None and now_ms >= self.lease_end.at_ms:
                self._give_up(now_ms)
            self._serving_ms = now_ms
        elif not serves and self._serving_ms is not None:
            self._serving_ms = None
            self._give_up(now_ms)

    def _give_up(self, now_ms: int) -> None:
        """Give up all shares: the controller may give them to others."""
        for held in self.limits.values():
            held.share, held.is_granted = 0, False
        self.lease_end.at_ms = 0
        self.answered_ms = None
        self._silent_ms = now_ms
        self._needs_full = True
        self._in_flight = None

    def is_due(self, now_ms: int) -> bool:
        """Return whether a report is to be sent now."""
        if self._in_flight is not None:
            return False
        elapsed_ms = now_ms - self._sent_ms
        renewal_ms = self._lease_ms // _REPORTS_PER_LEASE
        if self._failures:
            return elapsed_ms >= min(self._report_ms << min(self._failures, 10), renewal_ms)
        if not self.limits and not self._removed:
            return False
        if elapsed_ms < _SOON_MS:
            return False
        if self.is_urgent:
            return True
        if self._changed or self._removed or (self._more_soon and self._is_saturated(now_ms)):
            return elapsed_ms >= self._report_ms
        return elapsed_ms >= renewal_ms

    @property
    def is_urgent(self) -> bool:
        """Whether the controller waits for a report.

        The controller counts a larger share than this broker uses, or knows no share.
        """
        return not self._failures and (self._needs_full or any(self.limits[one].must_give_up for one in self._changed))

    def begin_report(self, broker_id: int, broker_epoch: int, now_ms: int) -> Report:
        """Return the next report, and count it as in flight."""
        for name, held in self.limits.items():
            held.at_send = self.right(held, now_ms).share
            if held.at_send != held.share:
                # The lease has ended: what is reported now is all that an answer may renew.
                held.share = held.at_send
                self._changed.add(name)
            if held.demand > held.share:
                # The controller may have more now, for example of a broker that has gone.
                self._changed.add(name)
        names = list(self.limits) if self._needs_full else sorted(self._changed)
        entries = [
            LimitReport(one, held.rate, held.share, held.demand) for one in names for held in (self.limits[one],)
        ]
        if not self._needs_full:
            entries += [LimitReport(name, 0, 0, 0) for name in sorted(self._removed)]
        self._sequence += 1
        self._sent_ms = now_ms
        report = Report(broker_id, broker_epoch, self._sequence, self._answered, self._needs_full, tuple(entries))
        self._in_flight = report
        return report

    def failed(self, report: Report) -> None:
        """Record that a report has no answer: whether the controller has read it is unknown."""
        if report is self._in_flight:
            self._in_flight = None
            self._needs_full = True
            self._failures += 1

    def answered(self, report: Report, answer: Answer, now_ms: int) -> None:
        """Apply the answer to a report. An answer of a term before the newest known one counts as no answer."""
        if report is not self._in_flight:
            return
        if answer.controller_epoch < self.controller_epoch:
            self.failed(report)
            return
        self.controller_epoch = answer.controller_epoch
        self._in_flight = None
        self._failures = 0
        if answer.verdict is not Verdict.GRANTED:
            self._needs_full = True
            # The first full report settles it; another process with this broker's id would not let it.
            self._failures += report.is_full
            return
        self._note_told(report)
        # What has fallen since the report was sent may be another broker's by now: the answer does not renew it.
        for name, held in self.limits.items():
            now = self.right(held, now_ms).share
            if now < min(held.at_send, held.share):
                held.share = now
                self._changed.add(name)
        self._apply(answer)
        self.answered_ms = self._silent_ms = self._sent_ms
        self.lease_end.at_ms = self._sent_ms + answer.lease_ms
        self._lease_ms = answer.lease_ms
        self.brokers = max(answer.brokers, 1)
        self._answered = report.sequence
        self._more_soon = answer.more_soon

    def _note_told(self, report: Report) -> None:
        told = {one.name for one in report.limits}
        self._needs_full = False
        self._removed = set() if report.is_full else self._removed - told
        for one in report.limits:
            held = self.limits.get(one.name)
            if held is None:
                if one.rate:
                    # It was removed after the report was sent.
                    self._removed.add(one.name)
                continue
            held.told_rate, held.told_share, held.told_demand = one.rate, one.share, one.demand
            held.is_granted = True
            if not held.is_changed(self.brokers):
                self._changed.discard(one.name)

    def _apply(self, answer: Answer) -> None:
        for grant in answer.grants:
            held = self.limits.get(grant.name)
            if held is None:
                continue
            share = grant.share
            if held.rate < grant.rate:
                share = share * held.rate // grant.rate
            # The controller has compared a larger share with what all others may use, but not one that it renews.
            held.share = share if grant.share > held.told_share else min(held.share, share)
            held.told_share = max(held.told_share, grant.share)
            if held.is_changed(self.brokers):
                self._changed.add(grant.name)
