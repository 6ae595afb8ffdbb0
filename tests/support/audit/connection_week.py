"""A week of connections as a broker's acceptors record it: calm, three deployments, a leaking client and a storm.

The acceptors, the limiter and the audit log are the broker's, in virtual time without limits (AcceptorBench).
"""

from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Final

from audit_pipeline.ingest.land import land
from audit_pipeline.spool.targets import FolderTarget
from broker_runtime.storage.disk.filesystem import OsFileSystem
from connection_limits.settings import QuotaSettings
from tests.support.audit.acceptors import AcceptorBench

LISTENER: Final = "EXTERNAL"
LEAKING: Final = "10.1.2.99"
STORMY: Final = ("10.9.0.1", "10.9.0.2", "10.9.0.3")
_DAY_S: Final = 86_400.0
_HOUR_S: Final = 3_600.0


@dataclass(frozen=True, slots=True)
class ConnectionWeek:
    """The events of a week. `pods` open three connections each in a deployment, which takes `rollout_s`.

    The storm brings `storm_rate` connections a second for `storm_s`, from three addresses, which hang up at once.
    """

    days: int = 7
    clients: int = 20
    pods: int = 120
    rollout_s: float = 12.0
    storm_rate: int = 300
    storm_s: float = 20.0
    seed: int = 31

    @property
    def deployments_s(self) -> tuple[float, ...]:
        return tuple((day + 0.45) * _DAY_S for day in (1, 3, 5))

    @property
    def storm_at_s(self) -> float:
        return 6.3 * _DAY_S

    @property
    def storm_connections(self) -> int:
        return int(self.storm_rate * self.storm_s)


def land_week(folder: Path, week: ConnectionWeek, **config: str) -> FolderTarget:
    """Land the log of the week, and return its segments."""
    spools, random = folder / "spools", Random(week.seed)
    bench = AcceptorBench(
        random,
        QuotaSettings(),
        (LISTENER,),
        0.0,
        OsFileSystem(),
        spools,
        is_busy=False,
        segment_ms="21600000",
        **config,
    )
    end_s = week.days * _DAY_S
    for client in range(week.clients):
        for hour in range(0, int(end_s // _HOUR_S), 6):
            at_s = (hour + random.random()) * _HOUR_S
            bench.client(LISTENER, f"10.1.0.{client + 1}", at_s, None, 5 * _HOUR_S)
            # A command that asks something, and ends.
            bench.client(LISTENER, "10.1.1.1", at_s + 900 * random.random(), None, 0.3)
    for number, at_s in enumerate(week.deployments_s):
        for pod in range(week.pods):
            ready_s = at_s + week.rollout_s * random.random()
            for connection in range(3):
                ip = f"10.2.{number}.{pod + 1}"
                bench.client(LISTENER, ip, ready_s + connection * 0.05, None, 20 * _HOUR_S)
    for minute in range(int(2 * _DAY_S // 60)):
        bench.client(LISTENER, LEAKING, 2 * _DAY_S + minute * 60, None, None)
    for number in range(week.storm_connections):
        at_s = week.storm_at_s + number / week.storm_rate
        bench.client(LISTENER, STORMY[number % len(STORMY)], at_s, None, 0.2)
    bench.loop.run_until(bench.loop.now_s + end_s)
    bench.close()
    target = FolderTarget(folder / "segments")
    assert not land(spools, target).problems
    return target
