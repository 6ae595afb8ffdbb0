"""The chart and the image of an earlier commit, for upgrades from it and back to it.

Debian's and Python's packages, and the tools that build images, are not of that commit but of today.
"""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.support.obtain.cache import ObtainError, cache_root, obtained, show
from tests.support.obtain.earlier_commits import unpack

COMMIT = "2ba4746d7bdda139cb25c3fa09ed99b8339f3084"
"""The first commit with a chart whose brokers have the operator's image."""
VERSION = "0.0.9"
"""Version of that image, beside today's on the same nodes."""
_OF_TODAY = ("constraints.txt", "tools", "tests/support")
_TIMEOUT_S = 900


@dataclass(frozen=True, slots=True)
class Previous:
    """The previous release: `chart` is a folder, `archive` a docker archive of the image `sluicegate:VERSION`."""

    chart: Path
    archive: Path


def previous() -> Previous:
    """Return the earlier chart and image, which are built once.

    Raises ObtainError, also if the clone's history does not contain the commit.
    """
    place = cache_root() / f"previous-{COMMIT[:12]}"
    obtained(place, lambda found: (found / "made").is_file(), _make)
    return Previous(place / "charts" / "sluicegate", place / "dist" / f"sluicegate-{VERSION}.tar")


def _make(place: Path) -> None:
    show("previous", f"making the image of {COMMIT[:12]} ...")
    unpack(COMMIT, place)
    unpack("HEAD", place, _OF_TODAY)
    pyproject = place / "pyproject.toml"
    text = pyproject.read_text(encoding="utf-8")
    pyproject.write_text(text.replace('version = "0.1.0"', f'version = "{VERSION}"', 1), encoding="utf-8")
    _run([sys.executable, "-m", "tools.image", "slim"], place)
    (place / "made").touch()


def _run(command: list[str], folder: Path) -> None:
    environment = {"PYTHONPATH": f"{folder}:{folder / 'operator'}"}
    done = subprocess.run(
        command, cwd=folder, env={**os.environ, **environment}, capture_output=True, timeout=_TIMEOUT_S, check=False
    )
    if done.returncode != 0:
        raise ObtainError(f"{' '.join(command[:3])} failed in {folder}: {done.stderr.decode(errors='replace')[-800:]}")
