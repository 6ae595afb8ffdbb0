"""Rows about limits, addresses and storms, from the limits that brokers report. Pure."""

from collections.abc import Iterable, Mapping

from sluicegate_operator.cli.asking.quota_rows import QuotaRow
from sluicegate_operator.cli.fleets.fleet_view import ShownCluster
from sluicegate_operator.cli.top.model.histories import Histories
from sluicegate_operator.cli.top.model.lines import AddressLine, LimitLine, StormLine
from sluicegate_operator.cli.top.model.rates import Rates, sum_of

BLOCKED_MIN = 0.005
"""Least share of blocked time that counts as a storm."""
QUIET_S = 30.0
"""Seconds after which a limit that holds nothing is no storm any more."""

LimitKey = tuple[str, str]
"""A limit by cluster and target."""


def by_target(cluster: ShownCluster) -> Mapping[str, list[QuotaRow]]:
    found: dict[str, list[QuotaRow]] = {}
    for row in cluster.quotas:
        rows = found.get(row.target)
        if rows is None:
            found[row.target] = [row]
        else:
            rows.append(row)
    return found


def limit_lines(cluster: ShownCluster, rates: Rates) -> list[LimitLine]:
    """Return a line for each target, in the order of the rows."""
    return [_limit_line(cluster.name, target, rows, rates) for target, rows in by_target(cluster).items()]


def _limit_line(cluster: str, target: str, rows: list[QuotaRow], rates: Rates) -> LimitLine:
    held, held_s = _held(cluster, target, rows, rates)
    if len(rows) == 1:
        row = rows[0]
        rate, use, opened, blocked = row.accept_rate, _use(row), row.connections, row.blocked_share
    else:
        rate = sum_of(one.accept_rate for one in rows)
        opened = sum_of(one.connections for one in rows)
        use = max((found for one in rows if (found := _use(one)) is not None), default=None)
        blocked = max((one.blocked_share for one in rows if one.blocked_share is not None), default=None)
        row = max(rows, key=lambda one: -1.0 if one.max_rate is None else one.max_rate)
    return LimitLine(
        cluster,
        target,
        row.max_rate,
        row.share is not None,
        row.bounds,
        row.max_connections,
        rate,
        use,
        opened,
        blocked,
        held_s,
        held,
        tuple(rows),
    )


def _held(cluster: str, target: str, rows: list[QuotaRow], rates: Rates) -> tuple[int | None, float | None]:
    """Return the held connections of all brokers, in all and a second; None if no broker reports them."""
    held, held_s, is_known = 0, 0.0, False
    for row in rows:
        if row.held is not None:
            is_known = True
            held += row.held
            held_s += rates.growth((cluster, target, row.broker_id), row.held) or 0.0
    return (held, held_s) if is_known else (None, None)


def _use(row: QuotaRow) -> float | None:
    limit = row.max_rate if row.share is None else row.share.share
    return None if row.accept_rate is None or not limit else row.accept_rate / limit


def address_lines(limits: Iterable[LimitLine]) -> list[AddressLine]:
    return [
        AddressLine(
            line.cluster,
            line.target.removeprefix("ip "),
            line.new_s,
            line.max_rate,
            line.open,
            line.max_connections,
            line.held_s,
            line.held,
            len(line.rows),
        )
        for line in limits
        if line.target.startswith("ip ")
    ]


def is_set(line: LimitLine) -> bool:
    """Return whether a line is a limit, and not only an address that another limit holds back."""
    return not line.target.startswith("ip ") or line.max_rate is not None or line.max_connections is not None


class Storms:
    """The limits that hold connections now, or did so in the last `QUIET_S` seconds."""

    def __init__(self) -> None:
        self._histories = Histories()
        self._began_s: dict[LimitKey, float] = {}
        self._active_s: dict[LimitKey, float] = {}

    def lines(self, limits: Iterable[LimitLine], at_s: float) -> list[StormLine]:
        """Return the storms at a monotonic time, the one with the most held connections a second first."""
        found = []
        for line in limits:
            key = line.cluster, line.target
            if (line.held_s or 0.0) > 0 or (line.blocked or 0.0) >= BLOCKED_MIN:
                self._began_s.setdefault(key, at_s)
                self._active_s[key] = at_s
            elif key not in self._began_s:
                continue
            found.append(self._line(line, key, at_s))
        self._end(at_s)
        return sorted(found, key=lambda storm: -storm.held_s)

    def _line(self, line: LimitLine, key: LimitKey, at_s: float) -> StormLine:
        held_s = line.held_s or 0.0
        return StormLine(
            line.cluster,
            line.target,
            (line.new_s or 0.0) + held_s,
            held_s,
            line.blocked,
            at_s - self._began_s[key],
            at_s - self._active_s[key],
            line.held or 0,
            self._histories.add(key, held_s),
        )

    def _end(self, at_s: float) -> None:
        for key in [key for key, last_s in self._active_s.items() if at_s - last_s > QUIET_S]:
            del self._active_s[key], self._began_s[key]
            self._histories.forget(key)
