"""Builds from an object store into an object store: a real S3 server."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from threading import Event

import pytest
from pyspark.sql import SparkSession

from audit_pipeline import __main__ as program
from audit_pipeline.reading.published import NOTE_PREFIX, Manifest, remove_unpublished
from audit_pipeline.spool.targets import Target, open_target
from tests.support.audit.audit_builds import built, published
from tests.support.audit.audit_oracle.comparing import all_differences
from tests.support.audit.two_days import DAYS, SETTINGS, TwoDays
from tests.support.processes.s3_server import S3Server

pytestmark = pytest.mark.full

HOUR_US = 3_600_000_000
LEFT = ("usage/event_date=2024-05-06/20240508T000000-0badcafe-00000.parquet", "_state/20240508T000000-0badcafe.state")


@dataclass(frozen=True, slots=True)
class TwoBuilds:
    """A build of all but the last batch, and a build of everything; `paths` are the files in the store after it."""

    results: str
    first: Manifest
    second: Manifest
    paths: frozenset[str]

    @property
    def target(self) -> Target:
        return open_target(self.results)


@pytest.fixture(scope="module")
def builds(spark: SparkSession, two_days: TwoDays, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TwoBuilds]:
    with S3Server(tmp_path_factory.mktemp("objects")) as server:
        source, results = server.uri, server.uri.replace("/events?", "/results?")
        *early, late = two_days.batches
        assert late
        for file in (file for batch in early for file in batch):
            open_target(source).put(file.path, file.data)
        first = built(spark, source, results, DAYS.now_us - HOUR_US // 2, SETTINGS)
        for file in late:
            open_target(source).put(file.path, file.data)
        second = built(spark, source, results, DAYS.now_us, SETTINGS)
        yield TwoBuilds(results, first, second, frozenset(each.path for each in open_target(results).files()))


def test_results_of_two_builds_in_a_store_are_what_the_oracle_says(builds: TwoBuilds, two_days: TwoDays) -> None:
    assert all_differences(two_days.results, published(builds.results)) == []


def test_the_second_build_leaves_what_readers_of_the_first_still_need(builds: TwoBuilds) -> None:
    assert builds.first.version != builds.second.version
    assert builds.first.named <= builds.paths
    assert builds.second.named <= builds.paths
    assert builds.first.named - builds.second.named == set(builds.second.superseded)
    assert not [path for path in builds.paths if path.startswith(NOTE_PREFIX)], "notes of tasks are gone"


def test_files_of_a_killed_build_are_kept_for_a_day_and_then_removed(builds: TwoBuilds) -> None:
    left = {*LEFT, f"{NOTE_PREFIX}20240508T000000-0badcafe-usage.json"}
    for path in left:
        builds.target.put(path, b"{}")
    began_us = int(datetime(2024, 5, 8, tzinfo=UTC).timestamp()) * 1_000_000

    def found(now_us: int) -> set[str]:
        remove_unpublished(builds.target, builds.second, now_us)
        return {each.path for each in builds.target.files()}

    assert left <= found(began_us + 23 * HOUR_US)
    assert found(began_us + 25 * HOUR_US) & left == set()
    assert builds.second.named <= {each.path for each in builds.target.files()}


def test_the_report_is_made_from_a_store_and_put_beside_the_results(builds: TwoBuilds, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    assert program.main(["report", "--results", builds.results, "--out", str(page)], Event()) == 0
    assert program.main(["report", "--results", builds.results, "--publish"], Event()) == 0
    with builds.target.file_system.open_input_stream("report.json") as file:
        published = json.loads(file.read())
    assert published == json.loads(page.with_suffix(".json").read_text())
    assert page.read_text().startswith("<!doctype html>")
