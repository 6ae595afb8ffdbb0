import shutil
from pathlib import Path

import pytest
import yaml

from broker_runtime.release import VERSION
from tools.pins import read_pyproject
from tools.release.errors import ReleaseError
from tools.release.numbering import PLACES, set_version
from tools.release.source import tracked

ROOT = Path(__file__).parents[4]
NOT_RENUMBERED = {"CHANGELOG.md", "constraints.txt"}


def test_every_file_that_names_the_version_names_the_same() -> None:
    assert read_pyproject(ROOT)["project"]["version"] == VERSION
    assert read_pyproject(ROOT / "packaging" / "consumer")["project"]["version"] == VERSION
    chart = yaml.safe_load((ROOT / "charts" / "sluicegate" / "Chart.yaml").read_text(encoding="utf-8"))
    assert (chart["version"], chart["appVersion"]) == (VERSION, VERSION)


def test_a_new_version_is_written_into_all_files(tmp_path: Path) -> None:
    for name in PLACES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / "CHANGELOG.md").write_text("## Unreleased\n\n- New.\n")
    changed = set_version(tmp_path, "77.8.9", "2026-12-24")
    assert set(changed) == {*PLACES, "CHANGELOG.md"}
    for name in PLACES:
        assert "77.8.9" in (tmp_path / name).read_text(encoding="utf-8"), name
    assert read_pyproject(tmp_path)["project"]["version"] == "77.8.9"
    assert (tmp_path / "CHANGELOG.md").read_text() == "## Unreleased\n\n## 77.8.9 (2026-12-24)\n\n- New.\n"


def test_no_page_names_an_image_of_the_version_unless_it_is_renumbered() -> None:
    named = {f"sluicegate{separator}{VERSION}" for separator in (":", "-", "-audit:", "-audit-")}
    generated = ("deploy/", "docs/reference/resources.md", "crds/", "charts/sluicegate/files/")
    for path in tracked(ROOT, "."):
        name = path.relative_to(ROOT).as_posix()
        if name in PLACES or name in NOT_RENUMBERED or name.startswith((*generated, "tests/")) or path.suffix == ".png":
            continue
        text = path.read_text(encoding="utf-8", errors="replace").replace("registry.example.org/sluicegate:", "")
        assert not [word for word in named if word in text], name


def test_a_version_of_another_form_changes_nothing(tmp_path: Path) -> None:
    with pytest.raises(ReleaseError, match="SemVer"):
        set_version(tmp_path, "1.2")
