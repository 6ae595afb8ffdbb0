"""The rows of the console's tables. Pure.

They are named tuples, because a refresh may make ten thousand of them. A value of None is unknown, and shown as `-`.
"""

from collections.abc import Sequence
from typing import NamedTuple

from sluicegate_operator.cli.asking.quota_rows import QuotaRow
from sluicegate_operator.cli.groups.group_report import GroupReport

Trend = tuple[float, ...]
"""The last values of a figure, the newest last."""


class BrokerLine(NamedTuple):
    """A broker. `problem` is why it does not answer, else empty; then most figures are None.

    - `new_s`, `held_s`: connections a second that it accepts, and that its limits delay or reject.
    - `blocked`: share of time in which the busiest limit of the broker or of a listener blocks new connections.
    - `loop_ms`: longest delay of its event loop in the last one to two minutes.
    - `cpu`: share of one processor core; `place`: its pod or pid.
    """

    cluster: str
    id: int
    state: str
    problem: str
    new_s: float | None
    open: int | None
    held_s: float | None
    blocked: float | None
    waiting: int | None
    loop_ms: float | None
    cpu: float | None
    memory: float | None
    requests_s: float | None
    out_of_sync: int
    replicas: int
    leaders: int
    heartbeat_s: float | None
    restarts: int
    address: str
    place: str
    trend: Trend


class LimitLine(NamedTuple):
    """A limit on connections, over all brokers that report it. `rows` has it by broker.

    - `max_rate`: connections a second: on each broker, or on all brokers together if `of_cluster`.
    - `use`: share of the rate that is used, on the broker where it is largest.
    - `new_s`, `open`, `held`, `held_s`: sums over the brokers; `blocked`: the largest share.
    """

    cluster: str
    target: str
    max_rate: float | None
    of_cluster: bool
    bounds: str
    max_connections: int | None
    new_s: float | None
    use: float | None
    open: int | None
    blocked: float | None
    held_s: float | None
    held: int | None
    rows: tuple[QuotaRow, ...]


class AddressLine(NamedTuple):
    """A client's address that has a limit of its own, or that limits have delayed or rejected."""

    cluster: str
    address: str
    new_s: float | None
    max_rate: float | None
    open: int | None
    max_connections: int | None
    held_s: float | None
    held: int | None
    brokers: int


class ClientLine(NamedTuple):
    """A user with a client id that client quotas throttle: bytes a second, and the share of time throttled."""

    cluster: str
    user: str
    client_id: str
    produced_s: float
    fetched_s: float
    throttled: float | None
    brokers: int


class StormLine(NamedTuple):
    """A limit that delays or rejects connections, or did so a short time ago.

    - `tried_s`: connections a second that clients attempt: accepted and held ones.
    - `for_s`: seconds since the limit began to hold connections; `quiet_s`: since it last did.
    - `trend`: held connections a second.
    """

    cluster: str
    target: str
    tried_s: float
    held_s: float
    blocked: float | None
    for_s: float
    quiet_s: float
    held: int
    trend: Trend


class GroupLine(NamedTuple):
    """A consumer group. `lag_s` is the growth of its lag in records a second; `report` has its members and offsets."""

    cluster: str
    id: str
    state: str
    members: int | None
    partitions: int | None
    lag: int | None
    lag_s: float | None
    type: str
    topics: str
    trend: Trend
    report: GroupReport | None


class PartitionLine(NamedTuple):
    """A partition that has no leader, or a replica that is not in sync, `for_s` seconds after it was first seen."""

    cluster: str
    topic: str
    partition: int
    state: str
    leader: int | None
    missing: tuple[int, ...]
    isr: tuple[int, ...]
    replicas: tuple[int, ...]
    for_s: float


class Totals(NamedTuple):
    """The figures of the heading. `answering` of `brokers` brokers answer and are ready."""

    brokers: int
    answering: int
    new_s: float | None
    open: int | None
    held_s: float | None
    loop_ms: float | None
    out_of_sync: int
    lag: int | None


class TopView(NamedTuple):
    """All rows of one moment. `limits` also has addresses that only other limits hold back.

    The rows of limits and addresses are taken from them when a table shows them. `notes` are sentences about missing
    answers.
    """

    shown_at: str
    clusters: tuple[str, ...]
    totals: Totals
    brokers: tuple[BrokerLine, ...] = ()
    limits: Sequence[LimitLine] = ()
    clients: tuple[ClientLine, ...] = ()
    storms: tuple[StormLine, ...] = ()
    groups: tuple[GroupLine, ...] = ()
    partitions: tuple[PartitionLine, ...] = ()
    notes: tuple[str, ...] = ()
