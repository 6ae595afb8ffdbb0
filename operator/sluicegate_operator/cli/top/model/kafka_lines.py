"""Rows about groups, partitions and throttled clients. Pure."""

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from sluicegate_operator.cli.groups.group_report import GroupReport
from sluicegate_operator.cli.top.model.histories import Histories
from sluicegate_operator.cli.top.model.lines import ClientLine, GroupLine, PartitionLine, Trend
from sluicegate_operator.cli.top.model.look import (
    BrokerFigures,
    BrokerKey,
    ClientFigures,
    KafkaAnswers,
    Look,
    OutOfSync,
)
from sluicegate_operator.cli.top.model.numbers import UNKNOWN
from sluicegate_operator.cli.top.model.rates import Rates

GroupKey = tuple[str, str]
"""A group by the cluster's name and its id."""
NO_LEADER, OUT_OF_SYNC = "no leader", "out of sync"


class _Lag(NamedTuple):
    """The lag of a group at the time of an answer, and its growth in records a second.

    `known` is the number of partitions whose lags are summed up.
    """

    at_s: float
    lag: int | None
    known: int
    lag_s: float | None
    trend: Trend


class GroupLines:
    """Computes the rows of groups. The histories of their lags are kept."""

    def __init__(self) -> None:
        self._histories = Histories()
        self._lags: dict[GroupKey, _Lag] = {}

    def of(self, look: Look) -> list[GroupLine]:
        """Return the groups of the clusters' coordinators, or those of brokers' metrics for the other clusters."""
        before, self._lags = self._lags, {}
        found = []
        for answers in look.kafka:
            for group in answers.groups:
                key = answers.cluster, group.id
                self._lags[key] = self._lag(before.get(key), key, (group.lag, _known(group)), answers.at_s)
                found.append(_of_report(answers.cluster, group, self._lags[key]))
        for key, by_topic in sorted(_lags_of(look.figures, {one.cluster for one in look.kafka}).items()):
            self._lags[key] = lag = self._lag(before.get(key), key, (sum(by_topic.values()), len(by_topic)), look.at_s)
            topics = ",".join(sorted(by_topic))
            found.append(GroupLine(*key, UNKNOWN, None, None, lag.lag, lag.lag_s, UNKNOWN, topics, lag.trend, None))
        return found

    def _lag(self, before: _Lag | None, key: GroupKey, answer: tuple[int | None, int], at_s: float) -> _Lag:
        """Return the lag at the time of its answer. Several looks may have the same answer.

        The growth is unknown if the number of partitions with a known lag has changed. While a partition has no leader,
        the sum is smaller, and the group has not caught up.
        """
        lag, known = answer
        if before is not None and before.at_s == at_s:
            return before
        growth = None
        if (
            before is not None
            and before.lag is not None
            and lag is not None
            and before.known == known
            and at_s > before.at_s
        ):
            growth = (lag - before.lag) / (at_s - before.at_s)
        return _Lag(at_s, lag, known, growth, self._histories.add(key, float(lag or 0)))


def _known(group: GroupReport) -> int:
    return sum(1 for row in group.offsets if row.lag is not None)


def _of_report(cluster: str, group: GroupReport, lag: _Lag) -> GroupLine:
    return GroupLine(
        cluster,
        group.id,
        group.state,
        len(group.members),
        len(group.offsets),
        lag.lag,
        lag.lag_s,
        group.type,
        ",".join(sorted({row.topic for row in group.offsets})),
        lag.trend,
        group,
    )


def _lags_of(
    figures: Mapping[BrokerKey, BrokerFigures], without: Collection[str]
) -> Mapping[GroupKey, Mapping[str, int]]:
    """Return the lags of groups by topic, except those of the clusters in `without`."""
    lags: dict[GroupKey, dict[str, int]] = {}
    for (cluster, _), found in figures.items():
        if cluster not in without:
            for group_id, by_topic in found.lags.items():
                lags.setdefault((cluster, group_id), {}).update(by_topic)
    return lags


class PartitionLines:
    """Computes the rows of partitions out of sync, with the time since when each was seen."""

    def __init__(self) -> None:
        self._since_s: dict[tuple[str, str, int], float] = {}

    def of(self, kafka: Iterable[KafkaAnswers], at_s: float) -> list[PartitionLine]:
        found = [one for answers in kafka for one in answers.partitions]
        keys = {one[:3] for one in found}
        self._since_s = {key: self._since_s.get(key, at_s) for key in keys}
        return [_partition_line(one, at_s - self._since_s[one[:3]]) for one in found]


def _partition_line(one: OutOfSync, for_s: float) -> PartitionLine:
    missing = tuple(broker for broker in one.replicas if broker not in one.isr)
    state = NO_LEADER if one.leader is None else OUT_OF_SYNC
    return PartitionLine(
        one.cluster, one.topic, one.partition, state, one.leader, missing, one.isr, one.replicas, for_s
    )


def client_lines(figures: Mapping[BrokerKey, BrokerFigures], rates: Rates) -> list[ClientLine]:
    """Return the clients that brokers have throttled a short time ago. Rates are sums over the brokers."""
    found: dict[tuple[str, str, str], list[ClientFigures]] = {}
    throttled: dict[tuple[str, str, str], list[float]] = {}
    for (cluster, broker_id), of_broker in figures.items():
        for client in of_broker.clients:
            key = cluster, client.user, client.client_id
            found.setdefault(key, []).append(client)
            share = rates.growth((*key, broker_id), client.throttled_s)
            if share is not None:
                throttled.setdefault(key, []).append(min(1.0, share))
    return [
        ClientLine(
            *key,
            sum(one.produced for one in of_client),
            sum(one.fetched for one in of_client),
            max(throttled.get(key, ()), default=None),
            len(of_client),
        )
        for key, of_client in sorted(found.items())
    ]
