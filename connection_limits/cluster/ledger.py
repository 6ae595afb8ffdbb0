"""The controller's side: what each broker may use of the rates of the cluster, and what it gets next. Pure.

A ledger belongs to one term of a controller and is never stored. Brokers report to a new one what they hold.
"""

from collections import deque
from collections.abc import Generator, Mapping

from connection_limits.cluster.division import divide, floor_of
from connection_limits.cluster.members import Holding, Members, Standing
from connection_limits.cluster.reports import THOUSANDTHS, Answer, Grant, LimitReport, Report, Verdict

_RATES_OF_A_STEP = 64
_HEADROOM = 5, 4
"""A broker gets this factor of its demand, so that growing demand does not wait for a report."""


class Limit:
    """One rate of the cluster, the brokers that have it, and its last division."""

    __slots__ = ("divided_at", "divided_ms", "holders", "is_dirty", "is_short", "rate", "shares_total", "targets")

    def __init__(self) -> None:
        self.rate = 0
        """The lowest rate that a broker with a lease has reported: brokers learn of a change one after the other."""
        self.holders: dict[int, Holding] = {}
        self.shares_total = 0
        """Sum of the shares of `holders`, those of silent brokers included."""
        self.targets: dict[int, int] = {}
        """The share that each broker is to get, by its id."""
        self.divided_at = -1
        """Version of the members at the last division."""
        self.divided_ms: int | None = None
        """Time of the last division; None before the first."""
        self.is_dirty = True
        """Whether demands have changed so much that the rate must be divided again."""
        self.is_short = False
        """Whether the last division left a broker with less than its demand."""


