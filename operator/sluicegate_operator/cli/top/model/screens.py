"""The tables of the console, with their columns. Pure.

A terminal of 80 columns shows the columns with the smallest `from_width`; wider ones show more.
"""

from collections.abc import Mapping
from operator import attrgetter
from typing import Any

from kafka_bytes.printable import printable
from sluicegate_operator.cli.top.model.columns import Column, Mark, Screen
from sluicegate_operator.cli.top.model.kafka_lines import NO_LEADER
from sluicegate_operator.cli.top.model.limit_lines import address_lines, is_set
from sluicegate_operator.cli.top.model.lines import BrokerLine, GroupLine, LimitLine, PartitionLine, StormLine
from sluicegate_operator.cli.top.model.numbers import (
    UNKNOWN,
    ids,
    milliseconds,
    percent,
    rate_of,
    seconds,
    short,
)

MEDIUM, WIDE, WIDEST = 110, 150, 190
"""Widths of a terminal from which tables have more columns."""
TREND = 12
_STATES: Mapping[str, Mark] = {"Online": Mark.GOOD, "Serving": Mark.GOOD, "Stopping": Mark.WARN, "Unknown": Mark.WARN}
_GROUPS: Mapping[str, Mark] = {"Stable": Mark.GOOD, "Empty": Mark.DIM, UNKNOWN: Mark.PLAIN}
BLOCKED_BAD, LOOP_WARN_MS, LOOP_BAD_MS = 0.5, 50.0, 250.0


def _name(key: str, heading: str, width: int, meaning: str, **more: Any) -> Column:
    """Return a column of a text, which is sorted by the alphabet."""
    get = attrgetter(key)
    return Column(
        key, heading, width, lambda row: printable(get(row)), get, meaning, right=False, largest_first=False, **more
    )


def _trend(meaning: str, from_width: int = MEDIUM) -> Column:
    return Column(
        "trend",
        "trend",
        TREND,
        lambda row: short(row.trend[-1] if row.trend else None),
        lambda row: row.trend[-1] if row.trend else None,
        meaning,
        from_width=from_width,
        trend=True,
    )


def _held_mark(row: Any) -> Mark:
    return Mark.WARN if row.held_s else Mark.PLAIN


def _blocked_mark(row: Any) -> Mark:
    share = row.blocked or 0.0
    return Mark.BAD if share >= BLOCKED_BAD else Mark.WARN if share > 0 else Mark.PLAIN


def _loop_mark(row: BrokerLine) -> Mark:
    delay = row.loop_ms or 0.0
    return Mark.BAD if delay >= LOOP_BAD_MS else Mark.WARN if delay >= LOOP_WARN_MS else Mark.PLAIN


def _number(key: str, heading: str, width: int, meaning: str, **more: Any) -> Column:
    get = attrgetter(key)
    return Column(key, heading, width, lambda row: short(get(row)), get, meaning, **more)


CLUSTER = _name("cluster", "cluster", 12, "Name of the cluster, if there are several.", stretch=20)
_NEW = _number("new_s", "new/s", 7, "New connections a second that brokers accept.")
_OPEN = _number("open", "open", 7, "Open connections.")
_HELD = _number("held_s", "held/s", 7, "Connections a second that limits delay or reject.", mark=_held_mark)
_BLOCKED = Column(
    "blocked",
    "blocked",
    7,
    lambda row: percent(row.blocked),
    attrgetter("blocked"),
    "Share of time in which a limit blocks all new connections; the largest of the brokers and listeners.",
    mark=_blocked_mark,
)
_HELD_TOTAL = _number("held", "held", 8, "Connections that were delayed or rejected since the brokers started.")

BROKERS = Screen(
    key="brokers",
    title="Brokers",
    columns=(
        CLUSTER,
        Column("id", "broker", 6, lambda row: str(row.id), attrgetter("id"), "Id of the broker.", largest_first=False),
        _name("state", "state", 9, "State at the controller.", mark=lambda row: _STATES.get(row.state, Mark.BAD)),
        _NEW,
        _OPEN,
        _HELD,
        _BLOCKED,
        Column(
            "loop_ms",
            "loop ms",
            7,
            lambda row: milliseconds(row.loop_ms),
            attrgetter("loop_ms"),
            "Longest delay of the event loop in the last one to two minutes, in milliseconds.",
            mark=_loop_mark,
        ),
        Column(
            "out_of_sync",
            "out of sync",
            11,
            lambda row: f"{row.out_of_sync}/{row.replicas}",
            attrgetter("out_of_sync"),
            "Replicas of this broker that are not in sync, and all of its replicas.",
            mark=lambda row: Mark.BAD if row.out_of_sync else Mark.PLAIN,
        ),
        _number("leaders", "leads", 7, "Partitions that the broker leads."),
        Column("cpu", "cpu", 5, lambda row: percent(row.cpu), attrgetter("cpu"), "Share of one processor core.",
               from_width=MEDIUM),
        _trend("New connections a second in the last looks, the newest at the right."),
        _name("address", "address", 21, "Address for clients.", from_width=MEDIUM, stretch=32),
        _number("requests_s", "req/s", 7, "Requests a second.", from_width=WIDE),
        _number("memory", "memory", 7, "Resident memory in bytes.", from_width=WIDE),
        _number("waiting", "waiting", 7, "Accepted connections that wait for a rate or a slot.", from_width=WIDE),
        Column(
            "heartbeat_s", "heartbeat", 9, lambda row: seconds(row.heartbeat_s), attrgetter("heartbeat_s"),
            "Time since the last heartbeat that the controller received.", from_width=WIDE,
        ),
        _number("restarts", "restarts", 8, "Restarts of the process or the container.", from_width=WIDEST),
        _name("place", "pod or pid", 12, "Pod or process.", from_width=WIDEST, stretch=28),
    ),
    sort="id",
    rows=attrgetter("brokers"),
    identity=lambda row: (row.cluster, row.id),
    search=lambda row: f"{row.id} {row.state} {row.address} {row.place} {row.problem} {row.cluster}",
    empty="no broker is known",
    problem=lambda row: printable(row.problem),
    problem_from="new_s",
)  # fmt: skip


