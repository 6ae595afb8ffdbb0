"""A log of a calm client and a storm without limits, landed as segments."""

from pathlib import Path
from random import Random

from audit_pipeline.ingest.land import land
from audit_pipeline.spool.targets import FolderTarget
from broker_runtime.storage.disk.filesystem import OsFileSystem
from connection_limits.settings import QuotaSettings
from tests.support.audit.acceptors import AcceptorBench

CALM, STORMY = "10.0.0.1", "10.0.7.7"
CALM_CONNECTIONS, STORM_CONNECTIONS = 20, 60
DAY = "2023-11-14"
"""The day (UTC) of the invented clock."""


def land_storm(folder: Path, settings: QuotaSettings | None = None, **config: str) -> FolderTarget:
    """Land a log of ten seconds: a client that connects every half second, and a storm after three seconds."""
    spools = folder / "spools"
    fs = OsFileSystem()
    bench = AcceptorBench(
        Random(7), settings or QuotaSettings(), ("CLIENTS",), 0.0, fs, spools, is_busy=False, **config
    )
    bench.record_limits()
    for number in range(CALM_CONNECTIONS):
        bench.client("CLIENTS", CALM, number / 2, None, 0.2)
    for number in range(STORM_CONNECTIONS):
        bench.client("CLIENTS", STORMY, 3 + number / 500, None, 1.0)
    bench.loop.run_until(bench.loop.now_s + 12)
    bench.close()
    target = FolderTarget(folder / "segments")
    assert not land(spools, target).problems
    return target
