"""The source of the previous release, for tests of upgrades from it and of the way back.

Its programs run with the packages of today's environment, so a test compares the project's own code only.

A shallow clone does not have the commit: `left_out` says so then, and the tests of upgrades are left out.
"""

import re
import shutil
import sys
from pathlib import Path

from tests.support.obtain.cache import ObtainError, cache_root, main, obtained, show
from tests.support.obtain.earlier_commits import git, unpack

COMMIT = "b760fc693098f0faa73c36dbe4ca275ba43838c0"
"""The commit that counts as release 0.1.0."""
RENAMED = "previous_"
"""Prefix of the packages in `renamed_packages`."""
_PACKAGES = ("broker_runtime", "tests")
_SHALLOW = (
    f"this clone is shallow, so its history does not have the previous release ({COMMIT[:12]}), and the tests of "
    "upgrades are left out; `git fetch --unshallow` brings it"
)


def previous_release() -> Path:
    """Return the folder of the previous release's source, which is unpacked once.

    Raises ObtainError if the history of the clone does not have its commit.
    """
    place = cache_root() / f"release-{COMMIT[:12]}"
    return obtained(place, lambda found: (found / "pyproject.toml").is_file(), _unpack)


def renamed_packages() -> Path:
    """Return a folder with the previous release's broker and tests as `previous_broker_runtime` and `previous_tests`.

    So a process can import both releases. The names are replaced in all texts of the modules.
    """
    place = cache_root() / f"release-{COMMIT[:12]}-renamed"
    return obtained(place, lambda found: all((found / f"{RENAMED}{name}").is_dir() for name in _PACKAGES), _rename)


def _rename(place: Path) -> None:
    names = re.compile(rf"(?<![\w/-])({'|'.join(_PACKAGES)})(?=[.\s\"'])")
    for name in _PACKAGES:
        shutil.copytree(previous_release() / name, place / f"{RENAMED}{name}", ignore=shutil.ignore_patterns("*.pyc"))
    for module in place.rglob("*.py"):
        module.write_text(names.sub(rf"{RENAMED}\1", module.read_text(encoding="utf-8")), encoding="utf-8")


def left_out() -> str | None:
    """Return why this clone cannot have the source of the previous release; None if it can."""
    is_shallow = git("rev-parse", "--is-shallow-repository").strip() == b"true"
    return _SHALLOW if is_shallow and not _has_commit() else None


def _has_commit() -> bool:
    try:
        git("cat-file", "-e", f"{COMMIT}^{{commit}}")
    except ObtainError:
        return False
    return True


def _unpack(place: Path) -> None:
    show("previous-release", f"unpacking {COMMIT[:12]} ...")
    unpack(COMMIT, place)


if __name__ == "__main__":
    reason = left_out()
    if reason is not None:
        show("previous-release", reason)
        sys.exit(0)
    sys.exit(main(renamed_packages))