def _rate_limit(row: LimitLine) -> str:
    if row.max_rate is None:
        return "none"
    return short(row.max_rate) + (" all" if row.of_cluster else "") + (f" ({row.bounds})" if row.bounds else "")


LIMITS = Screen(
    key="limits",
    title="Limits",
    columns=(
        CLUSTER,
        _name("target", "target", 20, "Limited broker, listener, address or group.", stretch=44),
        Column(
            "max_rate",
            "limit/s",
            8,
            _rate_limit,
            attrgetter("max_rate"),
            "New connections a second that each broker allows; `all` marks a rate of all brokers together."
            " An adaptive rate has its bounds in brackets.",
            stretch=22,
        ),
        _NEW,
        Column(
            "use", "used", 5, lambda row: percent(row.use), attrgetter("use"),
            "Used share of the rate, on the broker where it is largest.",
            mark=lambda row: Mark.WARN if (row.use or 0.0) >= 0.9 else Mark.PLAIN,
        ),
        _BLOCKED,
        _HELD,
        _HELD_TOTAL,
        Column(
            "open", "open/max", 11, lambda row: rate_of(row.open, row.max_connections), attrgetter("open"),
            "Open connections on all brokers, and the maximum on each broker.",
        ),
        Column(
            "brokers", "brokers", 7, lambda row: str(len(row.rows)), lambda row: len(row.rows),
            "Brokers that report the limit.", from_width=MEDIUM,
        ),
    ),
    sort="held_s",
    rows=lambda view: [line for line in view.limits if line.max_rate is not None or is_set(line)],
    identity=lambda row: (row.cluster, row.target),
    search=lambda row: f"{row.target} {row.cluster}",
    empty="no broker reports a limit",
)  # fmt: skip

ADDRESSES = Screen(
    key="addresses",
    title="Addresses",
    columns=(
        CLUSTER,
        _name("address", "address", 22, "Client address with a limit, or one that limits held back.", stretch=42),
        _HELD,
        _HELD_TOTAL,
        Column(
            "new_s", "new/s/limit", 12, lambda row: rate_of(row.new_s, row.max_rate), attrgetter("new_s"),
            "New connections a second on all brokers, and the limit on each.",
        ),
        Column(
            "open", "open/max", 12, lambda row: rate_of(row.open, row.max_connections), attrgetter("open"),
            "Open connections on all brokers, and the maximum on each.",
        ),
        _number("brokers", "brokers", 7, "Brokers that report the address."),
    ),
    sort="held_s",
    rows=lambda view: address_lines(view.limits),
    identity=lambda row: (row.cluster, row.address),
    search=lambda row: f"{row.address} {row.cluster}",
    empty="no address has a limit, and no limit has held one back",
)  # fmt: skip

CLIENTS = Screen(
    key="clients",
    title="Clients",
    columns=(
        CLUSTER,
        _name("user", "user", 18, "User that client quotas throttle.", stretch=36),
        _name("client_id", "client id", 22, "Client id that client quotas throttle.", stretch=36),
        Column(
            "throttled", "throttled", 9, lambda row: percent(row.throttled), attrgetter("throttled"),
            "Share of time for which requests were throttled.",
            mark=lambda row: Mark.WARN if row.throttled else Mark.PLAIN,
        ),
        _number("produced_s", "produced/s", 10, "Bytes a second that the client produces."),
        _number("fetched_s", "fetched/s", 10, "Bytes a second that the client fetches."),
        _number("brokers", "brokers", 7, "Brokers that report the client.", from_width=MEDIUM),
    ),
    sort="throttled",
    rows=attrgetter("clients"),
    identity=lambda row: (row.cluster, row.user, row.client_id),
    search=lambda row: f"{row.user} {row.client_id} {row.cluster}",
    empty="no client quota has throttled a client",
)  # fmt: skip


