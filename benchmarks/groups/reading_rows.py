"""Rows of members that read, with ordinary clients: hand-overs, and members and coordinators that die.

A partition is handed over when another member continues to read it. The duration is measured from the last record that
the previous member read to the first new record of the next one. It is never shorter than the time between two records.
"""

import socket
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from statistics import median

from benchmarks.brokers import workloads
from benchmarks.brokers.clusters import TIMING, Cluster
from benchmarks.brokers.rows import ROOT
from benchmarks.groups import group_frames
from benchmarks.groups.group_rows import Measured, one_of_ours, one_of_theirs, three_of_ours, three_of_theirs
from benchmarks.groups.push_rows import SHORT_SESSION_S, Contest, session_settings
from benchmarks.groups.readers import GROUP, INTERVAL_S, PARTITIONS, TOPIC, Client, Readers
from benchmarks.groups.reading_gaps import Pause, first_read_s, pauses, percentile, read_twice
from tests.support.processes.clients.acknowledged import Partitions

REBALANCES = 3
"""Number of joins and of leaves in one round."""
STEADY_S = 1.0
FAIL_OVER_S = 12.0
"""Least time to wait: longer than a cluster needs to miss a broker."""
_AT_ONCE = {"group.initial.rebalance.delay.ms": "0"}
_FAST_S = 0.1
_LOOK_TIMEOUT_S = 10.0
_EAGER = {"partition.assignment.strategy": "range"}
_COOPERATIVE = {"partition.assignment.strategy": "cooperative-sticky"}
_KIP_848 = {"group.protocol": "consumer"}
_FAST: Mapping[str, object] = {"heartbeat.interval.ms": round(_FAST_S * 1000)}
_SHORT: Mapping[str, object] = {"session.timeout.ms": 6000, "heartbeat.interval.ms": 2000}
_SHORT_848 = session_settings(SHORT_SESSION_S, SHORT_SESSION_S / 3)
_PUSH: Mapping[str, object] = {"session_timeout_s": SHORT_SESSION_S, "backoff_max_s": 0.1}
PUSH = Client("sluicegate", _PUSH)
"""Looks for a new coordinator as often as the other clients are configured to (`reading_member`)."""


@dataclass(frozen=True)
class Subject:
    """A client, and the broker's settings for it."""

    client: Client
    settings: Mapping[str, str]
    theirs: bool = False

    def one(self) -> AbstractContextManager[Cluster]:
        settings = _AT_ONCE | dict(self.settings)
        return one_of_theirs(settings) if self.theirs else one_of_ours(ROOT, settings)

    def three(self) -> AbstractContextManager[Cluster]:
        settings = TIMING | _AT_ONCE | {"offsets.topic.replication.factor": "3"} | dict(self.settings)
        return three_of_theirs(settings) if self.theirs else three_of_ours(ROOT, settings)


def _librdkafka(*settings: Mapping[str, object]) -> Client:
    joined: dict[str, object] = {}
    for each in settings:
        joined |= each
    return Client("librdkafka", joined)


def _hand_over(subject: Subject) -> Measured:
    """Measure hand-overs while a fourth member joins three others and leaves them, repeatedly."""
    coming: list[Pause] = []
    leaving: list[Pause] = []
    with subject.one() as cluster:
        workloads.create_topic(cluster.bootstrap, TOPIC, partitions=PARTITIONS)
        with Readers(cluster.bootstrap, subject.client) as readers:
            for name in ("a", "b", "c"):
                readers.start(name)
            readers.until_shared()
            windows: list[tuple[list[Pause], float, float]] = []
            began: dict[str, float] = {}
            for number in range(REBALANCES):
                for found, change in ((coming, readers.start), (leaving, readers.leave)):
                    readers.let_run(STEADY_S)
                    since_s = change(guest := f"guest-{number}")
                    began.setdefault(guest, since_s)
                    windows.append((found, since_s, readers.until_shared(STEADY_S)))
            reads = readers.reads()
    for found, since_s, until_s in windows:
        found += pauses(reads, since_s, until_s).values()
    come, gone = ([pause.seconds * 1000 for pause in kind if pause.moved] for kind in (coming, leaving))
    kept = [pause.seconds * 1000 for pause in (*coming, *leaving) if not pause.moved]
    return (
        median(first_read_s(reads, guest) - since_s for guest, since_s in began.items()),
        *(percentile(each, part) for each in (come, gone, kept) for part in (0.5, 0.99)),
        (len(come) + len(gone)) / (2 * REBALANCES),
        read_twice(reads),
    )


