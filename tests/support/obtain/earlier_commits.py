"""Files of an earlier commit, from the history of this clone."""

import io
import subprocess
import tarfile
from collections.abc import Sequence
from pathlib import Path

from tests.support.obtain.cache import ObtainError

ROOT = Path(__file__).parents[3]
_TIMEOUT_S = 900


def unpack(commit: str, place: Path, paths: Sequence[str] = ()) -> None:
    """Write the files of a commit below `place`; `paths` are the only ones, or none for all.

    Raises ObtainError, also if the history of the clone does not have the commit.
    """
    with tarfile.open(fileobj=io.BytesIO(git("archive", commit, "--", *paths))) as archive:
        archive.extractall(place, filter="data")


def git(*arguments: str) -> bytes:
    """Return the output of a git command in this clone. Raises ObtainError."""
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, timeout=_TIMEOUT_S, check=False)
    if done.returncode != 0:
        problem = done.stderr.decode(errors="replace").strip()
        raise ObtainError(f"git {' '.join(arguments[:2])} failed in {ROOT}: {problem}")
    return done.stdout
