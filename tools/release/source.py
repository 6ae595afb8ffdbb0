"""The commit that a release is made of: its version, its time and its notes."""

import subprocess
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tools.release.changelog import check_version, notes_of
from tools.release.errors import ReleaseError


@dataclass(frozen=True)
class Source:
    """A clean checkout. `epoch_s` is the commit's time, which all files of the release get."""

    root: Path
    version: str
    epoch_s: int
    notes: str
    pyproject: dict[str, Any]

    @property
    def environment(self) -> dict[str, str]:
        """Return the variables of programs that write archives."""
        return {"SOURCE_DATE_EPOCH": str(self.epoch_s), "PYTHONHASHSEED": "0", "LC_ALL": "C.UTF-8", "TZ": "UTC"}


def read_source(root: Path) -> Source:
    """Return the checkout in `root` as a source of releases. Raises ReleaseError."""
    changed = _git(root, "status", "--porcelain").splitlines()
    if changed:
        raise ReleaseError(
            f"the checkout has changes that no commit has, such as {changed[0][3:]}: a release is made of a commit, so "
            "commit, remove or ignore them"
        )
    pyproject = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    version = pyproject["project"]["version"]
    check_version(version)
    notes = notes_of((root / "CHANGELOG.md").read_text(encoding="utf-8"), version)
    return Source(root, version, int(_git(root, "log", "-1", "--format=%ct")), notes, pyproject)


def tracked(root: Path, folder: str) -> list[Path]:
    """Return the files of the commit below a folder, in the order of their names. Raises ReleaseError."""
    return [root / name for name in sorted(_git(root, "ls-files", "-z", folder).split("\0")) if name]


def clone(root: Path, place: Path) -> None:
    """Make a second checkout of the commit of `root`. Raises ReleaseError."""
    _git(root, "clone", "--quiet", "--shared", "--no-checkout", str(root), str(place))
    _git(place, "checkout", "--quiet", _git(root, "rev-parse", "HEAD").strip())


def _git(root: Path, *arguments: str) -> str:
    done = subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ReleaseError(f"git {arguments[0]} failed: {done.stderr.strip()}")
    return done.stdout
