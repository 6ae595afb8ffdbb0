"""Limits that a build recommends for invented logs of a broker's own acceptors, and what the replay says about them.

A week has three deployments, a leaking client and a storm. Another log has the storm of `make demo`.
"""

import json
import shutil
import subprocess
import sys
from datetime import datetime
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from audit_pipeline.ingest.land import land
from audit_pipeline.results.settings import Settings
from audit_pipeline.results.tables import result_tables
from audit_pipeline.spool.targets import FolderTarget
from broker_runtime.storage.disk.filesystem import OsFileSystem
from connection_limits.settings import QuotaSettings
from tests.support.audit.acceptors import AcceptorBench
from tests.support.audit.audit_builds import built, published
from tests.support.audit.connection_week import LEAKING, LISTENER, STORMY, ConnectionWeek, land_week

pytestmark = pytest.mark.full

ROOT = Path(__file__).parents[3]
WEEK = ConnectionWeek()
_HOUR_US = 3_600_000_000
DEMO_SOURCES = tuple(f"127.0.1.{number}" for number in range(1, 9))
DEMO_RATE, DEMO_S, DEMO_CLIENT = 8_000, 8.0, "127.0.0.1"
"""The storm of demo/__main__.py: STORM_RATE connections a second from SOURCES, for STORM_S."""
PROGRAM = f"""
import sys
sys.path[:0] = {[str(ROOT), str(ROOT / "operator")]!r}
from sluicegate_operator.cli.main import main
main()
"""


@pytest.fixture(scope="module")
def week(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, pa.Table]]:
    folder = tmp_path_factory.mktemp("week")
    land_week(folder, WEEK)
    return folder, results_of(spark, folder)


def results_of(spark: SparkSession, folder: Path) -> dict[str, pa.Table]:
    newest_us = max(int(path.stat().st_mtime) for path in (folder / "segments").rglob("*.parquet")) * 1_000_000
    built(spark, folder / "segments", folder / "results", newest_us, Settings())
    return published(folder / "results")


def limits_of(found: dict[str, pa.Table]) -> dict[tuple[str, str], dict[str, Any]]:
    return {(row["kind"], row["target"]): row for row in found["recommended_limits"].to_pylist()}


def tried_of(found: dict[str, pa.Table], kind: str, part: str) -> list[dict[str, Any]]:
    rows = found["tried_limits"].to_pylist()
    return [row for row in rows if (row["kind"], row["part"]) == (kind, part)]


def test_the_listener_holds_the_storm_and_delays_no_deployment_by_more_than_two_seconds(
    week: tuple[Path, dict[str, pa.Table]],
) -> None:
    _, found = week
    limit = limits_of(found)["listener", LISTENER]
    # A deployment of 360 connections in 12 s, which may wait for 2 s.
    assert 20 <= limit["rate"] <= 40
    assert (limit["storms"], limit["is_holding"]) == (1, True)
    # Other clients may connect during the storm.
    assert 0 <= limit["storm_connections"] - WEEK.storm_connections < 5
    assert limit["storm_least"] == limit["storm_most"] >= 10 * WEEK.storm_rate
    assert limit["waiting_connections"] == limit["tried_connections"] > WEEK.storm_connections
    usual = tried_of(found, "listener", "usual")
    assert sum(row["delayed"] for row in usual) > 20
    assert max(row["delay_max_us"] or 0 for row in usual) <= 2_010_000
    assert sum(row["rejected"] + row["waiting"] + row["left"] for row in usual) == 0
    (storm,) = [tried_of(found, "listener", "storm")]
    assert sum(row["connections"] for row in storm) == sum(row["was_accepted"] for row in storm)
    assert {row["client_ip"] for row in storm} == set(STORMY)
    # The replayed time ends a minute after the last wait that the counts by second allow without a queue.
    replayed_s = WEEK.storm_s + 2 * 60
    assert sum(row["accepted"] for row in storm) <= limit["rate"] * (replayed_s + 1)
    assert min(row["delay_p99_us"] for row in storm) > 10_000_000


def test_addresses_of_the_storm_are_held_and_no_other_client_is_rejected(
    week: tuple[Path, dict[str, pa.Table]],
) -> None:
    _, found = week
    limits = limits_of(found)
    every = limits["cidr", "0.0.0.0/0"]
    # A pod opens three connections at once.
    assert (every["limit_is"], every["rate"], every["is_holding"]) == ("PerAddress", 3, True)
    assert {limits["ip", ip]["rate"] for ip in STORMY} == {1}
    assert limits["cidr", "10.9.0.0/24"]["rate"] == 1
    # The leaking client opens one connection a minute, which no rate can tell from others.
    assert ("ip", LEAKING) not in limits
    for row in found["tried_limits"].to_pylist():
        if row["kind"] != "listener":
            assert row["rejected"] == 0 or row["client_ip"] in STORMY, row
    storm = [row for row in tried_of(found, "cidr", "storm") if row["target"] == "0.0.0.0/0"]
    assert sum(row["accepted"] for row in storm) <= len(STORMY) * 3 * (WEEK.storm_s + 2)


