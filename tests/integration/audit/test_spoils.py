"""Spoiled audit logs: `check` finds each spoil, and the first answer of the page names it."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from audit_pipeline.ingest.land import land
from audit_pipeline.report.answers.opening import answers_of
from audit_pipeline.report.asking import PublishedTables
from audit_pipeline.report.figures.report import report_of
from audit_pipeline.report.window import Wanted
from audit_pipeline.results.settings import Settings
from audit_pipeline.spool.targets import FolderTarget
from audit_pipeline.upkeep.check import check
from broker_runtime.observers.surroundings import HostedPartition
from broker_runtime.storage.disk.filesystem import OsFileSystem
from tests.support.audit.audit import AuditBench
from tests.support.audit.audit_builds import built, published
from tests.support.audit.audit_weeks.spoiling import flipped
from tests.support.audit.published_results import publish_rows

BROKERS = (1, 2, 3)
SEGMENTS = 3


def of_broker(folder: Path, broker_id: int, segment: int | None = None, table: str = "*") -> list[Path]:
    number = "*" if segment is None else f"{segment:08d}"
    return sorted(folder.glob(f"{table}/*/*/*-{broker_id}-0001-{number}.parquet"))


def delete(*paths: Path) -> None:
    assert paths
    for path in paths:
        path.unlink()


def torn(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-20])


def flip(path: Path) -> None:
    path.write_bytes(flipped(path.read_bytes(), "total_us"))


def copy(path: Path) -> None:
    other = path.parent.with_name("arrival_hour=09") / path.name
    other.parent.mkdir()
    shutil.copy(path, other)


SPOILS: dict[str, tuple[Callable[[Path], None], set[str], str]] = {
    "nothing": (lambda _: None, set(), "Yes"),
    "last segment": (lambda folder: delete(*of_broker(folder, 1, SEGMENTS)), {"open"}, "Broker 1: open since 2023-11-"),
    "whole broker": (
        lambda folder: delete(*of_broker(folder, 2)),
        {"absent"},
        "Broker 2 is registered, and no event of it has landed.",
    ),
    "middle": (
        lambda folder: delete(*of_broker(folder, 1, 2)),
        {"hole"},
        "broker 1: 2 events without any record (holes)",
    ),
    "torn": (
        lambda folder: torn(*of_broker(folder, 1, 2, "request")),
        {"corrupt", "hole"},
        "broker 1: 1 file set aside.",
    ),
    "flipped": (
        lambda folder: flip(*of_broker(folder, 1, 2, "request")),
        {"corrupt", "hole"},
        "broker 1: 1 file set aside.",
    ),
    "duplicate": (
        lambda folder: copy(*of_broker(folder, 1, 2, "request")),
        {"duplicate"},
        "1 file repeats events of other files",
    ),
    "one table": (
        lambda folder: delete(*of_broker(folder, 1, 2, "partition")),
        {"hole"},
        "broker 1: 1 event without any record (holes)",
    ),
}
"""How a log is spoiled, the kinds of findings, and a part of the answer on the page."""


def cluster_of(spoil: str) -> str:
    return spoil.replace(" ", "_")


@pytest.fixture(scope="module")
def spoiled(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, int]:
    """The folder of each spoiled cluster, all of which have stopped, and the time an hour later."""
    root = tmp_path_factory.mktemp("spoiled")
    now_us = 0
    for spoil, (spoils, _, _) in SPOILS.items():
        spools = root / "spools" / cluster_of(spoil)
        for broker_id in BROKERS:
            identity = cluster_of(spoil), broker_id
            bench = AuditBench(OsFileSystem(), spools / str(broker_id), "0001", identity, segment_ms="1000")
            bench.log.inventory(HostedPartition("orders", 0, 1, 0, 1, True), "1,2,3")
            for number in range(SEGMENTS):
                bench.produce()
                bench.request()
                if number < SEGMENTS - 1:
                    bench.timers.advance(10)
            bench.log.close()
            now_us = bench.clock.wall_ms() * 1000 + 3_600_000_000
            land(spools / str(broker_id), FolderTarget(root / cluster_of(spoil)))
        spoils(root / cluster_of(spoil))
    return root, now_us


@pytest.fixture(scope="module")
def answers(spark: SparkSession, spoiled: tuple[Path, int], tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The first answer of the page of each cluster. One build computes the results of all."""
    (root, now_us), pages = spoiled, tmp_path_factory.mktemp("pages")
    source = root / "all"
    for spoil in SPOILS:
        shutil.copytree(root / cluster_of(spoil), source, dirs_exist_ok=True)
    built(spark, source, pages / "results", now_us, Settings())
    tables = published(pages / "results")
    found = {}
    for spoil in SPOILS:
        of_cluster = {
            name: [row for row in tables[name].to_pylist() if row["cluster_id"] == cluster_of(spoil)]
            for name in ("coverage", "completeness", "quarantine")
        }
        publish_rows(pages / cluster_of(spoil), of_cluster)
        answer, *_ = answers_of(report_of(PublishedTables(FolderTarget(pages / cluster_of(spoil))), Wanted()))
        found[spoil] = " ".join(["".join(answer.verdict), *("".join(sentence) for sentence in answer.sentences)])
    return found


@pytest.mark.parametrize("spoil", SPOILS)
def test_check_finds_what_is_missing(spoiled: tuple[Path, int], spoil: str) -> None:
    root, now_us = spoiled
    report = check(FolderTarget(root / cluster_of(spoil)), now_us, is_running=False)
    assert {finding.kind for finding in report.findings} == SPOILS[spoil][1], report.findings


@pytest.mark.parametrize("spoil", SPOILS)
def test_page_one_names_what_is_missing(answers: dict[str, str], spoil: str) -> None:
    assert SPOILS[spoil][2] in answers[spoil], answers[spoil]
    assert answers[spoil].startswith("No ") == (spoil not in ("nothing", "duplicate")), answers[spoil]


def test_a_running_cluster_has_open_boots_without_a_finding(spoiled: tuple[Path, int]) -> None:
    root, now_us = spoiled
    report = check(FolderTarget(root / cluster_of("last segment")), now_us)
    assert (report.findings, [each.kind for each in report.running]) == ([], ["open"])
    absent = check(FolderTarget(root / cluster_of("whole broker")), now_us)
    assert [each.kind for each in absent.findings] == ["absent"]
