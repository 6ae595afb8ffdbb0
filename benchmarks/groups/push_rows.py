"""Rows that compare the push protocol with the classic one and KIP-848 in the same run, with members of group_crowd.

These members are not clients; members that read records are in reading_rows. The name of a row or subject gives the
settings of the other protocols: more heartbeats notify them of changes sooner, fewer ones later.
"""

import contextlib
import resource
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from benchmarks.brokers import workloads
from benchmarks.brokers.clusters import Cluster
from benchmarks.brokers.rows import ROOT, resident_mb
from benchmarks.groups.group_crowd import Crowd
from benchmarks.groups.group_rows import REPLICATED, SETTINGS, Measured, one_of_ours, three_of_ours
from benchmarks.processor_time import process_times

PUSH, CLASSIC, CONSUMER = "push", "classic", "KIP-848"
PROTOCOLS: Mapping[str, str] = {PUSH: "push", CLASSIC: "classic", CONSUMER: "consumer"}
"""Protocols by the name of the subject."""
GROUP_MEMBERS = 40
"""Members of each of many groups."""
MANY_TIMES = 4
"""Factor of members in many groups to members in one group."""
FILES_KEPT = 1_000
"""Open files that a process keeps for other uses than members."""
SHORT_SESSION_S, LONG_SESSION_S = 6.0, 45.0
IDLE_S: Mapping[float, float] = {SHORT_SESSION_S: 10, LONG_SESSION_S: 30}
"""Time to measure, by session. It covers several pings: a session has three."""
_INTERVAL_S: Mapping[float, float | None] = {SHORT_SESSION_S: 2.0, LONG_SESSION_S: None}


RATES = range(2_500, 20_001, 2_500)
"""Rates of pings per second, tried in this order until one cannot be sustained."""
HELD = 0.97
"""Share of due pings that must be answered to sustain a rate."""
CALLS_A_SESSION = 3
RATE_S, GIVEN_UP_S = 4, 30.0


@dataclass(frozen=True)
class Contest:
    """A comparison. `subjects` are measured in turn; the others are compared with the first.

    Less is better for all figures, or they only describe the work. `note` explains a row.
    """

    name: str
    figures: tuple[str, ...]
    subjects: Mapping[str, Callable[[], Measured]]
    note: str = ""


def session_settings(session_s: float, interval_s: float) -> Mapping[str, str]:
    """Return broker settings for sessions and heartbeats of KIP-848, which the broker decides."""
    session_ms, interval_ms = str(round(session_s * 1000)), str(round(interval_s * 1000))
    return {
        "group.consumer.session.timeout.ms": session_ms,
        "group.consumer.min.session.timeout.ms": session_ms,
        "group.consumer.heartbeat.interval.ms": interval_ms,
        "group.consumer.min.heartbeat.interval.ms": interval_ms,
    }


def members_max() -> int:
    """Return the maximum number of members on one broker: the machine's limit of open files, less FILES_KEPT."""
    return resource.getrlimit(resource.RLIMIT_NOFILE)[1] - FILES_KEPT


@contextlib.contextmanager
def _members_of(cluster: Cluster, subject: str, groups: int, each: int, session_s: float) -> Iterator[Crowd]:
    workloads.create_topic(cluster.bootstrap, "shared", partitions=each)
    with _crowd(cluster, subject, groups, each, session_s) as crowd:
        yield crowd


def _crowd(cluster: Cluster, subject: str, groups: int, each: int, session_s: float) -> Crowd:
    crowd = Crowd(cluster.bootstrap, PROTOCOLS[subject], groups, each, "shared", each)
    return crowd.paced(session_s, _INTERVAL_S.get(session_s))


def _life(subject: str, groups: int, each: int, session_s: float) -> Callable[[], Measured]:
    interval_s = _INTERVAL_S[session_s]
    settings = dict(SETTINGS) | ({} if interval_s is None else dict(session_settings(session_s, interval_s)))

    def measure() -> Measured:
        with (
            one_of_ours(ROOT, settings) as cluster,
            _members_of(cluster, subject, groups, each, session_s) as crowd,
        ):
            (broker,) = cluster.brokers.values()
            empty_mb = resident_mb(broker.pid)
            crowd.ask("connect")
            before_s = sum(process_times(broker.pid))
            joined_s = crowd.ask("join")["seconds"]
            joining_s = sum(process_times(broker.pid)) - before_s
            member_kb = (resident_mb(broker.pid) - empty_mb) * 1024 / (groups * each)
            before_s, members_before_s = sum(process_times(broker.pid)), sum(process_times(crowd.pid))
            idle = crowd.ask("idle", seconds=IDLE_S[session_s])
            idle_s = sum(process_times(broker.pid)) - before_s
            members_s = sum(process_times(crowd.pid)) - members_before_s
            return (
                joined_s,
                joining_s,
                member_kb,
                idle["per_s"],
                idle_s / IDLE_S[session_s] * 100,
                idle_s / idle["answers"] * 1e6,
                members_s / IDLE_S[session_s] * 100,
            )

    return measure