def test_manifests_are_valid_and_say_why(week: tuple[Path, dict[str, pa.Table]], tmp_path: Path) -> None:
    folder, _ = week
    printed = sluicegate("recommend", "--audit", str(folder / "results"), "--cluster", "shop", "-o", "yaml")
    assert printed.returncode == 0, printed.stderr
    file = tmp_path / "recommended.yaml"
    file.write_text(printed.stdout, encoding="utf-8")
    checked = sluicegate("validate", "-f", str(file))
    assert checked.returncode == 0, checked.stderr
    names = {line.partition(" ")[2].partition(":")[0] for line in checked.stdout.splitlines()}
    assert {"recommended-listener-external", "recommended-cidr-0-0-0-0-0", "recommended-ip-10-9-0-1"} <= names
    assert "is the smallest rate that delays no usual connection by more than 2 s" in printed.stdout.replace(
        "\n# ", " "
    )
    assert printed.stdout.count("mode: Observe\n") == len(names) - 1


def test_other_forms_and_wrong_use(week: tuple[Path, dict[str, pa.Table]]) -> None:
    folder, _ = week
    results = str(folder / "results")
    shown = sluicegate("recommend", "--audit", results)
    assert f"listener {LISTENER}" in shown.stdout
    document = json.loads(sluicegate("recommend", "--audit", results, "-o", "json").stdout)
    assert document["limits"][0]["parts"]["usual"]["delay_max_us"] <= 2_010_000
    for arguments, sentence in (
        (("--audit", results, "-o", "yaml"), "-o yaml needs --cluster NAME"),
        (("--audit", results, "--cluster-id", "other"), "the results recommend no limit of cluster other"),
        (("--audit", str(folder / "segments")), "no results are published yet"),
    ):
        refused = sluicegate("recommend", *arguments)
        assert (refused.returncode, refused.stdout) == (2, ""), refused.stdout
        assert sentence in refused.stderr


def test_limits_are_recommended_when_a_day_is_over_and_not_by_each_build_of_it(
    spark: SparkSession, week: tuple[Path, dict[str, pa.Table]], tmp_path: Path
) -> None:
    folder, found = week
    source, results = tmp_path / "segments", tmp_path / "results"
    shutil.copytree(folder / "segments", source)
    last = max(path.name for path in source.rglob("arrival_date=*"))
    segments = sorted(path for path in source.rglob("*.parquet") if last in path.parts)
    held_back = tmp_path / "held_back"
    for path in segments[len(segments) // 2 :]:
        place = held_back / path.relative_to(source)
        place.parent.mkdir(parents=True, exist_ok=True)
        path.rename(place)
    begin_us = int(datetime.fromisoformat(f"{last.partition('=')[2]}T00:00:00+00:00").timestamp()) * 1_000_000
    early = built(spark, source, results, begin_us + 12 * _HOUR_US, Settings(), is_daily=True)
    shutil.copytree(held_back, source, dirs_exist_ok=True)
    late = built(spark, source, results, begin_us + 23 * _HOUR_US, Settings(), is_daily=True)
    for name in ("recommended_limits", "tried_limits"):
        assert late.files[name] == early.files[name]
        assert name not in late.summary["rows"]
    assert late.files["connection_seconds"] != early.files["connection_seconds"]
    # Nothing is new, but the day is over.
    built(spark, source, results, begin_us + 25 * _HOUR_US, Settings(), is_daily=True)
    over = published(results)
    for name in ("recommended_limits", "tried_limits"):
        key = [(column, "ascending") for column in result_tables()[name].key]
        assert over[name].sort_by(key).equals(found[name].sort_by(key))


def sluicegate(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", PROGRAM, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT, timeout=300)


def test_the_storm_of_the_demo_is_held_by_a_limit_of_its_addresses_and_of_the_listener(
    spark: SparkSession, tmp_path: Path
) -> None:
    spools = tmp_path / "spools"
    bench = AcceptorBench(Random(31), QuotaSettings(), (LISTENER,), 0.0, OsFileSystem(), spools)
    for number in range(4):
        bench.client(LISTENER, DEMO_CLIENT, number / 10, None, 60.0)
    for number in range(int(DEMO_RATE * DEMO_S)):
        source = DEMO_SOURCES[number % len(DEMO_SOURCES)]
        bench.client(LISTENER, source, 10 + number / DEMO_RATE, None, 0.01)
    bench.loop.run_until(bench.loop.now_s + 70)
    bench.close()
    assert not land(spools, FolderTarget(tmp_path / "segments")).problems
    found = results_of(spark, tmp_path)
    limits = limits_of(found)
    listener, every = limits["listener", LISTENER], limits["cidr", "0.0.0.0/0"]
    assert (listener["rate"], listener["is_holding"]) == (2, True)
    assert (every["rate"], every["is_holding"]) == (4, True)
    assert listener["storm_connections"] == DEMO_RATE * DEMO_S
    for kind, most in (("listener", 2 * (DEMO_S + 121)), ("cidr", len(DEMO_SOURCES) * 4 * (DEMO_S + 2))):
        storm = [row for row in tried_of(found, kind, "storm") if row["target"] in (LISTENER, "0.0.0.0/0")]
        assert sum(row["connections"] for row in storm) == DEMO_RATE * DEMO_S
        assert sum(row["accepted"] for row in storm) <= most