class Ledger:
    """The shares of all brokers in one term of a controller. Only `report` changes them."""

    def __init__(self, controller_epoch: int, members: Members, limits_max: int, pause_ms: int) -> None:
        """Create an empty ledger. A broker has at most `limits_max` rates here, and gets no share of more.

        At least `pause_ms` pass between two divisions of one rate: each report of a storm changes a demand.
        """
        self.controller_epoch = controller_epoch
        self._limits_max = limits_max
        self._pause_ms = pause_ms
        self.members = members
        self.limits: dict[str, Limit] = {}
        self._gone: deque[Standing] = deque()
        """Brokers that have gone. Their shares count until a report has removed them, in steps."""

    def members_are(self, unfenced: Mapping[int, int], registered: int, now_ms: int) -> None:
        """Record the epochs of the unfenced brokers by id, and the number of registered brokers."""
        self._gone.extend(self.members.update(unfenced, registered, now_ms))

    def _forget_gone(self) -> Generator[None, None, None]:
        """Remove the shares of the brokers that have gone. Several reports may do so in turn."""
        while self._gone:
            standing = self._gone[0]
            for _ in range(min(_RATES_OF_A_STEP, len(standing.holdings))):
                name, _held = standing.holdings.popitem()
                self._remove_holder(name, standing.broker_id)
            if not standing.holdings:
                self._gone.popleft()
            yield

    def _remove_holder(self, name: str, broker_id: int) -> None:
        limit = self.limits[name]
        limit.shares_total -= limit.holders.pop(broker_id).share
        limit.is_dirty = True
        if not limit.holders:
            del self.limits[name]

    def report(self, report: Report, now_ms: int) -> Generator[None, None, Answer]:
        """Read a report, a limit at a time, and return the answer. `members_are` was called before.

        Reports of several brokers may alternate: the work on one limit is never interrupted. A report may be given up
        between two steps, too.
        """
        members = self.members
        before = members.standings.get(report.broker_id)
        standing, verdict = members.begin_report(report, now_ms)
        if standing is None:
            return Answer(verdict, self.controller_epoch)
        if before is not None and before is not standing:
            self._gone.append(before)
        yield from self._forget_gone()
        if not (yield from self._read(standing, report)):
            return Answer(Verdict.OVERTAKEN, self.controller_epoch)
        due = standing.due
        standing.brokers_offered = members.count
        if standing.reviewed_at != members.equal_version:
            standing.reviewed_at = members.equal_version
            due.update(standing.holdings)
        grants: list[Grant] = []
        more_soon = False
        for name in [*(one.name for one in report.limits if one.rate), *due]:
            if self._is_overtaken(standing, report):
                return Answer(Verdict.OVERTAKEN, self.controller_epoch)
            held = standing.holdings.get(name)
            if held is None:
                due.discard(name)
                continue
            share, target = self._decide(name, standing, now_ms)
            limit = self.limits[name]
            if share != held.share:
                grants.append(Grant(name, limit.rate, share))
                # It counts until the broker has reported that it uses less.
                _hold(limit, held, max(held.share, share))
            if share < target or self._is_outdated(limit):
                due.add(name)
                more_soon = True
            else:
                due.discard(name)
            yield
        return Answer(
            Verdict.GRANTED,
            self.controller_epoch,
            members.lease_ms,
            standing.brokers_offered,
            more_soon,
            tuple({grant.name: grant for grant in grants}.values()),
        )

    def _read(self, standing: Standing, report: Report) -> Generator[None, None, bool]:
        """Note what the broker has reported. Return False if the report was overtaken meanwhile."""
        if report.is_full:
            listed: set[str] = set()
            for number, one in enumerate(report.limits):
                listed.add(one.name)
                if number % _RATES_OF_A_STEP == 0:
                    yield
            for number, name in enumerate(list(standing.holdings)):
                if number % _RATES_OF_A_STEP == 0:
                    yield
                    if self._is_overtaken(standing, report):
                        return False
                if name not in listed and standing.holdings.pop(name, None) is not None:
                    self._remove_holder(name, standing.broker_id)
            standing.due.clear()
        for one in report.limits:
            if self._is_overtaken(standing, report):
                return False
            self._note(standing, one)
            yield
        return True

    def _is_overtaken(self, standing: Standing, report: Report) -> bool:
        """Whether a later report of the broker, or one of a later process with its id, was read meanwhile."""
        return self.members.standings.get(standing.broker_id) is not standing or standing.sequence != report.sequence

    def _note(self, standing: Standing, one: LimitReport) -> None:
        broker_id = standing.broker_id
        if not one.rate:
            if standing.holdings.pop(one.name, None) is not None:
                self._remove_holder(one.name, broker_id)
            return
        held = standing.holdings.get(one.name)
        if held is None and len(standing.holdings) >= self._limits_max:
            return
        limit = self.limits.setdefault(one.name, Limit())
        if held is None:
            held = standing.holdings[one.name] = limit.holders[broker_id] = Holding()
            limit.is_dirty = True
        _hold(limit, held, one.share)
        if held.rate != one.rate:
            held.rate = one.rate
            limit.is_dirty = True
        if held.demand != one.demand:
            held.demand = one.demand
            limit.is_dirty |= limit.is_short or _wanted(held) > limit.targets.get(broker_id, 0)

    def _decide(self, name: str, standing: Standing, now_ms: int) -> tuple[int, int]:
        """Return the share that the broker may have from now on, and the one that it is to have in the end."""
        limit, held = self.limits[name], standing.holdings[name]
        if self._is_outdated(limit) and (limit.divided_ms is None or now_ms - limit.divided_ms >= self._pause_ms):
            self._divide(name, limit, now_ms)
        target = limit.targets.get(standing.broker_id, 0)
        if target <= held.share or not self.members.all_known:
            return min(target, held.share), target
        free = limit.rate - self._used(limit, now_ms, but=standing.broker_id)
        return min(target, max(held.share, free)), target

    def _is_outdated(self, limit: Limit) -> bool:
        """Whether the rate has to be divided again."""
        return limit.is_dirty or limit.divided_at != self.members.version

    def _used(self, limit: Limit, now_ms: int, *, but: int) -> int:
        """Return the largest part of the rate that all brokers, except `but`, may use now."""
        used = limit.shares_total - limit.holders[but].share
        for one in self.members.silent:
            if one.broker_id != but and one.broker_id in limit.holders:
                # What it may use without a lease is less.
                used -= limit.holders[one.broker_id].share
        return used + self.members.uses_of_silent(limit, now_ms, but=but)

    def _divide(self, name: str, limit: Limit, now_ms: int) -> None:
        """Divide the rate by the demands of the brokers with a lease.

        Subtract what silent brokers may use, and a floor for a broker that joins.
        """
        standings = self.members.standings
        live = {one: held for one, held in limit.holders.items() if one in self.members.live}
        limit.rate = min((held.rate for held in live.values()), default=limit.rate)
        # Brokers that have not reported yet will do so in a moment.
        order = [*sorted(live), *self.members.unknown]
        floor = floor_of(limit.rate, len(order) + 1)
        left = max(0, limit.rate - floor - self.members.uses_of_silent(limit, now_ms))
        wanted = [_wanted(live[one]) if one in live else 0 for one in order]
        shares = divide(left, wanted, min(floor, left // max(len(order), 1)))
        limit.is_short = any(want > share for want, share in zip(wanted, shares, strict=True))
        targets = dict(zip(order, shares, strict=True))
        for one in live:
            if targets[one] != limit.targets.get(one):
                standings[one].due.add(name)
        limit.targets = targets
        limit.is_dirty, limit.divided_at, limit.divided_ms = False, self.members.version, now_ms


def _hold(limit: Limit, held: Holding, share: int) -> None:
    """Note the most that a broker may use of the rate."""
    limit.shares_total += share - held.share
    held.share = share


def _wanted(held: Holding) -> int:
    more, of = _HEADROOM
    # Fractions of a connection a second are noise, and no reason for another division.
    return held.demand * more // of // THOUSANDTHS * THOUSANDTHS if held.demand > THOUSANDTHS else held.demand
