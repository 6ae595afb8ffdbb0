"""Rows about limits, addresses and storms, from the limits that brokers report. Pure."""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from sluicegate_operator.cli.asking.quota_rows import QuotaRow
from sluicegate_operator.cli.fleets.fleet_view import ShownCluster
from sluicegate_operator.cli.top.model.histories import Histories
from sluicegate_operator.cli.top.model.lines import AddressLine, LimitLine, StormLine
from sluicegate_operator.cli.top.model.rates import growth_of, sum_of

BLOCKED_MIN = 0.005
"""Least share of blocked time that counts as a storm."""
QUIET_S = 30.0
"""Seconds after which a limit that holds nothing is no storm any more."""

LimitKey = tuple[str, str]
"""A limit by cluster and target."""


class ClusterLimits(NamedTuple):
    """The limits of one cluster, with figures by broker.

    - `computed`: the lines that were computed at this look. Only they can hold connections.
    - `own`: each broker's row about the whole broker; `blocked`: its largest share of blocked time.
    - `held_s`: connections a second that all limits of a broker hold; only brokers that report held connections.
    """

    lines: list[LimitLine]
    computed: list[LimitLine]
    own: dict[int, QuotaRow]
    blocked: dict[int, float]
    held_s: dict[int, float]


class LimitLines:
    """Computes the rows of limits from looks. A row object that did not change keeps its line.

    Sources pass the same object for a limit that they did not read again: this makes ten thousand limits cheap.
    """

    def __init__(self) -> None:
        self._lines: dict[str, dict[str, LimitLine]] = {}
        self._same: dict[str, dict[str, QuotaRow]] = {}
        """The row of each target that has one row and holds nothing: the same row makes the same line."""

    def find(self, cluster: str, target: str) -> LimitLine | None:
        """Return the line of the last look; None for a target that it does not have."""
        return self._lines.get(cluster, {}).get(target)

    def of_cluster(self, cluster: ShownCluster, passed_s: float) -> ClusterLimits:
        """Return a line for each target. `passed_s`: seconds since the look before; 0 at the first look."""
        lines = self._lines.setdefault(cluster.name, {})
        same = self._same.setdefault(cluster.name, {})
        limits = ClusterLimits([], [], {}, {}, {})
        get = same.get
        changed: dict[str, list[QuotaRow]] = {}
        other = [row for row in cluster.quotas if get(row.target) is not row]
        for row in other:
            changed.setdefault(row.target, []).append(row)
        count = len(cluster.quotas) - len(other) + len(changed)
        # A target that had one row may have it unchanged beside the row of another broker.
        replaced = {id(kept): kept for target in changed if (kept := same.pop(target, None)) is not None}
        for unchanged in replaced.keys() & map(id, cluster.quotas) if replaced else ():
            changed[replaced[unchanged].target].append(replaced[unchanged])
            count -= 1
        for target, rows in changed.items():
            compute = line_of_one if len(rows) == 1 else limit_line
            line = compute(cluster.name, rows, lines.get(target), passed_s, limits)
            lines[target] = line
            limits.computed.append(line)
            if len(rows) == 1 and not line.held_s and line.blocked is None:
                same[target] = rows[0]
        if count != len(lines):
            for target in lines.keys() - {row.target for row in cluster.quotas}:
                del lines[target]
                same.pop(target, None)
        limits.own.update((row.broker_id, row) for row in changed.get("broker", ()))
        limits.lines.extend(lines.values())
        return limits


def line_of_one(
    cluster: str, rows: list[QuotaRow], before: LimitLine | None, passed_s: float, limits: ClusterLimits
) -> LimitLine:
    """Return the line of a target with one row: the same line as that of `limit_line`, at a third of its cost.

    A look may have hundreds of them.
    """
    (row,) = rows
    held, held_s = _held(rows, before, passed_s, limits)
    blocked = row.blocked_share
    if blocked is not None and blocked > limits.blocked.get(row.broker_id, -1.0):
        limits.blocked[row.broker_id] = blocked
    return LimitLine(
        cluster, row.target, row.max_rate, row.share is not None, row.bounds, row.max_connections, row.accept_rate,
        _use(row), row.connections, blocked, held_s, held, (row,),
    )  # fmt: skip


def limit_line(
    cluster: str, rows: list[QuotaRow], before: LimitLine | None, passed_s: float, limits: ClusterLimits
) -> LimitLine:
    """Return the line of a target over the brokers of `rows`, and add their figures to `limits`."""
    held, held_s = _held(rows, before, passed_s, limits)
    for row in rows:
        if row.blocked_share is not None:
            limits.blocked[row.broker_id] = max(row.blocked_share, limits.blocked.get(row.broker_id, 0.0))
    row = max(rows, key=lambda one: -1.0 if one.max_rate is None else one.max_rate)
    return LimitLine(
        cluster,
        row.target,
        row.max_rate,
        row.share is not None,
        row.bounds,
        row.max_connections,
        sum_of(one.accept_rate for one in rows),
        max((found for one in rows if (found := _use(one)) is not None), default=None),
        sum_of(one.connections for one in rows),
        max((one.blocked_share for one in rows if one.blocked_share is not None), default=None),
        held_s,
        held,
        tuple(rows),
    )


def _held(
    rows: list[QuotaRow], before: LimitLine | None, passed_s: float, limits: ClusterLimits
) -> tuple[int | None, float | None]:
    """Return the held connections of all brokers, in all and a second; None if no broker reports them."""
    totals = {} if before is None else {row.broker_id: row.held for row in before.rows}
    held, held_s, is_known = 0, 0.0, False
    for row in rows:
        if row.held is None:
            continue
        is_known = True
        held += row.held
        growth = growth_of(totals.get(row.broker_id), row.held, passed_s) or 0.0
        held_s += growth
        limits.held_s[row.broker_id] = limits.held_s.get(row.broker_id, 0.0) + growth
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
    return line.max_rate is not None or line.max_connections is not None or not line.target.startswith("ip ")


class Storms:
    """The limits that hold connections now, or did so in the last `QUIET_S` seconds."""

    def __init__(self) -> None:
        self._histories = Histories()
        self._began_s: dict[LimitKey, float] = {}
        self._active_s: dict[LimitKey, float] = {}

    def lines(
        self, computed: Sequence[LimitLine], find: Callable[[str, str], LimitLine | None], at_s: float
    ) -> list[StormLine]:
        """Return the storms at a monotonic time, the one with the most held connections a second first.

        `computed` are the limits that may hold connections; `find` returns the line of a cluster's target.
        """
        found = []
        active = [one for one in computed if one.held_s or one.blocked]
        quiet = self._began_s.keys() - {one[:2] for one in active}
        active += [line for key in quiet if (line := find(*key)) is not None]
        for line in active:
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
