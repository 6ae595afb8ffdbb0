"""A release is made of a commit with a version that CHANGELOG.md describes."""

import subprocess
from pathlib import Path

import pytest

from tools.release.errors import ReleaseError
from tools.release.source import clone, read_source, tracked

COMMITTED_S = 1_790_000_000


def git(root: Path, *arguments: str) -> None:
    who = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    dates = {"GIT_AUTHOR_DATE": f"{COMMITTED_S} +0000", "GIT_COMMITTER_DATE": f"{COMMITTED_S} +0000"}
    subprocess.run(["git", "-C", str(root), *who, *arguments], check=True, capture_output=True, env=dates)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    root = tmp_path / "checkout"
    (root / "charts").mkdir(parents=True)
    (root / "charts" / "b").write_text("b")
    (root / "charts" / "a").write_text("a")
    (root / "pyproject.toml").write_text('[project]\nname = "shop"\nversion = "1.2.3"\n')
    (root / "CHANGELOG.md").write_text("## Unreleased\n\n## 1.2.3 (2026-12-01)\n\n- First.\n")
    git(tmp_path, "init", "--quiet", str(root))
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--message", "first")
    return root


def test_a_clean_checkout_is_a_source(checkout: Path) -> None:
    source = read_source(checkout)
    assert (source.version, source.notes, source.epoch_s) == ("1.2.3", "- First.\n", COMMITTED_S)
    assert source.environment["SOURCE_DATE_EPOCH"] == str(COMMITTED_S)


@pytest.mark.parametrize("name", ["pyproject.toml", "new.py"])
def test_a_changed_or_new_file_is_refused_by_its_name(checkout: Path, name: str) -> None:
    with (checkout / name).open("a") as file:
        file.write("# changed\n")
    with pytest.raises(ReleaseError, match=f"changes that no commit has, such as {name}"):
        read_source(checkout)


def test_a_version_without_notes_is_refused(checkout: Path) -> None:
    (checkout / "CHANGELOG.md").write_text("## Unreleased\n\n- First.\n")
    git(checkout, "commit", "--quiet", "--all", "--message", "second")
    with pytest.raises(ReleaseError, match=r"no section for 1\.2\.3"):
        read_source(checkout)


def test_a_folder_without_git_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ReleaseError, match="git status failed"):
        read_source(tmp_path)


def test_a_clone_is_the_same_source_and_has_no_ignored_file(checkout: Path, tmp_path: Path) -> None:
    (checkout / ".git" / "info" / "exclude").write_text("left\n")
    (checkout / "charts" / "left").write_text("left")
    clone(checkout, tmp_path / "other")
    assert read_source(tmp_path / "other").epoch_s == COMMITTED_S
    assert [path.name for path in tracked(tmp_path / "other", "charts")] == ["a", "b"]
    assert [path.name for path in tracked(checkout, "charts")] == ["a", "b"]
    assert not (tmp_path / "other" / "charts" / "left").exists()
