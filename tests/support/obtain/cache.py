"""Third-party programs and files that tests need, obtained once per user: their place in the cache, and how to fill it.

Runs that need the same place wait for each other, and a place that exists is complete.
"""

import fcntl
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path


class ObtainError(Exception):
    """A program or file cannot be obtained, or run, on this machine yet; the message says what the user can do."""


def cache_root() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "sluicegate"


def obtained(place: Path, is_complete: Callable[[Path], bool], make: Callable[[Path], None]) -> Path:
    """Return `place`; make it if it is not complete.

    `make` receives another path of the same name, in a separate folder. That folder is deleted with everything else
    that `make` leaves in it. Raises the errors of `make`.
    """
    if is_complete(place):
        return place
    place.parent.mkdir(parents=True, exist_ok=True)
    prefix = f"{place.name}.part-"
    with one_run_at_a_time(place):
        if is_complete(place):
            return place
        for left_by_a_killed_run in place.parent.glob(f"{prefix}*"):
            shutil.rmtree(left_by_a_killed_run)
        with tempfile.TemporaryDirectory(dir=place.parent, prefix=prefix) as scratch:
            fresh = Path(scratch) / place.name
            make(fresh)
            if place.exists():
                place.rename(Path(scratch) / "incomplete")
            fresh.rename(place)
    return place


@contextmanager
def one_run_at_a_time(place: Path) -> Iterator[None]:
    """Make other runs that need `place` wait. The kernel releases the lock when its holder ends, however it ends."""
    with place.with_name(f"{place.name}.lock").open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            show("cache", f"another run has {place}; waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def show(of: str, line: str) -> None:
    """Show progress to a waiting user."""
    sys.stderr.write(f"[{of}] {line}\n")
    sys.stderr.flush()


def main(obtain: Callable[[], Path]) -> int:
    """Print the obtained path, or why it cannot be obtained; return the exit code."""
    try:
        place = obtain()
    except ObtainError as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    sys.stdout.write(f"{place}\n")
    return 0