_HAND_OVER = (
    "from the start of one's process until it reads, s",
    "one joins: partition handed over p50, ms",
    "one joins: partition handed over p99, ms",
    "one leaves: partition handed over p50, ms",
    "one leaves: partition handed over p99, ms",
    "longest pause of a partition that stays where it is p50, ms",
    "longest pause of a partition that stays where it is p99, ms",
    "partitions that move in a rebalance",
    "records that are read twice",
)


def _member_dies(subject: Subject) -> Measured:
    """Measure the takeover after a kill -9 of one of four members, and after a SIGSTOP of one of the three others."""
    with subject.one() as cluster:
        workloads.create_topic(cluster.bootstrap, TOPIC, partitions=PARTITIONS)
        with Readers(cluster.bootstrap, subject.client) as readers:
            for name in ("a", "b", "c", "d"):
                readers.start(name)
            readers.until_shared()
            readers.let_run(STEADY_S)
            killed_s = readers.kill("a")
            first_s = readers.until_shared(STEADY_S)
            killed = _taken_over(readers, ("b", "c", "d"), killed_s, first_s)
            readers.let_run(STEADY_S)
            silent_s = readers.hang("b")
            silent = _taken_over(readers, ("c", "d"), silent_s, readers.until_shared(STEADY_S))
    return (*killed, *silent)


def _taken_over(readers: Readers, left: tuple[str, ...], since_s: float, until_s: float) -> Measured:
    """Return the time until other members read all partitions of the lost one.

    The second figure is the part of that time after another member first received a change.
    """
    found = pauses(readers.reads(), since_s, until_s).values()
    last_s = max(pause.after.at_s for pause in found if pause.moved and pause.before.member not in left)
    return last_s - since_s, last_s - readers.noticed(left, since_s)


_DIES = (
    "kill -9 until all its partitions are read by others, s",
    "of which since the first of the others heard of it, s",
    "SIGSTOP until all its partitions are read by others, s",
    "of which since the first of the others heard of it, s (SIGSTOP)",
)


def _coordinator_dies(subject: Subject) -> Measured:
    with subject.three() as cluster:
        workloads.create_topic(cluster.bootstrap, TOPIC, partitions=PARTITIONS, replicas=3)
        cluster.wait_in_sync(TOPIC)
        with Readers(cluster.bootstrap, subject.client) as readers:
            for name in ("a", "b", "c"):
                readers.start(name)
            readers.until_shared()
            readers.let_run(STEADY_S)
            node_id = _coordinator(cluster)
            led = {at for at, leader in Partitions(cluster.bootstrap, TOPIC).leaders().items() if leader == node_id}
            cluster.brokers[node_id].kill()
            since_s = time.monotonic()
            until_s = readers.until_shared(FAIL_OVER_S)
            reads = readers.reads()
    found = pauses(reads, since_s, until_s)
    return (
        max(pause.seconds for partition, pause in found.items() if partition in led),
        max(pause.seconds for partition, pause in found.items() if partition not in led),
        median(pause.seconds for partition, pause in found.items() if partition not in led),
        read_twice(reads),
    )


_COORDINATOR_DIES = (
    "longest pause of a partition that the killed broker led, s",
    "longest pause of a partition that another broker led, s",
    "median pause of those, s",
    "records that are read twice",
)


