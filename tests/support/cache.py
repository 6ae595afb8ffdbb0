"""What tests need of others' programs, had once for this user: a place in the cache, and how something comes there.

Runs that need the same place wait for each other, and what is there is complete.
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
    """Something cannot be had, or run, on this machine yet; the message says what a person can do about it."""


def cache_root() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "sluicegate"


def obtained(place: Path, is_complete: Callable[[Path], bool], make: Callable[[Path], None]) -> Path:
    """`place`, made when it is not complete: `make` is given another one of its name, in a folder of its own.

    What else `make` leaves in that folder goes with it. Raises what `make` does.
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
    """Others that want `place` wait. The kernel lets the lock go when its holder ends, however it ends."""
    with place.with_name(f"{place.name}.lock").open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            show("cache", f"another run has {place}; waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def show(of: str, line: str) -> None:
    """How far it is, to who waits."""
    sys.stderr.write(f"[{of}] {line}\n")
    sys.stderr.flush()


def main(obtain: Callable[[], Path]) -> int:
    """Prints where it is, or why it cannot be had; the exit code."""
    try:
        place = obtain()
    except ObtainError as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    sys.stdout.write(f"{place}\n")
    return 0
