"""A build is killed repeatedly at any moment: readers see one complete version, and the next build succeeds.

SLUICEGATE_AUDIT_ROUNDS is the number of killed builds; `make soak` kills twenty. SLUICEGATE_AUDIT_SEED selects the
moments: they are counted in files that the build has written, so that they do not depend on the machine.
"""

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from audit_pipeline.reading.published import read_manifest
from audit_pipeline.results.settings import Settings
from audit_pipeline.spool.targets import SUFFIX, FolderTarget
from tests.support.audit.audit_builds import ManifestReader, built, published
from tests.support.audit.audit_oracle.comparing import all_differences
from tests.support.audit.audit_oracle.oracle import audit_results
from tests.support.audit.audit_weeks.week import Week, arrivals, put
from tests.support.audit.spark_session import FEW_ROWS
from tests.support.obtain.java import SHORT_LIVED
from tests.support.processes.broker_process import ROOT

pytestmark = pytest.mark.full

ROUNDS = int(os.environ.get("SLUICEGATE_AUDIT_ROUNDS", "3"))
SEED = int(os.environ.get("SLUICEGATE_AUDIT_SEED", "10"))
END_S = 300.0
PAUSE_S = 0.4
"""Longest time between the write of that file and the kill, so that builds are also killed between two files."""
POLL_S = 0.01


@pytest.mark.timeout(900 + 120 * ROUNDS)
def test_builds_that_are_killed_leave_nothing_but_whole_versions(spark: SparkSession, tmp_path: Path) -> None:
    # Days that are over by the clock of this machine.
    first_day = datetime.now(UTC).date() - timedelta(days=4)
    week = Week(
        days=2, hours=1, segments=2, events=300, storm=20, topics=3, principals=4, spoils=(), first_day=first_day
    )
    settings = Settings(mirrors=week.mirrors)
    source, results, mirrors = tmp_path / "landed", tmp_path / "results", tmp_path / "mirrors.json"
    mirrors.write_text(json.dumps({"mirrors": [asdict(mirror) for mirror in week.mirrors]}))
    command = [sys.executable, "-m", "audit_pipeline", "build", "--source", str(source), "--results", str(results)]
    command += ["--mirrors", str(mirrors)]
    (tmp_path / "spark-defaults.conf").write_text("".join(f"{key} {value}\n" for key, value in FEW_ROWS.items()))
    environment = os.environ | {"SPARK_CONF_DIR": str(tmp_path), "JAVA_TOOL_OPTIONS": SHORT_LIVED}
    now_us = time.time_ns() // 1_000
    first, *others = arrivals(week)[0]
    for file in first:
        put(file, source)
    built(spark, source, results, now_us, settings)
    expected = [audit_results(source, now_us, settings)]
    for batch in others:
        for file in batch:
            put(file, source)
    expected.append(audit_results(source, now_us, settings))
    drawn = random.Random(SEED)
    # Cover each part of a build: two days have at most twice the files of one.
    most = 2 * len(_files(results))
    moments = [round(most * (number + drawn.random()) / ROUNDS) for number in range(ROUNDS)]
    left_behind = 0
    with ManifestReader(results) as reader:
        for moment in drawn.sample(moments, ROUNDS):
            killed_when_written(command, environment, results, moment, drawn.uniform(0, PAUSE_S))
            left_behind += len(_unpublished(results))
        built(spark, source, results, now_us, settings)
        assert reader.read_again(END_S)
    assert left_behind, "no build was killed while it wrote: choose other moments"
    assert _unpublished(results) == set()
    assert all_differences(expected[1], published(results)) == []
    for version, tables in reader.versions.items():
        assert any(all_differences(each, tables) == [] for each in expected), version


def killed_when_written(
    command: list[str], environment: dict[str, str], results: Path, files: int, pause_s: float
) -> None:
    """Kill the build and its Java after it wrote so many files, as the kernel kills a pod without memory.

    A build that ended before the kill must have succeeded. The first files are written after the build removed those of
    the previous one.
    """
    version, deadline = _version(results), time.monotonic() + END_S
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        env=environment,
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    before = _files(results)
    try:
        while process.poll() is None and _version(results) == version and len(_files(results) - before) < files:
            assert time.monotonic() < deadline
            threading.Event().wait(POLL_S)
        with suppress(subprocess.TimeoutExpired):
            process.wait(pause_s)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    assert process.returncode in (0, -signal.SIGKILL)


def _version(results: Path) -> str:
    manifest = read_manifest(FolderTarget(results))
    assert manifest is not None
    return manifest.version


def _files(results: Path) -> set[str]:
    """Return files of results, also of unpublished builds, but not files that still have a temporary name."""
    found = (path.relative_to(results).as_posix() for path in results.glob(f"[!_]*/**/*{SUFFIX}"))
    return set(found)


def _unpublished(results: Path) -> set[str]:
    manifest = read_manifest(FolderTarget(results))
    assert manifest is not None
    return _files(results) - manifest.named - manifest.superseded.keys()