def _coordinator(cluster: Cluster) -> int:
    host, port = cluster.bootstrap.split(",")[0].split(":")
    with socket.create_connection((host, int(port)), timeout=_LOOK_TIMEOUT_S) as client, client.makefile("rb") as file:
        client.sendall(group_frames.find_coordinator(GROUP))
        place = group_frames.read_coordinator(file.read(int.from_bytes(file.read(4), "big")))
    if place.error:
        raise RuntimeError(f"there is no coordinator: error {place.error}")
    return place.node_id


def _contest(
    name: str,
    figures: tuple[str, ...],
    measure: Callable[[Subject], Measured],
    subjects: Mapping[str, Subject],
    note: str,
) -> Contest:
    return Contest(name, figures, {named: partial(measure, each) for named, each in subjects.items()}, note)


def rows() -> tuple[Contest, ...]:
    usual: Mapping[str, tuple[Client, Mapping[str, str]]] = {
        "classic, range (eager)": (_librdkafka(_EAGER), {}),
        "classic, cooperative-sticky": (_librdkafka(_COOPERATIVE), {}),
        "KIP-848": (_librdkafka(_KIP_848), {}),
    }
    fast = {
        f"classic, range (eager), heartbeats every {_FAST_S:g} s": (_librdkafka(_EAGER, _FAST), {}),
        f"classic, cooperative-sticky, heartbeats every {_FAST_S:g} s": (_librdkafka(_COOPERATIVE, _FAST), {}),
        f"KIP-848, heartbeats every {_FAST_S:g} s": (_librdkafka(_KIP_848), session_settings(45.0, _FAST_S)),
    }
    short: Mapping[str, tuple[Client, Mapping[str, str]]] = {
        "classic, range (eager)": (_librdkafka(_EAGER, _SHORT), {}),
        "classic, cooperative-sticky": (_librdkafka(_COOPERATIVE, _SHORT), {}),
        "KIP-848": (_librdkafka(_KIP_848), _SHORT_848),
    }
    load = f"{PARTITIONS} partitions, to each of which a record is written every {INTERVAL_S * 1000:g} ms"
    sessions = f"Sessions of {SHORT_SESSION_S:g} s, heartbeats and pings every {SHORT_SESSION_S / 3:g} s; {load}."
    push = {"push": Subject(PUSH, {})}
    by_pings = Client(PUSH.kind, {**PUSH.settings, "close_by": "pings"})
    return (
        _contest(
            f"planned rebalances of three members and a fourth, {PARTITIONS} partitions",
            _HAND_OVER,
            _hand_over,
            push | {"push, leaving by pings": Subject(by_pings, {})} | _ours(usual) | _ours(fast) | _theirs(usual),
            f"Sessions of push {SHORT_SESSION_S:g} s, else 45 s. Heartbeats of the classic protocol every 3 s, of "
            "KIP-848 every 5 s, as by default (ours asks for one every second while a group rebalances), where nothing "
            "else is said. A push consumer commits when it leaves, or as the draft has it tells its last offsets with "
            f"a ping and waits for the next; {load}.",
        ),
        _contest("a member dies", _DIES, _member_dies, push | _ours(short) | _theirs(short), sessions),
        _contest(
            "kill -9 of the coordinator out of three brokers, three members",
            _COORDINATOR_DIES,
            _coordinator_dies,
            push | _ours(short) | _theirs(short),
            f"{sessions} Brokers have sessions of 3 s, and what is written is there to be read when the killed one has "
            "left the in-sync replicas. All clients look for another coordinator every 0.1 s at most.",
        ),
    )


def _ours(clients: Mapping[str, tuple[Client, Mapping[str, str]]]) -> dict[str, Subject]:
    return {name: Subject(client, settings) for name, (client, settings) in clients.items()}


def _theirs(clients: Mapping[str, tuple[Client, Mapping[str, str]]]) -> dict[str, Subject]:
    return {f"{name}, Apache Kafka": Subject(client, settings, True) for name, (client, settings) in clients.items()}
