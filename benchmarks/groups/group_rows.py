"""Rows of consumer groups: thousands of members of one coordinator, in one group and in many, of both protocols.

Less is better for every figure, except for commits per second: rates are given as processor time and as time.
"""

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path

from benchmarks.brokers import workloads
from benchmarks.brokers.clusters import (
    CONTROLLER_ID,
    TIMING,
    Cluster,
    ClusterMaker,
    apache_kafka_brokers,
    apache_kafka_controllers,
)
from benchmarks.brokers.replicated_rows import ClusterRow
from benchmarks.brokers.rows import production_python, resident_mb
from benchmarks.groups.group_crowd import Crowd
from benchmarks.processor_time import process_times
from tests.support.processes.apache_kafka import ApacheKafka
from tests.support.processes.broker_process import BrokerGroup, BrokerProcess

GROUP_MEMBERS = 10
"""Members of each of many groups."""
TOPIC, NARROW = "wide", "narrow"
BESIDE_MEMBERS, BESIDE_INTERVAL_S = 20, 0.05
HURRY_S, STEADY_S, REBALANCING_S = 4, 5, 8
COMMITTERS = 50
PRODUCING_S = 4
CONSUMED_BYTES = {100: 100_000_000, 1_000: 400_000_000}
"""Bytes to consume by record size: less than four seconds of producing write."""
SETTINGS = {"group.initial.rebalance.delay.ms": "3000"}
"""The default value. Brokers of tests use no delay."""
REPLICATED = TIMING | SETTINGS | {"offsets.topic.replication.factor": "3"}
Measured = tuple[float, ...]


@contextlib.contextmanager
def one_of_ours(checkout: Path, settings: Mapping[str, str] = SETTINGS) -> Iterator[Cluster]:
    properties = dict(settings) | {"offsets.topic.replication.factor": "1", "sluicegate.broker.replicas.max": "20000"}
    with BrokerProcess(properties=properties, python=production_python(checkout), checkout=checkout) as broker:
        yield Cluster([broker])


@contextlib.contextmanager
def one_of_theirs(settings: Mapping[str, str] = SETTINGS) -> Iterator[Cluster]:
    with ApacheKafka(properties=settings, heap_mb=1024) as broker:
        yield Cluster([broker])


@contextlib.contextmanager
def three_of_ours(checkout: Path, settings: Mapping[str, str] = REPLICATED) -> Iterator[Cluster]:
    with BrokerGroup(3, properties=settings, python=production_python(checkout), checkout=checkout) as group:
        yield Cluster(group.brokers)


@contextlib.contextmanager
def three_of_theirs(settings: Mapping[str, str] = REPLICATED) -> Iterator[Cluster]:
    with contextlib.ExitStack() as running:
        voters = running.enter_context(apache_kafka_controllers((CONTROLLER_ID,), settings))
        yield Cluster(running.enter_context(apache_kafka_brokers(voters, settings)))


def _life(protocol: str, groups: int, members: int) -> Callable[[ClusterMaker], Measured]:
    """Measure joining, memory, and processor time at the protocol's pace and at the greatest rate."""

    def measure(make: ClusterMaker) -> Measured:
        with make() as cluster, _members_of(cluster, protocol, groups, members) as crowd:
            (broker,) = cluster.brokers.values()
            joined = crowd.ask("join")["seconds"]
            before = sum(process_times(broker.pid))
            crowd.ask("watch", seconds=STEADY_S)
            share = (sum(process_times(broker.pid)) - before) / STEADY_S
            before = sum(process_times(broker.pid))
            hurried = crowd.ask("hurry", seconds=HURRY_S)
            processor_us = (sum(process_times(broker.pid)) - before) / hurried["answers"] * 1e6
            return joined, resident_mb(broker.pid), share * 100, 1e6 / hurried["per_s"], processor_us

    return measure


@contextlib.contextmanager
def _members_of(cluster: Cluster, protocol: str, groups: int, members: int) -> Iterator[Crowd]:
    """Yield members that are connected and not yet in a group."""
    each = members // groups
    topic = TOPIC if groups == 1 else NARROW
    workloads.create_topic(cluster.bootstrap, topic, partitions=each)
    with Crowd(cluster.bootstrap, protocol, groups, each, topic, each) as crowd:
        crowd.ask("connect")
        yield crowd


def _beside(protocol: str, members: int) -> Callable[[ClusterMaker], Measured]:
    """Measure the effect of a large group that rebalances repeatedly on other clients."""

    def measure(make: ClusterMaker) -> Measured:
        with make() as cluster, _members_of(cluster, protocol, 1, members) as crowd:
            crowd.ask("join")
            workloads.create_topic(cluster.bootstrap, "paced")
            produce = partial(workloads.start, "paced_produce", cluster.bootstrap, "paced", seconds=REBALANCING_S)
            workloads.run("paced_produce", cluster.bootstrap, "paced", seconds=2)
            with Crowd(cluster.bootstrap, protocol, 1, BESIDE_MEMBERS, TOPIC, members).beside(
                BESIDE_INTERVAL_S
            ) as others:
                others.ask("connect")
                others.ask("join")
                quiet = produce()
                others.ask("watch", seconds=REBALANCING_S - 1)
                quiet_ms = workloads.finish(quiet)["p99_ms"]
                crowd.begin("rebalance", seconds=REBALANCING_S)
                producing = produce()
                beats = others.ask("watch", seconds=REBALANCING_S - 1)
                busy_ms = workloads.finish(producing)["p99_ms"]
                rebalanced = crowd.finish()
            return rebalanced["seconds"], beats["p99_ms"], quiet_ms, busy_ms

    return measure


