"""Limits in the audit log: a report at the start and every hour, changes at once, addresses as the log shows them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from audit_pipeline.spool.events import events_of
from audit_pipeline.spool.spool import read_spool
from broker_runtime.network.quotas.limit_changes import LimitChanges
from broker_runtime.observers.audit_log.limits_log import LimitsLog
from broker_runtime.storage.disk.filesystem import OsFileSystem
from connection_limits.quotas import ConnectionQuotas
from connection_limits.settings import QuotaSettings
from tests.support.audit.audit import AuditBench


class Bench:
    """A limiter whose limits are recorded."""

    def __init__(self, folder: Path, **config: str) -> None:
        self.folder = folder
        self.audit = AuditBench(OsFileSystem(), folder, **config)
        self.quotas = ConnectionQuotas(QuotaSettings(max_connections=7), 0)
        self.changes = LimitChanges(self.quotas, self.audit.clock.monotonic)
        self.log = LimitsLog(self.audit.log, self.changes, self.audit.timers.call_later, 3600.0)

    def ip_rate(self, ip: str, rate: int | None) -> None:
        now_s = self.audit.clock.monotonic()
        self.quotas.addresses.update_rate(ip, rate, int(now_s * 1000))
        self.changes.ip_rate(ip, rate, now_s)

    def rows(self) -> Sequence[dict[str, Any]]:
        """End the log, and return the rows of its limits."""
        self.log.close()
        self.audit.log.close()
        spools = [read_spool(path.read_bytes()) for path in sorted(self.folder.glob("*.spool"))]
        return [
            event
            for spool in spools
            for block in spool.blocks
            for table, event in events_of(spool.header, block)
            if table == "connection_limit"
        ]


def test_all_limits_are_reported_at_the_start_and_every_hour(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.log.begin()
    bench.audit.timers.advance(3601)
    rows = bench.rows()
    half = len(rows) // 2
    assert [row["event"] for row in rows] == ["known"] * len(rows)
    assert [row["further"] for row in rows[:half]] == [*reversed(range(half))]
    assert [row["key"] for row in rows[:half]] == [row["key"] for row in rows[half:]]
    assert {row["at_us"] for row in rows[half:]} == {rows[0]["at_us"] + 3_600_000_000}
    assert [row["value"] for row in rows if row["key"] == "max.connections"] == [7, 7]


def test_a_report_is_sliced_and_changes_meanwhile_are_later(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    for number in range(50):
        bench.ip_rate(f"10.0.0.{number}", 5)
    bench.log.begin()
    bench.audit.timers.advance(0.015)
    bench.ip_rate("10.0.0.49", None)
    bench.audit.timers.advance(1)
    rows = bench.rows()
    known = [row for row in rows if row["event"] == "known"]
    (removed,) = [row for row in rows if row["event"] == "removed"]
    assert [row["entity"] for row in known[-50:]] == [f"ip=10.0.0.{number}" for number in range(50)]
    assert known[0]["seq"] < removed["seq"] < known[-1]["seq"]
    assert {row["at_us"] for row in known} == {known[0]["at_us"]}
    assert removed["at_us"] > known[0]["at_us"]
    assert (removed["value"], removed["further"]) == (None, 0)


def test_addresses_are_hashed_as_those_of_clients_and_ranges_are_not(tmp_path: Path) -> None:
    bench = Bench(tmp_path, hash_key="0123456789abcdef")
    groups = bench.quotas.addresses.groups
    groups.add_member("shop/one", "10.0.0.1", 0, 3.0)
    groups.add_member("shop/one", "10.1.0.0/16", 0, 4.0)
    bench.ip_rate("10.0.0.1", 5)
    bench.log.begin()
    bench.audit.connect()
    rows = bench.rows()
    assert "10.0.0.1" not in str(rows)
    (rate,) = [row["entity"] for row in rows if row["key"] == "connection_creation_rate"]
    (members,) = [row["text"] for row in rows if row["key"] == "member"]
    assert members == f"{rate.removeprefix('ip=')}=3 10.1.0.0/16=4"


def test_nothing_is_recorded_after_the_end_or_at_level_off(tmp_path: Path) -> None:
    bench = Bench(tmp_path, level="off")
    bench.log.begin()
    bench.ip_rate("10.0.0.1", 5)
    assert bench.rows() == []
    bench.ip_rate("10.0.0.2", 5)
    bench.audit.timers.advance(10_000)