_LIFE = (
    "registration until settled, s",
    "processor of the broker until then, s",
    "memory of the broker for a member, KB",
    "pings or heartbeats while idle, 1/s",
    "processor of the broker while idle, % of a core",
    "processor of the broker for a ping or heartbeat, us",
    "processor of all members while idle, % of a core",
)


def _greatest(subject: str, members: int) -> Callable[[], Measured]:
    """Measure the greatest rate.

    Heartbeats are sent when the previous one is answered; for pings, sessions become shorter and shorter.
    """
    settings = dict(SETTINGS) | {"group.min.session.timeout.ms": "1"}

    def measure() -> Measured:
        with one_of_ours(ROOT, settings) as cluster:
            workloads.create_topic(cluster.bootstrap, "shared", partitions=members)
            (broker,) = cluster.brokers.values()
            if subject != PUSH:
                with _crowd(cluster, subject, 1, members, LONG_SESSION_S) as crowd:
                    return _rate(broker.pid, crowd, "hurry")
            held = 0.0, 0.0, 0.0
            for rate in RATES:
                try:
                    session_s = CALLS_A_SESSION * members / rate
                    with _crowd(cluster, subject, 1, members, session_s).impatient(GIVEN_UP_S) as crowd:
                        found = _rate(broker.pid, crowd, "idle")
                except RuntimeError as error:
                    print(f"{rate} pings a second cannot be held: {error}", flush=True)
                    break
                held = max(held, found)
                if found[0] < rate * HELD:
                    break
            return held

    return measure


def _rate(pid: int, crowd: Crowd, do: str) -> tuple[float, float, float]:
    """Return answers per second, processor of the broker in percent, and microseconds of processor per answer."""
    crowd.ask("connect")
    crowd.ask("join")
    before_s = sum(process_times(pid))
    answered = crowd.ask(do, seconds=RATE_S)
    spent_s = sum(process_times(pid)) - before_s
    return answered["per_s"], spent_s / RATE_S * 100, spent_s / answered["answers"] * 1e6


_GREATEST = (
    "greatest rate of pings or heartbeats, 1/s (more is better)",
    "processor of the broker at this rate, % of a core",
    "processor of the broker for a ping or heartbeat, us",
)


def _fail_over(subject: str, members: int) -> Callable[[], Measured]:
    """Time from kill -9 of the coordinator until every member is confirmed in its partitions, the same or others."""

    def measure() -> Measured:
        with (
            three_of_ours(ROOT, REPLICATED) as cluster,
            _members_of(cluster, subject, 1, members, LONG_SESSION_S) as crowd,
        ):
            crowd.ask("connect")
            crowd.ask("join")
            cluster.brokers[int(crowd.ask("coordinator")["node_id"])].kill()
            return (crowd.ask("own_again", since_s=time.perf_counter())["seconds"],)

    return measure


def crowd_rows(members: int) -> tuple[Contest, ...]:
    """Return the rows: with `members` in one group, and MANY_TIMES more, if possible, in many groups."""
    many = min(members * MANY_TIMES, members_max()) // GROUP_MEMBERS
    found = []
    for groups, each in ((1, members), (many, GROUP_MEMBERS)):
        who = f"{groups * each:,} members of {'one group' if groups == 1 else f'{groups:,} groups'}"
        for session_s in (SHORT_SESSION_S, LONG_SESSION_S):
            measures = {subject: _life(subject, groups, each, session_s) for subject in PROTOCOLS}
            found.append(Contest(f"{who}, sessions of {session_s:g} s", _LIFE, measures, _paces(session_s)))
    measures = {subject: _greatest(subject, members) for subject in PROTOCOLS}
    found.append(Contest(f"{members:,} members of one group: greatest rate", _GREATEST, measures, _RATES))
    name = f"{members:,} members of one group: kill -9 of the coordinator out of three brokers"
    measures = {subject: _fail_over(subject, members) for subject in PROTOCOLS}
    found.append(Contest(name, ("until all own again, s",), measures))
    return tuple(found)


_RATES = (
    f"Pings: sessions get shorter until less than {HELD:.0%} of the pings that are due are answered, or a member is "
    "lost. Heartbeats: each member sends the next when the one before is answered. The members share the cores."
)


def _paces(session_s: float) -> str:
    interval_s = _INTERVAL_S[session_s]
    beats = "3 s (classic) and 5 s (KIP-848), as by default" if interval_s is None else f"{interval_s:g} s"
    return (
        f"Pings every {session_s / 3:g} s, heartbeats every {beats}; pings carry offsets. Members of the "
        "classic protocol wait for `group.initial.rebalance.delay.ms`, 3 s."
    )