def _commits(make: ClusterMaker) -> Measured:
    """Measure commits of ten partitions, which each of several members sends one after another."""
    with make() as cluster, _members_of(cluster, "classic", COMMITTERS, COMMITTERS * GROUP_MEMBERS) as crowd:
        crowd.ask("join")
        crowd.ask("hurry", seconds=2, commits=True)
        return (crowd.ask("hurry", seconds=HURRY_S, commits=True)["per_s"],)


def _consume(protocol: str, size: int) -> Callable[[ClusterMaker], Measured]:
    """Consume four partitions with two members of one group.

    The second of two groups is measured, so that Kafka's code is compiled. The clients limit the rate, not the brokers,
    so the broker's processor time is also measured.
    """
    records = CONSUMED_BYTES[size] // size

    def measure(make: ClusterMaker) -> Measured:
        with make() as cluster:
            (broker,) = cluster.brokers.values()
            workloads.create_topic(cluster.bootstrap, "load", partitions=4)
            workloads.run("produce", cluster.bootstrap, "load", size=size, batch_bytes=1_000_000, seconds=PRODUCING_S)
            consume = partial(workloads.run, "consume_in_group", cluster.bootstrap, "load", records=records)
            consume(group="first", protocol=protocol)
            before = sum(process_times(broker.pid))
            figures = consume(group="second", protocol=protocol)
            processor_s = sum(process_times(broker.pid)) - before
            return figures["mb_per_s"], CONSUMED_BYTES[size] / processor_s / 1e6

    return measure


def _fail_over(protocol: str, members: int) -> Callable[[ClusterMaker], Measured]:
    """Time from kill -9 of the coordinator until every member is confirmed in its partitions, the same or others."""

    def measure(make: ClusterMaker) -> Measured:
        with make() as cluster, _members_of(cluster, protocol, 1, members) as crowd:
            crowd.ask("join")
            cluster.brokers[int(crowd.ask("coordinator")["node_id"])].kill()
            return (crowd.ask("own_again", since_s=time.perf_counter())["seconds"],)

    return measure


def rows(members: int) -> tuple[ClusterRow[Cluster], ...]:
    """Return the rows, with `members` members of one coordinator."""
    found = []
    for protocol in ("classic", "consumer"):
        for groups in (1, members // GROUP_MEMBERS):
            who = f"{members:,} members of {'one group' if groups == 1 else f'{groups:,} groups'}, {protocol}"
            found.append(_of_one(_LIFE, who, _life(protocol, groups, members)))
        found.append(_of_one(_BESIDE, f"{members:,} members, {protocol}", _beside(protocol, members)))
        names = {f"{members:,} members, {protocol}: kill -9 of the coordinator until all own again, s": 1.0}
        found.append(_of_three(names, False, _fail_over(protocol, members)))
    for size in CONSUMED_BYTES:
        for protocol in ("classic", "consumer"):
            name = f"consume {size:,} B in a group, {protocol}"
            columns = (f"{name}, MB/s", f"{name}, MB for a second of the broker's processor")
            ours = partial(partial, one_of_ours)
            found.append(ClusterRow(columns, "", True, (None, 1.2), _consume(protocol, size), ours, one_of_theirs))
    found.append(_of_three({"commits of ten partitions by three replicas, 1/s": 1.0}, True, _commits))
    return tuple(found)


_LIFE: Mapping[str, float | None] = {
    "join until settled, s": 1.0,
    "resident memory, MB": 0.125,
    "processor of the broker at the protocol's pace, % of a core": 1.0,
    "time of a heartbeat at the greatest rate, us": 1.0,
    "processor of the broker for a heartbeat, us": 1.0,
}
_BESIDE: Mapping[str, float | None] = {
    "one more joins until settled, s": None,
    "heartbeat p99 of another group meanwhile, ms": 1.0,
    "produce p99 of others before, ms": None,
    "produce p99 of others meanwhile, ms": None,
}


def _of_one(
    names: Mapping[str, float | None], who: str, measure: Callable[[ClusterMaker], Measured]
) -> ClusterRow[Cluster]:
    described = tuple(f"{who}: {name}" for name in names)
    ours = partial(partial, one_of_ours)
    return ClusterRow(described, "", False, tuple(names.values()), measure, ours, one_of_theirs)


def _of_three(
    names: Mapping[str, float | None], more: bool, measure: Callable[[ClusterMaker], Measured]
) -> ClusterRow[Cluster]:
    ours = partial(partial, three_of_ours)
    return ClusterRow(tuple(names), "", more, tuple(names.values()), measure, ours, three_of_theirs)
