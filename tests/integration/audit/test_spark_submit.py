"""The pipeline on an existing Spark cluster, which has only the artefact of `package` and what executors need."""

import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from threading import Event

import pytest

from audit_pipeline import __main__ as program
from tests.support.audit.audit_builds import published
from tests.support.audit.audit_oracle.comparing import all_differences
from tests.support.audit.spark_cluster import SparkCluster
from tests.support.audit.two_days import SETTINGS_TEXTS, TwoDays

pytestmark = pytest.mark.full


@pytest.fixture(scope="module")
def bare_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python with all packages installed here, but without this project."""
    folder = tmp_path_factory.mktemp("python")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    (own,) = folder.glob("lib/python3*/site-packages")
    # Links of further .pth files in that folder are not followed.
    (own / "installed.pth").write_text(sysconfig.get_path("purelib"))
    return folder / "bin" / "python"


@pytest.fixture(scope="module")
def cluster(bare_python: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    with SparkCluster(tmp_path_factory.mktemp("cluster"), bare_python) as running:
        yield running


@pytest.fixture
def words(tmp_path: Path) -> list[str]:
    """Arguments of spark-submit up to the command `build`; the two files are in different folders."""
    assert program.main(["package", "--out", str(tmp_path / "artefact")], Event()) == 0
    driver = (tmp_path / "artefact" / "audit_build.py").rename(tmp_path / "audit_build.py")
    return ["--py-files", str(tmp_path / "artefact" / "audit_pipeline.zip"), str(driver), "build"]


@pytest.fixture
def empty(tmp_path: Path) -> Path:
    (tmp_path / "empty").mkdir()
    return tmp_path / "empty"


def test_a_build_on_a_spark_cluster_needs_two_files_only_and_matches_the_oracle(
    cluster: SparkCluster, bare_python: Path, words: list[str], empty: Path, two_days: TwoDays, tmp_path: Path
) -> None:
    found = subprocess.run([bare_python, "-c", "import audit_pipeline"], cwd=empty, capture_output=True, text=True)
    assert "No module named 'audit_pipeline'" in found.stderr
    for name, text in SETTINGS_TEXTS.items():
        (tmp_path / f"{name}.json").write_text(text)
        words += [f"--{name}", str(tmp_path / f"{name}.json")]
    results = tmp_path / "results"

    done = cluster.submit([*words, "--source", str(two_days.segments), "--results", str(results)], empty)

    assert done.returncode == 0, done.stdout[-8000:]
    assert "published 2 days" in done.stdout
    assert all_differences(two_days.results, published(results)) == []
    executors = cluster.executors()
    assert len(executors) == 2
    assert all((each / "audit_pipeline.zip").is_file() for each in executors)
    assert list(empty.iterdir()) == []


def test_results_in_a_folder_that_executors_do_not_share_are_refused_and_nothing_is_published(
    cluster: SparkCluster, words: list[str], empty: Path, two_days: TwoDays
) -> None:
    """A folder of this name differs between processes, as it would between machines."""
    results = "/proc/self/cwd/results"
    done = cluster.submit([*words, "--source", str(two_days.segments), "--results", results], empty)
    assert done.returncode == 2, done.stdout[-8000:]
    assert f"executors cannot write to {results}" in done.stdout
    assert [path for path in (empty / "results").rglob("*") if path.is_file()] == []
