"""A release of a clone of this repository, without images: what it has, and that it can be installed."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import yaml

from tests.support.obtain.helm import helm
from tests.support.processes.chart_registry import serving
from tools.release.numbering import set_version
from tools.release.source import clone
from tools.release.sums import write_sums

pytestmark = pytest.mark.full

ROOT = Path(__file__).parents[3]
VERSION = "99.1.2"


def git(root: Path, *arguments: str) -> None:
    who = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    subprocess.run(["git", "-C", str(root), *who, *arguments], check=True, capture_output=True)


def release(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tools.release", "--image", "none", *arguments],
        cwd=root,
        env={**os.environ, "PYTHONPATH": f"{root}:{root / 'operator'}"},
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A clone whose one further commit has a new version."""
    root = tmp_path_factory.mktemp("release") / "checkout"
    clone(ROOT, root)
    set_version(root, VERSION)
    git(root, "commit", "--quiet", "--all", "--message", "release")
    return root


@pytest.fixture(scope="module")
def dist(checkout: Path) -> Path:
    """The artefacts. `make release` has also installed the wheel and called its commands."""
    done = release(checkout)
    assert done.returncode == 0, done.stderr
    assert "calls work" in done.stderr
    return checkout / "dist"


def test_a_release_has_its_artefacts_with_their_parts_and_sums(dist: Path) -> None:
    names = {path.name for path in dist.iterdir()}
    with_parts = {
        f"sluicegate-{VERSION}-py3-none-any.whl",
        f"sluicegate-{VERSION}.tar.gz",
        f"sluicegate_consumer-{VERSION}-py3-none-any.whl",
        f"sluicegate_consumer-{VERSION}.tar.gz",
        f"sluicegate-{VERSION}.tgz",
        f"sluicegate-chart-{VERSION}.oci.tar",
    }
    dashboards = {f"sluicegate-dashboard-{name}-{VERSION}.json" for name in ("clusters", "operator", "quotas")}
    others = {f"sluicegate-crds-{VERSION}.yaml", f"sluicegate-alerts-{VERSION}.yaml", "RELEASE_NOTES.md", "SHA256SUMS"}
    assert names == with_parts | {f"{name}.cdx.json" for name in with_parts} | dashboards | others
    before = (dist / "SHA256SUMS").read_text()
    assert write_sums(dist).read_text() == before
    crds = list(yaml.load_all((dist / f"sluicegate-crds-{VERSION}.yaml").read_bytes(), yaml.CSafeLoader))
    assert len(crds) == len(list((ROOT / "crds").glob("*.yaml")))


def test_the_consumers_wheel_has_nothing_of_the_broker(dist: Path) -> None:
    with zipfile.ZipFile(dist / f"sluicegate_consumer-{VERSION}-py3-none-any.whl") as wheel:
        names = wheel.namelist()
    assert {name.partition("/")[0] for name in names} == {
        "sluicegate_consumer",
        "kafka_bytes",
        f"sluicegate_consumer-{VERSION}.dist-info",
    }
    assert "sluicegate_consumer/py.typed" in names


def test_a_source_distribution_builds_the_same_wheel(dist: Path, tmp_path: Path, checkout: Path) -> None:
    committed_s = subprocess.run(
        ["git", "-C", str(checkout), "log", "-1", "--format=%ct"], capture_output=True, text=True, check=True
    ).stdout.strip()
    for name in ("sluicegate", "sluicegate_consumer"):
        command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "--no-cache-dir"]
        command += ["--wheel-dir", str(tmp_path), str(dist / f"{name}-{VERSION}.tar.gz")]
        subprocess.run(command, env={**os.environ, "SOURCE_DATE_EPOCH": committed_s}, check=True)
        wheel = f"{name}-{VERSION}-py3-none-any.whl"
        assert (tmp_path / wheel).read_bytes() == (dist / wheel).read_bytes()


def test_helm_takes_the_chart_as_a_file_and_from_a_registry(dist: Path, tmp_path: Path) -> None:
    package = dist / f"sluicegate-{VERSION}.tgz"
    assert f"image: sluicegate:{VERSION}" in helm("template", "sluicegate", str(package), "-n", "sluicegate-system")
    with serving(dist / f"sluicegate-chart-{VERSION}.oci.tar", "charts/sluicegate") as registry:
        reference = f"oci://{registry}/charts/sluicegate"
        helm("pull", reference, "--version", VERSION, "--plain-http", "--destination", str(tmp_path))
    assert (tmp_path / package.name).read_bytes() == package.read_bytes()


def test_two_releases_of_a_commit_have_the_same_bytes(checkout: Path) -> None:
    done = release(checkout, "--check-twice")
    assert done.returncode == 0, done.stderr
    assert "are the same byte for byte" in done.stderr


def test_a_version_without_notes_is_refused(tmp_path: Path) -> None:
    clone(ROOT, tmp_path / "checkout")
    (tmp_path / "checkout" / "CHANGELOG.md").write_text("# Changelog\n\n## Unreleased\n\n- First.\n")
    git(tmp_path / "checkout", "commit", "--quiet", "--all", "--message", "without notes")
    done = release(tmp_path / "checkout")
    assert done.returncode == 1
    assert done.stderr.startswith("error: CHANGELOG.md has no section for ")
