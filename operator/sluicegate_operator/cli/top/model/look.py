"""The answers of one moment, from which the console computes its rows. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from sluicegate_operator.cli.fleets.fleet_view import ShownCluster
from sluicegate_operator.cli.groups.group_report import GroupReport

BrokerKey = tuple[str, int]
"""A broker by the cluster's name and its id."""


class ClientFigures(NamedTuple):
    """A throttled client in the metrics of one broker: bytes a second, and the sum of its throttle times."""

    user: str
    client_id: str
    produced: float
    fetched: float
    throttled_s: float


@dataclass(frozen=True, slots=True)
class BrokerFigures:
    """The figures that the console reads from a broker's metrics.

    - `loop_delay_s`: longest delay of the event loop in the last one to two minutes, in seconds.
    - `cpu_s`: processor time since the start; `memory`: resident bytes.
    - `requests`: number of requests since the start.
    - `waiting`: accepted connections that wait for a rate or a slot.
    - `under_min_isr`: led partitions with fewer replicas in sync than min.insync.replicas.
    - `lags`: records that groups have not committed yet, by group and topic.
    """

    loop_delay_s: float | None = None
    cpu_s: float | None = None
    memory: float | None = None
    requests: float | None = None
    waiting: int = 0
    under_min_isr: int = 0
    lags: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    clients: tuple[ClientFigures, ...] = ()


class OutOfSync(NamedTuple):
    """A partition that has no leader, or a replica that is not in sync."""

    cluster: str
    topic: str
    partition: int
    leader: int | None
    replicas: tuple[int, ...]
    isr: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class KafkaAnswers:
    """The answers of one cluster's brokers to Kafka's admin requests.

    `at_s` is a monotonic time. `partitions` are only those out of sync. `left_out`: number of groups that were not
    asked for. `note`: sentence about groups without an answer, or empty. `cluster_seen` has brokers and limits if only
    Kafka's protocol is asked.
    """

    cluster: str
    at_s: float
    partitions: tuple[OutOfSync, ...] = ()
    groups: tuple[GroupReport, ...] = ()
    left_out: int = 0
    note: str = ""
    cluster_seen: ShownCluster | None = None


@dataclass(frozen=True, slots=True)
class Look:
    """The answers of one moment. `at_s` is a monotonic time, `shown_at` the same time as users read it.

    `kafka` may be some seconds older than the rest. `notes` are sentences about missing answers.
    """

    at_s: float
    shown_at: str
    clusters: Sequence[ShownCluster]
    figures: Mapping[BrokerKey, BrokerFigures] = field(default_factory=dict)
    kafka: Sequence[KafkaAnswers] = ()
    notes: tuple[str, ...] = ()
