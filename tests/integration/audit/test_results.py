"""The whole build, compared with DuckDB on the same files and with the truth of a generated week."""

import random
import shutil
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Event

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from audit_pipeline.__main__ import main
from audit_pipeline.errors import BadUseError
from audit_pipeline.reading.published import Manifest
from audit_pipeline.report.asking import PublishedTables
from audit_pipeline.results.settings import Mirror, Objective, Prices, Settings
from audit_pipeline.spool.targets import open_target
from tests.support.audit.audit_builds import built, published
from tests.support.audit.audit_oracle.comparing import all_differences, differences
from tests.support.audit.audit_oracle.oracle import audit_results
from tests.support.audit.audit_weeks.truth import Truth
from tests.support.audit.audit_weeks.week import PREFIX, Week, cluster_id, write_week

pytestmark = pytest.mark.full

WEEK = Week(days=3, segments=4, events=30_000, inventory_hours=3, seed=10)
OBJECTIVES = (
    Objective("produce", "Produce", 5.0, 0.99),
    Objective("fetch of one topic", "Fetch", 0.5, 0.999, 2, None, "topic-00"),
    Objective("one client", "Produce", 2.0, 0.9, 1, cluster_id(0), None, "User:app-00"),
    Objective("nobody", "Produce", 2.0, 0.9, 1, cluster_id(0), None, "User:nobody"),
)
SETTINGS = Settings(
    Prices("EUR", {"ingress": 0.02, "egress": 0.05, "requests": 0.2, "storage": 0.1, "partitions": 0.001}),
    OBJECTIVES,
    (*WEEK.mirrors, Mirror("payments only", cluster_id(0), cluster_id(1), PREFIX, ("pay*", "nothing"))),
)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class BuiltWeek:
    """A week, its truth, its published results and its expected results."""

    truth: Truth
    source: Path
    results: Path
    manifest: Manifest
    found: dict[str, pa.Table]
    expected: dict[str, pa.Table]


@pytest.fixture(scope="module")
def week(compiling_spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> BuiltWeek:
    source, results = tmp_path_factory.mktemp("landed"), tmp_path_factory.mktemp("results")
    truth = write_week(WEEK, source)
    manifest = built(compiling_spark, source, results, WEEK.now_us, SETTINGS)
    expected = audit_results(source, WEEK.now_us, SETTINGS)
    return BuiltWeek(truth, source, results, manifest, published(results), expected)


def test_every_table_is_what_the_oracle_says_to_the_last_integer(week: BuiltWeek) -> None:
    # No limits were given to try, and invented weeks have no times of decisions, so that no suggestion is tried either.
    assert [name for name, table in week.expected.items() if not table.num_rows] == ["what_if", "tried_limits"]
    assert all_differences(week.expected, week.found) == []


def test_bytes_and_requests_are_those_of_the_truth(week: BuiltWeek) -> None:
    produced: Counter[tuple[str, str]] = Counter()
    requests: Counter[str] = Counter()
    for row in week.found["traffic"].to_pylist():
        if row["dimension"] == "principal" and not row["is_follower"]:
            produced[row["cluster_id"], row["name"]] += row["produced_bytes"]
        if row["dimension"] == "cluster":
            requests[row["cluster_id"]] += row["requests"]
    assert +produced == +week.truth.produced_by
    assert requests == week.truth.requests


def test_damaged_files_are_quarantined_with_a_reason(week: BuiltWeek) -> None:
    found = {(row["path"], row["reason"]) for row in week.found["quarantine"].to_pylist()}
    assert found == week.truth.set_aside
    assert all(row["detail"] for row in week.found["quarantine"].to_pylist())


def test_the_source_of_each_storm_is_named(week: BuiltWeek) -> None:
    found = {row["started"]: row for row in week.found["storms"].to_pylist()}
    for storm in week.truth.storms:
        row = found[moment(storm.started_us)]
        assert (row["source_ip"], row["source_principal"], row["source_client_id"], row["source_software"]) == (
            storm.client_ip,
            storm.principal,
            storm.client_id,
            storm.software,
        )
        assert row["ended"] == moment(storm.ended_us)
        assert (row["limit_quota"], row["listener_rate"]) == (storm.limit, storm.listener_rate)
        assert (row["limited"], row["refused"]) == (storm.limited, storm.refused)
        assert row["source_attempts"] == storm.accepted + storm.refused


def test_lost_records_idle_topics_and_missing_events_are_found(week: BuiltWeek) -> None:
    lost = {(row["topic"], row["bucket"]) for row in week.found["correctness"].to_pylist() if row["status"] == "loss"}
    assert lost == {(topic, moment(bucket)) for topic, bucket in week.truth.lost_records}
    unused = {
        (row["cluster_id"], row["topic"])
        for row in week.found["idle_topics"].to_pylist()
        if row["last_produced"] is None and row["last_fetched"] is None
    }
    assert unused == {(cluster, topic) for cluster, topics in week.truth.never_used.items() for topic in topics}
    sums = [sum(row[name] for row in week.found["completeness"].to_pylist()) for name in ("missing", "holes")]
    assert sums == [sum(week.truth.missing.values()), sum(week.truth.holes.values())]


def test_a_segment_from_the_future_counts_when_its_time_has_come(
    compiling_spark: SparkSession, week: BuiltWeek
) -> None:
    """Each build checks it again; other results stay unchanged."""
    later_us = WEEK.now_us + 4 * 86_400_000_000
    built(compiling_spark, week.source, week.results, later_us, SETTINGS)
    found = published(week.results)
    assert differences("quarantine", week.expected["quarantine"], found["quarantine"])
    assert all_differences(audit_results(week.source, later_us, SETTINGS), found) == []


def moment(us: int) -> datetime:
    return EPOCH + timedelta(microseconds=us)


def test_check_finds_every_flipped_bit_of_results_and_answers_find_nearly_all(week: BuiltWeek, tmp_path: Path) -> None:
    copied = Path(shutil.copytree(week.results, tmp_path / "results"))
    usage = "SELECT * FROM usage ORDER BY ALL"
    correct = PublishedTables(open_target(str(copied))).rows(usage)
    file = copied / max(week.manifest.of("usage"), key=lambda path: (copied / path).stat().st_size)
    packed, chance, told = file.read_bytes(), random.Random(30), 0
    for _ in range(60):
        spoiled = bytearray(packed)
        spoiled[chance.randrange(len(packed))] ^= 1 << chance.randrange(8)
        file.write_bytes(spoiled)
        assert main(["check", str(copied)], Event()) == 1
        with suppress(BadUseError):
            told -= PublishedTables(open_target(str(copied))).rows(usage) != correct
            continue
        told += 1
    # Parquet's checksums leave out the heads of pages and of the file.
    assert told > 40
    file.write_bytes(packed)
    assert main(["check", str(copied)], Event()) == 0