def _storm_state(row: StormLine) -> str:
    return "now" if row.quiet_s < 1 else f"{seconds(row.quiet_s)} ago"


STORMS = Screen(
    key="storms",
    title="Storms",
    columns=(
        CLUSTER,
        _name("target", "target", 18, "Limit that holds connections back.", stretch=40),
        Column(
            "quiet_s", "last", 8, _storm_state, lambda row: -row.quiet_s,
            "When the limit last held a connection back.",
        ),
        Column("for_s", "for", 5, lambda row: seconds(row.for_s), attrgetter("for_s"), "Time since the storm began."),
        _number("tried_s", "tried/s", 7, "Connections a second that clients attempt: accepted and held ones."),
        _HELD,
        _BLOCKED,
        Column(
            "trend", "held/s, newest right", 20, lambda row: short(row.held_s), attrgetter("held_s"),
            "Held connections a second in the last looks, the newest at the right.", stretch=60, trend=True,
        ),
        _number("held", "held", 8, "Held connections since the brokers started.", from_width=MEDIUM),
    ),
    sort="held_s",
    rows=attrgetter("storms"),
    identity=lambda row: (row.cluster, row.target),
    search=lambda row: f"{row.target} {row.cluster}",
    empty="no limit has held connections back in the last 30 seconds",
)  # fmt: skip


def _growth(row: GroupLine) -> str:
    if row.lag_s is None:
        return UNKNOWN
    return ("+" if row.lag_s > 0 else "") + short(row.lag_s)


GROUPS = Screen(
    key="groups",
    title="Groups",
    columns=(
        CLUSTER,
        _name("id", "group", 22, "Name of the group.", stretch=44),
        _name("state", "state", 11, "State of the group.", mark=lambda row: _GROUPS.get(row.state, Mark.WARN)),
        _number("members", "members", 7, "Members of the group."),
        _number("lag", "lag", 8, "Records that the group has not committed yet."),
        Column(
            "lag_s", "lag+/s", 7, _growth, attrgetter("lag_s"),
            "Growth of the lag in records a second; negative while the group catches up.",
            mark=lambda row: Mark.WARN if (row.lag_s or 0.0) > 0 else Mark.PLAIN,
        ),
        _trend("Lag in the last answers, the newest at the right.", from_width=0),
        _number("partitions", "partitions", 10, "Partitions that are assigned or committed.", from_width=MEDIUM),
        _name("type", "type", 9, "Protocol of the group.", from_width=MEDIUM),
        _name("topics", "topics", 16, "Topics of the group.", from_width=MEDIUM, stretch=60),
    ),
    sort="lag",
    rows=attrgetter("groups"),
    identity=lambda row: (row.cluster, row.id),
    search=lambda row: f"{row.id} {row.state} {row.type} {row.topics} {row.cluster}",
    empty="no group is known",
)  # fmt: skip


def _partition_mark(row: PartitionLine) -> Mark:
    return Mark.BAD if row.state == NO_LEADER else Mark.WARN


PARTITIONS = Screen(
    key="partitions",
    title="Partitions",
    columns=(
        CLUSTER,
        _name("topic", "topic", 24, "Topic of the partition.", stretch=50),
        Column(
            "partition", "partition", 9, lambda row: str(row.partition), attrgetter("partition"),
            "Index of the partition.", largest_first=False,
        ),
        _name("state", "state", 11, "no leader, or out of sync.", mark=_partition_mark),
        Column(
            "leader", "leader", 6, lambda row: UNKNOWN if row.leader is None else str(row.leader),
            attrgetter("leader"), "Broker that leads the partition.", largest_first=False,
        ),
        Column(
            "missing", "missing", 9, lambda row: ids(row.missing), attrgetter("missing"),
            "Brokers whose replicas are not in sync.", right=False, stretch=20,
        ),
        Column(
            "for_s", "for", 5, lambda row: seconds(row.for_s), attrgetter("for_s"),
            "Time since the console first saw this.",
        ),
        Column("isr", "in sync", 12, lambda row: ids(row.isr), attrgetter("isr"), "Brokers that are in sync.",
               right=False, from_width=MEDIUM),
        Column("replicas", "replicas", 12, lambda row: ids(row.replicas), attrgetter("replicas"),
               "Brokers that have a replica.", right=False, from_width=MEDIUM),
    ),
    sort="for_s",
    rows=attrgetter("partitions"),
    identity=lambda row: (row.cluster, row.topic, row.partition),
    search=lambda row: f"{row.topic} {row.topic}-{row.partition} {row.state} {row.cluster}",
    empty="all partitions that brokers report are in sync",
)  # fmt: skip

SCREENS: Mapping[str, Screen] = {
    screen.key: screen for screen in (BROKERS, LIMITS, ADDRESSES, CLIENTS, STORMS, GROUPS, PARTITIONS)
}
